//! The program that uses libibverbs, built by the system's C compiler with Debian's headers and
//! libraries.

use anyhow::{Context as _, bail};
use std::path::{Path, PathBuf};
use std::process::Command;
use testbed::{Packages, cargo};

/// The Debian suite whose programs are installed in guests.
const SUITE: &str = "bookworm";

/// A program, in a folder that is removed with it.
#[derive(Debug)]
pub(super) struct Program {
    folder: PathBuf,
}

impl Program {
    pub(super) fn path(&self) -> PathBuf {
        self.folder.join("cost-theirs")
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

pub(super) fn build() -> anyhow::Result<Program> {
    let root = Packages::new(SUITE, &["libibverbs-dev", "libc6-dev"]).folder()?;
    let folder = std::env::temp_dir().join(format!("uverbs-cost-{}", std::process::id()));
    std::fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
    let program = Program { folder };
    let source = cargo::workspace().join("tests/cost/oracle/cost.c");
    compile(&root, &source, &program.path())?;
    Ok(program)
}

fn compile(root: &Path, source: &Path, program: &Path) -> anyhow::Result<()> {
    let output = Command::new("cc")
        .arg(format!("--sysroot={}", root.display()))
        .args(["-O2", "-Wall", "-Werror", "-o"])
        .args([program, source])
        .arg("-libverbs")
        .output()
        .context("no C compiler `cc`: apt install gcc")?;
    if !output.status.success() {
        bail!("cc: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}
