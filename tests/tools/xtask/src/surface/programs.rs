//! Programs that must not compile: they obtain power over the kernel, or pass it on, without
//! `unsafe`.
//!
//! Each is compiled twice. Unchanged, it must have errors exactly where its marks (`//~ CODE`, at
//! the end of a line) say so. Without the marked lines it must have none: this shows that nothing
//! else about it is wrong, and that the rest of what it does is safe.

use anyhow::{Context as _, bail};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use testbed::cargo::workspace;
use testbed::host;

const FOLDER: &str = "tests/tools/xtask/forbidden";
const MARK: &str = "//~ ";

/// The manifest of the programs' crate, up to their list.
const MANIFEST: &str = r#"
[package]
name = "forbidden"
version = "0.0.0"
edition = "2024"
publish = false

[workspace]

[dependencies]
rustix = { version = "1", features = ["mm"] }
uverbs = { path = "ROOT" }
uverbs-core = { path = "ROOT/providers/core" }
uverbs-fake = { path = "ROOT/tests/models/kernel" }
"#;

/// Errors by line number and code.
type Errors = BTreeSet<(usize, String)>;

/// For each program, its errors and the compiler's messages.
type Answers = BTreeMap<String, (Errors, String)>;

/// A line of cargo's output.
#[derive(Deserialize)]
struct Said {
    target: Option<Target>,
    message: Option<Diagnostic>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
}

#[derive(Deserialize)]
struct Diagnostic {
    level: String,
    code: Option<Code>,
    rendered: Option<String>,
    spans: Vec<Span>,
}

#[derive(Deserialize)]
struct Code {
    code: String,
}

#[derive(Deserialize)]
struct Span {
    is_primary: bool,
    line_start: usize,
}

/// Fails if one of them compiles, or fails for another reason. Returns how many there are.
pub(super) fn check() -> anyhow::Result<usize> {
    let root = workspace();
    let folder = root.join("target/surface/programs");
    let mut expected = BTreeMap::new();
    let mut manifest = MANIFEST.replace("ROOT", &root.display().to_string());
    fs::create_dir_all(&folder)?;
    for entry in fs::read_dir(root.join(FOLDER))? {
        let path = entry?.path();
        let name = path
            .file_stem()
            .and_then(|name| name.to_str())
            .context("a program without a name")?;
        let source = fs::read_to_string(&path)?;
        let marks = marks(&source);
        if marks.is_empty() {
            bail!("{name}: no line is marked");
        }
        for (name, source, errors) in [
            (name.to_owned(), source.clone(), marks),
            (format!("{name}_without"), unmarked(&source), Errors::new()),
        ] {
            let file = format!("{name}.rs");
            fs::write(folder.join(&file), source)?;
            write!(
                manifest,
                "\n[[bin]]\nname = \"{name}\"\npath = \"{file}\"\n"
            )?;
            expected.insert(name, errors);
        }
    }
    fs::write(folder.join("Cargo.toml"), manifest)?;
    fs::copy(root.join("Cargo.lock"), folder.join("Cargo.lock"))?;
    let (found, complaints) = compile(&folder)?;
    let mut wrong = Vec::new();
    for (name, errors) in &expected {
        let (lines, rendered) = found.get(name).cloned().unwrap_or_default();
        if lines != *errors {
            wrong.push(format!(
                "{name}: errors in {lines:?}, marked are {errors:?}\n{rendered}"
            ));
        }
    }
    if wrong.is_empty() {
        return Ok(expected.len() / 2);
    }
    bail!(
        "programs that must not compile:\n{}\n{complaints}",
        wrong.join("\n")
    )
}

/// The compiler's errors for each program, and cargo's other messages.
fn compile(folder: &Path) -> anyhow::Result<(Answers, String)> {
    host::say(format_args!("compiles what must not compile"));
    let output = testbed::cargo::command()
        .current_dir(folder)
        .args(["check", "--bins", "--keep-going", "--quiet"])
        .args(["--message-format", "json"])
        .arg("--target-dir")
        .arg(folder.join("target"))
        .output()?;
    let mut found = Answers::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let said: Said = serde_json::from_str(line)
            .with_context(|| format!("understanding what cargo says: {line}"))?;
        let (Some(target), Some(message)) = (said.target, said.message) else {
            continue;
        };
        if message.level != "error" {
            continue;
        }
        let code = message.code.map(|code| code.code).unwrap_or_default();
        let (errors, rendered) = found.entry(target.name).or_default();
        let primary = message.spans.iter().filter(|span| span.is_primary);
        errors.extend(primary.map(|span| (span.line_start, code.clone())));
        rendered.extend(message.rendered);
    }
    let complaints = String::from_utf8_lossy(&output.stderr).into_owned();
    Ok((found, complaints))
}

fn marks(source: &str) -> Errors {
    let lines = (1..).zip(source.lines());
    lines
        .filter_map(|(number, line)| Some((number, line.split_once(MARK)?.1.trim().to_owned())))
        .collect()
}

fn unmarked(source: &str) -> String {
    let lines = source.lines().filter(|line| !line.contains(MARK));
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_lines_with_codes() {
        let source = "fn main() {\n    leak(); //~ E0133\n    // plain\n}\n";
        assert_eq!(marks(source), Errors::from([(2, "E0133".to_owned())]));
        assert_eq!(unmarked(source), "fn main() {\n    // plain\n}");
    }
}
