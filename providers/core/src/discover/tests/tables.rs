//! Port tables and counters of sysfs.

use super::tree::Tree;
use crate::discover::sysfs::Sysfs;
use crate::error::{Errno, ErrorKind};
use crate::types::{Gid, GidType, LinkLayer};

fn tree() -> (Tree, Sysfs) {
    let tree = Tree::new();
    tree.device(
        "mlx5_0",
        &[
            ("ports/1/link_layer", "Ethernet\n"),
            ("ports/1/pkeys/0", "0xffff\n"),
            ("ports/1/pkeys/1", "0x7fff\n"),
            ("ports/1/pkeys/2", "0x0000\n"),
            (
                "ports/1/gids/0",
                "fe80:0000:0000:0000:5054:00ff:fe12:3456\n",
            ),
            (
                "ports/1/gids/1",
                "fe80:0000:0000:0000:5054:00ff:fe12:3456\n",
            ),
            (
                "ports/1/gids/2",
                "0000:0000:0000:0000:0000:ffff:0a01:0001\n",
            ),
            (
                "ports/1/gids/3",
                "0000:0000:0000:0000:0000:0000:0000:0000\n",
            ),
            (
                "ports/1/gids/10",
                "0000:0000:0000:0000:0000:ffff:0a01:0002\n",
            ),
            ("ports/1/gid_attrs/types/0", "IB/RoCE v1\n"),
            ("ports/1/gid_attrs/types/1", "RoCE v2\n"),
            ("ports/1/gid_attrs/types/2", "RoCE v2\n"),
            ("ports/1/gid_attrs/types/10", "RoCE v3\n"),
            ("ports/1/gid_attrs/ndevs/0", "eth0\n"),
            ("ports/1/gid_attrs/ndevs/1", "eth0\n"),
            ("ports/1/gid_attrs/ndevs/2", "away0\n"),
            ("ports/1/counters/port_xmit_data", "123\n"),
            ("ports/1/counters/port_rcv_data", "N/A (no PMA)\n"),
            ("ports/1/hw_counters/lifespan", "10\n"),
            (
                "ports/1/hw_counters/out_of_sequence",
                "18446744073709551615\n",
            ),
            ("hw_counters/lifespan", "10\n"),
            ("fw_ver", "22.35.1012\n"),
            ("board_id", "MT_0000000359\n"),
            ("hca_type", "MT4125\n"),
            ("node_desc", "a host HCA-1\n"),
            ("device/net/eth0/ifindex", "4\n"),
            ("device/modalias", "pci:v000015B3d0000101D\n"),
        ],
    );
    tree.write("net/eth0/ifindex", "4\n");
    let sysfs = Sysfs::at(tree.sys());
    (tree, sysfs)
}

#[test]
fn partition_keys() {
    let (tree, sysfs) = tree();
    assert_eq!(sysfs.pkey("mlx5_0", 1, 1).unwrap(), 0x7fff);
    assert_eq!(sysfs.pkeys("mlx5_0", 1).unwrap(), [0xffff, 0x7fff, 0]);
    for (port, index) in [(1, 3), (2, 0), (0, 0), (u32::MAX, u32::MAX)] {
        let error = sysfs.pkey("mlx5_0", port, index).unwrap_err();
        assert_eq!(
            (error.kind(), error.errno()),
            (ErrorKind::NotFound, Some(Errno::NOENT))
        );
    }
    tree.device(
        "mlx5_0",
        &[("ports/1/pkeys/0", "0x1ffff\n"), ("ports/1/pkeys/1", "\n")],
    );
    for index in [0, 1] {
        assert_eq!(
            sysfs.pkey("mlx5_0", 1, index).unwrap_err().kind(),
            ErrorKind::BadReply
        );
    }
}

#[test]
fn gids() {
    let (tree, sysfs) = tree();
    let link_local: Gid = "fe80::5054:ff:fe12:3456".parse().unwrap();
    assert_eq!(sysfs.link_layer("mlx5_0", 1).unwrap(), LinkLayer::Ethernet);
    assert_eq!(sysfs.gid("mlx5_0", 1, 0).unwrap(), link_local);
    assert_eq!(sysfs.gid("mlx5_0", 1, 3).unwrap(), Gid::ZERO);
    assert_eq!(sysfs.gid_type("mlx5_0", 1, 0).unwrap(), GidType::RoceV1);
    assert_eq!(
        sysfs.gid_type("mlx5_0", 1, 10).unwrap_err().kind(),
        ErrorKind::BadReply
    );
    assert_eq!(
        sysfs.gid_netdev("mlx5_0", 1, 0).unwrap().as_deref(),
        Some("eth0")
    );

    // Empty and unreadable entries are omitted; a network device of another namespace has no number
    // here.
    let table = sysfs.gid_table("mlx5_0", 1).unwrap();
    let entries: Vec<_> = table
        .iter()
        .map(|entry| {
            (
                entry.index,
                entry.gid.to_string(),
                entry.gid_type,
                entry.netdev.map(u32::from),
            )
        })
        .collect();
    let link_local = link_local.to_string();
    assert_eq!(
        entries,
        [
            (0, link_local.clone(), GidType::RoceV1, Some(4)),
            (1, link_local, GidType::RoceV2, Some(4)),
            (2, "::ffff:10.1.0.1".into(), GidType::RoceV2, None),
        ]
    );
    assert_eq!(
        sysfs.gid_table("mlx5_0", 2).unwrap_err().kind(),
        ErrorKind::NotFound
    );
    tree.device(
        "mlx5_0",
        &[
            ("ports/1/gids/0", "fe80:\n"),
            ("ports/1/link_layer", "InfiniBand\n"),
        ],
    );
    assert_eq!(
        sysfs.gid("mlx5_0", 1, 0).unwrap_err().kind(),
        ErrorKind::BadReply
    );
    assert_eq!(sysfs.gid_type("mlx5_0", 1, 0).unwrap(), GidType::Ib);
}

#[test]
fn counters() {
    let (_tree, sysfs) = tree();
    let pairs = |counters: Vec<crate::discover::netlink::Counter>| -> Vec<(String, u64)> {
        counters
            .into_iter()
            .map(|counter| (counter.name, counter.value))
            .collect()
    };
    assert_eq!(
        pairs(sysfs.counters("mlx5_0", 1).unwrap()),
        [("port_xmit_data".to_owned(), 123)]
    );
    assert_eq!(
        pairs(sysfs.hw_counters("mlx5_0", 1).unwrap()),
        [("out_of_sequence".to_owned(), u64::MAX)]
    );
    assert_eq!(pairs(sysfs.device_counters("mlx5_0").unwrap()), []);
    assert_eq!(
        sysfs.counters("mlx5_0", 2).unwrap_err().kind(),
        ErrorKind::NotFound
    );
}

#[test]
fn texts() {
    let (tree, sysfs) = tree();
    assert_eq!(
        sysfs.fw_ver("mlx5_0").unwrap().as_deref(),
        Some("22.35.1012")
    );
    assert_eq!(
        sysfs.board_id("mlx5_0").unwrap().as_deref(),
        Some("MT_0000000359")
    );
    assert_eq!(sysfs.hca_type("mlx5_0").unwrap().as_deref(), Some("MT4125"));
    assert_eq!(
        sysfs.node_desc("mlx5_0").unwrap().as_deref(),
        Some("a host HCA-1")
    );
    assert_eq!(
        sysfs.modalias("mlx5_0").unwrap().as_deref(),
        Some("pci:v000015B3d0000101D")
    );
    assert_eq!(sysfs.netdevs("mlx5_0").unwrap(), ["eth0"]);
    tree.device("rxe0", &[("parent", "v0\n"), ("fw_ver", "\n")]);
    assert_eq!(sysfs.netdevs("rxe0").unwrap(), ["v0"]);
    assert_eq!(
        (
            sysfs.fw_ver("rxe0").unwrap(),
            sysfs.board_id("rxe0").unwrap()
        ),
        (None, None)
    );
}

#[test]
fn device_names_cannot_leave_the_sysfs_directory() {
    let (_tree, sysfs) = tree();
    for name in [
        "",
        ".",
        "..",
        "../infiniband/mlx5_0",
        "mlx5_0/ports",
        "a\0b",
    ] {
        assert_eq!(
            sysfs.fw_ver(name).unwrap_err().kind(),
            ErrorKind::InvalidInput,
            "{name:?}"
        );
        assert_eq!(
            sysfs.gid_table(name, 1).unwrap_err().kind(),
            ErrorKind::InvalidInput,
            "{name:?}"
        );
    }
}

#[test]
fn a_port_s_link_layer_is_known_by_its_text() {
    let tree = Tree::new();
    for (text, link) in [
        ("InfiniBand\n", LinkLayer::InfiniBand),
        ("Ethernet\n", LinkLayer::Ethernet),
        ("Unknown\n", LinkLayer::Unspecified),
        ("\n", LinkLayer::Unspecified),
    ] {
        tree.device("rxe0", &[("ports/1/link_layer", text)]);
        let found = Sysfs::at(tree.sys()).link_layer("rxe0", 1).unwrap();
        assert_eq!(found, link, "{text}");
    }
}
