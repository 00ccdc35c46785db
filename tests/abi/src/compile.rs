//! Runs the system's C compiler.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

/// The compiler, configured to see only one set of headers.
#[derive(Debug)]
pub struct Compiler {
    include: Vec<PathBuf>,
    folder: tempfile::TempDir,
}

impl Compiler {
    /// For the headers below `root` (the folder that holds `rdma/` and `linux/`).
    ///
    /// # Errors
    /// If there is no compiler.
    pub fn new(root: &Path) -> Result<Self> {
        let multiarch = run(Command::new("cc").arg("-print-multiarch"))?;
        let multiarch = String::from_utf8_lossy(&multiarch).trim().to_owned();
        Ok(Self {
            include: vec![root.to_owned(), root.join(multiarch)],
            folder: tempfile::tempdir().context("no folder for the compiler's files")?,
        })
    }

    /// Every `#define` that `source` sees, between line markers that show where it comes from.
    ///
    /// # Errors
    /// If the compiler refuses the source.
    pub fn preprocess(&self, source: &str) -> Result<String> {
        let file = self.write("macros.c", source)?;
        let text = run(self.command().args(["-E", "-dD"]).arg(file))?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    /// Compiles `source` to a shared object, whose debug information also contains unused types.
    ///
    /// # Errors
    /// If the compiler refuses the source.
    pub fn object(&self, name: &str, source: &str) -> Result<Vec<u8>> {
        let file = self.write(&format!("{name}.c"), source)?;
        let output = self.folder.path().join(format!("{name}.so"));
        let debug = ["-gdwarf-4", "-fno-eliminate-unused-debug-types"];
        let shared = ["-shared", "-nostdlib", "-fPIC", "-o"];
        run(self
            .command()
            .args(debug)
            .args(shared)
            .arg(&output)
            .arg(file))?;
        std::fs::read(&output).with_context(|| format!("the compiler left no {}", output.display()))
    }

    fn write(&self, name: &str, source: &str) -> Result<PathBuf> {
        let file = self.folder.path().join(name);
        std::fs::write(&file, source)
            .with_context(|| format!("cannot write {}", file.display()))?;
        Ok(file)
    }

    fn command(&self) -> Command {
        let mut command = Command::new("cc");
        command.args(["-std=gnu11", "-nostdinc"]);
        for folder in &self.include {
            command.arg("-isystem").arg(folder);
        }
        command
    }
}

/// Runs a command to its end and returns its output.
///
/// # Errors
/// Names the program that is missing, or contains its error output.
pub fn run(command: &mut Command) -> Result<Vec<u8>> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().with_context(|| match program.as_str() {
        "cc" => String::from("no C compiler `cc`: apt install gcc"),
        "dpkg-deb" => String::from("no `dpkg-deb`: apt install dpkg"),
        "apt-get" => String::from("no `apt-get`: Debian's headers are fetched by apt"),
        other => format!("cannot run {other}"),
    })?;
    if !output.status.success() {
        let arguments: Vec<_> = command.get_args().map(OsStr::to_string_lossy).collect();
        let complaint = String::from_utf8_lossy(&output.stderr);
        bail!(
            "{program} {}: {}\n{}",
            arguments.join(" "),
            output.status,
            complaint.trim_end()
        );
    }
    Ok(output.stdout)
}
