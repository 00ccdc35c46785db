//! What carries out a machine's instructions: QEMU's emulator, or KVM where it is asked for.

use crate::host::{ensure, say};
use crate::{Error, Processor};
use std::fmt;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use std::str::FromStr;
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

/// The environment variable that chooses one: `tcg` (the default), `kvm`, or `auto`: KVM where a small guest runs with it.
///
/// That a small guest runs does not mean that a kernel does: on some hosts KVM lacks what kernels use.
pub const VARIABLE: &str = "UVERBS_TEST_ACCEL";

/// Where the kernel offers KVM.
const DEVICE: &str = "/dev/kvm";

/// How long a guest of one instruction may take. QEMU itself starts within a second.
const PATIENCE: Duration = Duration::from_secs(20);

/// What ends QEMU when the guest writes to its port, by twice the value that is written and one more.
const EXIT: &str = "isa-debug-exit,iobase=0xf4,iosize=0x01";
const EXIT_CODE: i32 = 2 * 0x10 + 1;

/// What the guest does: `mov al, 0x10; out 0xf4, al`, and then nothing for ever.
const PROGRAM: [u8; 6] = [0xb0, 0x10, 0xe6, 0xf4, 0xeb, 0xfe];

/// A disk's first sector, and what a BIOS looks for at its end.
const SECTOR: usize = 512;
const SIGNATURE: [u8; 2] = [0x55, 0xaa];

/// What carries out a machine's instructions.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Accelerator {
    /// The processor, by the kernel of the host.
    Kvm,
    /// QEMU's emulator.
    Tcg,
}

/// Which one machines are to have.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Wish {
    /// KVM where a guest runs with it, else the emulator.
    Auto,
    /// This one.
    Only(Accelerator),
}

impl Accelerator {
    /// The words that QEMU is started with.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Kvm => "kvm",
            Self::Tcg => "tcg,thread=multi",
        }
    }
}

impl fmt::Display for Accelerator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Kvm => "KVM",
            Self::Tcg => "QEMU's emulator (TCG)",
        })
    }
}

impl FromStr for Wish {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match text {
            "auto" => Ok(Self::Auto),
            "kvm" => Ok(Self::Only(Accelerator::Kvm)),
            "tcg" => Ok(Self::Only(Accelerator::Tcg)),
            other => Err(Error::Accelerator { name: other.into() }),
        }
    }
}

/// The accelerator of this process's machines, found once and said once.
pub(crate) fn of_machines(processor: Processor) -> Result<Accelerator, Error> {
    static FOUND: OnceLock<(Accelerator, String)> = OnceLock::new();
    if processor != Processor::Amd64 {
        return Ok(Accelerator::Tcg);
    }
    let wish = match std::env::var(VARIABLE) {
        Ok(text) => text.parse()?,
        Err(_) => return Ok(Accelerator::Tcg),
    };
    let (program, tool) = processor.qemu();
    ensure(&[tool])?;
    let found = FOUND.get_or_init(|| {
        let found = choose(wish, || probe(program, Accelerator::Kvm));
        say(format_args!("has machines run by {}: {}", found.0, found.1));
        found
    });
    Ok(found.0)
}

/// Which accelerator it is, and why.
fn choose(wish: Wish, kvm: impl FnOnce() -> Result<(), String>) -> (Accelerator, String) {
    match wish {
        Wish::Only(asked) => (asked, format!("{VARIABLE} asks for it")),
        Wish::Auto => match kvm() {
            Ok(()) => (Accelerator::Kvm, "a guest of one instruction ran".into()),
            Err(why) => (Accelerator::Tcg, why),
        },
    }
}

/// Whether this QEMU really carries out a guest's instructions with it: on some hosts the device is there, and guests never start.
///
/// # Errors
/// Why it does not, in words.
pub fn probe(qemu: &str, accelerator: Accelerator) -> Result<(), String> {
    if accelerator == Accelerator::Kvm {
        File::options()
            .read(true)
            .write(true)
            .open(DEVICE)
            .map_err(|error| format!("{DEVICE}: {error}"))?;
    }
    if cfg!(not(target_arch = "x86_64")) {
        return Err("the host has another processor".into());
    }
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let disk = folder.path().join("disk");
    fs::write(&disk, boot_sector()).map_err(|error| error.to_string())?;
    let mut machine = one_instruction(qemu, accelerator, &disk)
        .spawn()
        .map_err(|error| format!("{qemu}: {error}"))?;
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        match machine.try_wait() {
            Ok(Some(status)) if status.code() == Some(EXIT_CODE) => return Ok(()),
            Ok(Some(status)) => return Err(format!("{accelerator} ended by {status}")),
            Ok(None) => thread::sleep(Duration::from_millis(20)),
            Err(error) => return Err(error.to_string()),
        }
    }
    let _ = machine.kill();
    let _ = machine.wait();
    Err(format!("no guest started by {accelerator} in {PATIENCE:?}"))
}

fn boot_sector() -> [u8; SECTOR] {
    let mut sector = [0; SECTOR];
    sector[..PROGRAM.len()].copy_from_slice(&PROGRAM);
    sector[SECTOR - SIGNATURE.len()..].copy_from_slice(&SIGNATURE);
    sector
}

fn one_instruction(qemu: &str, accelerator: Accelerator, disk: &Path) -> Command {
    let mut command = Command::new(qemu);
    command
        .args(["-nodefaults", "-no-user-config", "-no-reboot"])
        .args(["-display", "none", "-machine", "pc", "-m", "16M"])
        .args(["-accel", accelerator.words(), "-device", EXIT, "-drive"])
        .arg(format!("format=raw,if=ide,file={}", disk.display()))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_asked_for_or_found() {
        assert_eq!("auto".parse::<Wish>().expect("a name"), Wish::Auto);
        let kvm: Wish = "kvm".parse().expect("a name");
        assert_eq!(kvm, Wish::Only(Accelerator::Kvm));
        assert!("fast".parse::<Wish>().is_err());
        let never = || -> Result<(), String> { panic!("nothing is tried") };
        assert_eq!(choose(kvm, never).0, Accelerator::Kvm);
        assert_eq!(choose(Wish::Auto, || Ok(())).0, Accelerator::Kvm);
        let (found, why) = choose(Wish::Auto, || Err("no guest started".into()));
        assert_eq!(found, Accelerator::Tcg);
        assert_eq!(why, "no guest started");
    }
}
