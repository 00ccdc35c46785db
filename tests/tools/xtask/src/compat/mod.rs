//! `cargo xtask compat`: `libibverbs.so.1`, `libmlx5.so.1` and `librdmacm.so.1`, linked from the
//! static libraries of `uverbs-compat` and `uverbs-compat-cm` with the versions of their tables;
//! `libibverbs.a` for static programs with musl; and files for pkg-config.

mod versions;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::Context as _;
use clap::Args;
use testbed::cargo::MUSL;
use testbed::host::{self, Tool, ensure};

use crate::programs;
use versions::{Node, nodes, script};

/// Exported names: version, name, and what defines it.
const VERBS: &str = include_str!("../../../../../src/compat/symbols.txt");
const CM: &str = include_str!("../../../../../src/compat-cm/symbols.txt");

/// The prefix of the vendor's versions.
const VENDOR: &str = "MLX5_";

/// Build libibverbs.so.1, libmlx5.so.1, librdmacm.so.1 and libibverbs.a for C programs.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// The folder to put them in.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

pub(crate) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    for file in build(&options.out)? {
        println!("{}", file.display());
    }
    println!("{}", build_static(&options.out)?.display());
    for file in describe(&options.out)? {
        println!("{}", file.display());
    }
    Ok(ExitCode::SUCCESS)
}

/// Builds the shared libraries in a folder, and returns their paths.
pub(crate) fn build(out: &Path) -> anyhow::Result<[PathBuf; 3]> {
    fs::create_dir_all(out).with_context(|| out.display().to_string())?;
    let nodes = nodes(VERBS);
    let verbs = out.join("libibverbs.so.1");
    let code = archive("uverbs-compat", &["--features", "shared"])?;
    with_code(&verbs, &nodes, &code, &[])?;
    // Everything is in the other one: two would have two device lists.
    let vendor: Vec<_> = nodes
        .into_iter()
        .filter(|node| node.version.starts_with(VENDOR))
        .map(|node| Node {
            names: Vec::new(),
            ..node
        })
        .collect();
    let map = written(out, "libmlx5.map", &script(&vendor, false))?;
    let keep = "-Wl,--no-as-needed".as_ref();
    let own = out.join("libmlx5.so.1");
    link(&own, &map, &[keep, &verbs])?;
    // In a file of its own: programs may have another one beside this libibverbs.
    let cm = out.join("librdmacm.so.1");
    let code = archive("uverbs-compat-cm", &[])?;
    with_code(&cm, &versions::nodes(CM), &code, &[&verbs])?;
    Ok([verbs, own, cm])
}

/// Links a library from a static one.
fn with_code(file: &Path, nodes: &[Node], code: &Path, needs: &[&Path]) -> anyhow::Result<()> {
    let map = file.with_extension("").with_extension("map");
    fs::write(&map, script(nodes, true)).with_context(|| map.display().to_string())?;
    let before = [
        "-Wl,-z,nodelete,-z,relro,-z,now".as_ref(),
        "-Wl,--whole-archive".as_ref(),
        code,
        "-Wl,--no-whole-archive,--gc-sections,--as-needed,--strip-debug".as_ref(),
    ];
    let after = ["-Wl,-z,defs".as_ref(), "-lgcc_s".as_ref(), "-lc".as_ref()];
    link(file, &map, &[&before, needs, &after].concat())
}

/// Builds the library for static programs in a folder, and returns its path.
pub(crate) fn build_static(out: &Path) -> anyhow::Result<PathBuf> {
    ensure(&[Tool::RustTarget(MUSL)])?;
    fs::create_dir_all(out).with_context(|| out.display().to_string())?;
    let copy = |from: &Path, name: &str| {
        let file = out.join(name);
        let to = || format!("{} to {}", from.display(), file.display());
        fs::copy(from, &file).with_context(to)?;
        Ok::<_, anyhow::Error>(file)
    };
    let sysroot = host::capture(Command::new("rustc").args(["--print", "sysroot"]))?;
    // Not every C compiler for musl has an unwinder that goes with it.
    let own = Path::new(sysroot.trim()).join("lib/rustlib").join(MUSL);
    copy(&own.join("lib/self-contained/libunwind.a"), "libunwind.a")?;
    // Both in one file: two static libraries in Rust have the same functions of their language. The
    // other file has nothing in it, for programs that are linked with both names.
    written(out, "librdmacm.a", EMPTY)?;
    let both = ["--target", MUSL, "--features", "with-verbs"];
    copy(&archive("uverbs-compat-cm", &both)?, "libibverbs.a")
}

/// A static library without members.
const EMPTY: &str = "!<arch>\n";

/// The version of rdma-core whose names these libraries have.
const LIKE: &str = "65.0";

/// Writes what pkg-config reads, and the names by which linkers look for shared libraries.
fn describe(out: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let folder = out.join("pkgconfig");
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let mut files = Vec::new();
    // The vendor's functions are in the same library.
    for (name, about, rest) in [
        (
            "libibverbs",
            "RDMA verbs",
            "Libs: -L${libdir} -libverbs\nLibs.private: -lunwind",
        ),
        (
            "libmlx5",
            "RDMA verbs of one vendor",
            "Requires: libibverbs",
        ),
        (
            "librdmacm",
            "RDMA connections by IP address",
            "Requires.private: libibverbs\nLibs: -L${libdir} -lrdmacm",
        ),
    ] {
        let text = format!(
            "libdir=${{pcfiledir}}/..\n\nName: {name}\nDescription: {about}\nVersion: {LIKE}\n{rest}\n"
        );
        files.push(written(&folder, &format!("{name}.pc"), &text)?);
        let plain = out.join(format!("{name}.so"));
        let _ = fs::remove_file(&plain);
        std::os::unix::fs::symlink(format!("{name}.so.1"), &plain)
            .with_context(|| plain.display().to_string())?;
        files.push(plain);
    }
    Ok(files)
}

/// Builds the static library of a package and returns where it is.
pub(crate) fn archive(package: &str, how: &[&str]) -> anyhow::Result<PathBuf> {
    programs::library(package, ("staticlib", "a"), how)
}

fn written(folder: &Path, name: &str, text: &str) -> anyhow::Result<PathBuf> {
    let path = folder.join(name);
    fs::write(&path, text).with_context(|| path.display().to_string())?;
    Ok(path)
}

/// Has the C compiler's driver call the linker; no C is compiled.
fn link(file: &Path, map: &Path, inputs: &[&Path]) -> anyhow::Result<()> {
    let name = file.file_name().unwrap_or_default().display();
    let mut command = Command::new("cc");
    command
        .args(["-shared", "-nostartfiles", "-o"])
        .arg(file)
        .arg(format!("-Wl,-soname,{name}"))
        .arg(format!("-Wl,--version-script={}", map.display()))
        // A library without objects does not say so itself, and then `dlopen` refuses it.
        .arg("-Wl,-z,noexecstack")
        .args(inputs);
    Ok(host::run(&mut command)?)
}
