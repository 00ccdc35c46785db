//! The exact encoding of the methods, what is refused before the system call, and the order in
//! which objects are destroyed.
#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

mod parameters;
mod refusals;

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use uverbs_core::{Errno, ErrorKind, Object, UverbsFile, cmd};

use super::*;
use crate::devx::{Devx, DevxObject};
use crate::prm::{Mailbox, opcode};
use crate::tests::native;
use crate::tests::scripted::Scripted;

const MAC: [u8; 6] = [2, 0, 0, 0, 0, 7];

fn mask() -> MatchParameters {
    MatchParameters::new().destination_mac(MatchHeaders::Outer, [0xff; 6])
}

fn value() -> MatchParameters {
    MatchParameters::new().destination_mac(MatchHeaders::Outer, MAC)
}

fn matcher(file: &Arc<UverbsFile>) -> FlowMatcher {
    FlowMatcher::create(file, &MatcherInit::new(&mask())).unwrap()
}

fn table(file: &Arc<UverbsFile>) -> DevxObject {
    let command = Mailbox::command(opcode::CREATE_GENERAL_OBJECT, 0, 16);
    Devx::new(file).create_harmless(&command, 16, []).unwrap()
}

fn ttl(file: &Arc<UverbsFile>) -> FlowAction {
    let change = HeaderChange::Add {
        field: HeaderField::IP_TTL,
        value: u32::MAX,
    };
    FlowAction::modify_header(file, TableKind::NicReceive, &[change]).unwrap()
}

#[test]
fn fields_are_where_the_manual_has_them() {
    let (outer, inner) = (MatchHeaders::Outer, MatchHeaders::Inner);
    let words = MatchParameters::new()
        .source_mac(outer, [1, 2, 3, 4, 5, 6])
        .ether_type(outer, 0x0800)
        .destination_mac(outer, MAC)
        .vlan(outer, 0xabc, 5)
        .ip_protocol(outer, 17)
        .ip_version(outer, 4)
        .udp_ports(outer, 0x1111, 0x2222)
        .source_ipv4(outer, Ipv4Addr::new(10, 0, 0, 1))
        .destination_ipv4(outer, Ipv4Addr::new(10, 0, 0, 2))
        .tcp_ports(inner, 0x3333, 0x4444)
        .source_ipv6(inner, Ipv6Addr::LOCALHOST)
        .destination_ipv6(inner, Ipv6Addr::from_bits(0xfe << 120))
        .source_sq(0x00ab_cdef)
        .vxlan_network(0x0012_3456)
        .destination_qp(0x0065_4321)
        .register_c(0, 0xc0)
        .register_c(7, 0xc7);
    let bytes = words.as_bytes();
    assert_eq!(bytes[..8], [1, 2, 3, 4, 5, 6, 8, 0]);
    assert_eq!(bytes[8..16], [2, 0, 0, 0, 0, 7, 0xaa, 0xbc]);
    // The protocol; then the tag's presence and the four bits of the version.
    assert_eq!(bytes[16..20], [17, 0, 0x80 | 4 << 1, 0]);
    assert_eq!(bytes[0x1c..0x20], [0x11, 0x11, 0x22, 0x22]);
    assert_eq!(bytes[0x2c..0x30], [10, 0, 0, 1]);
    assert_eq!(bytes[0x3c..0x40], [10, 0, 0, 2]);
    assert_eq!(bytes[0x40..0x44], [0, 0xab, 0xcd, 0xef]);
    assert_eq!(bytes[0x54..0x58], [0x12, 0x34, 0x56, 0]);
    assert_eq!(bytes[0x68..0x6c], [0, 0x65, 0x43, 0x21]);
    assert_eq!(bytes[0x94..0x98], [0x33, 0x33, 0x44, 0x44]);
    assert_eq!((bytes[0xaf], bytes[0xb0]), (1, 0xfe));
    assert_eq!((bytes[0xd3], bytes[0xef]), (0xc7, 0xc0));
    assert_eq!((words.criteria(), words.used().len()), (0b1111, 256));
    assert_eq!(MatchParameters::new().used().len(), 64);
    assert_eq!(MatchParameters::new().criteria(), 0);
}

#[test]
fn matchers_are_requested() {
    let (kernel, file) = Scripted::new();
    drop(matcher(&file));
    let requested = kernel.take_calls();
    assert_eq!(
        requested,
        [
            "+3/+0 +0:new +1:in64 +2:enum0=[0, 0] +3:in=01 +5:const=0x0",
            "+3/+1 +0:obj=1",
        ]
    );
    let everything = MatchParameters::new();
    let init = MatcherInit {
        kind: MatchKind::Sniffer,
        table: TableKind::RdmaTransportReceive,
        ib_port: Some(1),
        ..MatcherInit::new(&everything)
    };
    FlowMatcher::create(&file, &init).unwrap();
    let requested = kernel.take_calls();
    let port = native(&1_u32.to_ne_bytes());
    assert_eq!(
        requested[0],
        format!("+3/+0 +0:new +1:in64 +2:enum1=[] +3:in=00 +5:const=0x5 +6:in={port}")
    );
    let inside = MatchParameters::new().vxlan_network(1);
    let init = MatcherInit {
        kind: MatchKind::Normal { priority: 0x102 },
        table: TableKind::NicTransmit,
        ..MatcherInit::new(&inside)
    };
    FlowMatcher::create(&file, &init).unwrap();
    let requested = kernel.take_calls();
    let priority = 0x102_u16.to_ne_bytes();
    assert_eq!(
        requested[0],
        format!("+3/+0 +0:new +1:in128 +2:enum0={priority:?} +3:in=02 +5:const=0x1")
    );
}

#[test]
fn rules_are_requested() {
    let (kernel, file) = Scripted::new();
    let matcher = matcher(&file);
    let (devx, action) = (table(&file), ttl(&file));
    kernel.take_calls();
    let value = value();
    let rule = MatchRule {
        actions: &[&action],
        tag: Some(0x0001_0203),
        counter: Some(FlowCounter {
            counter: &devx,
            offset: Some(3),
        }),
        ..MatchRule::new(&value)
    };
    let flow = matcher.create_flow(FlowTarget::Devx(&devx), &rule).unwrap();
    flow.destroy().unwrap();
    let [tag, offset] = [0x0001_0203_u32, 3].map(|number| native(&number.to_ne_bytes()));
    let objects = "+0:new +1:in64 +4:obj=1 +3:obj=2 +5:objs=[3]";
    assert_eq!(
        kernel.take_calls(),
        [
            format!("9/+0 {objects} +6:in={tag} +7:objs=[2] +8:in={offset}"),
            "9/+1 +0:obj=4".to_owned(),
        ]
    );
    let plain = MatchRule::new(&value);
    for (target, flags) in [
        (FlowTarget::Drop, " +9:const=0x2"),
        (FlowTarget::DefaultMiss, " +9:const=0x1"),
        (FlowTarget::Onward, ""),
    ] {
        matcher.create_flow(target, &plain).unwrap();
        let requested = kernel.take_calls();
        assert_eq!(
            requested[0],
            format!("9/+0 +0:new +1:in64 +4:obj=1{flags}"),
            "{target:?}"
        );
    }
    let qp = Object::new(&file, &cmd::qp::KIND, 77, []);
    drop(matcher.steer(&qp, &plain).unwrap());
    let requested = kernel.take_calls();
    assert_eq!(requested[0], "9/+0 +0:new +1:in64 +4:obj=1 +2:obj=77");
}

#[test]
fn actions_are_requested() {
    let (kernel, file) = Scripted::new();
    drop(ttl(&file));
    assert_eq!(
        kernel.take_calls(),
        [
            "13/+0 +0:new +1:in=200a0000ffffffff +2:const=0x0",
            "13/1 0:obj=1",
        ]
    );
    let header = [1_u8; 14];
    for (reformat, table, line) in [
        (
            Reformat::OutOfFrameTunnel,
            TableKind::NicReceive,
            "13/+1 +0:new +1:const=0x0 +2:const=0x0",
        ),
        (
            Reformat::IntoFrameTunnel(&header),
            TableKind::NicTransmit,
            "13/+1 +0:new +1:const=0x1 +2:const=0x1 +3:in=0101010101010101010101010101",
        ),
        (
            Reformat::OutOfPacketTunnel(&header),
            TableKind::NicReceive,
            "13/+1 +0:new +1:const=0x2 +2:const=0x0 +3:in=0101010101010101010101010101",
        ),
        (
            Reformat::IntoPacketTunnel(&header),
            TableKind::NicTransmit,
            "13/+1 +0:new +1:const=0x3 +2:const=0x1 +3:in=0101010101010101010101010101",
        ),
    ] {
        FlowAction::reformat(&file, table, reformat).unwrap();
        assert_eq!(kernel.take_calls()[0], line);
    }
    let none = FlowAction::reformat(
        &file,
        TableKind::NicTransmit,
        Reformat::IntoFrameTunnel(&[]),
    );
    assert_eq!(none.unwrap_err().kind(), ErrorKind::InvalidInput);
    let none = FlowAction::modify_header(&file, TableKind::NicReceive, &[]);
    assert_eq!(none.unwrap_err().kind(), ErrorKind::InvalidInput);
    assert!(kernel.take_calls().is_empty());
}

#[test]
fn anchors_are_requested() {
    let (kernel, file) = Scripted::new();
    kernel.answer(0x1003, &0x1234_u32.to_ne_bytes());
    let anchor = SteeringAnchor::create(&file, TableKind::NicReceive, 2).unwrap();
    assert_eq!(anchor.table_id(), 0x1234);
    let user = Object::new(&file, &cmd::flow::KIND, 9, [anchor.parent().0]);
    let refused = anchor.destroy().unwrap_err();
    let (anchor, error) = (*refused.handle.unwrap(), refused.error);
    assert_eq!(error.kind(), ErrorKind::Busy);
    drop(user);
    kernel.take_calls();
    anchor.destroy().unwrap();
    assert_eq!(kernel.take_calls(), ["+9/+1 +0:obj=1"]);
    SteeringAnchor::create(&file, TableKind::RdmaReceive, 2).unwrap();
    let requested = kernel.take_calls();
    let priority = native(&2_u16.to_ne_bytes());
    let wanted = format!("+9/+0 +0:new +1:const=0x3 +2:in={priority} +3:out4");
    assert_eq!(requested[0], wanted);
}

#[test]
fn objects_named_by_a_rule_cannot_be_destroyed() {
    let (kernel, file) = Scripted::new();
    let matcher = matcher(&file);
    let (devx, action) = (table(&file), ttl(&file));
    let value = value();
    let rule = MatchRule {
        actions: &[&action],
        ..MatchRule::new(&value)
    };
    let flow = matcher.create_flow(FlowTarget::Devx(&devx), &rule).unwrap();
    let refused = matcher.destroy().unwrap_err();
    let (matcher, error) = (*refused.handle.unwrap(), refused.error);
    assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
    let refused = action.destroy().unwrap_err();
    let (action, error) = (*refused.handle.unwrap(), refused.error);
    assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
    let refused = devx.destroy().unwrap_err();
    let (devx, error) = (*refused.handle.unwrap(), refused.error);
    assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
    kernel.take_calls();
    drop((matcher, action, devx));
    assert!(kernel.take_calls().is_empty(), "the rule keeps them");
    drop(flow);
    let requested = kernel.take_calls();
    assert_eq!(requested.len(), 4, "{requested:?}");
    assert_eq!(requested[0], "9/+1 +0:obj=4");
    assert_eq!(file.leaked(), 0);
}

#[test]
fn a_rule_whose_destroy_fails_keeps_its_matcher() {
    let (kernel, file) = Scripted::new();
    let matcher = matcher(&file);
    let value = value();
    let flow = matcher
        .create_flow(FlowTarget::Drop, &MatchRule::new(&value))
        .unwrap();
    kernel.refuse("9/+1", Errno::BUSY);
    assert_eq!(flow.destroy().unwrap_err().kind(), ErrorKind::Busy);
    assert_eq!(file.leaked(), 1);
    kernel.take_calls();
    drop(matcher);
    assert!(
        kernel.take_calls().is_empty(),
        "its matcher is leaked with it"
    );
}

#[test]
fn an_impossible_rule_is_refused_before_any_system_call() {
    let (kernel, file) = Scripted::new();
    let matcher = matcher(&file);
    let (devx, action) = (table(&file), ttl(&file));
    let (_, elsewhere) = Scripted::new();
    let foreign = (table(&elsewhere), ttl(&elsewhere));
    kernel.take_calls();
    let value = value();
    let good = MatchRule::new(&value);
    let outside = value.clone().ether_type(MatchHeaders::Outer, 0x0800);
    let too_many = [&action, &action, &action];
    let counted = FlowCounter {
        counter: &foreign.0,
        offset: None,
    };
    for (rule, kind) in [
        (MatchRule::new(&outside), ErrorKind::InvalidInput),
        (
            MatchRule {
                actions: &too_many,
                ..good
            },
            ErrorKind::LimitExceeded,
        ),
        (
            MatchRule {
                tag: Some(1 << 24),
                ..good
            },
            ErrorKind::LimitExceeded,
        ),
        (
            MatchRule {
                actions: &[&foreign.1],
                ..good
            },
            ErrorKind::InvalidInput,
        ),
        (
            MatchRule {
                counter: Some(counted),
                ..good
            },
            ErrorKind::InvalidInput,
        ),
    ] {
        let error = matcher
            .create_flow(FlowTarget::Devx(&devx), &rule)
            .unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
    }
    let target = FlowTarget::Devx(&foreign.0);
    let error = matcher.create_flow(target, &good).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    assert!(kernel.take_calls().is_empty());
}

#[test]
fn refusals_are_typed() {
    let (kernel, file) = Scripted::new();
    let matcher = matcher(&file);
    let value = value();
    let rule = MatchRule::new(&value);
    for (errno, kind) in [
        (Errno::PERM, ErrorKind::PermissionDenied),
        (Errno::INVAL, ErrorKind::InvalidInput),
        (Errno::OPNOTSUPP, ErrorKind::Unsupported),
        (Errno::NOMEM, ErrorKind::OutOfResources),
        (Errno::NOSPC, ErrorKind::OutOfResources),
    ] {
        kernel.refuse("9/+0", errno);
        let error = matcher.create_flow(FlowTarget::Drop, &rule).unwrap_err();
        assert_eq!((error.kind(), error.errno()), (kind, Some(errno)));
        kernel.accept();
    }
    kernel.without_handles();
    let error = matcher.create_flow(FlowTarget::Drop, &rule).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BadReply, "{error}");
}

#[test]
fn an_unsupported_attribute_does_not_affect_later_requests() {
    let (kernel, file) = Scripted::new();
    let all = MatchParameters::new();
    kernel.refuse("+3/+0", Errno::PROTONOSUPPORT);
    let init = MatcherInit {
        table: TableKind::RdmaTransportReceive,
        ib_port: Some(1),
        ..MatcherInit::new(&all)
    };
    let error = FlowMatcher::create(&file, &init).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    kernel.accept();
    let matcher = matcher(&file);
    let value = value();
    let rule = MatchRule::new(&value);
    kernel.refuse("9/+0", Errno::PROTONOSUPPORT);
    let error = matcher.create_flow(FlowTarget::Drop, &rule).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    kernel.accept();
    let qp = Object::new(&file, &cmd::qp::KIND, 77, []);
    drop(matcher.steer(&qp, &rule).unwrap());
}
