//! `abi-check check` and `abi-check bless`: checks `uverbs-uapi` against the kernel's headers.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use abi_check::compare::{self, Report};
use abi_check::headers::Headers;
use abi_check::model::Abi;
use abi_check::oracle::{self, Wanted};
use abi_check::table;
use anyhow::{Context as _, Result, bail};

const USAGE: &str = "\
usage: abi-check check|bless [--offline]
       abi-check older <include folder>

  check      compare uverbs-uapi with the headers of this machine and the newest that Debian has,
             and those with the committed table
  bless      write the table of the newest headers, then check
  older      compare uverbs-uapi with some other, older headers
  --offline  take the newest headers of the last time instead of asking Debian's mirror";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let differences = match arguments[..] {
        ["check"] => check(false, false),
        ["check", "--offline"] => check(false, true),
        ["bless"] => check(true, false),
        ["bless", "--offline"] => check(true, true),
        ["older", folder] => Headers::at(Path::new(folder)).and_then(|headers| older(&headers)),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match differences {
        Ok(0) => ExitCode::SUCCESS,
        Ok(count) => {
            eprintln!("{count} differences");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("abi-check: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Compares everything and returns the number of differences.
fn check(bless: bool, offline: bool) -> Result<usize> {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let rust = Abi::of_rust();
    let wanted = Wanted::by_rust();

    let newest = Headers::newest(&workspace.join("target/abi"), offline)?;
    let abi = oracle::read(&newest.root, &wanted)?;
    println!(
        "Debian's newest headers: Linux {}, {}",
        newest.version,
        counts(&abi)
    );
    let mut report = compare::newest(&abi, &rust);
    report.errors.extend(compare::stale_skips(&abi));
    let mut differences = show(&report);
    let text = table::render(
        &abi,
        &format!("The RDMA user ABI of Linux {}", newest.version),
    );
    let file = format!("linux-{}.txt", newest.version);
    let folder = workspace.join("uapi/abi");
    if bless {
        fs::create_dir_all(&folder)?;
        fs::write(folder.join(&file), &text).with_context(|| format!("cannot write {file}"))?;
        println!("wrote uapi/abi/{file}");
    }
    differences += compare_table(&folder, &file, &text)?;

    Ok(differences + older(&Headers::of_host()?)?)
}

/// Compares older headers and returns the number of differences.
fn older(headers: &Headers) -> Result<usize> {
    let abi = oracle::read(&headers.root, &Wanted::by_rust())?;
    let folder = headers.root.display();
    println!(
        "headers in {folder}: Linux {}, {}",
        headers.version,
        counts(&abi)
    );
    Ok(show(&compare::older(&abi, &Abi::of_rust())))
}

fn counts(abi: &Abi) -> String {
    let headers = abi.headers.values();
    let structs: usize = headers.clone().map(|h| h.structs.len()).sum();
    let fields: usize = headers
        .clone()
        .flat_map(|h| &h.structs)
        .map(|s| s.fields.len())
        .sum();
    let enums: usize = headers.clone().map(|h| h.enums.len()).sum();
    let members: usize = headers
        .clone()
        .flat_map(|h| &h.enums)
        .map(|e| e.members.len())
        .sum();
    let defines: usize = headers.map(|h| h.defines.len()).sum();
    format!(
        "{structs} structs with {fields} fields, {enums} enums with {members} members, {defines} macros"
    )
}

fn show(report: &Report) -> usize {
    for note in &report.notes {
        println!("  note: {note}");
    }
    for error in &report.errors {
        println!("  differs: {error}");
    }
    report.errors.len()
}

/// Compares the committed table with a fresh one, line by line.
fn compare_table(folder: &Path, file: &str, fresh: &str) -> Result<usize> {
    let mut committed: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("no folder {}", folder.display()))? {
        committed.push(entry?.path());
    }
    let [only] = committed.as_slice() else {
        bail!(
            "uapi/abi must hold one table, {file}; it holds {}",
            committed.len()
        );
    };
    if only.file_name().is_none_or(|name| name != file) {
        println!(
            "  differs: the table {} is not of these headers: follow uapi/src/lib.rs, then bless",
            only.display()
        );
        return Ok(1);
    }
    let old = fs::read_to_string(only)?;
    let gone = old
        .lines()
        .filter(|line| !fresh.lines().any(|l| l == *line))
        .map(|l| ('-', l));
    let new = fresh
        .lines()
        .filter(|line| !old.lines().any(|l| l == *line))
        .map(|l| ('+', l));
    let lines: Vec<(char, &str)> = gone.chain(new).collect();
    for (sign, line) in &lines {
        println!("  uapi/abi/{file}: {sign}{line}");
    }
    if lines.is_empty() && old != fresh {
        println!("  uapi/abi/{file}: the same lines in another order");
        return Ok(1);
    }
    Ok(lines.len())
}
