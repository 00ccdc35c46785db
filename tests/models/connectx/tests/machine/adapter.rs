//! A function modelled on a reported adapter: here one report of the model itself, and one of an
//! adapter with slightly lower limits.

use std::path::Path;

use report::Report;
use serde_json::Value;
use testbed::{Connectx, Function, Guest};

use crate::support::{assert_silent, both_sides, leave, machine, run};

/// Offset in the general capability page of log₂ of the number of queue pairs, in its lowest five
/// bits.
const LOG_MAX_QP: usize = 0x13;
const FEWER: u8 = 10;

fn boot(connectx: Connectx) -> Guest {
    let tool = testbed::cargo::tool().expect("the tool is built");
    machine("6.12", connectx)
        .with_binary(tool, "uverbs")
        .boot()
        .expect("the machine boots")
}

/// What the self-test records about the first function: its identity, and the capabilities its
/// firmware reports.
fn report(guest: &Guest) -> String {
    let groups = ["0x0", "0x1", "0xc", "0x20"]
        .map(|group| format!("--only 'firmware/capabilities {group}'"));
    let line = format!(
        "uverbs selftest -d mlx5_0 --only identity {} --json /report.json >&2 && cat /report.json",
        groups.join(" ")
    );
    run(guest, &line)
}

/// Limits of the first function, as a self-test and as `uverbs info` print them.
fn limits(report: &Value) -> Vec<(String, u64)> {
    let all = report["limits"].as_array().expect("limits");
    let pair = |limit: &Value| {
        let name = limit["name"].as_str().expect("a name").to_owned();
        (name, limit["value"].as_u64().expect("a number"))
    };
    all.iter().map(pair).collect()
}

fn info(guest: &Guest) -> Value {
    let text = run(guest, "uverbs info --json mlx5_0");
    let mut all: Value = serde_json::from_str(&text).expect("JSON");
    all["devices"][0].take()
}

/// Writes the pages of a report, with fewer queue pairs; returns the folder.
fn write_less(report: &Report, folder: &Path) {
    let names = report.write(folder).expect("the pages are written");
    assert!(names.iter().any(|name| name == "device.txt"), "{names:?}");
    let page = folder.join("capabilities-0x0.bin");
    let mut bytes = std::fs::read(&page).expect("the page is there");
    assert!(bytes[LOG_MAX_QP] & 0x1f > FEWER, "{:#x}", bytes[LOG_MAX_QP]);
    bytes[LOG_MAX_QP] = bytes[LOG_MAX_QP] & 0xe0 | FEWER;
    std::fs::write(page, bytes).expect("the page is written");
}

/// Saves the report that tests on the fake kernel open, without its checks, if that is requested.
fn keep(report: &Value) {
    if std::env::var_os("CONNECTX_BLESS").is_none() {
        return;
    }
    let mut kept = report.clone();
    kept["checks"] = serde_json::json!([]);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fake/tests/golden/connectx.json");
    let text = serde_json::to_string_pretty(&kept).expect("JSON");
    std::fs::write(path, text + "\n").expect("the report is written");
}

#[test]
fn a_function_stands_for_an_adapter_of_which_there_is_a_report() {
    let both = [Function::Ib, Function::Ib];
    let guest = boot(Connectx::new(&both));
    let text = report(&guest);
    guest.power_off().expect("the machine powers off");
    let first: Value = serde_json::from_str(&text).expect("JSON");
    keep(&first);
    let folder = std::env::temp_dir().join(format!("connectx-adapter-{}", std::process::id()));
    write_less(&Report::parse(&text).expect("a report"), &folder);

    let guest = boot(Connectx::new(&both).adapter(&folder));
    let before = limits(&first["facts"]);
    let after = limits(&info(&guest));
    assert_eq!(before.len(), after.len());
    let pairs = before.iter().zip(&after);
    let changed: Vec<_> = pairs.filter(|(a, b)| a != b).map(|(_, b)| b).collect();
    // The driver counts 16 reads and atomics for each queue pair.
    let (qps, reads) = (1 << FEWER, 16 << FEWER);
    let right = [
        ("max_qp".to_owned(), qps),
        ("max_res_rd_atom".to_owned(), reads),
    ];
    assert!(changed.iter().copied().eq(&right), "{changed:?}");
    both_sides(&guest, "uverbs pingpong -n 100 -c", ["mlx5_0", "mlx5_1"]);
    both_sides(&guest, "ibv_rc_pingpong -n 100", ["mlx5_0", "mlx5_1"]);
    // The report itself says what the pages are for: reporting again gives the same.
    let again: Value = serde_json::from_str(&report(&guest)).expect("JSON");
    assert_eq!(limits(&again["facts"]), after);
    leave(&guest);
    assert_silent(&guest);
    guest.power_off().expect("the machine powers off");
    std::fs::remove_dir_all(folder).expect("the folder is there");
}
