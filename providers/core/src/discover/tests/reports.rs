//! What each source says of a device, and which of them is believed.

use uverbs_uapi::rdma_netlink::*;

use super::tree::Tree;
use crate::discover::list::list_with;
use crate::discover::netlink::Counter;
use crate::discover::netlink::tests::script::{
    Script, answer, attr, char_device, device, done, error, text, word,
};
use crate::discover::sysfs::Sysfs;
use crate::discover::{
    Access, CharDevice, DeviceInfo, DriverMatch, Options, Source, identify, list, open_device,
};
use crate::error::{Errno, ErrorKind, Result};
use crate::types::{DriverId, Guid, NodeType};

const NULL: CharDevice = CharDevice { major: 1, minor: 3 };

#[test]
fn a_device_of_netlink_has_all_that_netlink_says() {
    let attributes = [
        word(RDMA_NLDEV_ATTR_DEV_INDEX, 11),
        text(RDMA_NLDEV_ATTR_DEV_NAME, "rxe7"),
        word(RDMA_NLDEV_ATTR_PORT_INDEX, 2),
        text(RDMA_NLDEV_ATTR_FW_VERSION, "1.2.3"),
        attr(RDMA_NLDEV_ATTR_NODE_GUID, &0xa1_u64.to_ne_bytes()),
        attr(RDMA_NLDEV_ATTR_SYS_IMAGE_GUID, &0xa2_u64.to_ne_bytes()),
        attr(RDMA_NLDEV_ATTR_DEV_NODE_TYPE, &[1]),
        text(RDMA_NLDEV_ATTR_DEV_PROTOCOL, "roce"),
    ];
    let tree = Tree::new();
    let script = Script::new([
        answer(RDMA_NLDEV_CMD_GET, true, 1, &attributes),
        done(1),
        char_device(2, 1, 3, "uverbs7"),
    ]);
    let devices = list_with(Some(script.client()), &tree.options()).unwrap();
    let [info] = &devices[..] else {
        panic!("{devices:?}")
    };
    assert_eq!(
        (info.name.as_str(), info.index, info.ports),
        ("rxe7", Some(11), Some(2))
    );
    assert_eq!(info.fw_version.as_deref(), Some("1.2.3"));
    assert_eq!(info.node_guid.map(Guid::to_u64), Some(0xa1));
    assert_eq!(info.sys_image_guid.map(Guid::to_u64), Some(0xa2));
    assert_eq!(info.node_type, Some(NodeType::ChannelAdapter));
    assert_eq!(info.protocol.as_deref(), Some("roce"));
    assert_eq!(info.uverbs.as_deref(), Some("uverbs7"));
    assert_eq!((info.abi_version, info.number), (Some(2), Some(NULL)));
    assert_eq!(info.path.as_deref(), Some(tree.node("uverbs7").as_path()));
    assert_eq!(
        (info.driver_id(), info.source),
        (Some(DriverId::Rxe), Source::Netlink)
    );
    assert!(matches!(info.access, Access::Unchecked));
}

#[test]
fn sysfs_adds_a_driver_and_leaves_the_node_that_netlink_reported() {
    let number = 0x0103_u64;
    let nameless = [
        attr(RDMA_NLDEV_ATTR_CHARDEV, &number.to_ne_bytes()),
        attr(RDMA_NLDEV_ATTR_CHARDEV_ABI, &9_u64.to_ne_bytes()),
        text(RDMA_NLDEV_ATTR_CHARDEV_NAME, "uverbs5"),
    ];
    let modalias = "pci:v000015B3d0000101Dsv000015B3sd00000083bc02sc00i00\n";
    let find = |sysfs: bool| {
        let tree = Tree::new();
        tree.device("rocep1s0", &[("device/modalias", modalias)]);
        tree.uverbs("uverbs0", "rocep1s0", 2);
        let script = Script::new([
            device(true, 1, 0, "rocep1s0"),
            done(1),
            answer(RDMA_NLDEV_CMD_GET_CHARDEV, false, 2, &nameless),
        ]);
        let options = Options {
            sysfs,
            ..tree.options()
        };
        list_with(Some(script.client()), &options)
            .unwrap()
            .remove(0)
    };
    let info = find(true);
    assert_eq!(info.driver, DriverMatch::Modalias(DriverId::Mlx5));
    assert_eq!(info.uverbs.as_deref(), Some("uverbs5"));
    assert_eq!((info.abi_version, info.number), (Some(9), Some(NULL)));
    let info = find(false);
    assert_eq!(info.driver, DriverMatch::Unknown, "its name says nothing");
    assert_eq!(info.uverbs.as_deref(), Some("uverbs5"));
}

#[test]
fn an_empty_class_of_sysfs_means_that_there_are_no_devices() {
    let tree = Tree::new();
    tree.link("uverbs0", "/dev/null");
    assert_eq!(
        list(&tree.options()).unwrap().len(),
        1,
        "no class: by the node"
    );
    std::fs::create_dir_all(tree.sys().join("class/infiniband")).unwrap();
    assert!(list(&tree.options()).unwrap().is_empty());
    let without = Options {
        sysfs: false,
        ..tree.options()
    };
    assert_eq!(list(&without).unwrap()[0].source, Source::DevOnly);
}

#[test]
fn a_device_of_a_passed_number_says_when_nobody_knows_it() {
    let tree = Tree::new();
    let number = CharDevice { major: 1, minor: 5 };
    let error = identify(number, &tree.options()).unwrap_err();
    assert!(error.to_string().contains("device_number 1:5"), "{error}");
    assert!(error.known_hint().unwrap().contains("network namespace"));
    tree.device("rxe0", &[("node_type", "1: CA\n")]);
    tree.uverbs("uverbs0", "rxe0", 2);
    let found = identify(NULL, &tree.options()).unwrap();
    assert_eq!(found.name, "rxe0");
    assert!(
        matches!(found.access, Access::Unchecked),
        "and does not open it"
    );
}

#[test]
fn the_counters_of_a_device_are_its_files_with_numbers() {
    let tree = Tree::new();
    let folder = |name: &str, value: &str| {
        tree.write(format!("infiniband/rxe0/{name}"), value);
    };
    folder("hw_counters/packets", "7\n");
    folder("hw_counters/lifespan", "10\n");
    folder("hw_counters/missing", "N/A (no PMA)\n");
    folder("ports/1/hw_counters/rcvd", "8\n");
    folder("ports/1/counters/port_xmit_data", "9\n");
    let sysfs = Sysfs::at(tree.sys());
    let of = |counters: Result<Vec<Counter>>| {
        let counters = counters.unwrap();
        assert_eq!(counters.len(), 1, "{counters:?}");
        (counters[0].name.clone(), counters[0].value)
    };
    assert_eq!(of(sysfs.device_counters("rxe0")), ("packets".to_owned(), 7));
    assert_eq!(of(sysfs.hw_counters("rxe0", 1)), ("rcvd".to_owned(), 8));
    let data = ("port_xmit_data".to_owned(), 9);
    assert_eq!(of(sysfs.counters("rxe0", 1)), data);
    let missing = sysfs.counters("rxe0", 2).unwrap_err();
    assert_eq!(missing.errno(), Some(Errno::NOENT));
    assert!(
        missing.to_string().contains("ports/2/counters"),
        "{missing}"
    );
}

#[test]
fn a_device_without_a_node_is_not_opened_for_the_kernel_s_reason() {
    let tree = Tree::new();
    let script = Script::new([
        device(true, 1, 0, "rxe0"),
        done(1),
        error(2, Errno::OPNOTSUPP),
    ]);
    let listed = list_with(Some(script.client()), &tree.options()).unwrap();
    let refused = open_device(listed[0].clone(), &tree.options()).unwrap_err();
    assert_eq!(refused.errno(), Some(Errno::OPNOTSUPP));
    let unknown = DeviceInfo::named("rxe0".into(), Source::Netlink);
    let refused = open_device(unknown, &tree.options()).unwrap_err();
    assert_eq!(
        (refused.errno(), refused.kind()),
        (None, ErrorKind::NotFound)
    );
    assert!(refused.known_hint().unwrap().contains("modprobe ib_uverbs"));
}

#[test]
fn a_device_that_cannot_be_opened_is_named() {
    let tree = Tree::new();
    tree.device("rxe0", &[("node_type", "1: CA\n")]);
    tree.uverbs("uverbs0", "rxe0", 2);
    let info = list(&tree.options()).unwrap().remove(0);
    let refused = open_device(info.clone(), &tree.options()).unwrap_err();
    assert_eq!(refused.errno(), Some(Errno::NOENT));
    assert!(refused.to_string().contains("device rxe0"), "{refused}");
    tree.link("uverbs0", "/dev/null");
    let opened = open_device(info, &tree.options()).unwrap();
    assert_eq!((opened.number, opened.info.name.as_str()), (NULL, "rxe0"));
}
