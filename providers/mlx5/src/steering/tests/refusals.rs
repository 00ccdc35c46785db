//! What errors say of the request that was refused, and the limits of requests.

use super::*;

fn texts(error: &uverbs_core::Error, facts: &[&str]) {
    for fact in facts {
        assert!(error.to_string().contains(fact), "{fact}: {error}");
    }
}

#[test]
fn an_anchor_says_where_it_should_have_been() {
    let (kernel, file) = Scripted::new();
    for (errno, hint) in [
        (Errno::PERM, Some("grant CAP_NET_RAW")),
        (Errno::INVAL, None),
    ] {
        kernel.accept();
        kernel.refuse("+9/+0", errno);
        let error = SteeringAnchor::create(&file, TableKind::NicReceive, 258).unwrap_err();
        texts(&error, &["table NicReceive", "priority 258"]);
        assert_eq!((error.errno(), error.known_hint()), (Some(errno), hint));
    }
}

#[test]
fn a_matcher_says_what_is_missing() {
    let (kernel, file) = Scripted::new();
    kernel.refuse("+3/+0", Errno::INVAL);
    let all = MatchParameters::new();
    let refused = |table, ib_port| {
        let init = MatcherInit {
            table,
            ib_port,
            ..MatcherInit::new(&all)
        };
        FlowMatcher::create(&file, &init).unwrap_err()
    };
    let error = refused(TableKind::Switch, None);
    texts(&error, &["table Switch", "switchdev"]);
    let error = refused(TableKind::RdmaTransportReceive, Some(3));
    texts(&error, &["table RdmaTransportReceive", "port 3"]);
    let error = refused(TableKind::NicTransmit, None);
    assert_eq!(error.known_hint(), None);
    kernel.accept();
    kernel.refuse("+3/+0", Errno::NOMEM);
    assert_eq!(refused(TableKind::Switch, None).known_hint(), None);
}

#[test]
fn other_kinds_of_matchers_have_no_priority() {
    let (kernel, file) = Scripted::new();
    let all = MatchParameters::new();
    for (kind, requested) in [
        (MatchKind::Sniffer, "enum1=[]"),
        (MatchKind::AllDefault, "enum2=[]"),
        (MatchKind::MulticastDefault, "enum3=[]"),
    ] {
        let init = MatcherInit {
            kind,
            ..MatcherInit::new(&all)
        };
        let matcher = FlowMatcher::create(&file, &init).unwrap();
        assert_eq!(matcher.mask(), &all);
        let calls = kernel.take_calls();
        assert!(calls[0].contains(requested), "{calls:?}");
        matcher.destroy().unwrap();
        assert_eq!(kernel.take_calls().len(), 1);
    }
}

#[test]
fn headers_of_tunnels_have_a_length_of_16_bits() {
    let (kernel, file) = Scripted::new();
    let table = TableKind::NicTransmit;
    let headers = vec![1; 65536];
    let made =
        |len| FlowAction::reformat(&file, table, Reformat::IntoPacketTunnel(&headers[..len]));
    let error = made(65536).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
    texts(&error, &["header_bytes 65536", "max 65535"]);
    assert_eq!(kernel.take_calls(), [""; 0]);
    made(65535).unwrap();
    kernel.refuse("13/+1", Errno::INVAL);
    texts(
        &made(3).unwrap_err(),
        &["table NicTransmit", "header_bytes 3"],
    );
    kernel.refuse("13/+0", Errno::INVAL);
    let change = HeaderChange::Add {
        field: HeaderField::IP_TTL,
        value: 1,
    };
    let error = FlowAction::modify_header(&file, table, &[change; 2]).unwrap_err();
    texts(&error, &["table NicTransmit", "changes 2"]);
}

#[test]
fn registers_of_packets_are_fields_too() {
    let numbers = [0, 1, 6, 7, 8, 255].map(|number| HeaderField::register_c(number).0);
    assert_eq!(numbers, [0x51, 0x52, 0x57, 0x58, 0x58, 0x58]);
}

#[test]
fn rules_at_their_limits_are_requested() {
    let (kernel, file) = Scripted::new();
    let (_, elsewhere) = Scripted::new();
    let matcher = matcher(&file);
    let action = ttl(&file);
    let value = value();
    let rule = MatchRule {
        actions: &[&action, &action],
        tag: Some((1 << 24) - 1),
        ..MatchRule::new(&value)
    };
    drop(matcher.create_flow(FlowTarget::Drop, &rule).unwrap());
    drop(matcher.direct(&file, FlowTarget::Drop, &rule).unwrap());
    kernel.take_calls();
    let error = matcher
        .direct(&elsewhere, FlowTarget::Drop, &rule)
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    assert_eq!(error.known_hint(), Some("it belongs to another context"));
    let outside = value.clone().ether_type(MatchHeaders::Outer, 0x0800);
    let error = matcher
        .create_flow(FlowTarget::Drop, &MatchRule::new(&outside))
        .unwrap_err();
    texts(&error, &["byte 6"]);
    let error = matcher
        .create_flow(
            FlowTarget::Drop,
            &MatchRule {
                tag: Some(1 << 24),
                ..rule
            },
        )
        .unwrap_err();
    texts(&error, &["tag 16777216", "max 16777215"]);
    let error = matcher
        .create_flow(
            FlowTarget::Drop,
            &MatchRule {
                actions: &[&action; 3],
                ..rule
            },
        )
        .unwrap_err();
    texts(&error, &["actions 3", "max 2"]);
    assert_eq!(kernel.take_calls(), [""; 0]);
    kernel.refuse("9/+0", Errno::PERM);
    let error = matcher.create_flow(FlowTarget::Drop, &rule).unwrap_err();
    assert_eq!(error.known_hint(), Some("grant CAP_NET_RAW"));
}
