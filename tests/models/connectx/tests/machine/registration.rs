//! Memory that the stock kernel registers by work requests.

use testbed::{Connectx, Function};

use crate::support::{assert_silent, boot, both_sides, leave};

fn registered(kernel: &str) {
    let trace = std::env::temp_dir().join(format!("connectx-umr-{kernel}-{}", std::process::id()));
    let connectx = Connectx::new(&[Function::Ib, Function::Ib])
        .umr()
        .trace(&trace);
    let guest = boot(kernel, connectx);
    for program in [
        "ibv_rc_pingpong -c -n 100",
        "ib_write_bw -F -n 20 -s 8388608",
        "ib_read_bw -F -n 20 -s 1000000",
        "ib_atomic_bw -F -n 100",
    ] {
        both_sides(&guest, program, ["mlx5_0", "mlx5_1"]);
    }
    leave(&guest);
    assert_silent(&guest);
    guest.power_off().expect("the machine powers off");
    let lines = std::fs::read_to_string(&trace).expect("the trace was written");
    std::fs::remove_file(&trace).expect("the trace is there");
    // The opcode is the fourth byte.
    let requests = lines
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter(|line| line["kind"] == "wqe")
        .filter(|line| {
            line["bytes"]
                .as_str()
                .is_some_and(|bytes| bytes.get(6..8) == Some("25"))
        })
        .count();
    println!("{kernel}: {requests} registration requests");
    // Each of the eight buffers is loaded and released.
    assert!(requests >= 16, "{requests}");
}

#[test]
fn the_kernel_loads_pages_by_work_requests_on_6_1() {
    registered("6.1");
}

#[test]
fn the_kernel_loads_pages_by_work_requests_on_6_12() {
    registered("6.12");
}

#[test]
fn the_kernel_loads_pages_by_work_requests_on_the_newest() {
    registered("newest");
}
