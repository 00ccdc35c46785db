//! Every kernel boots, carries out commands, and runs Debian's own ping-pong from host `a` to host
//! `b`.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::time::Duration;
use testbed::{Command, Ending, Error, Guest, Kernel, Machine, Topology, WindowSize, complaints};

const SECOND: Duration = Duration::from_secs(1);

fn hello() -> std::path::PathBuf {
    testbed::cargo::build_program(
        "guest-hello",
        &["build", "--package", "guest-init", "--bin", "guest-hello"],
    )
    .unwrap()
}

fn boot(kernel: &str) -> Guest {
    let guest = Machine::new(Kernel::named(kernel).unwrap())
        .with_binary(hello(), "guest-hello")
        .boot()
        .unwrap();
    println!(
        "{kernel}: {} ready in {:.1} s",
        guest.release(),
        guest.boot_time().as_secs_f64()
    );
    guest
}

/// What a guest does for its host, in one boot of each kernel.
fn obeys(kernel: &str) {
    let guest = boot(kernel);
    let output = guest
        .run(Command::new("guest-hello"))
        .unwrap()
        .check()
        .unwrap();
    assert_eq!(
        output.stdout_text(),
        format!("hello from {}\ndevice rxe0\n", guest.release())
    );

    let output = guest
        .run(Command::new("guest-hello").args(["exit", "7"]))
        .unwrap();
    assert_eq!(output.ending, Ending::Code(7));

    let output = guest
        .run(Command::new("guest-hello").arg("sleep").timeout(SECOND))
        .unwrap();
    assert_eq!(output.ending, Ending::TimedOut);
    assert!(
        output.elapsed >= SECOND && output.elapsed < 30 * SECOND,
        "{:?}",
        output.elapsed
    );

    let output = guest.run(Command::new("no-such-program")).unwrap();
    assert!(
        matches!(&output.ending, Ending::NotStarted(why) if why.contains("no-such-program")),
        "{output:?}"
    );

    let child = guest
        .spawn(Command::new("guest-hello").arg("echo").with_input())
        .unwrap();
    let all: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    child.write(&all).unwrap();
    child.close_input().unwrap();
    let output = child.wait().unwrap().check().unwrap();
    assert_eq!(output.stdout, all, "every byte comes back");

    let sleeping = guest
        .spawn(
            Command::new("guest-hello")
                .arg("sleep")
                .user(1000)
                .limit("memlock", 65536),
        )
        .unwrap();
    assert!(!sleeping.has_ended());
    sleeping.kill().unwrap();
    assert_eq!(sleeping.wait().unwrap().ending, Ending::Signal(9));

    let wrong = complaints::among(&guest.kernel_log()).len();
    assert_eq!(
        wrong,
        0,
        "the kernel complains: {:#?}",
        complaints::among(&guest.kernel_log())
    );
    guest.power_off().unwrap();
}

/// Debian's programs between the two hosts.
fn ping_pongs(kernel: &str) {
    let guest = Machine::new(Kernel::named(kernel).unwrap())
        .topology(Topology::TwoHosts)
        .with_debian_tools()
        .boot()
        .unwrap();
    let namespaces = if guest.has_separate_namespaces() {
        "two namespaces"
    } else {
        "one namespace"
    };
    println!(
        "{kernel}: {}, {namespaces}, ready in {:.1} s",
        guest.release(),
        guest.boot_time().as_secs_f64()
    );
    let before = packets_on_the_wire(&guest);
    for program in [
        "ibv_rc_pingpong",
        "ibv_uc_pingpong",
        "ibv_ud_pingpong",
        "ibv_srq_pingpong",
    ] {
        for (gid, family) in [("0", "link-local"), ("1", "IPv4"), ("2", "IPv6")] {
            let server = Command::new(program)
                .args(["-d", "rxe_a", "-g", gid])
                .namespace("a")
                .timeout(20 * SECOND);
            // C programs write to a terminal at once what they write to a pipe only at their end.
            let server = guest
                .spawn(server.with_terminal(WindowSize {
                    rows: 24,
                    columns: 200,
                }))
                .unwrap();
            server.wait_for_text("local address", 10 * SECOND).unwrap();
            let client = Command::new(program)
                .args(["-d", "rxe_b", "-g", gid, "10.1.0.1"])
                .namespace("b");
            let client = guest
                .run(client.timeout(20 * SECOND))
                .unwrap()
                .check()
                .unwrap();
            let text = client.stdout_text();
            let rate = text
                .lines()
                .find(|line| line.contains("Mbit/sec"))
                .unwrap_or_else(|| panic!("no figures:\n{text}"));
            println!("{kernel} {program} {family}: {rate}");
            server.wait().unwrap().check().unwrap();
        }
    }
    // A device must reach itself, too.
    let command = |args: &[&str]| {
        let command = Command::new("ibv_rc_pingpong").args(["-d", "rxe_a", "-g", "1"]);
        command
            .args(args.iter().copied())
            .namespace("a")
            .timeout(20 * SECOND)
    };
    let server = guest
        .spawn(command(&[]).with_terminal(WindowSize {
            rows: 24,
            columns: 200,
        }))
        .unwrap();
    server.wait_for_text("local address", 10 * SECOND).unwrap();
    let itself = guest.run(command(&["10.1.0.1"])).unwrap();
    println!("{kernel} rxe_a with itself: {}", itself.ending_text());
    itself.check().unwrap();
    server.wait().unwrap().check().unwrap();

    // Twelve runs of 1000 messages in each direction; loopback would not use the interface.
    let carried = packets_on_the_wire(&guest) - before;
    assert!(carried >= 12_000, "only {carried} packets crossed the wire");
    guest.power_off().unwrap();
}

#[test]
#[ignore = "boots a machine; run by: cargo xtask test --level testbed"]
fn commands_run_as_requested() {
    let guest = Machine::new(Kernel::named("newest").unwrap())
        .topology(Topology::TwoHosts)
        .with_debian_tools()
        .with_file(
            file!()
                .rsplit('/')
                .next()
                .map(|name| format!("tests/{name}"))
                .unwrap(),
            "/root/copy.rs",
        )
        .boot()
        .unwrap();
    let text = |command: Command| guest.run(command).unwrap().check().unwrap().stdout_text();

    let command = Command::shell("id -u; id -g; id -G; ulimit -l; pwd; echo $X; cat");
    let command = command
        .user(1000)
        .limit("memlock", 65536)
        .cwd("/tmp")
        .env("X", "y");
    assert_eq!(text(command), "1000\n1000\n1000\n64\n/tmp\ny\n");

    assert_eq!(
        text(Command::new("cat").arg("/root/copy.rs")),
        include_str!("kernels.rs")
    );

    let addresses =
        |host: &str| text(Command::shell("ip -br -4 addr show scope global").namespace(host));
    assert!(
        addresses("a").contains("10.1.0.1/24") && !addresses("a").contains("10.1.0.2"),
        "{}",
        addresses("a")
    );
    assert!(
        addresses("b").contains("10.1.0.2/24") && !addresses("b").contains("10.1.0.1"),
        "{}",
        addresses("b")
    );

    let terminal = WindowSize {
        rows: 33,
        columns: 77,
    };
    assert_eq!(
        text(Command::shell("stty size; test -t 0 && echo yes").with_terminal(terminal)),
        "33 77\r\nyes\r\n"
    );

    // The processes that a command leaves behind end with it. Both have to be running by then.
    let started = text(Command::shell(
        "sleep 1234 & setsid sleep 1234 & \
         until [ $(pidof sleep | wc -w) = 2 ]; do true; done; pidof sleep",
    ));
    assert_eq!(started.split_whitespace().count(), 2, "{started}");
    let left = guest.run(Command::new("pidof").arg("sleep")).unwrap();
    assert_eq!(
        left.code(),
        Some(1),
        "{}: {}",
        left.ending_text(),
        left.stdout_text()
    );

    let output = guest.run(Command::new("true").namespace("c")).unwrap();
    assert!(
        output.ending_text().contains("the network namespace c"),
        "{}",
        output.ending_text()
    );
    guest.power_off().unwrap();
}

fn packets_on_the_wire(guest: &Guest) -> u64 {
    let command = Command::new("cat")
        .arg("/sys/class/net/v1/statistics/rx_packets")
        .namespace("b");
    guest
        .run(command)
        .unwrap()
        .check()
        .unwrap()
        .stdout_text()
        .trim()
        .parse()
        .unwrap()
}

#[test]
#[ignore = "boots a machine; run by: cargo xtask test --level testbed"]
fn linux_6_1_obeys() {
    obeys("6.1");
}

#[test]
#[ignore = "boots a machine; run by: cargo xtask test --level testbed"]
fn linux_6_12_obeys() {
    obeys("6.12");
}

#[test]
#[ignore = "boots a machine; run by: cargo xtask test --level testbed"]
fn the_newest_linux_obeys() {
    obeys("newest");
}

#[test]
#[ignore = "boots a machine; run by: cargo xtask test --level testbed"]
fn linux_6_1_carries_ping_pongs() {
    ping_pongs("6.1");
}

#[test]
#[ignore = "boots a machine; run by: cargo xtask test --level testbed"]
fn linux_6_12_carries_ping_pongs() {
    ping_pongs("6.12");
}

#[test]
#[ignore = "boots a machine; run by: cargo xtask test --level testbed"]
fn the_newest_linux_carries_ping_pongs() {
    ping_pongs("newest");
}

#[test]
#[ignore = "boots a machine; run by: cargo xtask test --level testbed"]
fn a_kernel_that_dies_is_reported_with_its_last_lines() {
    let guest = Machine::new(Kernel::named("6.12").unwrap())
        .with_debian_tools()
        .boot()
        .unwrap();
    let error = guest
        .run(Command::shell("echo c > /proc/sysrq-trigger"))
        .unwrap_err();
    let Error::Machine { what, console } = error else {
        panic!("another error: {error}")
    };
    assert_eq!(what, "stopped");
    assert!(console.contains("Kernel panic"), "{console}");
}
