//! The result of a KVM trial, kept until the host reboots.

use crate::{Error, cache};
use std::fs;
use std::path::Path;

/// Identifies the host's current boot; no other boot has the same id.
const BOOT: &str = "/proc/sys/kernel/random/boot_id";

/// The file with the result, in a folder per kernel and host boot.
const FILE: &str = "answer";

/// How a file with the good result begins, and one with the bad.
const BOOTS: &str = "boots ";
const DOES_NOT: &str = "does not: ";

/// Whether an accelerator boots a kernel.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Answer {
    /// It does: the kernel of this release started its first program.
    Boots(String),
    /// It does not: what happened instead.
    DoesNot(String),
}

impl Answer {
    fn to_text(&self) -> String {
        match self {
            Self::Boots(release) => format!("{BOOTS}{release}\n"),
            Self::DoesNot(why) => format!("{DOES_NOT}{why}\n"),
        }
    }

    fn of_text(text: &str) -> Option<Self> {
        let line = text.lines().next()?;
        let boots = line.strip_prefix(BOOTS);
        boots
            .map(|release| Self::Boots(release.into()))
            .or_else(|| Some(Self::DoesNot(line.strip_prefix(DOES_NOT)?.into())))
    }
}

/// The result for a kernel, determined by `find` if there is none yet for this boot of the host.
/// Only one process does that at a time.
pub(super) fn kept(
    release: &str,
    find: impl FnOnce() -> Result<Answer, Error>,
) -> Result<Answer, Error> {
    let boot = fs::read_to_string(BOOT).map_err(Error::file("reading", BOOT))?;
    in_folder(release, boot.trim(), find)
}

fn in_folder(
    release: &str,
    boot: &str,
    find: impl FnOnce() -> Result<Answer, Error>,
) -> Result<Answer, Error> {
    let kernel = format!("kvm-{release}-");
    let name = format!("{kernel}{boot}");
    let folder = cache::filled(&name, |folder| {
        let answer = find()?;
        forget_other_runs(&cache::folder()?, &kernel, boot);
        let path = folder.join(FILE);
        fs::write(&path, answer.to_text()).map_err(Error::file("writing", path))
    })?;
    let path = folder.join(FILE);
    let text = fs::read_to_string(&path).map_err(Error::file("reading", &path))?;
    Answer::of_text(&text).ok_or_else(|| Error::packages(path.display().to_string(), "no answer"))
}

/// Removes what earlier boots of the host left behind; what cannot be removed does no harm.
fn forget_other_runs(cache: &Path, kernel: &str, boot: &str) {
    for entry in fs::read_dir(cache).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let other = name.strip_prefix(kernel);
        if other.is_some_and(|other| !other.starts_with(boot)) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn an_answer_is_found_once_for_each_kernel_and_run() {
        let release = format!("unit-{}", std::process::id());
        let found = Answer::DoesNot("its console said nothing".into());
        let again = || -> Result<Answer, Error> { panic!("it is known") };
        let first = in_folder(&release, "monday", || Ok(found.clone())).unwrap();
        assert_eq!(first, found);
        assert_eq!(in_folder(&release, "monday", again).unwrap(), found);
        let boots = Answer::Boots(release.clone());
        let later = in_folder(&release, "tuesday", || Ok(boots.clone())).unwrap();
        assert_eq!(later, boots);
        let cache = cache::folder().unwrap();
        assert!(!cache.join(format!("kvm-{release}-monday")).exists());
        let error = in_folder(&release, "friday", || {
            Err(Error::packages("a trial", "no QEMU"))
        });
        assert!(error.is_err());
        assert!(!cache.join(format!("kvm-{release}-friday")).exists());
        for run in ["tuesday", "friday.part"] {
            fs::remove_dir_all(cache.join(format!("kvm-{release}-{run}"))).unwrap();
        }
    }

    #[test]
    fn a_file_that_holds_no_answer_is_none() {
        assert_eq!(Answer::of_text(""), None);
        assert_eq!(Answer::of_text("perhaps\n"), None);
    }
}
