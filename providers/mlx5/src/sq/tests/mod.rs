//! Random requests, decoded from the ring and compared with what was requested.
#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "tests of small numbers"
)]

mod composed;
mod decode;
mod edges;
mod keys;
mod typed;

use proptest::prelude::*;
use uverbs_core::Op;
use uverbs_core::hw::{PagePool, Pages, Part, Records};
use uverbs_core::sys::Mapping;
use uverbs_core::types::{
    AccessFlags, Address, AtomicCap, Destination, LocalKey, MwType, Payload, QpCaps, QpType,
    Remote, RemoteKey, Sge, WindowBinding,
};

use super::*;
use crate::tests::scripted::Scripted;
use crate::tests::shorter;
use crate::tracker::{Receives, Request};
use crate::wqe::sizes::Overhead;
use decode::{Decoded, decode};

const QPN: u32 = 0x00ab_cdef;
const UAR: usize = 4096;

struct Queue {
    ring: SendRing,
    registers: Arc<Mapping>,
    record: Arc<Record>,
    tracker: Arc<QueuePairTracker>,
    sizes: sizes::Send,
    route: usize,
}

/// A queue of `kind` whose doorbell accepts copies of up to `blocks` blocks.
fn queue(kind: QpType, max_send_wr: u32, blocks: u32) -> Queue {
    let limits = sizes::Limits {
        max_sq_desc: 1024,
        max_rq_desc: 512,
        max_send_blocks: 32768,
        max_recv_wr: 32768,
    };
    let (overhead, route) = match kind {
        QpType::Ud => (Overhead::DATAGRAM, 48),
        QpType::XrcInitiator => (Overhead::XRC, 16),
        _ => (Overhead::CONNECTED, 0),
    };
    let caps = QpCaps {
        max_send_wr,
        max_send_sge: 4,
        max_inline_data: 200,
        ..QpCaps::default()
    };
    let sizes = sizes::Send::new(Op::CreateQueuePair, &limits, &caps, overhead, 0).unwrap();
    let part = Part::from(Pages::new(sizes.bytes() as usize).unwrap());
    let registers = Arc::new(Mapping::anonymous(UAR).unwrap());
    let record = Arc::new(Records::new(64, &PagePool::default()).take().unwrap());
    let tracker = Arc::new(QueuePairTracker::new(sizes.blocks, Receives::None));
    let mut ring = SendRing::new(Parts {
        ring: BlockRing::new(part, sizes.blocks).unwrap(),
        sizes,
        operations: Operations::of(kind, AtomicCap::Device),
        qpn: QPN,
        signal_all: false,
        kind,
        fork: ForkToken::current(),
        tracker: Arc::clone(&tracker),
        record: Arc::clone(&record),
        doorbell: Doorbell::for_tests(&registers, blocks),
    });
    ring.set_ready(true);
    Queue {
        ring,
        registers,
        record,
        tracker,
        sizes,
        route,
    }
}

impl Queue {
    fn bytes(&self) -> Vec<u8> {
        self.ring.bytes()
    }

    fn decode(&self, block: u32) -> Decoded {
        let at = (block % self.sizes.blocks) as usize * 64;
        decode(&self.bytes(), at, self.route)
    }

    fn registers(&self, offset: usize, len: usize) -> Vec<u8> {
        (offset..offset + len)
            .step_by(4)
            .flat_map(|at| self.registers.load_u32(at).unwrap().to_ne_bytes())
            .collect()
    }

    fn put(&mut self, request: &SendRequest<'_>) -> Result<(), PostError> {
        match self.route {
            0 => self.ring.put(request),
            16 => self.ring.put_routed(request, &[wqe::xrc(0x77)]),
            _ => self.ring.put_datagram(request),
        }
    }
}

/// A request as data.
#[derive(Clone, Debug)]
struct Asked {
    operation: u8,
    lengths: Vec<u32>,
    inline: Option<Vec<Vec<u8>>>,
    flags: u32,
    numbers: (u64, u64, u32),
    ring: bool,
    completes: bool,
}

fn asked() -> impl Strategy<Value = Asked> {
    let lengths = prop::collection::vec(prop_oneof![Just(0), Just(8), 1..9000_u32], 0..6);
    let bytes = prop::collection::vec(prop::collection::vec(any::<u8>(), 0..90), 0..4);
    (
        0..11_u8,
        lengths,
        prop::option::of(bytes),
        0..8_u32,
        any::<(u64, u64, u32)>(),
        any::<bool>(),
        any::<bool>(),
    )
        .prop_map(
            |(operation, lengths, inline, flags, numbers, ring, completes)| Asked {
                operation,
                lengths,
                inline,
                flags,
                numbers,
                ring,
                completes,
            },
        )
}

fn remote(requested: &Asked) -> Remote {
    let aligned = matches!(requested.operation, 6 | 7) && !requested.numbers.2.is_multiple_of(5);
    Remote {
        address: if aligned {
            requested.numbers.0 & !7
        } else {
            requested.numbers.0
        },
        key: RemoteKey::from_raw(requested.numbers.2),
    }
}

fn operation<'a>(requested: &Asked, binding: &'a WindowBinding) -> Operation<'a> {
    let (first, second, third) = requested.numbers;
    let key = RemoteKey::from_raw(third);
    let remote = remote(requested);
    match requested.operation {
        0 => Operation::Send,
        1 => Operation::SendImm(third),
        2 => Operation::SendInvalidate(key),
        3 => Operation::Write(remote),
        4 => Operation::WriteImm(remote, !third),
        5 => Operation::Read(remote),
        6 => Operation::CompareSwap {
            remote,
            compare: second,
            swap: first,
        },
        7 => Operation::FetchAdd {
            remote,
            add: second,
        },
        8 => Operation::BindWindow(binding),
        9 => Operation::LocalInvalidate(key),
        _ => Operation::AtomicWrite {
            remote,
            value: [1; 8],
        },
    }
}

/// Opcodes by the numbers above.
const OPCODES: [u64; 10] = [0x0a, 0x0b, 0x01, 0x08, 0x09, 0x10, 0x11, 0x12, 0x25, 0x25];

/// Whether a transport has an operation.
fn has(kind: QpType, operation: u8) -> bool {
    match kind {
        QpType::Ud => operation < 2,
        QpType::Uc => !matches!(operation, 5..=7 | 10),
        _ => operation != 10,
    }
}

/// The result that the decoder must return, or `None` if the request must be refused.
fn expect(kind: QpType, requested: &Asked, sges: &[Sge], sizes: &sizes::Send) -> Option<Decoded> {
    let number = requested.operation;
    if !has(kind, number) {
        return None;
    }
    let mut found = Decoded {
        opcode: OPCODES[usize::from(number)],
        ..Decoded::default()
    };
    let (first, second, third) = requested.numbers;
    let remote = remote(requested);
    found.remote = matches!(number, 3..=7).then(|| (remote.address, u64::from(remote.key.raw())));
    found.immediate = match number {
        1 | 2 | 9 => third.into(),
        4 => (!third).into(),
        8 => 0x1200,
        _ => 0,
    };
    found.operands = match number {
        6 => Some((first, second)),
        7 => Some((second, 0)),
        _ => None,
    };
    let total: usize = match &requested.inline {
        Some(inline) => inline.iter().map(Vec::len).sum(),
        None => sges.iter().map(|sge| sge.length as usize).sum(),
    };
    match (&requested.inline, number) {
        (_, 8 | 9) => return (total == 0).then_some(found),
        (Some(_), 5..=7) => return None,
        (None, 6 | 7) => {
            let fits = sges.len() == 1 && total == 8 && remote.address.is_multiple_of(8);
            if !fits {
                return None;
            }
        }
        (Some(inline), _) => {
            if total > sizes.usable_inline as usize {
                return None;
            }
            found.inline = (total != 0).then(|| inline.concat());
        }
        (None, _) if sges.len() > sizes.usable_sge as usize => return None,
        _ => {}
    }
    if requested.inline.is_none() {
        found.sges = sges
            .iter()
            .filter(|sge| sge.length != 0)
            .map(|sge| {
                let key = sge.key.raw();
                (sge.length.into(), key.into(), sge.address)
            })
            .collect();
    }
    Some(found)
}

fn binding() -> WindowBinding {
    WindowBinding {
        kind: MwType::Type2,
        window_key: RemoteKey::from_raw(0x1200),
        new_key: RemoteKey::from_raw(0x1201),
        region_key: LocalKey::from_raw(0x5600),
        address: 0x1000,
        length: 0x2000,
        access: AccessFlags::REMOTE_READ,
    }
}

fn play(kind: QpType, script: &[Asked]) {
    let mut queue = queue(kind, 7, 4);
    let binding = binding();
    let (_, file) = Scripted::new();
    let address = Address::new(&file, None, 0, [0x5a; 88]);
    let (mut block, mut requests, mut done, mut submitted) = (0_u32, 0_u32, 0_u32, 0_u32);
    let (mut small_fence, mut fence_submitted, mut block_submitted) = (false, false, 0);
    let (mut last, mut last_submitted) = (0, 0);
    for (wr_id, requested) in (1_u64..).zip(script) {
        let sges: Vec<Sge> = requested
            .lengths
            .iter()
            .zip(1_u64..)
            .map(|(length, at)| Sge {
                address: at << 32 | requested.numbers.1 & 0xffff,
                length: *length,
                key: LocalKey::from_raw(requested.numbers.2 ^ *length),
            })
            .collect();
        let slices: Vec<&[u8]> = requested
            .inline
            .iter()
            .flatten()
            .map(Vec::as_slice)
            .collect();
        let payload = match requested.inline {
            Some(_) => Payload::Inline(&slices),
            None => Payload::Gather(&sges),
        };
        let flags = SendFlags::from_bits_retain(requested.flags);
        let mut request = SendRequest::new(operation(requested, &binding), payload)
            .wr_id(wr_id)
            .with(flags);
        if kind == QpType::Ud {
            request = request.to(Destination {
                address: &address,
                qp_num: 0x1234,
                qkey: 0x1111_1111,
            });
        }
        let expected = expect(kind, requested, &sges, &queue.sizes);
        let full = requests - done >= queue.sizes.max_post;
        let result = queue.put(&request);
        match expected {
            Some(expected) if !full => {
                assert_eq!(result, Ok(()), "{requested:?}");
                let found = queue.decode(block);
                let fence = match requested.flags & 1 {
                    1 => 0x80,
                    _ if small_fence => 0x20,
                    _ => 0,
                };
                let flags = fence
                    | u64::from(requested.flags & 2) << 2
                    | u64::from(requested.flags & 4) >> 1;
                assert_eq!((found.flags, found.qpn), (flags, u64::from(QPN)));
                assert_eq!(found.index, u64::from(block & 0xffff));
                let route = if expected.opcode == 0x25 {
                    0
                } else {
                    queue.route
                };
                assert_eq!(found.route.len(), route);
                small_fence = expected.opcode == 0x25;
                last = block;
                block = block.wrapping_add((found.units as u32).div_ceil(4));
                requests += 1;
                let relevant = Decoded {
                    index: 0,
                    qpn: 0,
                    units: 0,
                    flags: 0,
                    route: Vec::new(),
                    change: Vec::new(),
                    ..found
                };
                assert_eq!(relevant, expected);
            }
            Some(_) => assert_eq!(result, Err(PostError::QueueFull)),
            None => assert!(result.is_err(), "{requested:?}"),
        }
        if requested.flags == 6 && requested.ring {
            queue.ring.abort();
            (block, requests, small_fence, last) =
                (block_submitted, submitted, fence_submitted, last_submitted);
        } else if requested.ring {
            assert_eq!(queue.ring.submit(), Ok(()));
            assert_eq!(queue.record.load(1), block & 0xffff);
            assert_eq!(queue.record.load(0), 0);
            (block_submitted, submitted, fence_submitted, last_submitted) =
                (block, requests, small_fence, last);
        }
        if requested.completes && submitted > done {
            let counter = u16::try_from(last & 0xffff).unwrap();
            // The last request of the last doorbell, or of one before: everything submitted is
            // completed.
            if requests == submitted {
                assert!(matches!(queue.tracker.sent(0, counter), Request::Of(_)));
                done = submitted;
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn reliable_connections(script in prop::collection::vec(asked(), 1..shorter(60))) {
        play(QpType::Rc, &script);
    }

    #[test]
    fn unreliable_connections(script in prop::collection::vec(asked(), 1..shorter(60))) {
        play(QpType::Uc, &script);
    }

    #[test]
    fn datagrams(script in prop::collection::vec(asked(), 1..shorter(60))) {
        play(QpType::Ud, &script);
    }

    #[test]
    fn xrc(script in prop::collection::vec(asked(), 1..shorter(60))) {
        play(QpType::XrcInitiator, &script);
    }
}
