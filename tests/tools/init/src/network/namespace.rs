//! Named network namespaces, where `ip netns` looks for them.

use super::links;
use crate::error::{Doing as _, Error};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, setns, unshare};
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;
use std::thread;

const FOLDER: &str = "/run/netns";

/// Creates a network namespace.
pub(crate) fn create(name: &str) -> Result<File, Error> {
    in_a_thread(|| {
        unshare(CloneFlags::CLONE_NEWNET)
            .doing(|| format!("making the network namespace {name}"))?;
        links::quiet_defaults();
        pin(name, "/proc/thread-self/ns/net")
    })?;
    open(name)
}

/// Gives the initial network namespace another name.
pub(crate) fn alias_of_initial(name: &str) -> Result<(), Error> {
    pin(name, "/proc/1/ns/net")
}

/// Runs `work` inside a network namespace.
pub(crate) fn inside<T: Send>(
    name: &str,
    work: impl FnOnce() -> Result<T, Error> + Send,
) -> Result<T, Error> {
    let namespace = open(name)?;
    in_a_thread(|| {
        setns(namespace, CloneFlags::CLONE_NEWNET)
            .doing(|| format!("entering the network namespace {name}"))?;
        work()
    })
}

/// Whether a file refers to the network namespace of the calling process.
pub(crate) fn is_own(namespace: &File) -> bool {
    let own = fs::metadata("/proc/self/ns/net").map(|own| (own.dev(), own.ino()));
    matches!((own, namespace.metadata()), (Ok(own), Ok(other)) if own == (other.dev(), other.ino()))
}

fn open(name: &str) -> Result<File, Error> {
    File::open(format!("{FOLDER}/{name}")).doing(|| format!("opening the network namespace {name}"))
}

/// Keeps the namespace behind `source` alive under a name.
fn pin(name: &str, source: &str) -> Result<(), Error> {
    let path = format!("{FOLDER}/{name}");
    let doing = || format!("naming the network namespace {name}");
    fs::create_dir_all(FOLDER).doing(doing)?;
    File::create(&path).doing(doing)?;
    mount(
        Some(source),
        path.as_str(),
        None::<&str>,
        MsFlags::MS_BIND,
        None::<&str>,
    )
    .doing(doing)
}

/// Runs `work` in a thread, because network namespaces are per thread; a thread that leaves its own
/// ends with the work.
fn in_a_thread<T: Send>(work: impl FnOnce() -> Result<T, Error> + Send) -> Result<T, Error> {
    thread::scope(|scope| scope.spawn(work).join()).unwrap_or_else(|_| {
        Err(Error::new(
            "working in a network namespace",
            "the thread panicked",
        ))
    })
}
