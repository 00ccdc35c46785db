//! Requests that one vendor's queues have, posted on any.

use uverbs::Remote;
use uverbs::mlx5::AtomicMasks;
use uverbs::owned::{QueuePair, Refused, Work};

use super::made::Request;
use super::{Outcome, World, pick};

/// The header of a frame.
const HEADER: [u8; 14] = [0x5a; 14];

type Posted = Result<(), Box<Refused>>;

impl World<'_> {
    /// Posts a masked atomic operation or a frame; most queues refuse it.
    pub(super) fn special(&mut self, a: u8, b: u8, c: u8) -> Outcome {
        let Some(at) = self.an_owned(a) else {
            return Ok(());
        };
        if self.hands.is_empty() {
            return Ok(());
        }
        let Some(remote) = self.remote(c) else {
            return Ok(());
        };
        let mut hand = self.hands.swap_remove(pick(self.hands.len(), b));
        let number = self.number();
        // Atomics take eight bytes.
        let len = if c & 1 == 0 { 8 } else { hand.buffer.len() };
        hand.write(number, len);
        self.messages.insert(number, len);
        let pair = &mut self.pairs[at];
        let request = Request {
            owner: pair.uid,
            place: Some(hand.buffer.as_ptr().addr()),
            sure: false,
            quiet: false,
        };
        let Some(qp) = pair.owned() else {
            return Ok(());
        };
        self.requests.insert(number, request);
        match post(qp, b, remote, (hand.buffer, len), number) {
            Ok(()) => {
                self.posted(number);
                Ok(())
            }
            Err(refused) => self.handed_back(number, *refused),
        }
    }
}

fn post(
    qp: &mut QueuePair,
    b: u8,
    remote: Remote,
    memory: (uverbs::owned::Buffer, usize),
    number: u64,
) -> Posted {
    let adding = AtomicMasks::FetchAdd { boundary: 1 << 31 };
    let swapping = AtomicMasks::CompareSwap {
        compare: 0xff,
        swap: 0xff00,
    };
    match b >> 4 {
        0..=5 => {
            let work = Work::fetch_add(remote, 1).memory(memory).user_data(number);
            qp.post_masked(work, if b == 0x5f { swapping } else { adding })
        }
        6..=11 => {
            let work = Work::compare_swap(remote, 0, 1).memory(memory);
            qp.post_masked(work.user_data(number), swapping)
        }
        12 | 13 => qp.post_packet(Work::send().memory(memory).user_data(number)),
        _ => {
            let segment = (b & 1 == 1).then_some(16);
            qp.post_frame(
                Work::send().memory(memory).user_data(number),
                &HEADER,
                segment,
            )
        }
    }
}
