//! Prints a file, or the names of the files in a folder, one per line.

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let Some(path) = std::env::args_os().nth(1) else {
        eprintln!("usage: print-files PATH");
        return ExitCode::FAILURE;
    };
    match print(Path::new(&path)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("print-files: {}: {error}", path.display());
            ExitCode::FAILURE
        }
    }
}

fn print(path: &Path) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    if path.is_dir() {
        for entry in path.read_dir()? {
            writeln!(out, "{}", entry?.file_name().display())?;
        }
        return out.flush();
    }
    out.write_all(&std::fs::read(path)?)?;
    out.flush()
}
