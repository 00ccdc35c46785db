//! A temporary directory with its own sysfs and `/dev`, removed on drop.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::discover::Options;

static COUNT: AtomicU32 = AtomicU32::new(0);

pub(crate) struct Tree {
    root: PathBuf,
}

impl Tree {
    pub(crate) fn new() -> Self {
        let name = format!(
            "uverbs-tree-{}-{}",
            std::process::id(),
            COUNT.fetch_add(1, Ordering::Relaxed)
        );
        let root = std::env::temp_dir().join(name);
        fs::create_dir_all(root.join("dev/infiniband")).unwrap();
        fs::create_dir_all(root.join("dev/char")).unwrap();
        fs::create_dir_all(root.join("sys/class")).unwrap();
        Self { root }
    }

    pub(crate) fn sys(&self) -> PathBuf {
        self.root.join("sys")
    }

    pub(crate) fn node(&self, name: &str) -> PathBuf {
        self.root.join("dev/infiniband").join(name)
    }

    /// Uses only the tree, not the netlink of this machine.
    pub(crate) fn options(&self) -> Options {
        Options {
            netlink: false,
            sysfs_root: self.sys(),
            dev_root: self.root.join("dev"),
            ..Options::default()
        }
    }

    pub(crate) fn write(&self, path: impl AsRef<Path>, text: &str) {
        let path = self.sys().join("class").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// An RDMA device as sysfs shows it.
    pub(crate) fn device(&self, name: &str, files: &[(&str, &str)]) {
        for (file, text) in files {
            self.write(Path::new("infiniband").join(name).join(file), text);
        }
    }

    /// Its verbs node as sysfs shows it, with the number of `/dev/null`.
    pub(crate) fn uverbs(&self, uverbs: &str, device: &str, abi: u32) {
        let folder = Path::new("infiniband_verbs").join(uverbs);
        self.write(folder.join("dev"), "1:3\n");
        self.write(folder.join("ibdev"), &format!("{device}\n"));
        self.write(folder.join("abi_version"), &format!("{abi}\n"));
        self.write("infiniband_verbs/abi_version", "6\n");
    }

    /// A node: a link to a device that every machine has.
    pub(crate) fn link(&self, node: &str, to: &str) {
        symlink(to, self.node(node)).unwrap();
    }

    pub(crate) fn link_number(&self, number: &str, to: &str) {
        symlink(to, self.root.join("dev/char").join(number)).unwrap();
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.root).unwrap();
    }
}
