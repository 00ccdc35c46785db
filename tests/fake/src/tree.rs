//! A made-up sysfs: where kernels without the commands for it publish GIDs.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

static COUNT: AtomicU64 = AtomicU64::new(0);

/// A folder with the structure of `/sys`, removed on drop.
#[derive(Debug)]
pub struct Tree(PathBuf);

impl Tree {
    /// What the kernel of [`FakeKernel`](uverbs_fake::FakeKernel) would show for its device: the
    /// same two GIDs, and zeros for the empty entries.
    ///
    /// # Errors
    /// Those of creating files.
    pub fn of_fake() -> io::Result<Self> {
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("uverbs-tree-{}-{number}", std::process::id());
        let tree = Self(std::env::temp_dir().join(name));
        let port = "class/infiniband/rxe_fake0/ports/1";
        for (index, gid) in [
            "fe80:0000:0000:0000:02fa:ceff:fe00:0001",
            "0000:0000:0000:0000:0000:ffff:0a00:0001",
        ]
        .iter()
        .enumerate()
        {
            tree.write(&format!("{port}/gids/{index}"), gid)?;
            tree.write(&format!("{port}/gid_attrs/types/{index}"), "RoCE v2")?;
            tree.write(&format!("{port}/gid_attrs/ndevs/{index}"), "fake0")?;
        }
        tree.write(
            &format!("{port}/gids/2"),
            "0000:0000:0000:0000:0000:0000:0000:0000",
        )?;
        tree.write(&format!("{port}/pkeys/0"), "0xffff")?;
        tree.write(&format!("{port}/link_layer"), "Ethernet")?;
        tree.write("class/net/fake0/ifindex", "7")?;
        Ok(tree)
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    fn write(&self, path: &str, text: &str) -> io::Result<()> {
        let path = self.0.join(path);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(path, format!("{text}\n"))
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
