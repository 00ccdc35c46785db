//! A file system in memory, written as a cpio archive.

use crate::Error;
use cpio::newc::{Builder, trailer};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use walkdir::WalkDir;

/// File types in a mode.
const FOLDER: u32 = 0o040_000;
const REGULAR: u32 = 0o100_000;
const SYMLINK: u32 = 0o120_000;
const CHARACTER_DEVICE: u32 = 0o020_000;

/// Parts of Debian's packages that are not needed in a guest.
const LEFT_OUT: [&str; 8] = [
    "usr/share/bash-completion",
    "usr/share/bug",
    "usr/share/doc",
    "usr/share/i18n",
    "usr/share/info",
    "usr/share/lintian",
    "usr/share/locale",
    "usr/share/man",
];

/// Folders that are symbolic links into `/usr`, as every Debian has them; older packages still use
/// these paths.
pub(super) const MERGED: [&str; 4] = ["bin", "lib", "lib64", "sbin"];

/// A file system: absolute paths and their contents.
#[derive(Debug, Default)]
pub(crate) struct Tree(BTreeMap<String, Node>);

#[derive(Debug)]
struct Node {
    mode: u32,
    content: Content,
}

#[derive(Debug)]
enum Content {
    Bytes(Vec<u8>),
    Copy(PathBuf),
    Device(u32, u32),
}

impl Tree {
    pub(crate) fn contains(&self, path: &str) -> bool {
        self.0.contains_key(path)
    }

    pub(crate) fn folder(&mut self, path: &str) {
        let path = merged(path);
        self.parents(&path);
        let node = Node {
            mode: FOLDER | 0o755,
            content: Content::Bytes(Vec::new()),
        };
        self.0.entry(path).or_insert(node);
    }

    pub(crate) fn symlink(&mut self, path: &str, target: &str) {
        self.put(path, SYMLINK | 0o777, Content::Bytes(target.into()));
    }

    pub(crate) fn device(&mut self, path: &str, major: u32, minor: u32) {
        self.put(
            path,
            CHARACTER_DEVICE | 0o666,
            Content::Device(major, minor),
        );
    }

    pub(crate) fn text(&mut self, path: &str, text: &str) {
        self.bytes(path, text.into());
    }

    pub(crate) fn bytes(&mut self, path: &str, bytes: Vec<u8>) {
        self.put(path, REGULAR | 0o644, Content::Bytes(bytes));
    }

    /// Adds a copy of a host's file, executable.
    pub(crate) fn program(&mut self, path: &str, source: &Path) {
        self.put(path, REGULAR | 0o755, Content::Copy(source.into()));
    }

    /// Adds a copy of a host's file with its own mode.
    pub(crate) fn file(&mut self, path: &str, source: &Path) -> Result<(), Error> {
        let metadata = fs::metadata(source).map_err(Error::file("reading", source))?;
        self.put(
            path,
            REGULAR | (metadata.permissions().mode() & 0o777),
            Content::Copy(source.into()),
        );
        Ok(())
    }

    /// Adds everything in a folder of the host, except manuals and translations.
    pub(crate) fn lay_in(&mut self, folder: &Path) -> Result<(), Error> {
        let wanted = |entry: &walkdir::DirEntry| {
            entry
                .path()
                .strip_prefix(folder)
                .is_ok_and(|path| !LEFT_OUT.iter().any(|left_out| path == Path::new(left_out)))
        };
        for entry in WalkDir::new(folder)
            .min_depth(1)
            .into_iter()
            .filter_entry(wanted)
        {
            let entry =
                entry.map_err(|error| Error::packages(folder.display().to_string(), error))?;
            let Ok(relative) = entry.path().strip_prefix(folder) else {
                continue;
            };
            let path = format!("/{}", relative.display());
            let kind = entry.file_type();
            if kind.is_dir() {
                self.folder(&path);
            } else if kind.is_symlink() {
                let target =
                    fs::read_link(entry.path()).map_err(Error::file("reading", entry.path()))?;
                self.symlink(&path, &target.to_string_lossy());
            } else if kind.is_file() {
                self.file(&path, entry.path())?;
            }
        }
        Ok(())
    }

    /// Writes the archive that the kernel unpacks.
    pub(crate) fn write(&self, path: &Path) -> Result<(), Error> {
        let file = File::create(path).map_err(Error::file("making", path))?;
        let mut out = BufWriter::new(file);
        let mut inode = 0;
        for (name, node) in &self.0 {
            inode += 1;
            let copy;
            let (bytes, device) = match &node.content {
                Content::Bytes(bytes) => (bytes.as_slice(), (0, 0)),
                Content::Copy(source) => {
                    copy = fs::read(source).map_err(Error::file("reading", source))?;
                    (copy.as_slice(), (0, 0))
                }
                Content::Device(major, minor) => ([].as_slice(), (*major, *minor)),
            };
            let size = u32::try_from(bytes.len())
                .map_err(|error| Error::packages(name.as_str(), error))?;
            let head = Builder::new(name.trim_start_matches('/'))
                .ino(inode)
                .mode(node.mode)
                .nlink(1);
            let head = head.rdev_major(device.0).rdev_minor(device.1);
            let mut entry = head.write(&mut out, size);
            entry
                .write_all(bytes)
                .and_then(|()| entry.finish().map(drop))
                .map_err(Error::file("writing", path))?;
        }
        trailer(&mut out)
            .and_then(Write::flush)
            .map_err(Error::file("writing", path))
    }

    fn put(&mut self, path: &str, mode: u32, content: Content) {
        let path = merged(path);
        self.parents(&path);
        self.0.insert(path, Node { mode, content });
    }

    /// Creates the parent folders of a path; one that is a symbolic link is left unchanged.
    fn parents(&mut self, path: &str) {
        let Some((parent, _)) = path.rsplit_once('/') else {
            return;
        };
        if !parent.is_empty() && !self.contains(parent) {
            self.folder(parent);
        }
    }
}

/// The real path where the folders of [`MERGED`] are links.
fn merged(path: &str) -> String {
    let inside = path.strip_prefix('/').and_then(|path| path.split_once('/'));
    match inside {
        Some((first, _)) if MERGED.contains(&first) => format!("/usr{path}"),
        _ => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::{Content, Tree, merged};

    #[test]
    fn a_path_below_a_link_leads_into_usr() {
        assert_eq!(merged("/bin/busybox"), "/usr/bin/busybox");
        assert_eq!(merged("/bin"), "/bin");
        assert_eq!(merged("/binary/x"), "/binary/x");
    }

    #[test]
    fn folders_come_before_what_is_in_them() {
        let mut tree = Tree::default();
        tree.text("/lib/a/b", "");
        let paths: Vec<_> = tree.0.keys().map(String::as_str).collect();
        assert_eq!(paths, ["/usr", "/usr/lib", "/usr/lib/a", "/usr/lib/a/b"]);
        assert!(matches!(&tree.0["/usr"].content, Content::Bytes(bytes) if bytes.is_empty()));
    }
}
