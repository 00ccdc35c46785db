//! Programs of Debian for the guest.

use super::apt::{self, Apt};
use crate::host::say;
use crate::{Error, cache};
use std::fs;
use std::path::{Path, PathBuf};

/// Debian's own RDMA programs and what one wants at hand beside them.
pub(crate) const TOOLS: [&str; 7] = [
    "bash",
    "busybox-static",
    "ibverbs-providers",
    "ibverbs-utils",
    "iproute2",
    "perftest",
    "strace",
];

/// Packages of one suite, unpacked with all that they need.
#[derive(Clone, Debug)]
pub(crate) struct Userland {
    pub(crate) suite: String,
    pub(crate) packages: Vec<String>,
}

impl Userland {
    /// The folder to lay into the guest; downloaded when it is not in the cache.
    pub(crate) fn folder(&self) -> Result<PathBuf, Error> {
        let mut packages: Vec<&str> = self.packages.iter().map(String::as_str).collect();
        packages.sort_unstable();
        packages.dedup();
        let name = format!("userland-{}-{}", self.suite, packages.join("-"));
        let folder = cache::filled(&name, |folder| self.download(folder, &packages))?;
        Ok(folder.join("root"))
    }

    fn download(&self, folder: &Path, packages: &[&str]) -> Result<(), Error> {
        let security = format!("{}-security", self.suite);
        let suites: &[&str] = if self.suite == "sid" {
            &["sid"]
        } else {
            &[&self.suite, &security]
        };
        let apt = Apt::set_up(&folder.join("apt"), suites)?;
        say(format_args!(
            "downloads packages of Debian {} for the guest: {}",
            self.suite,
            packages.join(", ")
        ));
        let files = apt.download_closure(packages)?;
        let root = folder.join("root");
        fs::create_dir_all(&root).map_err(Error::file("making the folder", &root))?;
        apt::unpack(&files, &root)?;
        let leftover = folder.join("apt");
        fs::remove_dir_all(&leftover).map_err(Error::file("removing", leftover))
    }
}
