//! How objects are destroyed, and what that tells.

use super::encodings::check;
use super::{Bench, Script};
use crate::channel::CommandPath;
use crate::cmd::{cq, srq, wq};
use crate::object::{EventCounts, ObjectKind};

#[test]
fn every_kind_of_object_is_destroyed_by_its_own_command() {
    let ways = [
        (ObjectKind::AddressHandle, "6/0 0:obj=5", Some("8 in4")),
        (ObjectKind::CompletionCounter, "19/1 0:obj=5", None),
        (
            ObjectKind::CompletionQueue,
            "3/1 0:obj=5 1:out8",
            Some("20 in16 out8"),
        ),
        (ObjectKind::Counters, "15/1 0:obj=5", None),
        (ObjectKind::DeviceMemory, "14/1 0:obj=5", None),
        (ObjectKind::DmaHandle, "17/1 0:obj=5", None),
        (ObjectKind::Flow, "9/0 0:obj=5", Some("x51 in8")),
        (ObjectKind::FlowAction, "13/1 0:obj=5", None),
        (
            ObjectKind::IndirectionTable,
            "11/0 0:obj=5",
            Some("x56 in8"),
        ),
        (ObjectKind::MemoryRegion, "7/1 0:obj=5", Some("13 in4")),
        (ObjectKind::MemoryWindow, "8/0 0:obj=5", Some("16 in4")),
        (ObjectKind::ProtectionDomain, "1/0 0:obj=5", Some("4 in4")),
        (
            ObjectKind::QueuePair,
            "4/1 0:obj=5 1:out4",
            Some("27 in16 out4"),
        ),
        (
            ObjectKind::SharedReceiveQueue,
            "5/1 0:obj=5 1:out4",
            Some("35 in16 out4"),
        ),
        (
            ObjectKind::WorkQueue,
            "12/1 0:obj=5 1:out4",
            Some("x54 in8 out16"),
        ),
        (ObjectKind::XrcDomain, "10/0 0:obj=5", Some("38 in4")),
    ];
    for (kind, ioctl, legacy) in ways {
        let ioctl = format!("ioctl {ioctl}");
        let write = legacy.map_or_else(|| ioctl.clone(), |words| format!("write {words}"));
        check(
            |channel| crate::cmd::destroy(channel, kind, 5),
            &ioctl,
            &write,
        );
    }
}

#[test]
fn a_destroy_counts_events() {
    let counts = [3_u32.to_ne_bytes(), 2_u32.to_ne_bytes()].concat();
    let script = Script::new()
        .replying("3/1:1", counts)
        .replying("5/1:1", 4_u32.to_ne_bytes());
    let bench = Bench::new(script);
    let expected = EventCounts {
        completions: 3,
        asynchronous: 2,
    };
    assert_eq!(cq::destroy(&bench.channel, 1).unwrap(), expected);
    assert_eq!(srq::destroy(&bench.channel, 1).unwrap().asynchronous, 4);

    let extended = [
        0_u32.to_ne_bytes(),
        16_u32.to_ne_bytes(),
        6_u32.to_ne_bytes(),
    ]
    .concat();
    let bench = Bench::on_path(Script::new().replying("x54", extended), CommandPath::Write);
    assert_eq!(wq::destroy(&bench.channel, 1).unwrap().asynchronous, 6);
}
