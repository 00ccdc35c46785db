//! Opened devices, their domains and address handles, on a kernel that answers by a script.
#![allow(clippy::unwrap_used, reason = "tests")]

mod addresses;
mod opening;
mod threads;

use uverbs_core::{Errno, ErrorKind, Op};
use uverbs_uapi::ib_user_ioctl_verbs::ib_uverbs_query_port_resp_ex;
use uverbs_uapi::ib_user_verbs::ib_uverbs_query_port_resp;
use uverbs_uapi::mlx5_user_ioctl_cmds::MLX5_IB_ATTR_QUERY_PD_RESP_PDN;
use zerocopy::IntoBytes as _;

use super::*;
use crate::tests::scripted::Scripted;

/// The id of the reply of a query of a port.
const PORT: u16 = uverbs_uapi::ib_user_ioctl_cmds::UVERBS_ATTR_QUERY_PORT_RESP;

/// A port with this link layer (1 InfiniBand, 2 Ethernet) and these flags.
fn port(link_layer: u8, flags: u8) -> ib_uverbs_query_port_resp_ex {
    ib_uverbs_query_port_resp_ex {
        legacy_resp: ib_uverbs_query_port_resp {
            link_layer,
            flags,
            ..ib_uverbs_query_port_resp::default()
        },
        ..ib_uverbs_query_port_resp_ex::default()
    }
}

#[test]
fn a_ports_link_is_asked_for_once() {
    let (kernel, context) = Scripted::context(0);
    for (number, link_layer, flags, ethernet, routed) in [
        (1, 1, 0, false, false),
        (2, 2, 0, true, true),
        (3, 1, 1, false, true),
    ] {
        kernel.answer(PORT, port(link_layer, flags).as_bytes());
        for calls in [1, 0] {
            let link = context.link(number).unwrap();
            assert_eq!(
                (link.is_ethernet, link.needs_route),
                (ethernet, routed),
                "{number}"
            );
            assert_eq!(kernel.take_calls().len(), calls);
        }
    }
    kernel.refuse("", Errno::INVAL);
    let error = context.link(9).unwrap_err();
    assert_eq!(error.errno(), Some(Errno::INVAL), "{error}");
    kernel.accept();
    context.link(9).unwrap();
}

#[test]
fn an_imported_domain_has_the_devices_number_and_is_not_freed() {
    let (kernel, context) = Scripted::context(0);
    kernel.answer(MLX5_IB_ATTR_QUERY_PD_RESP_PDN, &0x77_u32.to_ne_bytes());
    let domain = ProtectionDomain::import(&context, 0x9d).unwrap();
    assert_eq!((domain.number(), domain.object().handle()), (0x77, 0x9d));
    assert!(domain.thread().is_none());
    drop(domain);
    assert_eq!(
        kernel.take_calls(),
        [format!("{}/+0 +0:obj={} +1:out4", 1, 0x9d)]
    );
    kernel.refuse("", Errno::NOENT);
    let error = ProtectionDomain::import(&context, 3).unwrap_err();
    assert_eq!(error.errno(), Some(Errno::NOENT), "{error}");
    assert_eq!(error.op(), Op::AllocProtectionDomain);
}

#[test]
fn an_allocated_domain_has_the_drivers_number_and_is_freed() {
    let (kernel, context) = Scripted::context(0);
    kernel.answer_by_driver(&0x78_u32.to_ne_bytes());
    let domain = kernel.pd(&context);
    assert_eq!((domain.number(), domain.object().handle()), (0x78, 0x9d));
    kernel.take_calls();
    drop(domain);
    assert_eq!(kernel.take_calls().len(), 1);
}
