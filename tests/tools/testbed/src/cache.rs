//! The cache folder of downloads.

use crate::Error;
use rustix::fs::{FlockOperation, flock};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// The variable that names another folder.
const VARIABLE: &str = "UVERBS_TESTBED_CACHE";

/// The cache folder; created if missing.
pub(crate) fn folder() -> Result<PathBuf, Error> {
    let path = std::env::var_os(VARIABLE).map_or_else(
        || crate::cargo::workspace().join("target/testbed"),
        PathBuf::from,
    );
    fs::create_dir_all(&path).map_err(Error::file("making the folder", &path))?;
    path.canonicalize().map_err(Error::file("finding", &path))
}

/// Returns the folder `name` of the cache, which `fill` fills if it does not exist yet.
///
/// A folder is complete or absent: it is filled under another name. Only one process fills at a
/// time.
pub(crate) fn filled(
    name: &str,
    fill: impl FnOnce(&Path) -> Result<(), Error>,
) -> Result<PathBuf, Error> {
    let cache = folder()?;
    let path = cache.join(name);
    if path.is_dir() {
        return Ok(path);
    }
    let lock = cache.join("lock");
    let lock_file = File::create(&lock).map_err(Error::file("making", &lock))?;
    flock(&lock_file, FlockOperation::LockExclusive)
        .map_err(|errno| Error::file("locking", &lock)(errno.into()))?;
    if path.is_dir() {
        return Ok(path);
    }
    let part = cache.join(format!("{name}.part"));
    if part.exists() {
        fs::remove_dir_all(&part).map_err(Error::file("removing", &part))?;
    }
    fs::create_dir_all(&part).map_err(Error::file("making the folder", &part))?;
    fill(&part)?;
    fs::rename(&part, &path).map_err(Error::file("renaming", &part))?;
    Ok(path)
}

/// Removes the folder `name`, so that its next use downloads it again.
pub(crate) fn forget(name: &str) -> Result<(), Error> {
    let path = folder()?.join(name);
    match fs::remove_dir_all(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::file("removing", path)(error))
        }
        _ => Ok(()),
    }
}
