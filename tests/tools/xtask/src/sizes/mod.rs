//! `cargo xtask sizes`: the size of a static program with one provider and with all, and of the
//! tool.

mod resident;

use crate::programs;
use anyhow::{Context as _, bail};
use clap::Args;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use testbed::cargo::{build_program, workspace};

/// The line after which a page has its table.
const MARK: &str = "Made by `cargo xtask sizes --write`.";

/// How programs are built, and the page with the table.
struct Way {
    page: &'static str,
    args: Vec<String>,
}

impl Way {
    /// As released.
    fn release() -> Self {
        Self {
            page: "docs/guide/containers-and-permissions.md",
            args: vec!["--release".into()],
        }
    }

    /// As small as they get: by the flags and with the linker script that the page shows.
    fn small() -> anyhow::Result<Self> {
        let page = "docs/guide/small.md";
        let text = fs::read_to_string(workspace().join(page)).with_context(|| page)?;
        let target = workspace().join("target");
        fs::create_dir_all(&target).with_context(|| target.display().to_string())?;
        let script = target.join(SCRIPT);
        fs::write(&script, block(&text, "ld")?).with_context(|| script.display().to_string())?;
        let flags: Vec<_> = flags(&text)?
            .split_whitespace()
            .map(|flag| flag.replace(SCRIPT, &script.display().to_string()))
            .collect();
        Ok(Self {
            page,
            args: vec![
                "--profile=small".into(),
                format!("--config=target.x86_64-unknown-linux-musl.rustflags={flags:?}"),
            ],
        })
    }
}

/// The linker script, by the name that the page gives it.
const SCRIPT: &str = "small.ld";

/// What a page shows as code of this language.
fn block<'t>(page: &'t str, language: &str) -> anyhow::Result<&'t str> {
    let start = format!("\n```{language}\n");
    let (_, rest) = page
        .split_once(&start)
        .with_context(|| format!("the page has no block of {language}"))?;
    let (block, _) = rest.split_once("```").context("the block has no end")?;
    Ok(block)
}

/// The flags that a page tells to export.
fn flags(page: &str) -> anyhow::Result<&str> {
    let (_, rest) = page
        .split_once("$ export RUSTFLAGS=\"")
        .context("the page exports no RUSTFLAGS")?;
    let (flags, _) = rest.split_once('"').context("RUSTFLAGS have no end")?;
    Ok(flags)
}

/// The program that is measured.
const PROGRAM: &str = "ping_pong_rc";

/// The features it is built with, and how many bytes it may have at most as a small program. Each
/// provider alone must be smaller than all of them, which are the last.
const SUBSETS: [(&str, u64); 3] = [("rxe", 600_000), ("mlx5", 600_000), ("mlx5,rxe", 700_000)];

/// How many bytes a small program may have resident.
const RESIDENT: u64 = 1_200_000;

/// Measure the size of the static ping-pong with each provider and with all, and of the
/// command-line tool
///
/// Programs for x86-64 and musl, as `--release` builds them, and with the profile `small`. A
/// program with one provider has to be smaller than that with all. What the small ones have
/// resident is measured in machines, on a device of each driver. Fails, as `.ci/run` does, which
/// builds the small ones alone, if one has more than 600,000 bytes, or 700,000 with all providers,
/// or more than 1,200,000 resident.
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
    program: PathBuf,
    /// The most of its memory that was resident on each driver that it has, if that was measured.
    resident: Option<resident::Peaks>,
}

pub(crate) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let (release, small) = (Way::release(), Way::small()?);
    let mut released = subsets(&release)?;
    let program = programs::uverbs()?;
    released.push(Row {
        name: "the tool `uverbs`, with its self-test".into(),
        bytes: bytes(&program)?,
        program,
        resident: None,
    });
    show(&release, &released, options.write)?;
    let rows = in_use(subsets(&small)?)?;
    show(&small, &rows, options.write)?;
    within_limits(&rows)?;
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

/// Fails if a small program is larger than it may be, or not smaller with fewer providers.
pub(crate) fn compare() -> anyhow::Result<()> {
    let small = Way::small()?;
    let rows = in_use(subsets(&small)?)?;
    show(&small, &rows, false)?;
    within_limits(&rows)
}

/// The rows with what their programs have resident.
fn in_use(mut rows: Vec<Row>) -> anyhow::Result<Vec<Row>> {
    let programs: Vec<_> = rows.iter().map(|row| row.program.clone()).collect();
    for (row, peaks) in rows.iter_mut().zip(resident::measure(&programs)?) {
        row.resident = Some(peaks);
    }
    Ok(rows)
}

fn within_limits(rows: &[Row]) -> anyhow::Result<()> {
    for (row, (_, limit)) in rows.iter().zip(SUBSETS) {
        if row.bytes > limit {
            bail!(
                "{} has {} bytes, more than {limit}: what brings so much along?",
                row.name,
                row.bytes
            );
        }
        let peaks = row.resident.iter().flatten().flatten();
        if let Some(peak) = peaks.max().filter(|peak| **peak > RESIDENT) {
            bail!(
                "{} has {peak} bytes resident, more than {RESIDENT}",
                row.name
            );
        }
    }
    Ok(())
}

fn subsets(way: &Way) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (features, _) in SUBSETS {
        let chosen = format!("--features={features}");
        let mut args = vec!["build"];
        args.extend(way.args.iter().map(String::as_str));
        args.extend([
            "--package=uverbs",
            "--example",
            PROGRAM,
            "--no-default-features",
            &chosen,
        ]);
        // The next one replaces this one.
        let program = workspace()
            .join("target")
            .join(format!("{PROGRAM}-{features}"));
        fs::copy(build_program(PROGRAM, &args)?, &program)
            .with_context(|| program.display().to_string())?;
        rows.push(Row {
            name: format!("`{PROGRAM}`, `--no-default-features --features {features}`"),
            bytes: bytes(&program)?,
            program,
            resident: None,
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
    let measured = rows.iter().any(|row| row.resident.is_some());
    let mut table = "| program | KiB |".to_owned();
    let mut ruler = "\n|---|---|".to_owned();
    if measured {
        for driver in resident::DRIVERS {
            let _ = write!(table, " resident on {driver}, KiB |");
            ruler += "---|";
        }
    }
    table += &ruler;
    for row in rows {
        let _ = write!(table, "\n| {} | {} |", row.name, row.bytes.div_ceil(1024));
        for peak in row.resident.iter().flatten() {
            let peak = peak.map_or_else(String::new, |peak| peak.div_ceil(1024).to_string());
            let _ = write!(table, " {peak} |");
        }
    }
    table + "\n"
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
            program: PathBuf::new(),
            resident: None,
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
    fn limits_are_inclusive() {
        assert!(within_limits(&rows(&[600_000, 600_000, 700_000])).is_ok());
        assert!(within_limits(&rows(&[1, 600_001, 700_000])).is_err());
        assert!(within_limits(&rows(&[1, 2, 700_001])).is_err());
        let mut used = rows(&[1, 2, 3]);
        used[1].resident = Some([None, Some(1_200_000)]);
        assert!(within_limits(&used).is_ok());
        used[2].resident = Some([Some(1_200_001), Some(1)]);
        assert!(within_limits(&used).is_err());
    }

    #[test]
    fn what_a_page_shows_is_found_in_it() {
        let page = "so\n\n```ld\nSECTIONS\n```\n\n$ export RUSTFLAGS=\"-C a -C b\"\n";
        assert_eq!(block(page, "ld").ok(), Some("SECTIONS\n"));
        assert!(block(page, "toml").is_err());
        assert_eq!(flags(page).ok(), Some("-C a -C b"));
        assert!(flags("$ export PATH=\"/bin\"\n").is_err());
    }

    #[test]
    fn a_table_takes_the_place_of_the_old_one() {
        let table = table(&rows(&[2048, 1025]));
        assert_eq!(
            table,
            "| program | KiB |\n|---|---|\n| of 2048 | 2 |\n| of 1025 | 2 |\n"
        );
        let mut used = rows(&[2048]);
        used[0].resident = Some([None, Some(1024)]);
        let with_memory = super::table(&used);
        assert!(
            with_memory.ends_with("\n|---|---|---|---|\n| of 2048 | 2 |  | 1 |\n"),
            "{with_memory}"
        );
        let page = format!("# Sizes\n\n{MARK}\n\n| old | 1 |\n| older | 2 |\n\nAnd so on.\n");
        let fresh = format!("# Sizes\n\n{MARK}\n\n{table}\nAnd so on.\n");
        assert_eq!(with_table(&page, &table), Some(fresh.clone()));
        assert_eq!(with_table(&fresh, &table), Some(fresh.clone()));
        assert_eq!(with_table("# Sizes\n", &table), None);
    }
}
