//! Steering by match parameters, and methods that few devices support: what succeeds, and how the
//! rest is refused.

use std::fs::File;
use std::os::fd::AsFd;

use mlx5_tests::Model;
use uverbs::completion::WcOpcode;
use uverbs::error::Errno;
use uverbs::memory::DmabufRange;
use uverbs::mlx5::devx::{Devx, DevxObject};
use uverbs::mlx5::prm::{Mailbox, Wide, word};
use uverbs::mlx5::steering::{
    FlowCounter, FlowTarget, HeaderChange, HeaderField, MatchHeaders, MatchKind, MatchParameters,
    MatchRule, MatcherInit, Reformat, TableKind,
};
use uverbs::mlx5::{SwitchPort, VarKind};
use uverbs::{AccessFlags, ErrorKind, QpType};
use verbs_tests::{Pair, Registered, device_name, next, nothing, open, peer_name, raw};

use crate::frames::{ETHER_TYPE, FRAME, OTHER_TYPE, frame, port, send};

const OUTER: MatchHeaders = MatchHeaders::Outer;

fn mask() -> MatchParameters {
    of_type([0xff; 6], 0xffff)
}

fn of_type(mac: [u8; 6], ether_type: u16) -> MatchParameters {
    MatchParameters::new()
        .destination_mac(OUTER, mac)
        .ether_type(OUTER, ether_type)
}

/// `ALLOC_FLOW_COUNTER`.
#[expect(unsafe_code, reason = "sends a command")]
fn counter(devx: &Devx) -> DevxObject {
    let command = Mailbox::command(0x939, 0, 16);
    // SAFETY: a counter uses no memory of this process.
    unsafe { devx.create(&command, 16, []) }.unwrap()
}

/// `QUERY_FLOW_COUNTER`: packets and bytes.
fn counted(counter: &DevxObject) -> (u64, u64) {
    let mut command = Mailbox::command(0x93b, 0, 32);
    command.set(word(0x1c), counter.id());
    let reply = counter.query(&command, 32).unwrap();
    (reply.get_wide(Wide(0x10)), reply.get_wide(Wide(0x18)))
}

#[test]
fn roce_a_matcher_leads_frames_to_a_queue_pair() {
    let (mut a, mut b) = (port(&device_name(), 0), port(&peer_name(), 0));
    let (from, to) = (a.mac, b.mac);
    let got = Registered::local(&b.pd, 16 * 128);
    for at in 0..16 {
        raw::recv(&mut b.qp, 100 + at, &[got.sge(at * 128, 128)]).unwrap();
    }
    let (mask, value) = (mask(), of_type(to, ETHER_TYPE));
    let adapter = b.context.mlx5().unwrap();
    let matcher = adapter
        .create_flow_matcher(&MatcherInit::new(&mask))
        .unwrap();
    let tally = counter(&adapter.devx().unwrap());
    let rule = MatchRule {
        tag: Some(0x7777),
        counter: Some(FlowCounter {
            counter: &tally,
            offset: None,
        }),
        ..MatchRule::new(&value)
    };
    let id = b.qp.steer(&matcher, &rule).unwrap();
    for at in 0..4_u8 {
        send(&mut a, &frame(to, from, OTHER_TYPE, at));
        let sent = frame(to, from, ETHER_TYPE, at);
        send(&mut a, &sent);
        let done = next(&mut b.cq);
        assert!(
            done.is_success() && done.wr_id == 100 + u64::from(at),
            "{done:?}"
        );
        assert_eq!((done.opcode, done.byte_len), (WcOpcode::Recv, 60));
        assert_eq!(got.get(usize::from(at) * 128, FRAME), sent);
        nothing(&mut b.cq);
    }
    let (packets, bytes) = counted(&tally);
    assert_eq!(packets, 4);
    assert!(bytes >= 4 * FRAME as u64, "{bytes}");
    b.qp.destroy_flow(id).unwrap();
    send(&mut a, &frame(to, from, ETHER_TYPE, 9));
    nothing(&mut b.cq);
    assert_eq!(counted(&tally).0, 4);
    tally.destroy().unwrap();

    // Matchers are applied in the order of their priority.
    let second = MatcherInit {
        kind: MatchKind::Normal { priority: 1 },
        ..MatcherInit::new(&mask)
    };
    let after = adapter.create_flow_matcher(&second).unwrap();
    let value = of_type(to, ETHER_TYPE);
    let rule = MatchRule::new(&value);
    b.qp.steer(&after, &rule).unwrap();
    let dropping = matcher.create_flow(FlowTarget::Drop, &rule).unwrap();
    send(&mut a, &frame(to, from, ETHER_TYPE, 10));
    nothing(&mut b.cq);
    dropping.destroy().unwrap();
    send(&mut a, &frame(to, from, ETHER_TYPE, 11));
    let done = next(&mut b.cq);
    assert!(done.is_success() && done.wr_id == 104, "{done:?}");
}

#[test]
fn roce_matchers_stay_while_rules_need_them() {
    let mut model = Model::open();
    drop(port(&device_name(), 0));
    let context = open();
    let census = model.ask("census 0");
    let mut a = port(&device_name(), 0);
    let (mask, value) = (mask(), of_type(a.mac, ETHER_TYPE));
    let rule = MatchRule::new(&value);
    let adapter = a.context.mlx5().unwrap();
    let matcher = adapter
        .create_flow_matcher(&MatcherInit::new(&mask))
        .unwrap();
    a.qp.steer(&matcher, &rule).unwrap();
    let refused = matcher.destroy().unwrap_err();
    let (matcher, error) = (*refused.handle.unwrap(), refused.error);
    assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
    let miss = matcher.create_flow(FlowTarget::DefaultMiss, &rule);
    // The rule is destroyed with its queue pair, the matcher after both.
    drop(matcher);
    a.qp.destroy().unwrap();
    drop(miss);
    assert_eq!(a.context.leaked(), 0);
    drop((adapter, a.pd, a.cq, a.context));
    assert_eq!(model.ask("census 0"), census);
    drop(context);
}

#[test]
fn roce_what_steering_cannot_do_is_refused() {
    let mut a = port(&device_name(), 0);
    let (mask, value) = (mask(), of_type(a.mac, ETHER_TYPE));
    let adapter = a.context.mlx5().unwrap();
    let init = MatcherInit::new(&mask);
    let rule = MatchRule::new(&value);
    let of_switch = MatcherInit {
        table: TableKind::Switch,
        ..init
    };
    let error = adapter.create_flow_matcher(&of_switch).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    let nowhere = MatcherInit {
        table: TableKind::RdmaTransportReceive,
        ib_port: Some(9),
        ..init
    };
    let error = adapter.create_flow_matcher(&nowhere).unwrap_err();
    assert!(
        matches!(
            error.kind(),
            ErrorKind::InvalidInput | ErrorKind::Unsupported
        ),
        "{error}"
    );
    let sniffing = MatcherInit {
        kind: MatchKind::Sniffer,
        ..init
    };
    let sniffer = adapter.create_flow_matcher(&sniffing).unwrap();
    let error = a.qp.steer(&sniffer, &rule).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    let matcher = adapter.create_flow_matcher(&init).unwrap();
    let mut connected = Pair::new(QpType::Rc);
    let error = connected.a.qp.steer(&matcher, &rule).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    // The model neither modifies headers nor supports tunnels.
    let change = HeaderChange::Add {
        field: HeaderField::IP_TTL,
        value: u32::MAX,
    };
    let error = adapter
        .create_header_change(TableKind::NicReceive, &[change])
        .unwrap_err();
    assert_eq!(error.errno(), Some(Errno::OPNOTSUPP), "{error}");
    let error = adapter
        .create_reformat(TableKind::NicReceive, Reformat::OutOfFrameTunnel)
        .unwrap_err();
    assert_eq!(error.errno(), Some(Errno::OPNOTSUPP), "{error}");
    let error = adapter
        .create_steering_anchor(TableKind::NicReceive, 0)
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    // None of these affected what exists.
    a.qp.steer(&matcher, &rule).unwrap();
}

#[test]
fn mlx5_what_only_other_devices_have_is_reported() {
    let context = open();
    let adapter = context.mlx5().unwrap();
    for kind in [VarKind::Virtio, VarKind::Packets] {
        let error = adapter.alloc_var(kind).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    }
    // No function is represented, so nothing is filled in.
    assert_eq!(adapter.switch_port(1).unwrap(), SwitchPort::default());
    let error = adapter.switch_port(9).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    let error = adapter.data_direct_path().unwrap_err();
    let errno = error.errno();
    assert!(
        matches!(errno, Some(Errno::NODEV | Errno::PROTONOSUPPORT)),
        "{error}"
    );
    let pd = context.alloc_pd().unwrap();
    let no_dmabuf = File::open("/dev/null").unwrap();
    let range = DmabufRange {
        fd: no_dmabuf.as_fd(),
        offset: 0,
        length: 4096,
        iova: 0,
    };
    let access = AccessFlags::LOCAL_WRITE;
    let error = pd.register_data_direct(&range, access).unwrap_err();
    assert!(
        matches!(
            error.kind(),
            ErrorKind::InvalidInput | ErrorKind::Unsupported
        ),
        "{error}"
    );
    // A kernel may lack the attribute and still have the method.
    let error = pd.register_dmabuf(&range, access).unwrap_err();
    assert_ne!(error.errno(), Some(Errno::PROTONOSUPPORT), "{error}");
}
