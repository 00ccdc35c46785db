//! Ten thousand connections, one after the other, leave nothing: not in the program, and not in the
//! kernel.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::thread::sleep;
use std::time::{Duration, Instant};

use interop::by_address::{finish, machine};
use testbed::{Command, Guest};

const COUNT: u32 = 10_000;
/// After so many, the program has all the memory that it needs.
const FIRST: u32 = 1_000;
/// How many bytes more it may have in the end: what the C library's allocator does with its pages.
const MORE: u64 = 128 << 10;
/// How many KiB more the kernel may have that nothing of the program is known of.
const MORE_OF_KERNEL: u64 = 4 << 10;
/// How long an emulated machine may take for all.
const LONG: Duration = Duration::from_secs(1200);

/// What the kernel cannot reclaim, in KiB.
fn kernel_memory(guest: &Guest) -> u64 {
    let said = guest.run(Command::new("cat").arg("/proc/meminfo"));
    let said = said.unwrap().check().unwrap().stdout_text();
    let line = said.lines().find(|line| line.starts_with("SUnreclaim:"));
    let words = line.unwrap().split_whitespace().nth(1);
    words.unwrap().parse().unwrap()
}

/// The ids of connections that the kernel has.
fn ids(guest: &Guest) -> String {
    let asked = Command::new("rdma").args(["resource", "show", "cm_id"]);
    guest.run(asked).unwrap().check().unwrap().stdout_text()
}

fn play(guest: &Guest, first: u32, count: u32) -> Vec<u64> {
    let arguments = ["10.1.0.1", &first.to_string(), &count.to_string()];
    let command = Command::new("one-by-one").args(arguments).timeout(LONG);
    let child = guest.spawn(command).unwrap();
    // What is to be empty in the end is not always.
    let start = Instant::now();
    while ids(guest).trim().is_empty() {
        assert!(start.elapsed() < LONG, "no id was seen");
    }
    let said = child.wait().unwrap().check().unwrap().stdout_text();
    let numbers = said.split_whitespace().map(|word| word.parse().unwrap());
    numbers.collect()
}

#[test]
fn ten_thousand_connections_one_after_the_other_leave_nothing() {
    let program = testbed::cargo::program_of("interop", "one-by-one").unwrap();
    let machine = machine().unwrap().with_binary(program, "one-by-one");
    let guest = machine.boot().unwrap();
    play(&guest, 100, 200);
    let (before, start) = (kernel_memory(&guest), Instant::now());
    let numbers = play(&guest, FIRST, COUNT);
    let time = start.elapsed();
    let [memory, files, memory_after, files_after] = numbers[..] else {
        unreachable!("{numbers:?}");
    };
    println!(
        "FIGURE: {COUNT} connections after {time:?}; bytes after {FIRST} and all: {memory} {memory_after}"
    );
    assert!(memory_after <= memory + MORE, "{numbers:?}");
    assert_eq!(files, files_after);
    // Those of the last connections wait until nothing of them can be under way any more.
    let start = Instant::now();
    while !ids(&guest).trim().is_empty() {
        assert!(start.elapsed() < LONG, "{}", ids(&guest));
        sleep(Duration::from_millis(200));
    }
    let grown = || kernel_memory(&guest).saturating_sub(before);
    while grown() > MORE_OF_KERNEL && start.elapsed() < LONG {
        sleep(Duration::from_millis(500));
    }
    println!("FIGURE: the kernel has {} KiB more", grown());
    assert!(grown() <= MORE_OF_KERNEL);
    assert_eq!(finish(guest).unwrap(), [""; 0]);
}
