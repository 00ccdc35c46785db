//! `cargo xtask report`: what the file of `uverbs selftest --json` says, as a table, and what models of the device can be made of.

mod answers;
mod table;

use anyhow::{Context as _, ensure};
use clap::Args;
use serde::Deserialize;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use testbed::host;

/// Print the report that uverbs selftest --json wrote, and write what it tells of the device to files.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// The report.
    file: PathBuf,
    /// Write the answers of the kernel and the capabilities of the firmware to this folder.
    #[arg(long, value_name = "FOLDER")]
    to: Option<PathBuf>,
    /// Leave out the checks that went well.
    #[arg(long)]
    failed: bool,
}

/// What is read of a report. Other versions of the program may write more.
#[derive(Debug, Deserialize)]
struct Report {
    tool: String,
    version: String,
    device: String,
    port: u8,
    #[serde(default)]
    only: Vec<String>,
    facts: Value,
    #[serde(default)]
    opening: Vec<answers::Command>,
    checks: Vec<Check>,
    complete: bool,
    seconds: f64,
}

#[derive(Debug, Deserialize)]
struct Check {
    group: String,
    name: String,
    status: String,
    value: String,
    #[serde(default)]
    expected: String,
    detail: Option<String>,
    seconds: f64,
}

pub(crate) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let report = read(&options.file)?;
    print!("{}", table::of(&report, options.failed));
    if let Some(folder) = &options.to {
        let names = write(&report, folder)?;
        host::say(format_args!(
            "wrote {} to {}",
            names.join(", "),
            folder.display()
        ));
    }
    Ok(ExitCode::SUCCESS)
}

fn read(path: &Path) -> anyhow::Result<Report> {
    let text = fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    parse(&text).with_context(|| format!("{} is no report", path.display()))
}

fn parse(text: &str) -> anyhow::Result<Report> {
    let report: Report = serde_json::from_str(text)?;
    ensure!(
        report.tool == "uverbs selftest",
        "it was written by {:?}",
        report.tool
    );
    Ok(report)
}

/// Writes everything that can be made of a report; gives the names.
fn write(report: &Report, folder: &Path) -> anyhow::Result<Vec<String>> {
    let mut files = vec![(
        "opening.txt".to_owned(),
        answers::golden(&report.opening).into_bytes(),
    )];
    files.extend(answers::capabilities(&report.checks)?);
    fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    for (name, bytes) in &files {
        let path = folder.join(name);
        fs::write(&path, bytes).with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(files.into_iter().map(|(name, _)| name).collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    const REPORT: &str = r#"{
        "tool": "uverbs selftest", "version": "0.1.0", "device": "mlx5_0", "port": 1,
        "facts": {"kernel": "6.12.1", "firmware": "16.35.2000", "board_id": "MT_0000000010"},
        "opening": [{"call": "ioctl", "object": "UVERBS_OBJECT_DEVICE", "method": "UVERBS_METHOD_GET_CONTEXT", "driver_id": 1,
            "attributes": [
                {"name": "UVERBS_ATTR_UHW_IN", "direction": "in", "len": 32, "mandatory": true,
                    "value": [{"name": "flags", "direction": "in", "len": 4, "mandatory": true, "value": 1}]},
                {"name": "UVERBS_ATTR_GET_CONTEXT_NUM_COMP_VECTORS", "direction": "out", "len": 4, "mandatory": false, "value": 2}],
            "error": null}],
        "checks": [
            {"group": "rings", "name": "RC send", "status": "ok", "value": "17 lengths", "expected": "as sent", "seconds": 0.5},
            {"group": "firmware", "name": "capabilities 0xc", "status": "ok", "value": "20 bytes", "expected": "",
                "detail": "000000000000000000000000000000000102ff", "seconds": 0.1},
            {"group": "errors", "name": "flush", "status": "fail", "value": "1001 instead of 1000", "expected": "in order", "seconds": 0.2}],
        "complete": true, "seconds": 12.5
    }"#;

    #[test]
    fn a_report_becomes_a_table() {
        let report = parse(REPORT).unwrap();
        let all = table::of(&report, false);
        assert!(all.contains("mlx5_0"), "{all}");
        assert!(all.contains("16.35.2000"), "{all}");
        assert!(all.contains("RC send"), "{all}");
        assert!(all.contains("2 ok, 1 FAIL, 0 skip"), "{all}");
        let failed = table::of(&report, true);
        assert!(failed.contains("1001 instead of 1000"), "{failed}");
        assert!(!failed.contains("RC send"), "{failed}");
    }

    #[test]
    fn a_report_becomes_files() {
        let report = parse(REPORT).unwrap();
        let folder = std::env::temp_dir().join(format!("report-{}", std::process::id()));
        let names = write(&report, &folder).unwrap();
        assert_eq!(names, ["opening.txt", "capabilities-0xc.bin"]);
        let bytes = fs::read(folder.join("capabilities-0xc.bin")).unwrap();
        // Without the head of the reply.
        assert_eq!(bytes, [1, 2, 0xff]);
        let text = fs::read_to_string(folder.join("opening.txt")).unwrap();
        assert_eq!(
            text,
            "DEVICE/GET_CONTEXT UHW_IN.flags=1 →GET_CONTEXT_NUM_COMP_VECTORS=2\n"
        );
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn what_is_no_report_is_an_error() {
        assert!(parse("").is_err());
        assert!(parse("{}").is_err());
        assert!(parse(&REPORT.replace("uverbs selftest", "uverbs bench")).is_err());
        let odd = REPORT.replace("0000000102ff", "0000000102fx");
        assert!(answers::capabilities(&parse(&odd).unwrap().checks).is_err());
        let odd = REPORT.replace("0000000102ff", "é000000102f");
        assert!(answers::capabilities(&parse(&odd).unwrap().checks).is_err());
    }
}
