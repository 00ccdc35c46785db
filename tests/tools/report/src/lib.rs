//! Reads the output file of `uverbs selftest --json`, and turns it into a readable table and into
//! input for models of the device.
//!
//! | file | what |
//! |---|---|
//! | `opening.txt` | the commands that open the device, with the kernel's answers, one per line |
//! | `capabilities-0x0.bin`, … | the firmware's capability groups: `connectx --adapter` claims no more |
//! | `device.txt` | the device for the fake kernel: `DeviceProfile::parse` of `uverbs_fake` |

mod answers;
mod device;
mod table;

use anyhow::{Context as _, ensure};
use serde::Deserialize;
use serde_json::Value;
use std::fs;
use std::path::Path;

/// The program that writes such files.
const TOOL: &str = "uverbs selftest";

/// The parts of a report that are read. Other versions of the program may write more.
#[derive(Debug, Deserialize)]
pub struct Report {
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

impl Report {
    /// Reads a report from a file.
    ///
    /// # Errors
    /// It cannot be read, or is not a report.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let text = fs::read_to_string(path);
        let text = text.with_context(|| format!("reading {}", path.display()))?;
        Self::parse(&text).with_context(|| format!("{} is no report", path.display()))
    }

    /// Parses the text of a report.
    ///
    /// # Errors
    /// It is not JSON, lacks a part that every report has, or was written by another program.
    pub fn parse(text: &str) -> anyhow::Result<Self> {
        let report: Self = serde_json::from_str(text)?;
        ensure!(report.tool == TOOL, "it was written by {:?}", report.tool);
        Ok(report)
    }

    /// The whole report, or only what did not succeed.
    pub fn table(&self, failed_only: bool) -> String {
        table::of(self, failed_only)
    }

    /// The device for the fake kernel.
    ///
    /// # Errors
    /// The commands that open the device are incomplete, or one of them contains something that the
    /// format cannot express.
    pub fn device(&self) -> anyhow::Result<String> {
        device::profile(self)
    }

    /// Writes all files but `device.txt` to a folder, which is created, and also that file if it
    /// can be derived. Returns their names.
    ///
    /// # Errors
    /// Capabilities that are not bytes, or a folder that cannot be written to.
    pub fn write(&self, folder: &Path) -> anyhow::Result<Vec<String>> {
        let opening = answers::golden(&self.opening);
        let mut files = vec![("opening.txt".to_owned(), opening.into_bytes())];
        files.extend(answers::capabilities(&self.checks)?);
        if let Ok(device) = self.device() {
            files.push(("device.txt".to_owned(), device.into_bytes()));
        }
        fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
        for (name, bytes) in &files {
            let path = folder.join(name);
            fs::write(&path, bytes).with_context(|| format!("writing {}", path.display()))?;
        }
        Ok(files.into_iter().map(|(name, _)| name).collect())
    }
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
        let report = Report::parse(REPORT).unwrap();
        let all = report.table(false);
        assert!(all.contains("mlx5_0"), "{all}");
        assert!(all.contains("16.35.2000"), "{all}");
        assert!(all.contains("RC send"), "{all}");
        assert!(all.contains("2 ok, 1 FAIL, 0 skip"), "{all}");
        let failed = report.table(true);
        assert!(failed.contains("1001 instead of 1000"), "{failed}");
        assert!(!failed.contains("RC send"), "{failed}");
    }

    #[test]
    fn a_report_becomes_files() {
        let report = Report::parse(REPORT).unwrap();
        let folder = std::env::temp_dir().join(format!("report-{}", std::process::id()));
        let names = report.write(&folder).unwrap();
        assert_eq!(names, ["opening.txt", "capabilities-0xc.bin"]);
        let bytes = fs::read(folder.join("capabilities-0xc.bin")).unwrap();
        // Without the header of the reply.
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
        assert!(Report::parse("").is_err());
        assert!(Report::parse("{}").is_err());
        assert!(Report::parse(&REPORT.replace("uverbs selftest", "uverbs bench")).is_err());
        let odd = REPORT.replace("0000000102ff", "0000000102fx");
        assert!(answers::capabilities(&Report::parse(&odd).unwrap().checks).is_err());
        let odd = REPORT.replace("0000000102ff", "é000000102f");
        assert!(answers::capabilities(&Report::parse(&odd).unwrap().checks).is_err());
    }
}
