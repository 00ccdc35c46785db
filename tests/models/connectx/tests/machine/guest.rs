//! The stock drivers and Debian's own programs on the model, kernel by kernel.

use std::path::Path;

use testbed::{Connectx, Function};

use crate::support::{ask, assert_silent, boot, both_sides, leave, run};

/// The kinds of command that a kernel's drivers sent, one per line: name, modifier and, for
/// registers, the number.
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

/// Compares with what the kernel sent when the model was last checked, so that drift between
/// kernels shows.
fn check_commands(trace: &Path, kernel: &str) {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/{kernel}.txt"));
    let found = command_kinds(&std::fs::read_to_string(trace).expect("the trace was written"));
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
    let trace = std::env::temp_dir().join(format!("connectx-{kernel}-{}", std::process::id()));
    let connectx = Connectx::new(&[Function::Ib, Function::Ib]).trace(&trace);
    let guest = boot(kernel, connectx);
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
    leave(&guest);
    assert_silent(&guest);
    check_commands(&trace, kernel);
    std::fs::remove_file(&trace).expect("the trace is there");
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

/// RoCE between two functions over network devices of the stock driver, with addresses of all
/// kinds; then the drivers are unloaded and loaded again.
fn roce(kernel: &str) {
    const MODULES: &str = "/usr/lib/testbed-modules";
    let guest = boot(kernel, &[Function::Roce, Function::Roce]);
    let devices = run(&guest, "ibv_devinfo -v");
    assert_eq!(devices.matches("PORT_ACTIVE (4)").count(), 2, "{devices}");
    assert!(devices.contains("RoCE v2"), "{devices}");
    // RoCE v1 and v2 over IPv4, RoCE v2 over IPv6 and over the link-local address.
    for (kind, gid) in [("rc", 3), ("uc", 5), ("ud", 3), ("srq", 2), ("rc", 1)] {
        both_sides(
            &guest,
            &format!("ibv_{kind}_pingpong -n 100 -g {gid}"),
            ["mlx5_0", "mlx5_1"],
        );
    }
    for test in ["send_bw", "write_lat", "read_bw", "atomic_lat"] {
        both_sides(
            &guest,
            &format!("ib_{test} -F -n 100 -x 3"),
            ["mlx5_0", "mlx5_1"],
        );
    }
    let shut = "ip link set eth0 down; ip link set eth1 down; rmmod mlx5_ib && rmmod mlx5_core";
    run(&guest, shut);
    assert_eq!(ask(&guest, "census 0"), "[]");
    assert_eq!(ask(&guest, "census 1"), "[]");
    run(
        &guest,
        &format!(
            "insmod {MODULES}/mlx5_core.ko && insmod {MODULES}/mlx5_ib.ko && sleep 3 && \
             ip addr add 10.2.0.1/24 dev eth0 && ip link set eth0 up && \
             ip addr add 10.2.0.2/24 dev eth1 && ip link set eth1 up && sleep 3"
        ),
    );
    let links = run(&guest, "rdma link");
    for link in ["mlx5_0/1", "mlx5_1/1"] {
        let active = format!("{link} state ACTIVE physical_state LINK_UP netdev eth");
        assert!(links.contains(&active), "{links}");
    }
    both_sides(&guest, "ibv_rc_pingpong -n 100 -g 1", ["mlx5_0", "mlx5_1"]);
    run(&guest, shut);
    assert_eq!(ask(&guest, "census 0"), "[]");
    assert_silent(&guest);
    guest.power_off().expect("the machine powers off");
}

#[test]
fn roce_on_6_1() {
    roce("6.1");
}

#[test]
fn roce_on_6_12() {
    roce("6.12");
}

#[test]
fn roce_on_the_newest() {
    roce("newest");
}

/// Programs in the guest reach the control socket, even while the host uses it.
#[test]
fn a_guest_queries_the_model() {
    let guest = boot("6.12", &[Function::Ib]);
    let question = format!(
        "exec 3<>{}; for n in 1 2; do echo 'census 0' >&3; read -r answer <&3; echo \"$answer\"; done",
        testbed::connectx::GUEST_SOCKET
    );
    let answers = run(&guest, &question);
    let own = ask(&guest, "census 0");
    assert!(own.len() > 2, "drivers have objects: {own}");
    assert_eq!(answers, format!("{own}\n{own}\n"));
    assert_silent(&guest);
}
