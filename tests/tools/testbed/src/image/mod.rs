//! The initial file system of a guest.

mod modules;
mod tree;

pub(crate) use modules::Wanted;
pub(crate) use tree::Tree;

use crate::Error;
use crate::debian::Files;
use crate::host::capture;
use guest_init::{CONFIG_PATH, Config, ModuleFile};
use std::path::Path;
use std::process::Command;

/// Where module files are in the guest.
const MODULES: &str = "/usr/lib/testbed-modules";

/// Folders that programs and mounts expect.
const FOLDERS: [&str; 9] = [
    "/dev",
    "/etc",
    "/proc",
    "/root",
    "/run",
    "/sys",
    "/tmp",
    "/usr/local/bin",
    "/var/tmp",
];

const PASSWD: &str = "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\nuser:x:1000:1000:user:/root:/bin/sh\n";
const GROUP: &str = "root:x:0:\nnogroup:x:65534:\nuser:x:1000:\n";
const HOSTS: &str = "127.0.0.1 localhost\n10.1.0.1 a\n10.1.0.2 b\n";

/// Begins a file system: Debian's programs if there are any, and what every guest has.
pub(crate) fn base(userland: Option<&Path>) -> Result<Tree, Error> {
    let mut tree = Tree::default();
    for name in tree::MERGED {
        tree.folder(&format!("/usr/{name}"));
    }
    if let Some(folder) = userland {
        tree.lay_in(folder)?;
    }
    for name in tree::MERGED {
        tree.symlink(&format!("/{name}"), &format!("usr/{name}"));
    }
    for folder in FOLDERS {
        tree.folder(folder);
    }
    if let Some(folder) = userland {
        small_commands(&mut tree, folder)?;
    }
    tree.device("/dev/console", 5, 1);
    tree.device("/dev/null", 1, 3);
    tree.text("/etc/passwd", PASSWD);
    tree.text("/etc/group", GROUP);
    tree.text("/etc/hosts", HOSTS);
    Ok(tree)
}

/// Links every busybox command under its own name, unless a full program has that name.
fn small_commands(tree: &mut Tree, userland: &Path) -> Result<(), Error> {
    let Some(busybox) = ["bin/busybox", "usr/bin/busybox"]
        .iter()
        .map(|path| userland.join(path))
        .find(|path| path.exists())
    else {
        return Ok(());
    };
    if tree.contains("/usr/bin/bash") {
        // Busybox's own shell prefers busybox's commands, whatever is in PATH.
        tree.symlink("/usr/bin/sh", "bash");
    }
    for name in capture(Command::new(busybox).arg("--list"))?.lines() {
        let taken = ["bin", "sbin"]
            .iter()
            .any(|folder| tree.contains(&format!("/usr/{folder}/{name}")));
        if !taken {
            tree.symlink(&format!("/usr/bin/{name}"), "/usr/bin/busybox");
        }
    }
    Ok(())
}

/// Adds process 1, the modules in the order in which they are loaded, and the configuration.
pub(crate) fn finish(
    tree: &mut Tree,
    init: &Path,
    kernel: &Files,
    wanted: &[Wanted],
    mut config: Config,
) -> Result<(), Error> {
    tree.program("/init", init);
    for module in modules::in_order(&kernel.modules, wanted)? {
        let path = format!("{MODULES}/{}.ko", module.name);
        tree.bytes(&path, module.bytes);
        config.modules.push(ModuleFile {
            path,
            parameters: module.parameters,
            required: module.required,
        });
    }
    let text = serde_json::to_string_pretty(&config)
        .map_err(|error| Error::packages("writing the configuration", error))?;
    tree.text(CONFIG_PATH, &text);
    Ok(())
}
