//! What executes a machine's instructions: KVM if it boots the requested kernel, otherwise QEMU's
//! emulator.

mod answer;
mod probe;

pub use answer::Answer;
pub use probe::probe;

use crate::host::say;
use crate::{Error, Kernel, Processor};
use std::collections::BTreeSet;
use std::env::{self, VarError};
use std::fmt;
use std::fs::File;
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The environment variable that selects one: `auto` (the default), `kvm` or `tcg`.
///
/// `auto` is KVM if the machine's kernel boots with it. That is tried once per kernel until the
/// host reboots: neither a device node nor a guest of one instruction proves that kernels run,
/// because some hosts lack features that kernels use.
pub const VARIABLE: &str = "UVERBS_TEST_ACCEL";

/// Where the host offers KVM.
const DEVICE: &str = "/dev/kvm";

/// How long a kernel may take from the start of QEMU to its first program. With KVM it takes two or
/// three seconds.
const PATIENCE: Duration = Duration::from_secs(8);

/// What executes a machine's instructions.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Accelerator {
    /// The processor, through the host's kernel.
    Kvm,
    /// QEMU's emulator.
    Tcg,
    /// The same, with a clock that advances by a nanosecond for each instruction.
    Counted,
}

/// Which accelerator machines are to use.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Choice {
    /// KVM if the machine's kernel boots with it, otherwise the emulator.
    Auto,
    /// This one.
    Only(Accelerator),
}

impl Accelerator {
    /// The name of the accelerator on QEMU's command line.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Kvm => "kvm",
            Self::Tcg => "tcg,thread=multi",
            Self::Counted => "tcg,thread=single",
        }
    }
}

impl fmt::Display for Accelerator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Kvm => "KVM",
            Self::Tcg => "QEMU's emulator (TCG)",
            Self::Counted => "QEMU's emulator, which counts instructions",
        })
    }
}

impl FromStr for Choice {
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

/// The accelerator of a machine that this QEMU boots with this kernel; which one it is, and why, is
/// printed once.
pub(crate) fn of_machine(qemu: &[String], kernel: Kernel) -> Result<Accelerator, Error> {
    if kernel.processor() != Processor::Amd64 {
        return Ok(Accelerator::Tcg);
    }
    let (accelerator, why) = choose(choice(env::var(VARIABLE))?, || kvm(qemu, kernel))?;
    say_once(format!("runs machines with {accelerator}: {why}"));
    Ok(accelerator)
}

fn choice(variable: Result<String, VarError>) -> Result<Choice, Error> {
    match variable {
        Ok(text) => text.parse(),
        Err(VarError::NotPresent) => Ok(Choice::Auto),
        Err(VarError::NotUnicode(text)) => text.to_string_lossy().parse(),
    }
}

/// Which accelerator to use, and why.
fn choose(
    choice: Choice,
    kvm: impl FnOnce() -> Result<Answer, Error>,
) -> Result<(Accelerator, String), Error> {
    Ok(match choice {
        Choice::Only(chosen) => (chosen, format!("{VARIABLE} selects it")),
        Choice::Auto => match kvm()? {
            Answer::Boots(kernel) => (Accelerator::Kvm, format!("Linux {kernel} boots with it")),
            Answer::DoesNot(why) => (Accelerator::Tcg, format!("KVM fails here: {why}")),
        },
    })
}

/// Whether KVM boots the kernel: what was found since the host booted, or a new trial.
fn kvm(qemu: &[String], kernel: Kernel) -> Result<Answer, Error> {
    if cfg!(not(target_arch = "x86_64")) {
        return Ok(Answer::DoesNot("the host has another processor".into()));
    }
    // Not kept: the permission may be granted or revoked at any time.
    if let Err(error) = File::options().read(true).write(true).open(DEVICE) {
        return Ok(Answer::DoesNot(format!(
            "{DEVICE} cannot be opened: {error}"
        )));
    }
    let trial = probe::Trial::prepare(qemu, kernel)?;
    answer::kept(trial.release(), || {
        say(format_args!(
            "tries whether KVM boots Linux {} (once until this host boots again, {} s at most)",
            trial.release(),
            PATIENCE.as_secs()
        ));
        trial.run(Accelerator::Kvm, PATIENCE)
    })
}

fn say_once(line: String) {
    static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let mut said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
    if !said.contains(&line) {
        say(&line);
        said.insert(line);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn a_choice_is_taken_without_a_probe() {
        let never = || -> Result<Answer, Error> { panic!("nothing is tried") };
        for (name, chosen) in [("kvm", Accelerator::Kvm), ("tcg", Accelerator::Tcg)] {
            let choice = choice(Ok(name.into())).unwrap();
            assert_eq!(choice, Choice::Only(chosen));
            let (found, why) = choose(choice, never).unwrap();
            assert_eq!(found, chosen);
            assert!(why.contains(VARIABLE), "{why}");
        }
        assert!(choice(Ok("fast".into())).is_err());
        assert!(choice(Ok(String::new())).is_err());
    }

    #[test]
    fn without_a_choice_kvm_is_probed() {
        assert_eq!(choice(Err(VarError::NotPresent)).unwrap(), Choice::Auto);
        assert_eq!(choice(Ok("auto".into())).unwrap(), Choice::Auto);
        let boots = || Ok(Answer::Boots("6.12.1".into()));
        let (found, why) = choose(Choice::Auto, boots).unwrap();
        assert_eq!(found, Accelerator::Kvm);
        assert_eq!(why, "Linux 6.12.1 boots with it");
        let does_not = || Ok(Answer::DoesNot("Linux 6.12.1 said nothing".into()));
        let (found, why) = choose(Choice::Auto, does_not).unwrap();
        assert_eq!(found, Accelerator::Tcg);
        assert_eq!(why, "KVM fails here: Linux 6.12.1 said nothing");
    }

    #[test]
    fn a_trial_that_cannot_be_made_is_no_answer() {
        let broken = || {
            Err(Error::Accelerator {
                name: "broken".into(),
            })
        };
        assert!(choose(Choice::Auto, broken).is_err());
    }
}
