//! A machine with both sides' programs.

use std::path::{Path, PathBuf};
use std::process::Command as Program;
use std::time::Duration;

use testbed::connectx::{Connectx, Function};
use testbed::{Command, Guest, Kernel, Machine, Packages};

const PATIENCE: Duration = Duration::from_secs(240);
/// The Debian suite whose programs are installed in guests.
const SUITE: &str = "bookworm";
const PACKAGE: &str = "bytes-tests";

/// Where the comparison is made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
    pub(crate) kernel: Kernel,
    pub(crate) function: Function,
    /// Whether doorbells may carry requests.
    pub(crate) blueflame: bool,
}

/// A running machine, and the folder with the model's trace and the programs' output.
pub(crate) struct Bench {
    guest: Guest,
    folder: PathBuf,
}

/// A program's output, and what the device recorded meanwhile.
pub(crate) struct Run {
    pub(crate) said: String,
    pub(crate) trace: String,
}

impl Setup {
    /// Boots it with the tables as `/table0`, `/table1`, …
    pub(crate) fn boot(self, folder: &Path, tables: &[PathBuf]) -> Bench {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let [qos, frames, rings] = ["qos", "frames", "rings"].map(|name| {
            let program = folder.join(format!("{name}-theirs"));
            compile(&here.join(format!("oracle/{name}.c")), &program);
            program
        });
        let mut connectx = Connectx::new(&[self.function]).trace(folder.join("trace"));
        if self.blueflame {
            connectx = connectx.blueflame();
        }
        let mut machine = Machine::new(self.kernel)
            .connectx(connectx)
            .with_debian_tools()
            .with_debian_packages(&["python3-pyverbs", "python3"])
            .with_binary(program("post-table"), "post-table")
            .with_binary(program("post-qos"), "post-qos")
            .with_binary(program("post-frames"), "post-frames")
            .with_binary(tool(), "uverbs")
            .with_binary(qos, "qos-theirs")
            .with_binary(rings, "rings-theirs")
            .with_binary(frames, "frames-theirs")
            .with_file(here.join("oracle/post.py"), "/post.py")
            .with_file(here.join("oracle/requested.py"), "/requested.py");
        for (number, table) in tables.iter().enumerate() {
            machine = machine.with_file(table, &format!("/table{number}"));
        }
        Bench {
            guest: machine.boot().expect("the machine boots"),
            folder: folder.to_owned(),
        }
    }
}

impl Bench {
    pub(crate) fn run(&self, command: &str) -> Run {
        let path = self.folder.join("trace");
        let before = std::fs::read_to_string(&path).unwrap_or_default().len();
        let output = self
            .guest
            .run(Command::shell(command).timeout(PATIENCE))
            .expect("the guest runs commands")
            .check()
            .unwrap_or_else(|error| panic!("{command}: {error}"));
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let written = std::fs::read_to_string(&path).expect("a trace");
        let trace = written[before..].to_owned();
        // Files that a failed test leaves behind.
        let name = command.replace([' ', '/'], "-");
        std::fs::write(self.folder.join(&name), &trace).expect("a file");
        std::fs::write(self.folder.join(name + ".out"), &said).expect("a file");
        Run { said, trace }
    }
}

/// A program of this package.
fn program(name: &str) -> PathBuf {
    testbed::cargo::program_of(PACKAGE, name).expect("a program")
}

/// The command-line tool.
fn tool() -> PathBuf {
    testbed::cargo::tool().expect("a program")
}

/// Compiles with Debian's headers and libraries.
fn compile(source: &Path, program: &Path) {
    let packages = Packages::new(SUITE, &["libibverbs-dev", "libc6-dev"]);
    let root = packages.folder().expect("Debian's libraries");
    let output = Program::new("cc")
        .arg(format!("--sysroot={}", root.display()))
        .args(["-O2", "-Wall", "-Werror", "-o"])
        .args([program, source])
        .args(["-libverbs", "-lmlx5"])
        .output()
        .expect("no C compiler `cc`: apt install gcc");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cc: {said}");
}
