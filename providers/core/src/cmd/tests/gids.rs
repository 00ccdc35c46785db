//! GID tables: from the kernel's commands, or from sysfs where it has none.

use uverbs_uapi::ib_user_ioctl_verbs::ib_uverbs_gid_entry;
use zerocopy::IntoBytes as _;

use super::{Bench, Script};
use crate::contract::Gids;
use crate::discover::sysfs::Sysfs;
use crate::discover::tests::tree::Tree;
use crate::discover::{DeviceInfo, Source};
use crate::error::Errno;
use crate::types::GidType;

/// A device `rxe0` with one GID in its first port's table.
fn tree() -> Tree {
    let tree = Tree::new();
    let gid = "fe80:0000:0000:0000:5054:00ff:fe12:3456\n";
    tree.device(
        "rxe0",
        &[
            ("ports/1/link_layer", "Ethernet\n"),
            ("ports/1/gids/0", gid),
            (
                "ports/1/gids/1",
                "0000:0000:0000:0000:0000:0000:0000:0000\n",
            ),
            ("ports/1/gid_attrs/types/0", "RoCE v2\n"),
            ("ports/1/gid_attrs/ndevs/0", "eth0\n"),
            ("ports/2/link_layer", "Ethernet\n"),
            ("ports/2/gids/0", gid),
            ("ports/2/gid_attrs/types/0", "RoCE v2\n"),
        ],
    );
    tree.write("net/eth0/ifindex", "5\n");
    tree
}

#[test]
fn gids_are_those_of_the_kernel_s_command_if_there_is_one() {
    let entry = ib_uverbs_gid_entry {
        gid: [0, u64::MAX],
        gid_index: 3,
        port_num: 1,
        gid_type: 2,
        netdev_ifindex: 9,
    };
    let script = Script::new()
        .replying("0/5:2", entry.as_bytes())
        .replying("0/5:3", 1_u64.to_ne_bytes())
        .replying("0/6:3", entry.as_bytes());
    let bench = Bench::new(script);
    let (tree, info) = (tree(), DeviceInfo::named("rxe0".into(), Source::Sysfs));
    let sysfs = Sysfs::at(tree.sys());
    let gids = Gids::new(&bench.file, &info, &sysfs);
    let mut found = Vec::new();
    gids.each(|entry| found.push((entry.port, entry.index)))
        .unwrap();
    assert_eq!(found, [(1, 3)]);
    let one = gids.entry(1, 3).unwrap().unwrap();
    assert_eq!((one.index, one.netdev.unwrap().get()), (3, 9));
}

#[test]
fn gids_are_those_of_sysfs_if_the_kernel_has_no_command() {
    let bench = Bench::new(Script::new().refusing("ioctl 0/", Errno::PROTONOSUPPORT));
    let (tree, named) = (tree(), DeviceInfo::named("rxe0".into(), Source::Sysfs));
    let sysfs = Sysfs::at(tree.sys());
    for (ports, expected) in [(None, &[1][..]), (Some(1), &[1]), (Some(2), &[1, 2])] {
        let info = DeviceInfo {
            ports,
            ..named.clone()
        };
        let gids = Gids::new(&bench.file, &info, &sysfs);
        let mut found = Vec::new();
        gids.each(|entry| found.push(entry.port)).unwrap();
        assert_eq!(found, expected);
        let one = gids.entry(1, 0).unwrap().unwrap();
        assert_eq!(
            (one.gid_type, one.netdev.unwrap().get()),
            (GidType::RoceV2, 5)
        );
        assert!(one.gid.is_link_local());
        assert_eq!(gids.entry(1, 1).unwrap(), None, "empty");
        assert_eq!(gids.entry(3, 0).unwrap_err().errno(), Some(Errno::NOENT));
    }
    let info = DeviceInfo {
        ports: Some(3),
        ..named
    };
    let error = Gids::new(&bench.file, &info, &sysfs)
        .each(|_| {})
        .unwrap_err();
    assert_eq!(error.errno(), Some(Errno::NOENT), "the third port has none");
}

#[test]
fn other_errors_of_the_gid_commands_are_reported() {
    let bench = Bench::new(Script::new().refusing("ioctl 0/", Errno::INVAL));
    let (tree, info) = (tree(), DeviceInfo::named("rxe0".into(), Source::Sysfs));
    let sysfs = Sysfs::at(tree.sys());
    let gids = Gids::new(&bench.file, &info, &sysfs);
    assert_eq!(gids.each(|_| {}).unwrap_err().errno(), Some(Errno::INVAL));
    assert_eq!(gids.entry(1, 0).unwrap_err().errno(), Some(Errno::INVAL));
}
