//! Packages of Debian, unpacked.

use super::apt::{self, Apt};
use crate::host::say;
use crate::{Error, Processor, cache};
use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};

/// Debian's own RDMA programs, and other useful tools.
pub(crate) const TOOLS: [&str; 7] = [
    "bash",
    "busybox-static",
    "ibverbs-providers",
    "ibverbs-utils",
    "iproute2",
    "perftest",
    "strace",
];

/// Longest name of a folder in the cache that lists its packages.
const LONGEST_NAME: usize = 160;

/// Packages of one suite of Debian (for amd64), to be unpacked on top of each other into a folder
/// of the cache.
#[derive(Clone, Debug)]
pub struct Packages {
    suite: String,
    names: Vec<String>,
    alone: bool,
}

impl Packages {
    /// Packages of a suite (`bookworm`, `trixie`, `trixie-backports`, `sid`) with all their
    /// dependencies, down to the C library.
    pub fn new(suite: &str, names: &[&str]) -> Self {
        let names = names.iter().map(|&name| name.to_owned()).collect();
        Self {
            suite: suite.into(),
            names,
            alone: false,
        }
    }

    /// These packages without their dependencies.
    #[must_use]
    pub fn alone(mut self) -> Self {
        self.alone = true;
        self
    }

    /// The folder they are unpacked in; they are downloaded if it is not in the cache. Its contents
    /// must not be changed, and none of the packages' installation scripts was run.
    ///
    /// # Errors
    /// Debian's packages cannot be fetched or unpacked.
    pub fn folder(&self) -> Result<PathBuf, Error> {
        let mut names: Vec<&str> = self.names.iter().map(String::as_str).collect();
        names.sort_unstable();
        names.dedup();
        let folder = cache::filled(&self.cache_name(&names), |folder| {
            self.download(folder, &names)
        })?;
        Ok(folder.join("root"))
    }

    pub(crate) fn add(&mut self, names: &[&str]) {
        self.names.extend(names.iter().map(|&name| name.to_owned()));
    }

    pub(crate) fn set_suite(&mut self, suite: &str) {
        self.suite = suite.into();
    }

    fn cache_name(&self, names: &[&str]) -> String {
        let kind = if self.alone { "packages" } else { "userland" };
        let name = format!("{kind}-{}-{}", self.suite, names.join("-"));
        if name.len() <= LONGEST_NAME {
            return name;
        }
        let mut hasher = DefaultHasher::new();
        names.hash(&mut hasher);
        format!("{kind}-{}-{:016x}", self.suite, hasher.finish())
    }

    fn download(&self, folder: &Path, names: &[&str]) -> Result<(), Error> {
        let suites = suites(&self.suite);
        let suites: Vec<&str> = suites.iter().map(String::as_str).collect();
        let apt = Apt::set_up(&folder.join("apt"), &suites, Processor::Amd64)?;
        say(format_args!(
            "downloads packages of Debian {}: {}",
            self.suite,
            names.join(", ")
        ));
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let files = if self.alone {
            apt.download(&names, folder)?
        } else {
            apt.download_closure(&names)?
        };
        let root = folder.join("root");
        fs::create_dir_all(&root).map_err(Error::file("making the folder", &root))?;
        apt::unpack(&files, &root)?;
        let leftover = folder.join("apt");
        fs::remove_dir_all(&leftover).map_err(Error::file("removing", leftover))
    }
}

/// The suites that a suite builds on, and itself.
fn suites(suite: &str) -> Vec<String> {
    let base = suite.strip_suffix("-backports").unwrap_or(suite);
    let mut suites = vec![base.to_owned()];
    if base != "sid" {
        suites.push(format!("{base}-security"));
    }
    if base != suite {
        suites.push(suite.to_owned());
    }
    suites
}

#[cfg(test)]
mod tests {
    use super::{LONGEST_NAME, Packages, suites};

    #[test]
    fn a_suite_includes_the_suites_it_needs() {
        assert_eq!(suites("sid"), ["sid"]);
        assert_eq!(suites("bookworm"), ["bookworm", "bookworm-security"]);
        assert_eq!(
            suites("trixie-backports"),
            ["trixie", "trixie-security", "trixie-backports"]
        );
    }

    #[test]
    fn names_of_many_packages_are_shortened() {
        let names = ["a-package-with-a-long-name"; 20];
        let name = Packages::new("sid", &names).cache_name(&names);
        assert!(name.len() < LONGEST_NAME, "{name}");
        assert_ne!(
            name,
            Packages::new("sid", &names).alone().cache_name(&names)
        );
    }
}
