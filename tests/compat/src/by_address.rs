//! Two programs on the one device of a guest, which connect by its address.

use std::time::Duration;

use testbed::{Child, Command, Error, Guest, Kernel, Machine, Output, WindowSize, complaints};

use crate::{Library, with_both};

/// The address of the device.
pub const ADDRESS: &str = "10.1.0.1";
/// How long a program may take to its end.
const PATIENCE: Duration = Duration::from_secs(90);

/// A program with its arguments.
#[derive(Clone, Copy, Debug)]
pub struct Side<'a> {
    /// Its name.
    pub program: &'a str,
    /// What it is called with.
    pub args: &'a [&'a str],
}

impl Side<'_> {
    /// Over a library, and in a terminal, so that it prints line by line.
    pub fn over(&self, library: Library) -> Command {
        let terminal = WindowSize {
            rows: 24,
            columns: 200,
        };
        let command = library.run(self.program, self.args);
        command.with_terminal(terminal).timeout(PATIENCE)
    }
}

/// A guest with the programs of librdmacm, perftest's, and both libraries. Its kernel is that which
/// the variable `UVERBS_TEST_KERNEL` names (6.12 unless set).
///
/// # Errors
/// A kernel, a tool or a package that cannot be obtained, by name; a guest that does not boot.
pub fn boot() -> Result<Guest, Error> {
    boot_with(|machine| machine)
}

/// The same with more in it.
///
/// # Errors
/// As [`boot`].
pub fn boot_with(more: impl FnOnce(Machine) -> Machine) -> Result<Guest, Error> {
    let kernel = std::env::var("UVERBS_TEST_KERNEL");
    let kernel = Kernel::named(kernel.as_deref().unwrap_or("6.12"))?;
    let machine = with_both(Machine::new(kernel))?;
    more(machine.with_debian_packages(&["rdmacm-utils"])).boot()
}

/// By what a server shows that a client may come.
#[derive(Clone, Copy, Debug)]
pub enum Ready {
    /// It prints this.
    Says(&'static str),
    /// It listens at a TCP port.
    Listens(u16),
}

impl Ready {
    fn wait(self, guest: &Guest, server: &Child) -> Result<(), Error> {
        self.wait_on(guest, None, server)
    }

    fn wait_on(self, guest: &Guest, host: Option<&str>, server: &Child) -> Result<(), Error> {
        let port = match self {
            Self::Says(text) => return server.wait_for_text(text, PATIENCE).map(drop),
            Self::Listens(port) => port,
        };
        // A socket in state 10.
        let files = "/proc/net/tcp /proc/net/tcp6";
        let line = format!("until grep -q ':{port:04X} .* 0A ' {files}; do sleep 0.2; done");
        let command = Command::shell(line).timeout(PATIENCE);
        let command = match host {
            Some(host) => command.namespace(host),
            None => command,
        };
        guest.run(command)?.check()?;
        Ok(())
    }
}

/// Runs a server until it is ready, then its client, both to their ends. Returns what they printed.
///
/// # Errors
/// A side that does not start, does not end in time, or ends with a failure.
pub fn play(
    guest: &Guest,
    server: Side<'_>,
    ready: Ready,
    client: Side<'_>,
    libraries: [Library; 2],
) -> Result<[Output; 2], Error> {
    let commands = [server.over(libraries[0]), client.over(libraries[1])];
    play_commands(guest, commands, |server| ready.wait(guest, server))
}

/// The same on two hosts, which are named.
///
/// # Errors
/// As [`play`].
pub fn play_on(
    guest: &Guest,
    hosts: [&str; 2],
    server: Side<'_>,
    ready: Ready,
    client: Side<'_>,
    libraries: [Library; 2],
) -> Result<[Output; 2], Error> {
    let server = server.over(libraries[0]).namespace(hosts[0]);
    let client = client.over(libraries[1]).namespace(hosts[1]);
    let wait = |server: &Child| ready.wait_on(guest, Some(hosts[0]), server);
    play_commands(guest, [server, client], wait)
}

fn play_commands(
    guest: &Guest,
    [server, client]: [Command; 2],
    wait: impl FnOnce(&Child) -> Result<(), Error>,
) -> Result<[Output; 2], Error> {
    let listening = guest.spawn(server)?;
    wait(&listening)?;
    match guest.run(client)?.check() {
        Ok(client) => Ok([listening.wait()?.check()?, client]),
        Err(error) => {
            // It may wait for ever.
            listening.kill()?;
            listening.wait()?;
            Err(error)
        }
    }
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
