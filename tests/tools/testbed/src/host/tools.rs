//! Tools that the testbed needs.

use super::{capture, run, say};
use crate::Error;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The toolchain with the features that stable ones lack.
pub const NIGHTLY: &str = "nightly";

/// The toolchain whose rustdoc writes items in the format that their reader (`public-api`)
/// understands, and the same text for the same item.
pub const API_READER: &str = "1.95.0";

/// The version that writes the committed declarations.
const BINDGEN: &str = "bindgen-cli@0.72.1";

/// What it says about itself.
const BINDGEN_SAYS: &str = "bindgen 0.72.1";

/// The version whose reports `cargo xtask mutants` reads.
const CARGO_MUTANTS: &str = "cargo-mutants@27.1.0";

/// A tool of the host.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Tool {
    /// The [`API_READER`] toolchain.
    ApiReader,
    /// What translates the declarations of C headers to Rust.
    Bindgen,
    /// What changes programs in small ways to see whether a test notices.
    CargoMutants,
    /// Keys of Debian's archive.
    DebianKeyring,
    /// Provides Debian's mirror on systems that are not Debian.
    Debootstrap,
    /// What [`Bindgen`](Self::Bindgen) reads C with.
    Libclang,
    /// The reader of instrumented programs' counters.
    LlvmTools,
    /// The interpreter that detects undefined behaviour, from the [`NIGHTLY`] toolchain.
    Miri,
    /// The C compiler for powerpc64, used as linker, and its C library.
    Powerpc64Linker,
    /// The emulator of x86_64 machines.
    Qemu,
    /// The emulator of aarch64 machines.
    QemuArm,
    /// The emulator that runs programs of other architectures as processes.
    QemuUser,
    /// The sources of the [`NIGHTLY`] toolchain's standard library, to build it in another way.
    RustSource,
    /// The standard library for a target of rustc.
    RustTarget(&'static str),
    /// The C compiler for s390x, used as linker, and its C library.
    S390xLinker,
}

impl Tool {
    fn is_there(self) -> bool {
        match self {
            Self::ApiReader => {
                capture(crate::cargo::command_of(API_READER).arg("--version")).is_ok()
            }
            Self::Bindgen => capture(Command::new("bindgen").arg("--version"))
                .is_ok_and(|says| says.trim() == BINDGEN_SAYS),
            Self::CargoMutants => {
                capture(crate::cargo::command().args(["mutants", "--version"])).is_ok()
            }
            Self::DebianKeyring => Path::new(crate::debian::KEYRING).exists(),
            Self::Debootstrap => Path::new("/usr/share/debootstrap/scripts/sid").exists(),
            Self::Libclang => has_libclang(),
            Self::LlvmTools => llvm_tools().is_ok_and(|folder| folder.join("llvm-cov").exists()),
            Self::Miri => {
                capture(crate::cargo::command_of(NIGHTLY).args(["miri", "--version"])).is_ok()
            }
            Self::Powerpc64Linker => can_link("powerpc64-linux-gnu"),
            Self::Qemu => crate::qemu::find("qemu-system-x86_64").is_some(),
            Self::QemuArm => crate::qemu::find("qemu-system-aarch64").is_some(),
            Self::QemuUser => crate::qemu::find("qemu-aarch64").is_some(),
            Self::RustSource => {
                let print = ["run", NIGHTLY, "rustc", "--print", "sysroot"];
                let library = "lib/rustlib/src/rust/library/Cargo.lock";
                capture(Command::new("rustup").args(print))
                    .is_ok_and(|root| Path::new(root.trim()).join(library).exists())
            }
            Self::RustTarget(target) => {
                let print = ["--print", "target-libdir", "--target", target];
                capture(Command::new("rustc").args(print))
                    .is_ok_and(|folder| Path::new(folder.trim()).is_dir())
            }
            Self::S390xLinker => can_link("s390x-linux-gnu"),
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::ApiReader => "the Rust toolchain that public items are read with",
            Self::Bindgen => "bindgen",
            Self::CargoMutants => "cargo-mutants",
            Self::DebianKeyring => "the keyring of Debian's archive",
            Self::Debootstrap => "debootstrap (it knows Debian's mirror)",
            Self::Libclang => "libclang",
            Self::LlvmTools => "llvm-tools of the Rust toolchain",
            Self::Miri => "Miri, with the nightly toolchain it is part of",
            Self::Powerpc64Linker => "a linker for powerpc64",
            Self::Qemu => "QEMU for x86",
            Self::QemuArm => "QEMU for Arm",
            Self::QemuUser => "QEMU for programs of other machines",
            Self::RustSource => {
                "the sources of Rust's standard library, with the nightly toolchain"
            }
            Self::RustTarget(_) => "Rust's standard library for another target",
            Self::S390xLinker => "a linker for s390x",
        }
    }

    fn installer(self) -> Vec<&'static str> {
        match self {
            Self::ApiReader => vec![
                "rustup",
                "toolchain",
                "install",
                API_READER,
                "--profile=minimal",
            ],
            Self::Bindgen => vec!["cargo", "install", "--locked", BINDGEN],
            Self::CargoMutants => vec!["cargo", "install", "--locked", CARGO_MUTANTS],
            Self::DebianKeyring => by_apt(&["debian-archive-keyring"]),
            Self::Debootstrap => by_apt(&["debootstrap"]),
            Self::Libclang => by_apt(&["libclang1"]),
            Self::LlvmTools => vec!["rustup", "component", "add", "llvm-tools"],
            Self::Miri => nightly_with("--component=miri,rust-src"),
            Self::Powerpc64Linker => by_apt(&["gcc-powerpc64-linux-gnu", "libc6-dev-ppc64-cross"]),
            Self::Qemu => by_apt(&["qemu-system-x86"]),
            Self::QemuArm => by_apt(&["qemu-system-arm"]),
            Self::QemuUser => by_apt(&["qemu-user"]),
            Self::RustSource => nightly_with("--component=rust-src"),
            Self::RustTarget(target) => vec!["rustup", "target", "add", target],
            Self::S390xLinker => by_apt(&["gcc-s390x-linux-gnu", "libc6-dev-s390x-cross"]),
        }
    }
}

fn by_apt(packages: &[&'static str]) -> Vec<&'static str> {
    [
        &["apt-get", "install", "-y", "--no-install-recommends"],
        packages,
    ]
    .concat()
}

fn nightly_with(component: &'static str) -> Vec<&'static str> {
    vec![
        "rustup",
        "toolchain",
        "install",
        NIGHTLY,
        "--profile=minimal",
        component,
    ]
}

/// Whether a C compiler for an architecture, named as Debian does, and a C library to link with are
/// installed.
fn can_link(machine: &str) -> bool {
    let start = Path::new("/usr").join(machine).join("lib/crt1.o");
    crate::qemu::find(&format!("{machine}-gcc")).is_some() && start.exists()
}

/// Whether the system's linker knows a libclang, of whatever version, or the user does.
fn has_libclang() -> bool {
    let names = |text: String| {
        let mut names = text.lines().map(str::trim_start);
        names.any(|name| name.starts_with("libclang") && !name.starts_with("libclang-cpp"))
    };
    std::env::var_os("LIBCLANG_PATH").is_some()
        || capture(Command::new("/sbin/ldconfig").arg("-p")).is_ok_and(names)
}

/// The folder of the toolchain's own `llvm-cov` and `llvm-profdata`, which understand the counters
/// that its compiler emits.
///
/// # Errors
/// The compiler does not print where its libraries are.
pub fn llvm_tools() -> Result<PathBuf, Error> {
    let libraries = capture(Command::new("rustc").args(["--print", "target-libdir"]))?;
    Ok(Path::new(libraries.trim()).with_file_name("bin"))
}

/// Makes sure that the tools are installed.
///
/// # Errors
/// [`Error::Missing`] names the first tool that is missing and cannot be installed, and the command
/// to type.
pub fn ensure(tools: &[Tool]) -> Result<(), Error> {
    for &tool in tools {
        if !tool.is_there() {
            install(tool)?;
        }
    }
    Ok(())
}

fn install(tool: Tool) -> Result<(), Error> {
    let words = tool.installer();
    let by_apt = words.first() == Some(&"apt-get");
    let root = rustix::process::geteuid().is_root();
    let prefix: &[&str] = match (by_apt, root) {
        (true, false) if sudo_does_not_prompt() => &["sudo", "-n"],
        (true, false) => return Err(missing(tool, &format!("sudo {}", words.join(" ")))),
        _ => &[],
    };
    let line = [prefix, &words].concat();
    say(format_args!(
        "installs {} by: {}",
        tool.words(),
        line.join(" ")
    ));
    if by_apt && !apt_knows(&words) {
        quiet(&[prefix, &["apt-get", "update"]].concat())
            .map_err(|_| missing(tool, "apt-get update"))?;
    }
    if let Err(error) = quiet(&line) {
        say(&error);
        return Err(missing(tool, &line.join(" ")));
    }
    if tool.is_there() {
        Ok(())
    } else {
        Err(missing(tool, &line.join(" ")))
    }
}

fn missing(tool: Tool, install: &str) -> Error {
    Error::Missing {
        what: tool.words().into(),
        install: install.into(),
    }
}

fn sudo_does_not_prompt() -> bool {
    capture(Command::new("sudo").args(["-n", "true"])).is_ok()
}

/// Whether the package lists contain the package (in containers they are often empty).
fn apt_knows(words: &[&str]) -> bool {
    let package = words.last().copied().unwrap_or_default();
    capture(Command::new("apt-cache").args(["show", package])).is_ok_and(|text| !text.is_empty())
}

fn quiet(line: &[&str]) -> Result<(), Error> {
    let Some((program, args)) = line.split_first() else {
        return Ok(());
    };
    let mut command = Command::new(program);
    command.args(args).env("DEBIAN_FRONTEND", "noninteractive");
    if *program == "rustup" {
        return run(&mut command);
    }
    capture(&mut command).map(drop)
}
