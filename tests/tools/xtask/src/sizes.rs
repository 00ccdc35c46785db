//! `cargo xtask sizes`: the size of a static program with one provider and with all, and of the
//! tool.

use crate::programs;
use anyhow::{Context as _, bail};
use clap::Args;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::ExitCode;
use testbed::cargo::{build_program, workspace};

/// The line after which a page has its table.
const MARK: &str = "Made by `cargo xtask sizes --write`.";

/// How programs are built, and the page with the table.
struct Way {
    page: &'static str,
    args: &'static [&'static str],
}

/// As released.
const RELEASE: Way = Way {
    page: "docs/guide/containers-and-permissions.md",
    args: &["--release"],
};

/// As small as they get.
const SMALL: Way = Way {
    page: "docs/guide/small.md",
    args: &[
        "--profile=small",
        "--config=target.x86_64-unknown-linux-musl.rustflags=['-Crelocation-model=static', \
         '-Cforce-unwind-tables=no', '-Clink-arg=-Wl,-z,noseparate-code']",
    ],
};

/// The program that is measured.
const PROGRAM: &str = "ping_pong_rc";

/// The features it is built with. Each provider alone must be smaller than all of them, which are
/// the last.
const SUBSETS: [&str; 3] = ["rxe", "mlx5", "mlx5,rxe"];

/// Measure the size of the static ping-pong with each provider and with all, and of the
/// command-line tool
///
/// Programs for x86-64 and musl, as `--release` builds them, and with the profile `small`. A
/// program with one provider has to be smaller than that with all.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Write the table into the guide.
    #[arg(long)]
    write: bool,
}

/// A program and its size in bytes.
#[derive(Debug)]
struct Row {
    name: String,
    bytes: u64,
}

pub(crate) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let mut released = subsets(&RELEASE)?;
    released.push(Row {
        name: "the tool `uverbs`, with its self-test".into(),
        bytes: bytes(&programs::uverbs()?)?,
    });
    show(&RELEASE, &released, options.write)?;
    show(&SMALL, &subsets(&SMALL)?, options.write)?;
    Ok(ExitCode::SUCCESS)
}

fn show(way: &Way, rows: &[Row], write: bool) -> anyhow::Result<()> {
    let (page, table) = (way.page, table(rows));
    println!("{page}\n\n{table}");
    if write {
        let path = workspace().join(page);
        let old = fs::read_to_string(&path).with_context(|| page)?;
        let new = with_table(&old, &table).with_context(|| format!("{page} lacks: {MARK}"))?;
        fs::write(&path, new).with_context(|| page)?;
    }
    Ok(())
}

/// Fails if a program is not smaller with fewer providers.
pub(crate) fn compare() -> anyhow::Result<()> {
    for way in [RELEASE, SMALL] {
        show(&way, &subsets(&way)?, false)?;
    }
    Ok(())
}

fn subsets(way: &Way) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    for features in SUBSETS {
        let chosen = format!("--features={features}");
        let mut args = vec!["build"];
        args.extend(way.args);
        args.extend([
            "--package=uverbs",
            "--example",
            PROGRAM,
            "--no-default-features",
            &chosen,
        ]);
        // The next one replaces this one.
        rows.push(Row {
            name: format!("`{PROGRAM}`, `--no-default-features --features {features}`"),
            bytes: bytes(&build_program(PROGRAM, &args)?)?,
        });
    }
    parts_are_smaller(&rows)?;
    Ok(rows)
}

fn parts_are_smaller(rows: &[Row]) -> anyhow::Result<()> {
    let Some((whole, parts)) = rows.split_last() else {
        bail!("nothing was built");
    };
    for part in parts {
        if part.bytes >= whole.bytes {
            bail!(
                "{} has {} bytes, no fewer than {} with {}: what it leaves out is in it",
                part.name,
                part.bytes,
                whole.name,
                whole.bytes
            );
        }
    }
    Ok(())
}

fn bytes(path: &Path) -> anyhow::Result<u64> {
    let metadata = fs::metadata(path).with_context(|| path.display().to_string())?;
    Ok(metadata.len())
}

fn table(rows: &[Row]) -> String {
    let mut table = "| program | KiB |\n|---|---|\n".to_owned();
    for row in rows {
        let _ = writeln!(table, "| {} | {} |", row.name, row.bytes.div_ceil(1024));
    }
    table
}

/// The page with this table after the mark, replacing the existing one.
fn with_table(page: &str, table: &str) -> Option<String> {
    let (before, after) = page.split_once(MARK)?;
    let mut kept = after.trim_start_matches('\n');
    while kept.starts_with('|') {
        kept = kept.split_once('\n').map_or("", |(_, rest)| rest);
    }
    Some(format!("{before}{MARK}\n\n{table}{kept}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(sizes: &[u64]) -> Vec<Row> {
        let row = |&bytes| Row {
            name: format!("of {bytes}"),
            bytes,
        };
        sizes.iter().map(row).collect()
    }

    #[test]
    fn a_part_is_smaller_than_the_whole() {
        assert!(parts_are_smaller(&rows(&[1, 2, 3])).is_ok());
        for wrong in [&[3, 2, 3][..], &[1, 4, 3], &[]] {
            assert!(parts_are_smaller(&rows(wrong)).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_table_takes_the_place_of_the_old_one() {
        let table = table(&rows(&[2048, 1025]));
        assert_eq!(
            table,
            "| program | KiB |\n|---|---|\n| of 2048 | 2 |\n| of 1025 | 2 |\n"
        );
        let page = format!("# Sizes\n\n{MARK}\n\n| old | 1 |\n| older | 2 |\n\nAnd so on.\n");
        let fresh = format!("# Sizes\n\n{MARK}\n\n{table}\nAnd so on.\n");
        assert_eq!(with_table(&page, &table), Some(fresh.clone()));
        assert_eq!(with_table(&fresh, &table), Some(fresh.clone()));
        assert_eq!(with_table("# Sizes\n", &table), None);
    }
}
