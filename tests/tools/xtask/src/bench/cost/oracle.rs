//! The programs that use libibverbs, built by the system's C compiler with Debian's headers and
//! libraries.

use anyhow::{Context as _, bail};
use std::path::{Path, PathBuf};
use std::process::Command;
use testbed::{Packages, cargo};

/// The loops with `ibv_post_send` and `ibv_poll_cq`, and those with `ibv_wr_…` and
/// `ibv_start_poll`: source, and program.
pub(super) const USUAL: (&str, &str) = ("cost.c", "cost-theirs");
pub(super) const EXTENDED: (&str, &str) = ("extended.c", "cost-extended");

/// The loops over queues of other shapes, which need the device in their process.
pub(super) const SHAPES: (&str, &str) = ("shapes.c", "cost-shapes");

/// What objects take of the heap.
pub(super) const HEAP: (&str, &str) = ("heap.c", "cost-heap");

/// Programs, in a folder that is removed with them.
#[derive(Debug)]
pub(super) struct Programs {
    folder: PathBuf,
}

impl Programs {
    pub(super) fn path(&self, (_, program): (&str, &str)) -> PathBuf {
        self.folder.join(program)
    }

    /// Where they are.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }
}

impl Drop for Programs {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// The libraries of a Debian suite, unpacked: with them, and with what runs programs that use them.
pub(super) fn root(suite: &str) -> anyhow::Result<PathBuf> {
    Ok(Packages::new(suite, &["libibverbs-dev", "libc6-dev"]).folder()?)
}

/// Builds them with the libraries of a Debian suite.
pub(super) fn build(suite: &str) -> anyhow::Result<Programs> {
    built(suite, "guest", |root, cc| {
        cc.arg(format!("--sysroot={}", root.display()))
            .arg("-libverbs")
            // The library may need a newer C library than this machine has; the guest has it.
            .arg("-Wl,--allow-shlib-undefined");
    })
}

/// Builds them for this machine, over the static library `tests/cost/c-face`, which has the device
/// in it, and functions in place of those that find, open and wait for one.
pub(super) fn build_here(suite: &str, library: &Path) -> anyhow::Result<Programs> {
    built(suite, "here", |root, cc| {
        cc.arg("-idirafter").arg(root.join("usr/include"));
        for (name, own) in [
            ("ibv_get_device_list", "cost_device_list"),
            ("ibv_get_device_name", "cost_device_name"),
            ("ibv_open_device", "cost_open_device"),
            ("usleep", "cost_wait"),
        ] {
            cc.arg(format!("-D{name}={own}"));
        }
        cc.arg(library)
            .args(["-lgcc_s", "-lc", "-lm", "-lpthread", "-ldl"]);
    })
}

/// Builds them; `add` completes the compiler's arguments, with the packages' folder.
fn built(suite: &str, place: &str, add: impl Fn(&Path, &mut Command)) -> anyhow::Result<Programs> {
    let root = root(suite)?;
    let name = format!("uverbs-cost-{suite}-{place}-{}", std::process::id());
    let folder = std::env::temp_dir().join(name);
    std::fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
    let programs = Programs { folder };
    let sources = cargo::workspace().join("tests/cost/oracle");
    for (source, program) in [USUAL, EXTENDED, SHAPES, HEAP] {
        let mut cc = Command::new("cc");
        cc.args(["-O2", "-Wall", "-Werror", "-o"])
            .args([programs.folder.join(program), sources.join(source)]);
        add(&root, &mut cc);
        let output = cc.output().context("no C compiler `cc`: apt install gcc")?;
        if !output.status.success() {
            bail!("cc: {}", String::from_utf8_lossy(&output.stderr));
        }
    }
    Ok(programs)
}
