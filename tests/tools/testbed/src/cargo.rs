//! Static programs of this workspace, built by cargo for the guest.

use crate::host::{Tool, capture, ensure};
use crate::{Error, Processor};
use serde_json::Value;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The target of all programs that run in a guest.
pub const MUSL: &str = "x86_64-unknown-linux-musl";

/// The same for machines with an Arm processor.
pub(crate) const MUSL_ARM: &str = "aarch64-unknown-linux-musl";

/// The profile of programs for machines, unless another one is asked for.
pub(crate) const PROFILE: [&str; 2] = ["--profile", "machine"];

/// The linker for that target.
const LINKER_ARM: (&str, &str) = ("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER", "rust-lld");

/// The root of the workspace.
pub fn workspace() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(3).unwrap_or(here).to_owned()
}

/// A program that cargo built.
#[derive(Clone, Debug)]
pub struct Built {
    /// The name of the cargo target.
    pub name: String,
    /// Where the file is.
    pub path: PathBuf,
    /// Whether it is a test binary, by cargo's harness or its own.
    pub is_test: bool,
}

/// Cargo, in the root of the workspace, as if it were called by hand.
pub fn command() -> Command {
    by_hand(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Cargo of another toolchain, by its name, in the root of the workspace, as if it were called by
/// hand.
pub fn command_of(toolchain: &str) -> Command {
    let mut command = by_hand("rustup");
    command.args(["run", toolchain, "cargo"]);
    command
}

fn by_hand(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command
        .current_dir(workspace())
        // The toolchain's own linker links for musl; a C compiler of this machine cannot link for
        // another.
        .env(LINKER_ARM.0, LINKER_ARM.1);
    // Set by `cargo run` for the program that it runs; they would make cargo rebuild everything.
    for (name, _) in std::env::vars()
        .filter(|(name, _)| name.starts_with("CARGO_PKG_") || name == "CARGO_MANIFEST_DIR")
    {
        command.env_remove(name);
    }
    command
}

/// Runs `cargo build` or `cargo test --no-run` with these arguments for the guest and returns what
/// it built. Without `--release` or `--profile`, by the profile `machine`.
///
/// # Errors
/// The musl target is missing and cannot be installed, or cargo fails (it prints why on standard
/// error).
pub fn build(args: &[&str]) -> Result<Vec<Built>, Error> {
    build_for(Processor::Amd64, args)
}

/// As [`build`], for a guest with this processor.
///
/// # Errors
/// As [`build`].
pub fn build_for(processor: Processor, args: &[&str]) -> Result<Vec<Built>, Error> {
    ensure(&[Tool::RustTarget(processor.target())])?;
    let chosen = args
        .iter()
        .any(|arg| *arg == "--release" || arg.starts_with("--profile"));
    let profile = if chosen { &[] } else { &PROFILE[..] };
    executables(&[args, profile, &["--target", processor.target()]].concat())
}

fn executables(args: &[&str]) -> Result<Vec<Built>, Error> {
    let mut command = command();
    command
        .args(args)
        .args(["--message-format=json-render-diagnostics", "--quiet"])
        .stderr(Stdio::inherit());
    let messages = capture(&mut command).map_err(said_above)?;
    Ok(messages
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .filter_map(|message| executable(&message))
        .collect())
}

/// Builds the command-line tool, optimised.
///
/// # Errors
/// As [`build_program`].
pub fn tool() -> Result<PathBuf, Error> {
    program_of("uverbs-cli", "uverbs")
}

/// Builds one program of a package, optimised.
///
/// # Errors
/// As [`build_program`].
pub fn program_of(package: &str, name: &str) -> Result<PathBuf, Error> {
    let args = ["build", "--release", "--package", package, "--bin", name];
    build_program(name, &args)
}

/// Builds one program.
///
/// # Errors
/// As [`build`], and if cargo built no program of that name.
pub fn build_program(name: &str, args: &[&str]) -> Result<PathBuf, Error> {
    build_program_for(Processor::Amd64, name, args)
}

/// As [`build_program`], for a guest with this processor.
///
/// # Errors
/// As [`build_program`].
pub fn build_program_for(
    processor: Processor,
    name: &str,
    args: &[&str],
) -> Result<PathBuf, Error> {
    named(name, args, build_for(processor, args)?)
}

/// Builds process 1 of guests with this processor.
pub(crate) fn guest_init(processor: Processor) -> Result<PathBuf, Error> {
    let name = "guest-init";
    let args = ["build", "--package", name, "--features", "guest"];
    build_program_for(processor, name, &args)
}

/// Builds one program that runs on the host itself.
///
/// # Errors
/// Cargo fails (it prints why on standard error), or built no program of that name.
pub fn build_host_program(name: &str, args: &[&str]) -> Result<PathBuf, Error> {
    named(name, args, executables(args)?)
}

fn named(name: &str, args: &[&str], built: Vec<Built>) -> Result<PathBuf, Error> {
    let built = built.into_iter().find(|built| built.name == name);
    built.map(|built| built.path).ok_or_else(|| {
        Error::packages(
            format!("cargo {}", args.join(" ")),
            format!("no program {name}"),
        )
    })
}

/// Cargo's standard output is not meant for people; its standard error was shown as it came.
fn said_above(error: Error) -> Error {
    match error {
        Error::Program {
            program, status, ..
        } => Error::Program {
            program,
            status,
            output: "(shown above)".into(),
        },
        other => other,
    }
}

fn executable(message: &Value) -> Option<Built> {
    let path = message.get("executable")?.as_str()?.into();
    let name = message.get("target")?.get("name")?.as_str()?.to_owned();
    let is_test = message.get("profile")?.get("test")?.as_bool()?;
    Some(Built {
        name,
        path,
        is_test,
    })
}
