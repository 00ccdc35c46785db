//! Randomly generated tables.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};

use crate::table::{Batch, Case, Request, TARGET, Table, Transport, Verb};

/// The longest message: more than one packet, and not so long that a send takes too long.
const LONGEST: u32 = 9000;
/// The longest datagram.
const DATAGRAM: u32 = 2048;
/// Number of bytes before a datagram where it is received.
const ROUTE: u32 = 40;

/// A table of `cases` queue pairs, and one written for what random ones may miss; the same seed
/// gives the same table.
#[must_use]
pub fn table(seed: u64, cases: usize) -> Table {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(proptest::test_runner::Config::default(), rng);
    let drawn = (0..cases).filter_map(|_| case().new_tree(&mut runner).ok());
    Table {
        cases: drawn
            .map(|tree| tree.current())
            .chain([leftovers()])
            .collect(),
    }
}

/// A queue that wraps several times with short requests in slots of longer ones, independent of the
/// seed: it shows what libmlx5 leaves behind there.
fn leftovers() -> Case {
    let request = |verb, inline: bool, sges| Request {
        verb,
        fence: false,
        signaled: true,
        solicited: false,
        inline,
        sges,
        remote: TARGET + 16384,
        words: (u64::MAX / 3, u64::MAX / 5),
        receive: Vec::new(),
    };
    let landing = vec![(TARGET / 2 - 65536, 8)];
    let mut send = request(Verb::Send, true, vec![(0, 1)]);
    send.receive = vec![(TARGET, 1)];
    // Each takes one slot, and a power of two is not a multiple of three.
    let batch = Batch {
        requests: vec![
            request(Verb::AtomicCmpAndSwp, false, landing.clone()),
            send,
            request(Verb::AtomicFetchAndAdd, false, landing),
        ],
        notify: None,
    };
    Case {
        transport: Transport::Rc,
        max_send_wr: 3,
        max_send_sge: 1,
        max_inline: 1,
        max_recv_wr: 1,
        max_recv_sge: 1,
        shared: false,
        batches: vec![batch; 40],
    }
}

fn case() -> impl Strategy<Value = Case> {
    let transport = prop_oneof![
        Just(Transport::Rc),
        Just(Transport::Uc),
        Just(Transport::Ud),
        Just(Transport::Xrc),
        Just(Transport::Dc)
    ];
    let inline = prop_oneof![Just(0_u32), 1_u32..300];
    let receive = (1_u32..20, 1_u32..9, any::<bool>());
    (transport, 1_u32..40, 1_u32..6, inline, receive).prop_flat_map(
        |(transport, max_send_wr, max_send_sge, max_inline, receive)| {
            let (max_recv_wr, max_recv_sge, shared) = receive;
            // This library refuses a shared queue for UC, which `ibv_create_qp` does not promise.
            let shared = match transport {
                Transport::Rc | Transport::Ud => shared,
                Transport::Uc => false,
                Transport::Xrc | Transport::Dc => true,
            };
            let one = (
                request(transport, max_send_sge, max_inline),
                scatter(max_recv_sge),
            );
            let requests = vec(one, 1..=max_send_wr.min(max_recv_wr) as usize);
            let batch = (requests, prop::option::of(any::<bool>()));
            vec(batch, 1..12).prop_map(move |batches| {
                let batches = batches.into_iter();
                let batches = batches
                    .map(|(requests, notify)| batch_of(transport, shared, requests, notify))
                    .collect();
                Case {
                    transport,
                    max_send_wr,
                    max_send_sge,
                    max_inline,
                    max_recv_wr,
                    max_recv_sge,
                    shared,
                    batches,
                }
            })
        },
    )
}

/// Where a receive request's scatter/gather entries begin, and how they share the available room.
fn scatter(max_sge: u32) -> impl Strategy<Value = Vec<(u64, u32)>> {
    let sge = (TARGET..2 * TARGET - 16384, any::<u32>());
    vec(sge, 1..=max_sge as usize)
}

fn batch_of(
    transport: Transport,
    shared: bool,
    requests: Vec<(Request, Vec<(u64, u32)>)>,
    notify: Option<bool>,
) -> Batch {
    let mut requests: Vec<Request> = requests
        .into_iter()
        .map(|(mut request, sges)| {
            if request.verb.is_received() {
                request.receive = sges;
                share(transport, shared, &mut request);
            }
            request
        })
        .collect();
    if let Some(last) = requests.last_mut() {
        last.signaled = true;
    }
    let mut batch = Batch {
        requests,
        notify: None,
    };
    // Only an event that will come is waited for. The completion queue of an XRC domain's shared
    // queue is not known from its queue pairs.
    batch.notify = notify
        .filter(|_| transport != Transport::Xrc)
        .filter(|solicited| batch.received().any(|one| one.solicited || !solicited));
    batch
}

/// Splits the room for a message at random. A queue pair's own queue skips entries of length 0;
/// libmlx5's shared queues do not, and the device takes 0 for 2 GiB: in those every entry has a
/// length.
fn share(transport: Transport, shared: bool, request: &mut Request) {
    let message: u32 = request.sges.iter().map(|(_, length)| length).sum();
    let route = if transport == Transport::Ud { ROUTE } else { 0 };
    let mut left = message + route;
    let least = u32::from(shared);
    let count = request.receive.len();
    for (at, (_, length)) in request.receive.iter_mut().enumerate() {
        let part = if at + 1 == count || *length % 4 == 0 && at == 0 {
            left
        } else if *length % 4 == 1 {
            0
        } else {
            *length % (left + 1)
        };
        *length = part.max(least);
        left = left.saturating_sub(part);
    }
}

fn verbs(transport: Transport) -> Vec<Verb> {
    let all = [
        Verb::Send,
        Verb::SendWithImm,
        Verb::RdmaWrite,
        Verb::RdmaWriteWithImm,
        Verb::RdmaRead,
        Verb::AtomicCmpAndSwp,
        Verb::AtomicFetchAndAdd,
    ];
    let count = match transport {
        Transport::Ud => 2,
        Transport::Uc => 4,
        Transport::Rc | Transport::Xrc | Transport::Dc => 7,
    };
    all[..count].to_vec()
}

fn request(transport: Transport, max_sge: u32, max_inline: u32) -> impl Strategy<Value = Request> {
    let longest = if transport == Transport::Ud {
        DATAGRAM
    } else {
        LONGEST
    };
    let verb = prop::sample::select(verbs(transport));
    let flags = any::<[bool; 4]>();
    let sges = vec((0..TARGET / 2 - 81920, 0..=longest), 1..=max_sge as usize);
    let words = (any::<u64>(), any::<u64>());
    let remote = TARGET + 16384..2 * TARGET - 65536;
    (verb, flags, sges, remote, words).prop_map(
        move |(verb, [fence, signaled, solicited, inline], mut sges, remote, words)| {
            let is_atomic = matches!(verb, Verb::AtomicCmpAndSwp | Verb::AtomicFetchAndAdd);
            let reads = is_atomic || verb == Verb::RdmaRead;
            let inline = inline && max_inline > 0 && !reads;
            if is_atomic {
                sges = vec![(sges[0].0 & !7, 8)];
            }
            if reads {
                // Data is read to where nothing is sent from: inline data is what it was at the
                // start.
                for (offset, _) in &mut sges {
                    *offset += TARGET / 2 - 65536;
                }
            }
            let mut room = if inline { max_inline } else { longest };
            for (_, length) in &mut sges {
                *length = (*length).min(room);
                room -= *length;
            }
            Request {
                verb,
                // Only reads and atomics are waited for; other transports accept the flag all the
                // same.
                fence,
                signaled,
                solicited,
                inline,
                sges,
                remote: if is_atomic { remote & !7 } else { remote },
                words,
                receive: Vec::new(),
            }
        },
    )
}
