//! `cargo xtask compat`: `libibverbs.so.1` and `libmlx5.so.1`, linked from the static library of
//! `uverbs-compat` with the versions of its table; `libibverbs.a` for static programs with musl;
//! and files for pkg-config.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context as _, bail};
use clap::Args;
use testbed::host;

/// Exported names: version, name, and what defines it.
const TABLE: &str = include_str!("../../../../src/compat/symbols.txt");
const PACKAGE: &str = "uverbs-compat";

/// Build libibverbs.so.1, libmlx5.so.1 and libibverbs.a for C programs.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// The folder to put them in.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

pub(crate) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let [verbs, vendor] = build(&options.out)?;
    let archive = build_static(&options.out)?;
    for file in [verbs, vendor, archive] {
        println!("{}", file.display());
    }
    for file in describe(&options.out)? {
        println!("{}", file.display());
    }
    Ok(ExitCode::SUCCESS)
}

/// Builds both libraries in a folder, and returns their paths.
pub(crate) fn build(out: &Path) -> anyhow::Result<[PathBuf; 2]> {
    fs::create_dir_all(out).with_context(|| out.display().to_string())?;
    let nodes = nodes();
    let archive = archive(&["--features", "shared"])?;
    let verbs = out.join("libibverbs.so.1");
    let map = written(out, "libibverbs.map", &script(&nodes, true))?;
    link(
        &verbs,
        "libibverbs.so.1",
        &map,
        &[
            "-Wl,-z,nodelete,-z,relro,-z,now".as_ref(),
            "-Wl,--whole-archive".as_ref(),
            &archive,
            "-Wl,--no-whole-archive,--gc-sections,--as-needed,--strip-debug".as_ref(),
            "-lgcc_s".as_ref(),
            "-lc".as_ref(),
        ],
    )?;
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
    link(&own, "libmlx5.so.1", &map, &[keep, &verbs])?;
    Ok([verbs, own])
}

/// The target of static programs.
const MUSL: &str = "x86_64-unknown-linux-musl";

/// Builds the library for static programs in a folder, and returns its path.
pub(crate) fn build_static(out: &Path) -> anyhow::Result<PathBuf> {
    fs::create_dir_all(out).with_context(|| out.display().to_string())?;
    let copy = |from: &Path, name: &str| {
        let file = out.join(name);
        fs::copy(from, &file).with_context(|| file.display().to_string())?;
        Ok::<_, anyhow::Error>(file)
    };
    let sysroot = host::capture(Command::new("rustc").args(["--print", "sysroot"]))?;
    // Not every C compiler for musl has an unwinder that goes with it.
    let own = Path::new(sysroot.trim()).join("lib/rustlib").join(MUSL);
    copy(&own.join("lib/self-contained/libunwind.a"), "libunwind.a")?;
    copy(&archive(&["--target", MUSL])?, "libibverbs.a")
}

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

/// Builds the static library and returns where it is.
fn archive(how: &[&str]) -> anyhow::Result<PathBuf> {
    host::say(format_args!("builds {PACKAGE}"));
    let output = testbed::cargo::command()
        .args(["rustc", "--release", "--lib", "--crate-type", "staticlib"])
        .args(["--package", PACKAGE])
        .args(how)
        .args(["--message-format=json-render-diagnostics", "--quiet"])
        .stderr(Stdio::inherit())
        .output()?;
    if !output.status.success() {
        bail!("{PACKAGE} was not built");
    }
    let messages = String::from_utf8(output.stdout)?;
    let files = messages
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter_map(|message| message["filenames"].as_array().cloned())
        .flatten()
        .filter_map(|file| file.as_str().map(PathBuf::from));
    let mut archive = files.filter(|file| file.extension().is_some_and(|kind| kind == "a"));
    archive.next_back().context("cargo built no static library")
}

/// The prefix of the vendor's versions.
const VENDOR: &str = "MLX5_";

/// A version node: the one that it inherits from, and its names.
struct Node {
    version: String,
    inherits: Option<String>,
    names: Vec<String>,
}

/// The family of a version, and its numbers.
fn parts(version: &str) -> (&str, Vec<u32>) {
    let (family, numbers) = version.rsplit_once('_').unwrap_or((version, ""));
    let numbers = numbers.split('.').filter_map(|part| part.parse().ok());
    (family, numbers.collect())
}

/// The nodes in their order. Public versions inherit from the ones before them.
fn nodes() -> Vec<Node> {
    let mut all: BTreeMap<_, Vec<String>> = BTreeMap::new();
    for line in TABLE.lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.split(' ');
        let (Some(version), Some(name)) = (words.next(), words.next()) else {
            continue;
        };
        all.entry((parts(version), version))
            .or_default()
            .push(name.to_owned());
    }
    let mut nodes: Vec<Node> = Vec::new();
    for (((family, _), version), names) in all {
        let before = nodes.last().map(|node| node.version.clone());
        let inherits =
            before.filter(|before| parts(before).0 == family && !family.ends_with("PRIVATE"));
        nodes.push(Node {
            version: version.to_owned(),
            inherits,
            names,
        });
    }
    nodes
}

/// The linker's version script. Nothing else is exported.
fn script(nodes: &[Node], hides: bool) -> String {
    let mut text = String::new();
    for (at, node) in nodes.iter().enumerate() {
        let _ = write!(text, "{} {{", node.version);
        if !node.names.is_empty() {
            let _ = write!(text, " global: {};", node.names.join("; "));
        }
        if at == 0 && hides {
            text.push_str(" local: *;");
        }
        let _ = writeln!(text, " }} {};", node.inherits.as_deref().unwrap_or(""));
    }
    text
}

fn written(folder: &Path, name: &str, text: &str) -> anyhow::Result<PathBuf> {
    let path = folder.join(name);
    fs::write(&path, text).with_context(|| path.display().to_string())?;
    Ok(path)
}

/// Has the C compiler's driver call the linker; no C is compiled.
fn link(file: &Path, name: &str, map: &Path, inputs: &[&Path]) -> anyhow::Result<()> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_inherit_in_the_order_of_their_numbers() {
        let nodes = nodes();
        let of = |version: &str| {
            let node = nodes.iter().find(|node| node.version == version);
            node.and_then(|node| node.inherits.clone())
        };
        assert_eq!(of("IBVERBS_1.1").as_deref(), Some("IBVERBS_1.0"));
        assert_eq!(of("IBVERBS_1.10").as_deref(), Some("IBVERBS_1.9"));
        assert_eq!(of("MLX5_1.26").as_deref(), Some("MLX5_1.25.1"));
        assert_eq!(of("IBVERBS_PRIVATE_65"), None);
        assert_eq!(of("MLX5_1.0"), None);
    }
}
