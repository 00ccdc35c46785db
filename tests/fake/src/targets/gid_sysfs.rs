//! Files of sysfs with any content.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use uverbs::discover::sysfs::Sysfs;

use super::Input;

static COUNT: AtomicU64 = AtomicU64::new(0);

/// A folder that is removed on drop.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Creates a port's files with the bytes as their contents, and reads them.
pub fn gid_sysfs(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let name = format!("uverbs-sysfs-{}-{number}", std::process::id());
    let folder = Folder(std::env::temp_dir().join(name));
    let port = folder.0.join("class/infiniband/rxe0/ports/1");
    for file in [
        "gids/0",
        "gids/1",
        "gid_attrs/types/0",
        "gid_attrs/types/1",
        "gid_attrs/ndevs/0",
        "gid_attrs/ndevs/1",
        "pkeys/0",
        "link_layer",
        "counters/port_rcv_data",
        "hw_counters/lifespan",
    ] {
        let len = usize::from(input.byte());
        // A missing file is an input, too.
        if len == 0xff {
            continue;
        }
        let path = port.join(file);
        let made = path.parent().map(fs::create_dir_all);
        if !matches!(made, Some(Ok(()))) || fs::write(path, input.take(len)).is_err() {
            return;
        }
    }
    let sysfs = Sysfs::at(&folder.0);
    let _ = sysfs.gid_table("rxe0", 1);
    for index in 0..3 {
        let _ = sysfs.gid("rxe0", 1, index);
        let _ = sysfs.gid_type("rxe0", 1, index);
        let _ = sysfs.gid_netdev("rxe0", 1, index);
    }
    let _ = sysfs.pkeys("rxe0", 1);
    let _ = sysfs.link_layer("rxe0", 1);
    let _ = sysfs.counters("rxe0", 1);
    let _ = sysfs.hw_counters("rxe0", 1);
}
