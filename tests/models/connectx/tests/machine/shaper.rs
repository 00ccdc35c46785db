//! The effect of shares and caps of scheduling elements on programs: stock rdma-core in a guest,
//! measured by the model.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use testbed::{Command, Connectx, Function, Guest};

use crate::support::{ask, assert_silent, machine};

const LIMIT: Duration = Duration::from_secs(90);
/// How long the program writes, and how much of that is measured.
const SECONDS: &str = "8";
const SETTLING: Duration = Duration::from_secs(2);
const MEASURED: Duration = Duration::from_secs(4);

fn boot() -> Guest {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/guest_programs/schedule.py");
    let connectx = Connectx::new(&[Function::Ib, Function::Ib]).shaper();
    machine("6.12", connectx)
        .with_debian_packages(&["python3-pyverbs"])
        .with_file(program, "/schedule.py")
        .boot()
        .expect("the machine boots")
}

/// The model's time in nanoseconds and what each queue of the first function has carried.
fn served(guest: &Guest) -> (f64, BTreeMap<u64, f64>) {
    let answer: serde_json::Value = serde_json::from_str(&ask(guest, "served 0")).expect("JSON");
    let bytes = answer["bytes"].as_object().expect("bytes by queue");
    let bytes = bytes
        .iter()
        .map(|(queue, bytes)| {
            let number = queue.parse().expect("a number");
            (number, bytes.as_f64().expect("a number"))
        })
        .collect();
    (answer["nanoseconds"].as_f64().expect("a time"), bytes)
}

/// Rates in Gb/s of queue pairs on leaves with these shares and caps, in this order.
fn rates(guest: &Guest, leaves: &str) -> Vec<f64> {
    let program = guest
        .spawn(Command::shell(format!("python3 /schedule.py {SECONDS} {leaves}")).timeout(LIMIT))
        .expect("the guest runs commands");
    program
        .wait_for_text("queues", LIMIT)
        .expect("the program has made its queues");
    std::thread::sleep(SETTLING);
    let (start, before) = served(guest);
    std::thread::sleep(MEASURED);
    let (end, after) = served(guest);
    program
        .wait()
        .expect("the program ends")
        .check()
        .expect("the program succeeds");
    // Later queues have higher numbers, and only the program sends.
    after
        .iter()
        .map(|(queue, bytes)| bytes - before.get(queue).unwrap_or(&0.0))
        .filter(|bytes| *bytes > 0.0)
        .map(|bytes| bytes * 8.0 / (end - start))
        .collect()
}

#[test]
fn shares_and_caps_are_seen_by_stock_programs() {
    let guest = boot();
    let divided = rates(&guest, "7:0 3:0");
    assert_eq!(divided.len(), 2, "{divided:?}");
    let ratio = divided[0] / divided[1];
    println!("shares 7:3: {divided:.3?} Gb/s, ratio {ratio:.3}");
    assert!((ratio / (7.0 / 3.0) - 1.0).abs() < 0.05, "{divided:?}");

    let capped = rates(&guest, "1:4000");
    assert_eq!(capped.len(), 1, "{capped:?}");
    println!("cap of 4 Gb/s: {capped:.3?} Gb/s");
    assert!((capped[0] / 4.0 - 1.0).abs() < 0.05, "{capped:?}");

    assert_silent(&guest);
    guest.power_off().expect("the machine powers off");
}
