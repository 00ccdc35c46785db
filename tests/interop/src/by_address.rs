//! Two programs on the one device of a guest, which connect by its address.

use std::time::Duration;

use testbed::{Child, Command, Error, Guest, Kernel, Machine, WindowSize, complaints};

/// How long a program may take to its end.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The machine with the kernel that the variable `UVERBS_TEST_KERNEL` names (6.12 unless set), and
/// librdmacm's programs.
///
/// # Errors
/// A kernel of another name.
pub fn machine() -> Result<Machine, Error> {
    let kernel = std::env::var("UVERBS_TEST_KERNEL");
    let kernel = Kernel::named(kernel.as_deref().unwrap_or("6.12"))?;
    Ok(Machine::new(kernel)
        .with_debian_tools()
        .with_debian_packages(&["rdmacm-utils"]))
}

/// The same with the tool, booted.
///
/// # Errors
/// What cannot be obtained, by name; a guest that does not boot.
pub fn boot() -> Result<Guest, Error> {
    machine()?
        .with_binary(testbed::cargo::tool()?, "uverbs")
        .boot()
}

/// Programs whose output comes line by line, as it is printed.
pub fn in_terminal(program: &str, arguments: &[&str]) -> Command {
    let terminal = WindowSize {
        rows: 24,
        columns: 200,
    };
    let command = Command::new(program).args(arguments.iter().copied());
    command.with_terminal(terminal).timeout(PATIENCE)
}

/// Starts a program, and waits until it says `ready`.
///
/// # Errors
/// It does not in time.
pub fn started(guest: &Guest, program: (&str, &[&str]), ready: &str) -> Result<Child, Error> {
    let child = guest.spawn(in_terminal(program.0, program.1))?;
    child.wait_for_text(ready, PATIENCE)?;
    Ok(child)
}

/// Powers the guest off. Returns the complaints of its kernel.
///
/// # Errors
/// It does not end.
pub fn finish(guest: Guest) -> Result<Vec<String>, Error> {
    let log = guest.kernel_log();
    let complaints = complaints::among(&log);
    let complaints = complaints.iter().map(|line| line.text.clone()).collect();
    guest.power_off()?;
    Ok(complaints)
}
