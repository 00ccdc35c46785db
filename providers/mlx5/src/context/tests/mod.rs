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

#[test]
fn a_firmware_version_has_three_numbers() {
    for (raw, text) in [
        (0xffff_0010_0023_0004_u64, "16.35.0004"),
        (0x0001_ffff_03f6, "1.65535.1014"),
        (0xffff_0000_0000, "65535.0.0000"),
    ] {
        let (_, context) = Scripted::context_with(|replies| replies.device.base.fw_ver = raw);
        assert_eq!(contract::Context::firmware_version(&context), text);
    }
}

#[test]
fn a_context_is_opened_with_the_doorbells_that_were_asked_for() {
    let extras: [Arc<dyn contract::Extra>; 1] = [Arc::new(Doorbells::Fixed)];
    for (extras, caps) in [(&extras[..], 1_u8), (&[], 3)] {
        let (kernel, file) = Scripted::new();
        let init = contract::OpenInit { extras };
        <Context as contract::Context>::open(file, &init).unwrap_err();
        let id = uverbs_uapi::ib_user_ioctl_cmds::UVERBS_ATTR_UHW_IN;
        let request = &kernel.take_inputs(id)[0];
        assert_eq!(request[24..], u64::from(caps).to_ne_bytes());
    }
}

#[test]
fn what_a_context_creates_is_of_it() {
    let (kernel, mut context) = Scripted::context(64);
    kernel.answer(
        uverbs_uapi::ib_user_ioctl_cmds::UVERBS_ATTR_CORE_OUT,
        &0x9d_u32.to_ne_bytes(),
    );
    kernel.answer_by_driver(&3_u32.to_ne_bytes());
    let pd = contract::Context::alloc_pd(&context).unwrap();
    assert_eq!(
        (
            pd.number(),
            <Context as contract::Context>::pd_object(&pd).handle()
        ),
        (3, 0x9d)
    );
    let own = Arc::clone(&contract::Context::base(&context).file);
    assert!(Arc::ptr_eq(&own, context.file()));
    contract::Context::base_mut(&mut context).device.max_dm_size = 5;
    assert_eq!(context.device().max_dm_size, 5);
}
