//! Which source provides a device, and what happens if it is unavailable.

use std::fs::File;

use super::tree::Tree;
use crate::discover::list::{at_index_with, find_with, list_with};
use crate::discover::netlink::tests::script::{Script, char_device, device, done, error};
use crate::discover::{
    Access, CharDevice, DriverMatch, Options, Source, Target, find, identify, list, open,
};
use crate::error::{Errno, Error, ErrorKind};
use crate::types::{DriverId, NodeType};

const NULL: CharDevice = CharDevice { major: 1, minor: 3 };
const RXE: &[(&str, &str)] = &[
    ("node_type", "1: CA\n"),
    ("node_guid", "5054:00ff:fe12:3456\n"),
    ("sys_image_guid", "5054:00ff:fe12:3456\n"),
    ("fw_ver", "\n"),
    ("parent", "eth0\n"),
    ("ports/1/state", "4: ACTIVE\n"),
];

fn refusal(access: &Access) -> &Error {
    match access {
        Access::Refused(error) => error,
        other => panic!("{other:?}"),
    }
}

#[test]
fn sysfs_lists_devices() {
    let tree = Tree::new();
    tree.device("rxe0", RXE);
    tree.uverbs("uverbs0", "rxe0", 2);
    let modalias = "pci:v000015B3d0000101Dsv000015B3sd00000083bc02sc00i00\n";
    tree.device(
        "rocep1s0f0",
        &[
            ("node_type", "1: CA\n"),
            ("device/modalias", modalias),
            ("fw_ver", "22.35.1012\n"),
        ],
    );
    tree.uverbs("uverbs10", "rocep1s0f0", 1);
    let devices = list(&tree.options()).unwrap();
    let [rxe, mlx5] = &devices[..] else {
        panic!("{devices:?}")
    };

    assert_eq!(
        (rxe.name.as_str(), rxe.source, rxe.index),
        ("rxe0", Source::Sysfs, None)
    );
    assert_eq!(rxe.node_guid.unwrap().to_string(), "5054:00ff:fe12:3456");
    assert_eq!(
        (rxe.node_type, rxe.ports),
        (Some(NodeType::ChannelAdapter), Some(1))
    );
    assert_eq!(
        (rxe.fw_version.as_deref(), rxe.abi_version),
        (None, Some(2))
    );
    assert_eq!(
        (rxe.driver, rxe.number),
        (DriverMatch::Name(DriverId::Rxe), Some(NULL))
    );
    assert_eq!(rxe.path.as_deref(), Some(tree.node("uverbs0").as_path()));

    assert_eq!(mlx5.driver, DriverMatch::Modalias(DriverId::Mlx5));
    assert_eq!(
        (mlx5.fw_version.as_deref(), mlx5.uverbs.as_deref()),
        (Some("22.35.1012"), Some("uverbs10"))
    );
    assert!(mlx5.check_abi(1..=1).is_ok());
    let error = mlx5.check_abi(2..=3).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(
        error.to_string().contains("abi_version 1, min 2, max 3"),
        "{error}"
    );
}

#[test]
fn a_renamed_rxe_is_known_by_its_parent_file() {
    let tree = Tree::new();
    tree.device("storage", RXE);
    tree.uverbs("uverbs0", "storage", 2);
    assert_eq!(
        list(&tree.options()).unwrap()[0].driver,
        DriverMatch::Name(DriverId::Rxe)
    );
}

#[test]
fn a_device_without_a_node_is_listed_with_the_reason() {
    let tree = Tree::new();
    tree.device("rxe0", RXE);
    let devices = list(&tree.options()).unwrap();
    let error = refusal(&devices[0].access);
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.to_string().contains("modprobe ib_uverbs"), "{error}");
    let error = open(Target::Name("rxe0".into()), &tree.options()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
}

#[test]
fn access_is_probed() {
    let tree = Tree::new();
    for (uverbs, device) in [
        ("uverbs0", "rxe0"),
        ("uverbs1", "rxe1"),
        ("uverbs2", "rxe2"),
    ] {
        tree.device(device, RXE);
        tree.uverbs(uverbs, device, 2);
    }
    tree.link("uverbs0", "/dev/null");
    tree.link("uverbs1", "/dev/zero");
    let devices = list(&Options {
        probe_access: true,
        ..tree.options()
    })
    .unwrap();
    assert!(matches!(devices[0].access, Access::Openable));
    let stale = refusal(&devices[1].access);
    assert_eq!(
        (stale.kind(), stale.errno()),
        (ErrorKind::InvalidInput, None)
    );
    let missing = refusal(&devices[2].access);
    assert_eq!(
        (missing.kind(), missing.errno()),
        (ErrorKind::NotFound, Some(Errno::NOENT))
    );
    assert!(missing.known_hint().unwrap().contains("--device="));

    // Nodes that are missing or stale are found by number.
    tree.link_number("1:3", "/dev/null");
    let devices = list(&Options {
        probe_access: true,
        ..tree.options()
    })
    .unwrap();
    assert!(
        devices
            .iter()
            .all(|info| matches!(info.access, Access::Openable)),
        "{devices:?}"
    );
}

#[test]
fn f17_nodes_alone_are_listed_and_opened() {
    let tree = Tree::new();
    tree.link("uverbs0", "/dev/null");
    tree.link("uverbs12", "/dev/zero");
    tree.link("umad0", "/dev/null");
    tree.link("uverbs_x", "/dev/null");
    std::fs::write(tree.node("uverbs3"), "a file").unwrap();
    let options = tree.options();
    let devices = list(&options).unwrap();
    let names: Vec<_> = devices.iter().map(|info| info.name.as_str()).collect();
    assert_eq!(names, ["uverbs0", "uverbs12"]);
    assert!(
        devices
            .iter()
            .all(|info| info.source == Source::DevOnly && info.driver_id().is_none())
    );
    assert_eq!(devices[0].number, Some(NULL));

    let opened = open(Target::Name("uverbs0".into()), &options).unwrap();
    assert_eq!(
        (opened.info.source, opened.info.number),
        (Source::DevOnly, Some(NULL))
    );
    let path = tree.node("uverbs12");
    let opened = open(Target::Path(path.clone()), &options).unwrap();
    assert_eq!(
        (opened.info.name.as_str(), opened.info.path),
        ("uverbs12", Some(path))
    );
}

#[test]
fn a_node_that_sysfs_does_not_show_opens_by_its_name() {
    // Another network namespace: the class exists but is empty; the node exists.
    let tree = Tree::new();
    tree.device("rxe1", RXE);
    tree.uverbs("uverbs1", "rxe1", 2);
    tree.link("uverbs0", "/dev/null");
    let info = find("uverbs0", &tree.options()).unwrap();
    assert_eq!(info.source, Source::DevOnly);
}

#[test]
fn a_path_or_a_descriptor_is_identified() {
    let tree = Tree::new();
    tree.device("rxe0", RXE);
    tree.uverbs("uverbs0", "rxe0", 2);
    let options = tree.options();
    let opened = open(Target::Path("/dev/null".into()), &options).unwrap();
    assert_eq!(
        (opened.info.name.as_str(), opened.info.abi_version),
        ("rxe0", Some(2))
    );
    let passed = File::options()
        .read(true)
        .write(true)
        .open("/dev/null")
        .unwrap();
    let opened = open(Target::Fd(passed.into()), &options).unwrap();
    assert_eq!(opened.info.uverbs.as_deref(), Some("uverbs0"));
    let unknown = File::open("/dev/zero").unwrap();
    let opened = open(Target::Fd(unknown.into()), &options).unwrap();
    assert_eq!(
        (opened.info.name.as_str(), opened.info.source),
        ("1:5", Source::DevOnly)
    );
    let file = File::open(tree.sys().join("class/infiniband/rxe0/node_type")).unwrap();
    assert_eq!(
        open(Target::Fd(file.into()), &options).unwrap_err().kind(),
        ErrorKind::InvalidInput
    );
    let other = CharDevice { major: 1, minor: 5 };
    assert_eq!(
        identify(other, &options).unwrap_err().kind(),
        ErrorKind::NotFound
    );
}

#[test]
fn an_unknown_name_says_which_are_known() {
    let tree = Tree::new();
    let error = find("rxe0", &tree.options()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.to_string().contains("known_devices none"), "{error}");
    tree.device("rxe1", RXE);
    tree.uverbs("uverbs0", "rxe1", 2);
    let error = find("rxe0", &tree.options()).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("device rxe0, known_devices rxe1"),
        "{error}"
    );
    for name in ["", ".", "../rxe1", "uverbs", "uverbs../../x", "a/b", "a\0b"] {
        assert_eq!(
            find(name, &tree.options()).unwrap_err().kind(),
            ErrorKind::NotFound,
            "{name}"
        );
    }
}

#[test]
fn no_rdma_is_an_empty_list() {
    let tree = Tree::new();
    assert!(list(&tree.options()).unwrap().is_empty());
    let nowhere = Options {
        sysfs_root: "/nonexistent".into(),
        dev_root: "/nonexistent".into(),
        ..tree.options()
    };
    assert!(list(&nowhere).unwrap().is_empty());
}

#[test]
fn sysfs_that_cannot_be_read_is_an_error() {
    let tree = Tree::new();
    tree.write("infiniband_verbs", "not a directory");
    let error = list(&tree.options()).unwrap_err();
    assert_eq!(error.errno(), Some(Errno::NOTDIR));
    // Unless there are nodes.
    tree.link("uverbs0", "/dev/null");
    assert_eq!(list(&tree.options()).unwrap().len(), 1);
}

#[test]
fn netlink_is_queried_first() {
    let tree = Tree::new();
    tree.device("rxe9", RXE);
    tree.uverbs("uverbs9", "rxe9", 2);
    tree.link("uverbs0", "/dev/null");
    let script = Script::new([
        device(true, 1, 0, "rxe0"),
        device(true, 1, 2, "rxe2"),
        done(1),
        char_device(2, 1, 3, "uverbs0"),
        error(3, Errno::OPNOTSUPP),
    ]);
    let options = Options {
        probe_access: true,
        ..tree.options()
    };
    let devices = list_with(Some(script.client()), &options).unwrap();
    let [first, second] = &devices[..] else {
        panic!("{devices:?}")
    };
    assert_eq!(
        (first.source, first.index, first.number),
        (Source::Netlink, Some(0), Some(NULL))
    );
    assert_eq!(first.driver, DriverMatch::Kernel(DriverId::Rxe));
    assert!(matches!(first.access, Access::Openable));
    let reason = refusal(&second.access);
    assert_eq!(
        (reason.kind(), reason.errno()),
        (ErrorKind::NotFound, Some(Errno::OPNOTSUPP))
    );
    assert_eq!(second.driver, DriverMatch::Name(DriverId::Rxe));
}

#[test]
fn an_index_is_looked_up_over_netlink_alone() {
    let tree = Tree::new();
    tree.device("rxe0", RXE);
    tree.uverbs("uverbs0", "rxe0", 2);
    let script = Script::new([device(false, 1, 0, "rxe0"), error(2, Errno::INVAL)]);
    let info = at_index_with(Some(script.client()), 0, &tree.options()).unwrap();
    assert_eq!(
        (info.name.as_str(), info.index, info.number),
        ("rxe0", Some(0), Some(NULL))
    );
    assert_eq!(info.driver, DriverMatch::Name(DriverId::Rxe));

    let gone = Script::new([error(1, Errno::INVAL), error(2, Errno::INVAL)]);
    for client in [Some(gone.client()), None] {
        let missing = at_index_with(client, 5, &tree.options()).unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::NotFound);
        assert!(missing.to_string().contains("device_index 5"), "{missing}");
    }
}

#[test]
fn sysfs_completes_what_an_old_kernel_leaves_out() {
    let tree = Tree::new();
    tree.device("rxe0", RXE);
    tree.uverbs("uverbs0", "rxe0", 2);
    let script = Script::new([
        device(false, 1, 0, "rxe0"),
        error(2, Errno::INVAL),
        device(true, 3, 0, "rxe0"),
        done(3),
    ]);
    let info = find_with(Some(script.client()), "rxe0", &tree.options()).unwrap();
    assert_eq!(
        (info.source, info.index, info.number),
        (Source::Netlink, Some(0), Some(NULL))
    );
    assert_eq!(
        (info.abi_version, info.driver),
        (Some(2), DriverMatch::Name(DriverId::Rxe))
    );
    assert!(matches!(info.access, Access::Unchecked));
}

#[test]
fn a_node_s_name_finds_its_device_over_netlink() {
    let tree = Tree::new();
    let script = Script::new([
        // The guess.
        error(1, Errno::INVAL),
        error(2, Errno::INVAL),
        device(true, 3, 0, "rxe0"),
        done(3),
        // The list.
        device(true, 4, 0, "rxe0"),
        done(4),
        char_device(5, 1, 3, "uverbs7"),
    ]);
    let info = find_with(Some(script.client()), "uverbs7", &tree.options()).unwrap();
    assert_eq!((info.name.as_str(), info.source), ("rxe0", Source::Netlink));
}

#[test]
fn f17_netlink_that_fails_gives_way_to_sysfs() {
    let tree = Tree::new();
    tree.device("rxe0", RXE);
    tree.uverbs("uverbs0", "rxe0", 2);
    for answers in [vec![], vec![vec![0xff; 64]], vec![error(1, Errno::PERM)]] {
        let script = Script::new(answers);
        let devices = list_with(Some(script.client()), &tree.options()).unwrap();
        assert_eq!((devices.len(), devices[0].source), (1, Source::Sysfs));
    }
}

#[test]
fn refusal_takes_no_time() {
    let tree = Tree::new();
    tree.device("rxe0", RXE);
    tree.uverbs("uverbs0", "rxe0", 2);
    let refuse = || {
        let start = std::time::Instant::now();
        open(Target::Name("rxe0".into()), &tree.options()).unwrap_err();
        start.elapsed()
    };
    let fastest = (0..10).map(|_| refuse()).min().unwrap();
    assert!(fastest.as_millis() < 10, "{fastest:?}");
}
