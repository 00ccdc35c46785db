//! Raw packet queue pairs: Ethernet frames between the functions, and the rules that select them.

use std::fs;

use mlx5_tests::{Model, raw as mlx5};
use uverbs::completion::WcOpcode;
use uverbs::mlx5::{EthernetFields, FlowFlags, FlowInit, FlowKind, FlowSpec, Frame};
use uverbs::{
    CompletionQueue, Context, ErrorKind, PostError, ProtectionDomain, QpState, QpType, QueuePair,
    SendFlags, SendRequest, Sge,
};
use verbs_tests::{Registered, device_name, next, nothing, open, open_named, peer_name, raw};

/// Two types that no protocol uses: for experiments (IEEE 802).
pub(crate) const ETHER_TYPE: u16 = 0x88b5;
pub(crate) const OTHER_TYPE: u16 = 0x88b6;

/// Length of the shortest frame, without its checksum.
pub(crate) const FRAME: usize = 60;

pub(crate) struct Port {
    pub(crate) context: Context,
    pub(crate) pd: ProtectionDomain,
    pub(crate) cq: CompletionQueue,
    pub(crate) qp: QueuePair,
    pub(crate) mac: [u8; 6],
}

/// The MAC address of a function's network interface.
fn mac_of(device: &str) -> [u8; 6] {
    let folder = format!("/sys/class/infiniband/{device}/device/net");
    let interface = fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{folder}: {error}"))
        .next()
        .expect("a function has an interface")
        .unwrap();
    let text = fs::read_to_string(interface.path().join("address")).unwrap();
    let bytes: Vec<u8> = text
        .trim()
        .split(':')
        .map(|byte| u8::from_str_radix(byte, 16).unwrap())
        .collect();
    bytes.try_into().unwrap()
}

pub(crate) fn port(device: &str, header: u16) -> Port {
    let context = open_named(device);
    let (pd, cq) = (context.alloc_pd().unwrap(), context.create_cq(256).unwrap());
    let builder = pd
        .queue_pair(QpType::RawPacket, &cq, &cq)
        .max_send_wr(64)
        .max_recv_wr(64)
        .max_inline_data(128)
        .max_send_sge(2);
    let qp = builder
        .max_tso_header(header)
        .build()
        .unwrap()
        .activate()
        .unwrap();
    Port {
        context,
        pd,
        cq,
        qp,
        mac: mac_of(device),
    }
}

/// Matches frames to `mac` of one type.
pub(crate) fn of_type(mac: [u8; 6], ether_type: u16) -> FlowSpec {
    let value = EthernetFields {
        destination: mac,
        ether_type,
        ..EthernetFields::default()
    };
    let mask = EthernetFields {
        destination: [0xff; 6],
        ether_type: 0xffff,
        ..EthernetFields::default()
    };
    FlowSpec::Ethernet(value, mask)
}

pub(crate) fn rule(specs: &[FlowSpec]) -> FlowInit<'_> {
    FlowInit {
        kind: FlowKind::Normal,
        priority: 0,
        port: 1,
        flags: FlowFlags::empty(),
        specs,
    }
}

pub(crate) fn frame(to: [u8; 6], from: [u8; 6], ether_type: u16, fill: u8) -> Vec<u8> {
    let mut bytes = [&to[..], &from, &ether_type.to_be_bytes()].concat();
    bytes.resize(FRAME, fill);
    bytes
}

pub(crate) fn send(port: &mut Port, bytes: &[u8]) {
    let sges = [bytes];
    let request = SendRequest::send_inline(&sges).signaled();
    let mut batch = port.qp.send_batch();
    batch.push_inline(&request).unwrap();
    batch.submit().unwrap();
    let done = next(&mut port.cq);
    assert!(done.is_success(), "{done:?}");
}

#[test]
fn roce_frames_that_match_a_rule_are_received() {
    let (mut a, mut b) = (port(&device_name(), 0), port(&peer_name(), 0));
    assert_eq!(a.qp.state(), QpState::ReadyToSend);
    let got = Registered::local(&b.pd, 64 * 128);
    for at in 0..32 {
        raw::recv(&mut b.qp, 100 + at, &[got.sge(at * 128, 128)]).unwrap();
    }
    let id =
        b.qp.create_flow(&rule(&[of_type(b.mac, ETHER_TYPE)]))
            .unwrap();
    for at in 0..8_u8 {
        // A frame that matches in only one of the two is not for this queue.
        let strange = frame(b.mac, a.mac, OTHER_TYPE, at);
        send(&mut a, &strange);
        let sent = frame(b.mac, a.mac, ETHER_TYPE, at);
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
    b.qp.destroy_flow(id).unwrap();
    let late = frame(b.mac, a.mac, ETHER_TYPE, 0);
    send(&mut a, &late);
    nothing(&mut b.cq);
    let error = b.qp.destroy_flow(id).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
}

/// The second function requires the first bytes of frames in the request, as a ConnectX-4 does; the
/// first does not.
#[test]
fn roce_a_frame_in_memory_is_sent_whatever_the_device_wants_of_it() {
    frames_in_memory(&device_name(), &peer_name(), false);
    frames_in_memory(&peer_name(), &device_name(), true);
}

fn frames_in_memory(from: &str, to: &str, wants_headers: bool) {
    let (mut a, mut b) = (port(from, 0), port(to, 0));
    let got = Registered::local(&b.pd, 128);
    b.qp.create_flow(&rule(&[of_type(b.mac, ETHER_TYPE)]))
        .unwrap();
    let sent = frame(b.mac, a.mac, ETHER_TYPE, 7);
    let memory = Registered::local(&a.pd, 128);
    memory.fill(|at| sent.get(at).copied().unwrap_or(0xee));
    let mut put = |sges: &[Sge]| {
        let mut batch = a.qp.send_batch();
        raw::push(&mut batch, &SendRequest::send(sges))
    };
    let expected = if wants_headers {
        Err(PostError::UnsupportedOperation)
    } else {
        Ok(())
    };
    assert_eq!(put(&[memory.sge(0, 60)]), expected, "{from}");
    for (wr_id, cuts) in (0..).zip([&[60][..], &[18, 60], &[7, 60], &[50, 60]]) {
        raw::recv(&mut b.qp, wr_id, &[got.sge(0, 128)]).unwrap();
        let starts = std::iter::once(&0).chain(cuts);
        let sges: Vec<_> = starts
            .zip(cuts)
            .map(|(start, end)| memory.sge(*start, u32::try_from(end - start).unwrap()))
            .collect();
        let request = SendRequest::send(&sges).wr_id(wr_id).signaled();
        mlx5::send_packet(&mut a.qp, &request).unwrap();
        let done = next(&mut a.cq);
        assert!(done.is_success() && done.wr_id == wr_id, "{done:?}");
        let done = next(&mut b.cq);
        assert!(done.is_success() && done.byte_len == 60, "{done:?}");
        assert_eq!(got.get(0, FRAME), sent, "{cuts:?}");
    }
    if wants_headers {
        let short = [memory.sge(0, 17)];
        let error = mlx5::send_packet(&mut a.qp, &SendRequest::send(&short));
        assert_eq!(error, Err(PostError::InvalidRequest));
    }
}

#[test]
fn roce_a_frame_is_cut_into_many_behind_its_header() {
    let (mut a, mut b) = (port(&device_name(), 64), port(&peer_name(), 0));
    assert!(a.context.mlx5().unwrap().caps().tso.max_payload > 0);
    let got = Registered::local(&b.pd, 8 * 2048);
    for at in 0..8 {
        raw::recv(&mut b.qp, at, &[got.sge(at * 2048, 2048)]).unwrap();
    }
    b.qp.create_flow(&rule(&[of_type(b.mac, 0x0800)])).unwrap();
    let payload = Registered::local(&a.pd, 4096);
    payload.fill(|at| u8::try_from(at % 227).unwrap());
    // Ethernet, IPv4, TCP; the device computes the checksums.
    let mut header = [&b.mac[..], &a.mac, &[0x08, 0]].concat();
    header.extend([
        0x45, 0, 0, 40, 0, 1, 0x40, 0, 64, 6, 0, 0, 10, 9, 8, 7, 10, 9, 8, 6,
    ]);
    header.extend([
        0x12, 0x34, 0x56, 0x78, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 0x10, 1, 0, 0, 0, 0, 0,
    ]);
    let whole = Frame {
        wr_id: 9,
        flags: SendFlags::SIGNALED | SendFlags::IP_CHECKSUM,
        header: &header,
        rest: &[payload.sge(0, 3000)],
        segment: Some(1000),
    };
    mlx5::send_frame(&mut a.qp, &whole).unwrap();
    let done = next(&mut a.cq);
    assert!(
        done.is_success() && done.wr_id == 9 && done.opcode == WcOpcode::Tso,
        "{done:?}"
    );
    for at in 0..3_usize {
        let done = next(&mut b.cq);
        assert!(done.is_success() && done.byte_len == 1054, "{done:?}");
        assert_eq!(
            got.get(at * 2048 + 54, 1000),
            payload.get(at * 1000, 1000),
            "frame {at}"
        );
    }
    // More headers than there is room for.
    let long = [0; 256];
    let error = mlx5::send_frame(
        &mut a.qp,
        &Frame {
            header: &long,
            ..whole
        },
    );
    assert!(
        matches!(error, Err(PostError::InlineTooLong { .. })),
        "{error:?}"
    );
    let error = mlx5::send_frame(
        &mut a.qp,
        &Frame {
            segment: Some(0),
            ..whole
        },
    );
    assert_eq!(error, Err(PostError::InvalidRequest));
}

#[test]
fn roce_rules_go_with_their_queue_pair() {
    let mut model = Model::open();
    drop(port(&device_name(), 0));
    let context = open();
    let census = model.ask("census 0");
    let mut a = port(&device_name(), 0);
    for ether_type in [ETHER_TYPE, OTHER_TYPE] {
        a.qp.create_flow(&rule(&[of_type(a.mac, ether_type)]))
            .unwrap();
    }
    a.qp.destroy().unwrap();
    assert_eq!(a.context.leaked(), 0);
    drop((a.pd, a.cq, a.context));
    // Dropped, not destroyed; the kernel refuses to destroy a queue pair that has rules.
    let mut b = port(&device_name(), 0);
    b.qp.create_flow(&rule(&[of_type(b.mac, ETHER_TYPE)]))
        .unwrap();
    let opened = b.context.clone();
    drop(b);
    assert_eq!(opened.leaked(), 0);
    drop(opened);
    assert_eq!(model.ask("census 0"), census);
    drop(context);
}

#[test]
fn roce_impossible_rules_and_frames_are_refused() {
    let mut a = port(&device_name(), 0);
    let wanted = [of_type(a.mac, ETHER_TYPE); 11];
    let error = a.qp.create_flow(&rule(&wanted)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
    let elsewhere = FlowInit {
        port: 9,
        ..rule(&wanted[..1])
    };
    let error = a.qp.create_flow(&elsewhere).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    // Other transports have neither.
    let mut pair = verbs_tests::Pair::new(QpType::Rc);
    let error = pair.a.qp.create_flow(&rule(&wanted[..1])).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    let plain = Frame {
        wr_id: 0,
        flags: SendFlags::empty(),
        header: &[0; 14],
        rest: &[],
        segment: None,
    };
    let error = mlx5::send_frame(&mut pair.a.qp, &plain);
    assert_eq!(error, Err(PostError::UnsupportedOperation));
    let builder = a.pd.queue_pair(QpType::Rc, &a.cq, &a.cq);
    let error = builder.max_tso_header(64).build().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
}

#[test]
fn ib_ports_have_no_frames() {
    let context = open();
    let (pd, cq) = (context.alloc_pd().unwrap(), context.create_cq(8).unwrap());
    let built = pd.queue_pair(QpType::RawPacket, &cq, &cq).build();
    let error = built.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
}
