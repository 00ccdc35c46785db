//! A QEMU with a vfio-user client (10.1 and newer): the host's, or that of a newer Debian, run from
//! where it was unpacked.

use crate::host::capture;
use crate::{Error, Packages};
use std::path::{Path, PathBuf};
use std::process::Command;

const PROGRAM: &str = "qemu-system-x86_64";

/// The suite whose QEMU is used if the host's is too old.
const SUITE: &str = "sid";

/// The device that only a sufficiently new QEMU has.
const CLIENT: &str = "vfio-user-pci";

/// The command line up to the arguments of the machine.
pub(crate) fn command() -> Result<Vec<String>, Error> {
    if knows_client(&[PROGRAM.into()]) {
        return Ok(vec![PROGRAM.into()]);
    }
    let root = Packages::new(SUITE, &["qemu-system-x86"]).folder()?;
    let words = unpacked(&root);
    if knows_client(&words) {
        return Ok(words);
    }
    Err(Error::packages(
        format!("QEMU of Debian {SUITE}"),
        format!("it does not support {CLIENT}"),
    ))
}

fn knows_client(words: &[String]) -> bool {
    let Some((program, arguments)) = words.split_first() else {
        return false;
    };
    let mut command = Command::new(program);
    // Listing all devices is avoided: that loads modules, which may belong to another QEMU.
    let question = format!("{CLIENT},help");
    // A device that it does not know is not a failure then.
    capture(command.args(arguments).args(["-device", &question]))
        .is_ok_and(|options| options.contains(CLIENT))
}

/// The command line to run a program of unpacked packages with their loader, libraries and
/// firmware.
fn unpacked(root: &Path) -> Vec<String> {
    let libraries = [
        "usr/lib/x86_64-linux-gnu",
        "usr/lib",
        "lib/x86_64-linux-gnu",
    ]
    .map(|folder| root.join(folder).display().to_string())
    .join(":");
    let mut words = vec![
        loader(root).display().to_string(),
        "--library-path".into(),
        libraries,
        root.join("usr/bin").join(PROGRAM).display().to_string(),
    ];
    for folder in ["usr/share/qemu", "usr/share/seabios", "usr/lib/ipxe/qemu"] {
        words.extend(["-L".into(), root.join(folder).display().to_string()]);
    }
    words
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
