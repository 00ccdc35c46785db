//! Reads of sysfs attributes and directories.

use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::path::Path;

use rustix::fs::{Mode, OFlags, open};

use crate::error::Errno;

/// The largest size of a sysfs attribute: one page of the smallest size.
const SYSFS_ATTRIBUTE_MAX: usize = 4096;

/// Reads a whole attribute, without the newline at its end. Three system calls.
///
/// # Errors
/// ENOENT if the kernel has no such attribute, EINVAL or EIO if it has no value at the moment (an
/// empty GID table entry), EACCES; EILSEQ if it is not text.
pub(crate) fn read_attribute(path: &Path) -> Result<String, Errno> {
    // The kernel returns attributes whole: a short read that ends with a newline is complete.
    let text = read(path, SYSFS_ATTRIBUTE_MAX, |bytes| bytes.ends_with(b"\n"))?;
    Ok(text.trim_end_matches('\n').to_owned())
}

/// Reads a table of `/proc`, up to 64 KiB of it.
///
/// # Errors
/// ENOENT, EACCES; EILSEQ if it is not text.
pub(crate) fn read_table(path: &str) -> Result<String, Errno> {
    read(Path::new(path), 1 << 16, |_| false)
}

fn read(path: &Path, most: usize, is_whole: fn(&[u8]) -> bool) -> Result<String, Errno> {
    let fd = open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let mut bytes = vec![0; most];
    let mut length = 0;
    while let Some(rest) = bytes.get_mut(length..).filter(|rest| !rest.is_empty()) {
        match rustix::io::read(&fd, rest) {
            Ok(0) => break,
            Ok(count) => {
                length += count;
                if bytes.get(..length).is_some_and(is_whole) {
                    break;
                }
            }
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    bytes.truncate(length);
    String::from_utf8(bytes).map_err(|_| Errno::ILSEQ)
}

/// The names in a directory, sorted; those that are not UTF-8 are skipped.
///
/// # Errors
/// ENOENT, EACCES, ENOTDIR.
pub(crate) fn list_directory(path: &Path) -> Result<Vec<String>, Errno> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(path).map_err(|error| errno_of(&error))? {
        let entry = entry.map_err(|error| errno_of(&error))?;
        if let Ok(name) = String::from_utf8(entry.file_name().into_vec()) {
            insert(&mut names, name);
        }
    }
    Ok(names)
}

/// Adds a name in its order. A sort of the standard library would be larger than this whole crate's
/// use of sysfs, and these lists are short.
fn insert(names: &mut Vec<String>, name: String) {
    let at = names.partition_point(|other| natural(other) < natural(&name));
    names.insert(at, name);
}

/// Orders `uverbs2` before `uverbs10`.
fn natural(name: &str) -> (&str, usize, &str) {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let digits = &name[stem.len()..];
    (stem, digits.len(), digits)
}

fn errno_of(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn an_attribute_loses_its_newline_only() {
        let dir = std::env::temp_dir().join(format!("uverbs-sysfs-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join("node_desc"), "a b \n").unwrap();
        std::fs::write(dir.join("empty"), "").unwrap();
        std::fs::write(dir.join("bytes"), [0xff, 0xfe]).unwrap();
        std::fs::write(dir.join("long"), vec![b'x'; 10_000]).unwrap();
        assert_eq!(read_attribute(&dir.join("node_desc")).unwrap(), "a b ");
        assert_eq!(read_attribute(&dir.join("empty")).unwrap(), "");
        assert_eq!(read_attribute(&dir.join("bytes")), Err(Errno::ILSEQ));
        assert_eq!(
            read_attribute(&dir.join("long")).unwrap().len(),
            SYSFS_ATTRIBUTE_MAX
        );
        assert_eq!(read_attribute(&dir.join("none")), Err(Errno::NOENT));
        assert_eq!(
            list_directory(&dir).unwrap(),
            ["bytes", "empty", "long", "node_desc"]
        );
        assert_eq!(list_directory(&dir.join("none")), Err(Errno::NOENT));
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn numbers_sort_as_numbers() {
        let mut names = Vec::new();
        for name in ["uverbs10", "uverbs2", "issm0", "uverbs1"] {
            insert(&mut names, name.to_owned());
        }
        assert_eq!(names, ["issm0", "uverbs1", "uverbs2", "uverbs10"]);
    }

    #[test]
    fn a_table_is_read_whole_and_up_to_64_kib() {
        let table = read_table("/proc/self/status").unwrap();
        assert!(table.lines().count() > 10, "more than a first line");
        let dir = std::env::temp_dir().join(format!("uverbs-table-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let path = dir.join("table");
        std::fs::write(&path, vec![b'\n'; 70_000]).unwrap();
        let table = read_table(path.to_str().unwrap()).unwrap();
        assert_eq!(table.len(), 65_536);
        std::fs::remove_dir_all(&dir).unwrap();
        assert_eq!(read_table("/nonexistent"), Err(Errno::NOENT));
    }
}
