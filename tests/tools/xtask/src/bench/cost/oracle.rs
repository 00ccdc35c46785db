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

/// Programs, in a folder that is removed with them.
#[derive(Debug)]
pub(super) struct Programs {
    folder: PathBuf,
}

impl Programs {
    pub(super) fn path(&self, (_, program): (&str, &str)) -> PathBuf {
        self.folder.join(program)
    }
}

impl Drop for Programs {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Builds them with the libraries of a Debian suite.
pub(super) fn build(suite: &str) -> anyhow::Result<Programs> {
    let root = Packages::new(suite, &["libibverbs-dev", "libc6-dev"]).folder()?;
    let folder = std::env::temp_dir().join(format!("uverbs-cost-{suite}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
    let programs = Programs { folder };
    let sources = cargo::workspace().join("tests/cost/oracle");
    for (source, program) in [USUAL, EXTENDED] {
        compile(&root, &sources.join(source), &programs.folder.join(program))?;
    }
    Ok(programs)
}

fn compile(root: &Path, source: &Path, program: &Path) -> anyhow::Result<()> {
    let output = Command::new("cc")
        .arg(format!("--sysroot={}", root.display()))
        .args(["-O2", "-Wall", "-Werror", "-o"])
        .args([program, source])
        .arg("-libverbs")
        // The library may need a newer C library than this machine has; the guest has it.
        .arg("-Wl,--allow-shlib-undefined")
        .output()
        .context("no C compiler `cc`: apt install gcc")?;
    if !output.status.success() {
        bail!("cc: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}
