//! A QEMU with a vfio-user client, from a newer Debian than the host may be, run where it was unpacked.

use std::path::{Path, PathBuf};

use testbed::{Error, Packages};

/// The suite that has QEMU 10.1 or newer.
const SUITE: &str = "sid";

/// The command line up to the arguments of the machine.
pub(crate) fn command() -> Result<Vec<String>, Error> {
    let root = Packages::new(SUITE, &["qemu-system-x86"]).folder()?;
    let libraries = [
        "usr/lib/x86_64-linux-gnu",
        "usr/lib",
        "lib/x86_64-linux-gnu",
    ]
    .map(|folder| root.join(folder).display().to_string())
    .join(":");
    let mut words = vec![
        loader(&root).display().to_string(),
        "--library-path".into(),
        libraries,
        root.join("usr/bin/qemu-system-x86_64")
            .display()
            .to_string(),
    ];
    for folder in ["usr/share/qemu", "usr/share/seabios", "usr/lib/ipxe/qemu"] {
        words.extend(["-L".into(), root.join(folder).display().to_string()]);
    }
    Ok(words)
}

/// The dynamic loader that belongs to the unpacked libraries.
fn loader(root: &Path) -> PathBuf {
    let name = "ld-linux-x86-64.so.2";
    ["usr/lib64", "lib64", "usr/lib/x86_64-linux-gnu"]
        .iter()
        .map(|folder| root.join(folder).join(name))
        .find(|path| path.is_file())
        .unwrap_or_else(|| root.join("lib64").join(name))
}
