//! Tables drawn at random.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};

use crate::table::{Case, Request, TARGET, Table, Transport, Verb};

/// The longest message: more than one packet, less than a send takes too long for.
const LONGEST: u32 = 9000;
/// A datagram's.
const DATAGRAM: u32 = 2048;

/// A table of `cases` queue pairs; the same for the same seed.
#[must_use]
pub fn table(seed: u64, cases: usize) -> Table {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(proptest::test_runner::Config::default(), rng);
    let drawn = (0..cases).filter_map(|_| case().new_tree(&mut runner).ok());
    Table {
        cases: drawn.map(|tree| tree.current()).collect(),
    }
}

fn case() -> impl Strategy<Value = Case> {
    let transport = prop_oneof![
        Just(Transport::Rc),
        Just(Transport::Uc),
        Just(Transport::Ud)
    ];
    let inline = prop_oneof![Just(0_u32), 1_u32..300];
    (transport, 1_u32..40, 1_u32..6, inline, 1_u32..20, 1_u32..5).prop_flat_map(
        |(transport, max_send_wr, max_send_sge, max_inline, max_recv_wr, max_recv_sge)| {
            let one = request(transport, max_send_sge, max_inline);
            let batch = vec(one, 1..=max_send_wr.min(max_recv_wr) as usize);
            vec(batch, 1..12).prop_map(move |mut batches| {
                for last in batches.iter_mut().filter_map(|batch| batch.last_mut()) {
                    last.signaled = true;
                }
                Case {
                    transport,
                    max_send_wr,
                    max_send_sge,
                    max_inline,
                    max_recv_wr,
                    max_recv_sge,
                    batches,
                }
            })
        },
    )
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
        Transport::Rc => 7,
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
    let pieces = vec((0..TARGET / 2 - 81920, 0..=longest), 1..=max_sge as usize);
    let words = (any::<u64>(), any::<u64>());
    let remote = TARGET + 16384..2 * TARGET - 65536;
    (verb, flags, pieces, remote, words).prop_map(
        move |(verb, [fence, signaled, solicited, inline], mut pieces, remote, words)| {
            let is_atomic = matches!(verb, Verb::AtomicCmpAndSwp | Verb::AtomicFetchAndAdd);
            let reads = is_atomic || verb == Verb::RdmaRead;
            let inline = inline && max_inline > 0 && !reads;
            if is_atomic {
                pieces = vec![(pieces[0].0 & !7, 8)];
            }
            if reads {
                // What is read lands where nothing is sent from: inline data is what it was at the start.
                for (offset, _) in &mut pieces {
                    *offset += TARGET / 2 - 65536;
                }
            }
            let mut room = if inline { max_inline } else { longest };
            for (_, length) in &mut pieces {
                *length = (*length).min(room);
                room -= *length;
            }
            Request {
                verb,
                // Only reads and atomics are waited for; other transports take the flag all the same.
                fence,
                signaled,
                solicited,
                inline,
                pieces,
                remote: if is_atomic { remote & !7 } else { remote },
                words,
            }
        },
    )
}
