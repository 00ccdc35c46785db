//! Numbers that a kernel was seen to accept, written out.

#![allow(clippy::unwrap_used, reason = "test")]

use uverbs_uapi::byte_order::{__be32, __be64};
use uverbs_uapi::ib_user_ioctl_cmds::*;
use uverbs_uapi::ib_user_ioctl_verbs::{RDMA_DRIVER_MLX5, RDMA_DRIVER_RXE};
use uverbs_uapi::rdma_netlink::*;
use uverbs_uapi::rdma_user_ioctl_cmds::*;
use uverbs_uapi::rdma_user_rxe::*;
use uverbs_uapi::{names, tables};
use zerocopy::IntoBytes;

#[test]
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
fn verbs_ioctl_number() {
    assert_eq!(RDMA_VERBS_IOCTL, 0xC018_1B01);
}

#[test]
fn netlink_message_type() {
    let nlmsg_type = RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_GET);
    assert_eq!(nlmsg_type, 0x1401);
    assert_eq!(RDMA_NL_GET_CLIENT(nlmsg_type), RDMA_NL_NLDEV);
    assert_eq!(RDMA_NL_GET_OP(nlmsg_type), RDMA_NLDEV_CMD_GET);
}

#[test]
fn byte_order_is_in_the_type() {
    assert_eq!(__be32::new(0x0102_0304).as_bytes(), [1, 2, 3, 4]);
    assert_eq!(__be64::from_raw(__be64::new(7).raw()).get(), 7);
    assert_eq!(align_of::<__be64>(), 8);
}

#[test]
fn a_union_keeps_what_an_arm_wrote_and_zeroes_the_rest() {
    let rdma = rxe_send_wr_rdma {
        remote_addr: 0x1122_3344_5566_7788,
        rkey: 0x99aa_bbcc,
        reserved: 0,
    };
    let wr = rxe_send_wr_wr::from(rdma);
    assert_eq!(wr.rdma(), rdma);
    assert_eq!(wr.atomic().remote_addr, rdma.remote_addr);
    assert!(wr.as_bytes()[16..].iter().all(|&byte| byte == 0));

    let gid = rxe_gid::from([0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    assert_eq!(gid.global().subnet_prefix.get(), 0xfe80_0000_0000_0000);
    assert_eq!(gid.global().interface_id.get(), 1);

    let attr = ib_uverbs_attr {
        attr_data: ib_uverbs_attr_enum_data {
            elem_id: 3,
            reserved: 0,
        }
        .into(),
        data: u64::MAX,
        ..Default::default()
    };
    assert_eq!(attr.as_bytes()[6..8], [3, 0]);
    assert_eq!(attr.data_s64(), -1);
}

#[test]
fn core_names() {
    assert_eq!(
        names::object(UVERBS_OBJECT_CQ, RDMA_DRIVER_RXE),
        Some("UVERBS_OBJECT_CQ")
    );
    assert_eq!(
        names::method(3, 0, RDMA_DRIVER_RXE),
        Some("UVERBS_METHOD_CQ_CREATE")
    );
    assert_eq!(
        names::attribute(3, 0, 1, RDMA_DRIVER_RXE),
        Some("UVERBS_ATTR_CREATE_CQ_CQE")
    );
    assert_eq!(
        names::attribute(3, 0, 0x1001, RDMA_DRIVER_RXE),
        Some("UVERBS_ATTR_UHW_OUT")
    );
    assert_eq!(names::attribute(3, 0, 0x1002, RDMA_DRIVER_RXE), None);
    assert_eq!(
        names::attribute(13, 2, 0, 0),
        Some("UVERBS_ATTR_MODIFY_FLOW_ACTION_ESP_HANDLE")
    );
    assert_eq!(
        names::attribute(13, 2, 1, 0),
        Some("UVERBS_ATTR_FLOW_ACTION_ESP_ATTRS")
    );
    assert_eq!(names::object(0x7777, RDMA_DRIVER_RXE), None);
    assert_eq!(
        names::write_command(18, false),
        Some("IB_USER_VERBS_CMD_CREATE_CQ")
    );
    assert_eq!(
        names::write_command(50, true),
        Some("IB_USER_VERBS_EX_CMD_CREATE_FLOW")
    );
    assert_eq!(names::write_command(50, false), None);
    assert_eq!(names::driver(9), Some("RDMA_DRIVER_I40IW"));
}

#[test]
fn mlx5_names() {
    const MLX5: u32 = RDMA_DRIVER_MLX5;
    assert_eq!(
        names::object(0x1002, MLX5),
        Some("MLX5_IB_OBJECT_DEVX_UMEM")
    );
    assert_eq!(names::object(0x1002, RDMA_DRIVER_RXE), None);
    assert_eq!(
        names::method(0x1002, 0x1000, MLX5),
        Some("MLX5_IB_METHOD_DEVX_UMEM_REG")
    );
    let attribute = names::attribute(0x1002, 0x1000, 0x1001, MLX5);
    assert_eq!(attribute, Some("MLX5_IB_ATTR_DEVX_UMEM_REG_ADDR"));
    assert_eq!(
        names::method(0, 0x1000, MLX5),
        Some("MLX5_IB_METHOD_QUERY_PORT")
    );
    assert_eq!(
        names::attribute(3, 0, 0x1000, MLX5),
        Some("UVERBS_ATTR_UHW_IN")
    );
    assert_eq!(
        names::attribute(3, 0, 0x1002, MLX5),
        Some("MLX5_IB_ATTR_CREATE_CQ_UAR_INDEX")
    );
    assert_eq!(
        names::attribute(0, 4, 0x1000, MLX5),
        Some("MLX5_IB_ATTR_QUERY_CONTEXT_RESP_UCTX")
    );
}

/// A method that an enum names but the lookup does not know would be printed without attributes.
#[test]
fn every_core_method_has_named_attributes() {
    let header = tables::HEADERS
        .iter()
        .find(|h| h.path == "rdma/ib_user_ioctl_cmds.h")
        .unwrap();
    let objects = header
        .enums
        .iter()
        .find(|e| e.name == "uverbs_default_objects")
        .unwrap();
    let mut named = Vec::new();
    for &(_, object) in objects.members {
        let object = u16::try_from(object).unwrap();
        for method in 0..64 {
            if let Some(name) = names::method(object, method, RDMA_DRIVER_RXE) {
                assert!(
                    names::attribute(object, method, 0, RDMA_DRIVER_RXE).is_some(),
                    "{name}"
                );
                named.push(name);
            }
        }
    }
    let defined = header
        .enums
        .iter()
        .flat_map(|e| e.members)
        .map(|&(name, _)| name);
    for name in defined.filter(|name| name.starts_with("UVERBS_METHOD_")) {
        assert!(named.contains(&name), "{name} belongs to no object");
    }
}

/// The same for the driver namespace of mlx5.
#[test]
fn every_mlx5_method_has_named_attributes() {
    let header = tables::HEADERS
        .iter()
        .find(|h| h.path == "rdma/mlx5_user_ioctl_cmds.h")
        .unwrap();
    let mut named = Vec::new();
    for object in (0..64).chain(0x1000..0x1040) {
        for method in 0x1000..0x1040 {
            if let Some(name) = names::method(object, method, RDMA_DRIVER_MLX5) {
                assert!(
                    names::attribute(object, method, 0x1000, RDMA_DRIVER_MLX5).is_some(),
                    "{name}"
                );
                named.push(name);
            }
        }
    }
    for &(name, _) in header.enums.iter().flat_map(|e| e.members) {
        if name.starts_with("MLX5_IB_METHOD_") {
            assert!(named.contains(&name), "{name} belongs to no object");
        }
    }
}
