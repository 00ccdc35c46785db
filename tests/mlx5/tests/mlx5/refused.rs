//! Firmware commands that fail, at each step of a program until its queue pairs are connected.

use mlx5_tests::Model;
use uverbs::discover::netlink::Client;
use uverbs::mlx5::Doorbells;
use uverbs::{AccessFlags, ErrorKind, QpType, Result};
use verbs_tests::{Registered, doorbells, is_infiniband, kernel_may_say, open, options, until};

/// The commands involved: opcode and name.
const COMMANDS: [(&str, &str); 9] = [
    ("a04", "CREATE_UCTX"),
    ("802", "ALLOC_UAR"),
    ("800", "ALLOC_PD"),
    ("200", "CREATE_MKEY"),
    ("400", "CREATE_CQ"),
    ("500", "CREATE_QP"),
    ("502", "RST2INIT_QP"),
    ("503", "INIT2RTR_QP"),
    ("504", "RTR2RTS_QP"),
];

/// The commands that create a shared receive queue, which depend on the function.
const SHARED: [(&str, &str); 3] = [
    ("700", "CREATE_SRQ"),
    ("705", "CREATE_XRC_SRQ"),
    ("90c", "CREATE_RMP"),
];

/// EXCEED_LIM, which is ENOMEM for the driver; INTERNAL_ERR, which is EIO.
const EXCEEDED: &str = "8";
const INTERNAL: &str = "1";

/// Everything from opening the device to a connected pair; the objects are destroyed when it
/// returns.
fn everything() -> Result<()> {
    let context = options().open(&verbs_tests::device_name())?;
    let pd = context.alloc_pd()?;
    let _memory = Registered::try_new(&pd, 4096, AccessFlags::LOCAL_WRITE)?;
    let cq = context.create_cq(64)?;
    let srq = pd.create_srq(16, 1)?;
    let a = pd.queue_pair(QpType::Rc, &cq, &cq).srq(&srq).build()?;
    let b = pd.queue_pair(QpType::Rc, &cq, &cq).build()?;
    let (to_a, to_b) = (a.endpoint(), b.endpoint());
    let a = a.handshake(to_b).map_err(|failed| failed.error);
    let b = b.handshake(to_a).map_err(|failed| failed.error);
    let done = a.and_then(|a| b.map(|b| (a, b)));
    let left = context.leaked();
    assert_eq!(left, 0);
    done.map(drop)
}

/// The kernel's object counts on both devices.
fn counts() -> Vec<Vec<(String, u64)>> {
    let summaries = Client::connect().unwrap().summaries().unwrap();
    summaries.into_iter().map(|device| device.counts).collect()
}

/// Fails the command after this many others of its kind; `None` once there are fewer.
fn fail(model: &mut Model, command: &str, skip: u32, status: &str) -> Option<uverbs::Error> {
    model.make(&format!("fail 0 {command} 1 {skip} {status}"));
    let failed = everything().err();
    model.make(&format!("fail 0 {command} 0"));
    failed
}

#[test]
fn f10_each_step_fails_with_the_errno_of_its_status_and_leaves_nothing() {
    kernel_may_say("mlx5");
    everything().unwrap();
    let (mut model, before) = (Model::open(), counts());
    let census = model.ask("census 0");
    let mut steps = 0;
    for (command, name) in COMMANDS.iter().chain(&SHARED) {
        let mut failures = 0;
        while let Some(error) = fail(&mut model, command, failures, EXCEEDED) {
            assert_eq!(
                error.kind(),
                ErrorKind::OutOfResources,
                "{name} {failures}: {error}"
            );
            assert!(error.errno().is_some(), "{name} {failures}: {error}");
            failures += 1;
            assert!(failures < 16, "{name}");
        }
        println!("{name}: {failures} steps");
        steps += failures;
        if failures > 0 {
            // A failed command is not taken for a removed device.
            let error = fail(&mut model, command, 0, INTERNAL).unwrap();
            assert_ne!(error.kind(), ErrorKind::DeviceRemoved, "{name}: {error}");
            assert!(error.errno().is_some(), "{name}: {error}");
        }
        until("the objects of before", || {
            (counts() == before && model.ask("census 0") == census).then_some(())
        });
    }
    println!(
        "{steps} steps on {}",
        if is_infiniband(&open()) { "ib" } else { "roce" }
    );
    // Fixed doorbells come with the context, which is opened without firmware commands if the first
    // attempt is refused.
    let least = if doorbells() == Doorbells::Fixed {
        11
    } else {
        12
    };
    assert!(steps >= least, "{steps}");
    everything().unwrap();
}
