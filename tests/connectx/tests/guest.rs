//! The stock drivers and Debian's own programs against the model, kernel by kernel.
#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod machine;

use std::time::Duration;

use machine::{Server, complaints};
use testbed::{Command, Guest};

const LIMIT: Duration = Duration::from_secs(60);

fn run(guest: &Guest, line: &str) -> String {
    let output = guest
        .run(Command::shell(line).timeout(LIMIT))
        .expect("the guest runs commands");
    assert!(
        output.success(),
        "{line}: {}\n{}{}",
        output.ending_text(),
        output.stdout_text(),
        output.stderr_text()
    );
    output.stdout_text()
}

/// Runs a two-sided program of Debian's over the two functions.
fn both_sides(guest: &Guest, program: &str, devices: [&str; 2]) {
    let server = guest
        .spawn(Command::shell(format!("{program} -d {}", devices[0])).timeout(LIMIT))
        .expect("the guest runs commands");
    // The client tries once; the server says nothing when it listens.
    let client = format!(
        "for try in 1 2 3 4 5 6 7 8; do sleep 0.5; {program} -d {} 127.0.0.1 && exit 0; done; exit 1",
        devices[1]
    );
    run(guest, &client);
    server
        .wait()
        .expect("the server ends")
        .check()
        .expect("the server succeeds");
}

/// The kinds of command that a kernel's drivers sent, one per line: name, modifier and for registers the number.
fn command_kinds(trace: &str) -> String {
    let mut kinds = std::collections::BTreeSet::new();
    for line in trace.lines() {
        let Ok(line) = serde_json::from_str::<serde_json::Value>(line) else {
            continue;
        };
        if line["kind"] == "command" {
            let name = line["name"].as_str().unwrap_or_default();
            let register = line["in"]
                .as_str()
                .filter(|_| name == "ACCESS_REG")
                .and_then(|input| input.get(20..24));
            kinds.insert(
                format!("{name} {} {}", line["op_mod"], register.unwrap_or_default())
                    .trim_end()
                    .to_owned(),
            );
        }
    }
    kinds.into_iter().map(|kind| kind + "\n").collect()
}

/// Compares with what the kernel sent when the model was last looked at, so that drift between kernels shows.
fn check_commands(server: &Server, kernel: &str) {
    let golden =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/{kernel}.txt"));
    let found =
        command_kinds(&std::fs::read_to_string(server.trace()).expect("the trace was written"));
    if std::env::var_os("CONNECTX_BLESS").is_some() {
        std::fs::write(&golden, &found).expect("the golden file can be written");
    }
    let known = std::fs::read_to_string(&golden).unwrap_or_default();
    assert_eq!(
        found,
        known,
        "the commands differ from {}; CONNECTX_BLESS=1 accepts them",
        golden.display()
    );
}

fn stock_programs(kernel: &str) {
    let server = Server::start(&["ib", "ib"]);
    let guest = server.boot(kernel, &[]);
    let devices = run(&guest, "ibv_devinfo -v");
    assert_eq!(devices.matches("PORT_ACTIVE (4)").count(), 2, "{devices}");
    assert!(devices.contains("ATOMIC_HCA"), "{devices}");
    for kind in ["rc", "uc", "ud", "srq", "xsrq"] {
        for events in ["", " -e"] {
            both_sides(
                &guest,
                &format!("ibv_{kind}_pingpong -n 100{events}"),
                ["mlx5_0", "mlx5_1"],
            );
        }
    }
    both_sides(&guest, "ibv_rc_pingpong -n 100", ["mlx5_0", "mlx5_0"]);
    for test in [
        "send_bw",
        "send_lat",
        "write_bw",
        "write_lat",
        "read_bw",
        "read_lat",
        "atomic_bw",
        "atomic_lat",
    ] {
        both_sides(
            &guest,
            &format!("ib_{test} -F -n 100"),
            ["mlx5_0", "mlx5_1"],
        );
    }
    run(&guest, "rmmod mlx5_ib && rmmod mlx5_core");
    assert_eq!(server.ask("census 0"), "[]");
    assert_eq!(server.ask("census 1"), "[]");
    assert_eq!(server.ask("reports"), "{}");
    assert_eq!(complaints(&guest), Vec::<String>::new());
    check_commands(&server, kernel);
    guest.power_off().expect("the machine powers off");
}

#[test]
fn stock_programs_on_6_1() {
    stock_programs("6.1");
}

#[test]
fn stock_programs_on_6_12() {
    stock_programs("6.12");
}

#[test]
fn stock_programs_on_the_newest() {
    stock_programs("newest");
}

/// RoCE between two functions in namespaces of their own, over network devices of the stock driver.
#[test]
fn roce_on_6_12() {
    let server = Server::start(&["roce", "roce"]);
    let guest = server.boot("6.12", &[]);
    run(
        &guest,
        "rdma system set netns exclusive && ip netns add far && ip link set eth1 netns far && \
         rdma dev set mlx5_1 netns far && ip addr add 10.9.0.1/24 dev eth0 && ip link set eth0 up && \
         ip netns exec far ip addr add 10.9.0.2/24 dev eth1 && ip netns exec far ip link set eth1 up && sleep 2",
    );
    assert!(
        run(&guest, "rdma link")
            .contains("mlx5_0/1 state ACTIVE physical_state LINK_UP netdev eth0")
    );
    for kind in ["rc", "uc", "ud", "srq"] {
        let program = format!("ibv_{kind}_pingpong -n 100 -g 3");
        let near = guest
            .spawn(Command::shell(format!("{program} -d mlx5_0")).timeout(LIMIT))
            .expect("the guest runs commands");
        run(
            &guest,
            &format!(
                "for try in 1 2 3 4 5 6 7 8; do sleep 0.5; \
                 ip netns exec far {program} -d mlx5_1 10.9.0.1 && exit 0; done; exit 1"
            ),
        );
        near.wait()
            .expect("the program ends")
            .check()
            .expect("the program succeeds");
    }
    run(
        &guest,
        "ip link set eth0 down; ip netns exec far ip link set eth1 down; rmmod mlx5_ib && rmmod mlx5_core",
    );
    assert_eq!(server.ask("census 0"), "[]");
    assert_eq!(complaints(&guest), Vec::<String>::new());
    guest.power_off().expect("the machine powers off");
}

/// Stock libmlx5 copies inline work requests through doorbell pages once the kernel's probe saw copies arrive.
#[test]
fn blueflame_on_6_12() {
    let server = Server::start_with(&["ib", "ib"], &["--blueflame"]);
    let guest = server.boot("6.12", &[]);
    for kind in ["rc", "uc", "ud", "srq", "xsrq"] {
        both_sides(
            &guest,
            &format!("ibv_{kind}_pingpong -n 100"),
            ["mlx5_0", "mlx5_1"],
        );
    }
    // These messages are inline, so each is a copy.
    let copies = |server: &Server| {
        let counts = server.ask("doorbells");
        let number = counts.split("copies: ").nth(1).expect("a count of copies");
        number
            .split(',')
            .next()
            .and_then(|number| number.parse::<u32>().ok())
            .expect("a number")
    };
    let before = copies(&server);
    both_sides(&guest, "ib_send_lat -F -n 500 -s 64", ["mlx5_0", "mlx5_1"]);
    let sent = copies(&server) - before;
    assert!(sent >= 900, "{sent} of 1000: {}", server.ask("doorbells"));
    run(&guest, "rmmod mlx5_ib && rmmod mlx5_core");
    assert_eq!(server.ask("census 0"), "[]");
    assert_eq!(server.ask("reports"), "{}");
    assert_eq!(complaints(&guest), Vec::<String>::new());
    guest.power_off().expect("the machine powers off");
}
