//! Work queues, and queue pairs that distribute frames over them.

use std::net::Ipv4Addr;

use mlx5_tests::{Model, raw as mlx5};
use uverbs::completion::WcOpcode;
use uverbs::mlx5::{
    Adapter, EthernetFields, FlowSpec, Hash, HashFields, IndirectionTable, Ipv4Fields, PortFields,
    RssQueuePair, WorkQueue, WorkQueueFlags, WorkQueueState,
};
use uverbs::{CompletionQueue, ErrorKind, PostError, ProtectionDomain, SendRequest, WcStatus};
use verbs_tests::{Registered, device_name, next, nothing, open, open_named, peer_name};

use crate::frames::{Port, of_type, port, rule};

const KEY: [u8; 40] = [0x5a; 40];
const UDP_PORT: u16 = 0x4242;

fn hash() -> Hash {
    Hash {
        fields: HashFields::SOURCE_IPV4
            | HashFields::DESTINATION_IPV4
            | HashFields::SOURCE_UDP
            | HashFields::DESTINATION_UDP,
        key: KEY,
    }
}

/// Four queues with one completion queue, a table, and the queue pair that distributes over it.
struct Spread {
    qp: RssQueuePair,
    table: IndirectionTable,
    queues: Vec<WorkQueue>,
    cq: CompletionQueue,
    pd: ProtectionDomain,
}

fn spread(adapter: &Adapter) -> Spread {
    let context = adapter.context();
    let (pd, cq) = (context.alloc_pd().unwrap(), context.create_cq(256).unwrap());
    let described = adapter.work_queue(&pd, &cq).max_wr(64);
    let queues: Vec<_> = (0..4)
        .map(|_| {
            let mut queue = described.build().unwrap();
            queue
                .modify(WorkQueueState::Reset, WorkQueueState::Ready)
                .unwrap();
            queue
        })
        .collect();
    let table = adapter
        .create_indirection_table(&queues.iter().collect::<Vec<_>>())
        .unwrap();
    let qp = table.queue_pair(&pd, &hash()).user_data(5).build().unwrap();
    Spread {
        qp,
        table,
        queues,
        cq,
        pd,
    }
}

/// A datagram in a frame.
fn datagram(to: [u8; 6], from: [u8; 6], source: u16) -> Vec<u8> {
    let mut bytes = [&to[..], &from, &[0x08, 0]].concat();
    let addresses = [Ipv4Addr::new(10, 5, 0, 1), Ipv4Addr::new(10, 5, 0, 2)];
    bytes.extend([0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0x66, 0xa6]);
    bytes.extend(addresses.iter().flat_map(Ipv4Addr::octets));
    bytes.extend(source.to_be_bytes());
    bytes.extend(UDP_PORT.to_be_bytes());
    bytes.extend([0, 26, 0, 0]);
    bytes.resize(60, 0x77);
    bytes
}

fn send(port: &mut Port, bytes: &[u8]) {
    let sges = [bytes];
    let mut batch = port.qp.send_batch();
    batch
        .push_inline(&SendRequest::send_inline(&sges).signaled())
        .unwrap();
    batch.submit().unwrap();
    assert!(next(&mut port.cq).is_success());
}

#[test]
fn roce_flows_are_spread_and_each_stays_in_its_queue() {
    let mut a = port(&device_name(), 0);
    let other = open_named(&peer_name());
    let adapter = other.mlx5().unwrap();
    let mut s = spread(&adapter);
    let to = port(&peer_name(), 0).mac;
    let got = Registered::local(&s.pd, 4 * 64 * 128);
    for (at, queue) in (0_u64..).zip(&mut s.queues) {
        for slot in 0..64 {
            let sge = [got.sge((at * 64 + slot) * 128, 128)];
            mlx5::recv_work(queue, at << 32 | slot, &sge).unwrap();
        }
    }
    let udp = FlowSpec::Udp(
        PortFields {
            destination: UDP_PORT,
            source: 0,
        },
        PortFields {
            destination: 0xffff,
            source: 0,
        },
    );
    let specs = [
        of_type(to, 0x0800),
        FlowSpec::Ipv4(Ipv4Fields::default(), Ipv4Fields::default()),
        udp,
    ];
    s.qp.create_flow(&rule(&specs)).unwrap();
    let mut used = [0; 4];
    for source in 1000..1016_u16 {
        let mut of_flow = None;
        for _ in 0..3 {
            let sent = datagram(to, a.mac, source);
            send(&mut a, &sent);
            let done = next(&mut s.cq);
            assert!(
                done.is_success() && done.opcode == WcOpcode::Recv && done.byte_len == 60,
                "{done:?}"
            );
            let (queue, slot) = (done.wr_id >> 32, done.wr_id & 0xffff_ffff);
            let at = usize::try_from(queue).unwrap();
            assert_eq!(done.qp_num, s.queues[at].number());
            assert_eq!(slot, used[at], "each queue's requests are used in order");
            used[at] += 1;
            let place = usize::try_from((queue * 64 + slot) * 128).unwrap();
            assert_eq!(got.get(place, 60), sent);
            assert_eq!(*of_flow.get_or_insert(queue), queue, "a flow has one queue");
        }
    }
    assert!(
        used.iter().filter(|count| **count > 0).count() > 1,
        "{used:?}"
    );
    // Another UDP port is not matched.
    let mut strange = datagram(to, a.mac, 1);
    strange[37] ^= 1;
    send(&mut a, &strange);
    nothing(&mut s.cq);
}

#[test]
fn roce_a_queue_in_error_flushes_and_starts_anew() {
    let context = open();
    let mut s = spread(&context.mlx5().unwrap());
    let memory = Registered::local(&s.pd, 128);
    let queue = &mut s.queues[1];
    assert_eq!(queue.size().0, 64);
    for wr_id in 0..64 {
        mlx5::recv_work(queue, wr_id, &[memory.sge(0, 128)]).unwrap();
    }
    let failed = mlx5::recv_work(queue, 64, &[memory.sge(0, 128)]).unwrap_err();
    assert_eq!(failed.error, PostError::QueueFull);
    queue
        .modify(WorkQueueState::Ready, WorkQueueState::Error)
        .unwrap();
    while let Some(done) = s.cq.poll().unwrap() {
        assert_eq!(done.status, WcStatus::Flushed, "{done:?}");
    }
    queue
        .modify(WorkQueueState::Error, WorkQueueState::Reset)
        .unwrap();
    queue
        .modify(WorkQueueState::Reset, WorkQueueState::Ready)
        .unwrap();
    // Whether the device flushed them or the reset discarded them, nothing of the old incarnation
    // is left to block the new one.
    nothing(&mut s.cq);
    mlx5::recv_work(&mut s.queues[1], 7, &[memory.sge(0, 128)]).unwrap();
}

#[test]
fn roce_parts_outlive_their_handles() {
    let mut model = Model::open();
    let context = open();
    let adapter = context.mlx5().unwrap();
    drop(spread(&adapter));
    let census = model.ask("census 0");
    let mut s = spread(&adapter);
    let specs = [FlowSpec::Ethernet(
        EthernetFields::default(),
        EthernetFields::default(),
    )];
    s.qp.create_flow(&rule(&specs)).unwrap();
    let error = s.queues.remove(0).destroy().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
    let error = s.table.destroy().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
    drop((s.queues, s.pd, s.cq));
    s.qp.destroy().unwrap();
    assert_eq!(context.leaked(), 0);
    assert_eq!(model.ask("census 0"), census);
}

#[test]
fn roce_what_cannot_be_spread_is_reported() {
    let context = open();
    let adapter = context.mlx5().unwrap();
    let s = spread(&adapter);
    let three: Vec<_> = s.queues.iter().take(3).collect();
    let error = adapter.create_indirection_table(&three).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    let of = |fields| Hash { fields, key: KEY };
    let lacking = HashFields::all()
        .iter_names()
        .map(|(_, field)| field)
        .find(|field| field.bits() & adapter.caps().rss_fields == 0);
    let error = s
        .table
        .create_queue_pair(&s.pd, &of(lacking.unwrap()))
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    let unnamed = of(HashFields::from_bits_retain(1 << 60));
    let error = s.table.create_queue_pair(&s.pd, &unnamed).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    let both = Hash {
        fields: HashFields::SOURCE_IPV4 | HashFields::SOURCE_IPV6,
        key: KEY,
    };
    let error = s.table.create_queue_pair(&s.pd, &both).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    let other = open();
    let error = other
        .mlx5()
        .unwrap()
        .create_indirection_table(&[&s.queues[0]])
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
}

/// A frame with a VLAN tag.
fn tagged(to: [u8; 6], from: [u8; 6]) -> Vec<u8> {
    let mut bytes = [&to[..], &from, &[0x81, 0, 0x20, 0x07, 0x12, 0x34]].concat();
    bytes.resize(64, 0x77);
    bytes
}

#[test]
fn roce_a_work_queue_strips_tags_while_it_is_told_to() {
    let mut a = port(&device_name(), 0);
    let other = open_named(&peer_name());
    let adapter = other.mlx5().unwrap();
    let mut s = spread(&adapter);
    let to = port(&peer_name(), 0).mac;
    let got = Registered::local(&s.pd, 4 * 128);
    let mac = EthernetFields {
        destination: to,
        ..EthernetFields::default()
    };
    let whole = EthernetFields {
        destination: [0xff; 6],
        ..EthernetFields::default()
    };
    let specs = [FlowSpec::Ethernet(mac, whole)];
    s.qp.create_flow(&rule(&specs)).unwrap();
    let frame = tagged(to, a.mac);
    let stripped = [&frame[..12], &frame[16..]].concat();
    let option = WorkQueueFlags::CVLAN_STRIPPING;
    for strips in [false, true, false] {
        for (at, queue) in (0_u64..).zip(&mut s.queues) {
            let options = if strips {
                option
            } else {
                WorkQueueFlags::empty()
            };
            queue.set_options(options, option).unwrap();
            let sge = [got.sge(at * 128, 128)];
            mlx5::recv_work(queue, at, &sge).unwrap();
        }
        send(&mut a, &frame);
        let done = next(&mut s.cq);
        assert_eq!(done.status, WcStatus::Success, "{done:?}");
        let expected = if strips { &stripped } else { &frame };
        assert_eq!(done.byte_len as usize, expected.len());
        let at = usize::try_from(done.wr_id).unwrap() * 128;
        assert_eq!(&got.get(at, expected.len()), expected);
    }
    let fixed = WorkQueueFlags::PCI_WRITE_END_PADDING;
    let error = s.queues[0].set_options(fixed, fixed).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
}
