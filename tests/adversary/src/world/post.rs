//! Posting: what is accepted, and what is refused.

use uverbs::memory::MwType;
use uverbs::owned::{Memory, Refused, Work};
use uverbs::request::WindowBinding;
use uverbs::{Operation, PostError, QpType, Remote, SendFlags};

use super::made::{Body, Pair, Request, fill, place};
use super::make::INLINE;
use super::{Outcome, World, pick};
use crate::face::{self, Ending};
use crate::finding::Rule;

/// How often something is refused: mostly around powers of two, where counters wrap.
const TIMES: [u32; 16] = [
    1, 2, 3, 7, 8, 15, 16, 17, 127, 128, 253, 254, 255, 255, 256, 257,
];

/// Bytes of a peer's window or region that any operation here needs.
const SPACE: u8 = 16;

/// Steps with this number or a larger one post without asking for a completion.
const UNSIGNALED: u8 = 0xc0;

impl World<'_> {
    /// The index in the list of one of the owned queue pairs.
    pub(super) fn an_owned(&self, a: u8) -> Option<usize> {
        let is_owned = |pair: &Pair| matches!(pair.body, Body::Owned(_));
        let mut all = (0..self.pairs.len()).filter(|at| is_owned(&self.pairs[*at]));
        let count = all.clone().count();
        all.nth(pick(count, a))
    }

    /// Addresses a send request to the peer of a queue pair.
    pub(super) fn addressed(&self, at: usize, work: Work) -> Work {
        let link = &self.pairs[at].link;
        match &link.address {
            // The default key.
            Some(address) => work.to(address, link.peer.qp_num, 0x1111_1111),
            None => work,
        }
    }

    /// Posts, and records the request.
    fn post(&mut self, at: usize, work: Work, number: u64, place: Option<usize>) -> Outcome {
        self.post_as(at, work, number, place, false)
    }

    fn post_as(
        &mut self,
        at: usize,
        work: Work,
        number: u64,
        place: Option<usize>,
        quiet: bool,
    ) -> Outcome {
        let work = work.user_data(number);
        let work = if quiet { work.unsignaled() } else { work };
        let pair = &mut self.pairs[at];
        let owner = pair.uid;
        let Some(qp) = pair.owned() else {
            return Ok(());
        };
        let request = Request {
            owner,
            place,
            sure: false,
            quiet,
        };
        self.requests.insert(number, request);
        match qp.post(work) {
            Ok(()) => {
                self.posted(number);
                Ok(())
            }
            Err(refused) => self.handed_back(number, *refused),
        }
    }

    pub(super) fn posted(&mut self, number: u64) {
        if let Some(request) = self.requests.get_mut(&number) {
            request.sure = true;
        }
    }

    pub(super) fn handed_back(&mut self, number: u64, refused: Refused) -> Outcome {
        let Some(work) = refused.work else {
            // The kernel may have seen it. The memory stays with the queue.
            self.doubt = true;
            return Ok(());
        };
        self.returned(number, work.take_memory())
    }

    fn returned(&mut self, number: u64, memory: Memory) -> Outcome {
        let there = place(&memory);
        match self.requests.remove(&number) {
            Some(request) if request.place == there => {}
            known => self.found(Rule::NotOut, || {
                format!("{number} was refused and gave {there:?}; known: {known:?}")
            })?,
        }
        self.take(memory);
        Ok(())
    }

    pub(super) fn send(&mut self, a: u8, b: u8, c: u8) -> Outcome {
        let Some(at) = self.an_owned(a) else {
            return Ok(());
        };
        if self.hands.is_empty() {
            return Ok(());
        }
        let mut hand = self.hands.swap_remove(pick(self.hands.len(), b));
        let full = hand.buffer.len();
        let datagram = self.pairs[at].link.kind == QpType::Ud;
        let len = match c & 7 {
            0..=3 if datagram => full.min(16),
            0..=3 => full,
            4 => full.min(8),
            5 => 0,
            6 => full / 2,
            _ => full + 1,
        };
        let number = self.number();
        hand.write(number, len);
        self.messages.insert(number, len);
        let there = Some(hand.buffer.as_ptr().addr());
        let work = match c >> 3 & 3 {
            3 => Work::send_imm(7).untyped(),
            _ => Work::send().untyped(),
        };
        // Sometimes a flag without a name, which must have no effect.
        let unnamed = if b >> 3 == 0x1f { 1 << (a & 31) } else { 0 };
        let flags = SendFlags::from_bits_retain(u32::from(c >> 5) | unnamed);
        let work = work.memory((hand.buffer, len)).flags(flags);
        let work = self.addressed(at, work);
        self.post_as(at, work, number, there, a >= UNSIGNALED)
    }

    pub(super) fn inline(&mut self, a: u8, c: u8) {
        let Some(at) = self.an_owned(a) else {
            return;
        };
        let number = self.number();
        let mut bytes = [0; INLINE + 8];
        let len = pick(bytes.len(), c);
        fill(&mut bytes, number, len);
        self.messages.insert(number, len);
        let pair = &mut self.pairs[at];
        let request = Request {
            owner: pair.uid,
            place: None,
            sure: false,
            quiet: false,
        };
        self.requests.insert(number, request);
        let Some(qp) = pair.owned() else {
            return;
        };
        let posted = qp.send_inline(&bytes[..len], number);
        self.record(number, posted);
    }

    /// A request without memory was posted or refused.
    fn record(&mut self, number: u64, posted: Result<(), PostError>) {
        match posted {
            Ok(()) => self.posted(number),
            Err(PostError::Doorbell(_)) => self.doubt = true,
            Err(_) => drop(self.requests.remove(&number)),
        }
    }

    pub(super) fn receive_empty(&mut self, a: u8) {
        let Some(at) = self.an_owned(a) else {
            return;
        };
        let number = self.number();
        let pair = &mut self.pairs[at];
        let request = Request {
            owner: pair.uid,
            place: None,
            sure: false,
            quiet: false,
        };
        self.requests.insert(number, request);
        let Some(qp) = pair.owned() else {
            return;
        };
        let posted = qp.recv_empty(number);
        self.record(number, posted);
    }

    pub(super) fn receive(&mut self, a: u8, b: u8) -> Outcome {
        let Some(at) = self.an_owned(a) else {
            return Ok(());
        };
        if self.hands.is_empty() {
            return Ok(());
        }
        let hand = self.hands.swap_remove(pick(self.hands.len(), b));
        let number = self.number();
        let pair = &mut self.pairs[at];
        let request = Request {
            owner: pair.uid,
            place: Some(hand.buffer.as_ptr().addr()),
            sure: false,
            quiet: false,
        };
        self.requests.insert(number, request);
        let Some(qp) = pair.owned() else {
            return Ok(());
        };
        match qp.recv(hand.buffer, number) {
            Ok(()) => {
                self.posted(number);
                Ok(())
            }
            Err(refused) => self.returned(number, Memory::from(refused.buffer)),
        }
    }

    pub(super) fn receive_shared(&mut self, a: u8, b: u8) -> Outcome {
        if self.srqs.is_empty() || self.hands.is_empty() {
            return Ok(());
        }
        let hand = self.hands.swap_remove(pick(self.hands.len(), b));
        let number = self.number();
        let at = pick(self.srqs.len(), a);
        let srq = &mut self.srqs[at];
        let request = Request {
            owner: srq.uid,
            place: Some(hand.buffer.as_ptr().addr()),
            sure: false,
            quiet: false,
        };
        self.requests.insert(number, request);
        match srq.queue.recv(hand.buffer, number) {
            Ok(()) => {
                self.posted(number);
                Ok(())
            }
            Err(refused) => self.returned(number, Memory::from(refused.buffer)),
        }
    }

    /// An address in memory that peers may access; usually with room after it.
    pub(super) fn remote(&self, c: u8) -> Option<Remote> {
        let (_, memory) = self.exposed.get(pick(self.exposed.len(), c >> 4))?;
        let mut remote = memory.remote().start();
        remote.address += u64::from(c & 15) * u64::from(SPACE);
        Some(remote)
    }

    pub(super) fn one_sided(&mut self, a: u8, b: u8, c: u8) -> Outcome {
        let (Some(at), Some(remote)) = (self.an_owned(a), self.remote(c)) else {
            return Ok(());
        };
        let number = self.number();
        let operation = match b & 15 {
            0..=6 => Operation::Read(remote),
            7 | 8 => Operation::Write(remote),
            9 => Operation::WriteImm(remote, 3),
            10 => Operation::CompareSwap {
                remote,
                compare: 0,
                swap: 1,
            },
            11 => Operation::FetchAdd { remote, add: 1 },
            12 => Operation::AtomicWrite {
                remote,
                value: [c; 8],
            },
            13 => Operation::SendInvalidate(remote.key),
            14 => Operation::LocalInvalidate(remote.key),
            _ if c & 0x80 == 0 => Operation::Write(remote),
            _ => Operation::Read(remote),
        };
        let mut work = Work::new(operation);
        let mut there = None;
        if b & 15 == 15
            && let Some((_, memory)) = self.exposed.get(pick(self.exposed.len(), c))
        {
            // Also ranges that end before they start, and that go beyond the end.
            let from = usize::from(c & 7) * 40;
            work = work.memory((memory.clone(), from..usize::from(c >> 3) * 16));
        } else if !self.hands.is_empty() && b & 15 != 12 {
            let mut hand = self.hands.swap_remove(pick(self.hands.len(), b >> 4));
            let atomic = matches!(b & 15, 10 | 11);
            let len = if atomic {
                8
            } else {
                hand.buffer.len().min(SPACE.into())
            };
            hand.write(number, len);
            self.messages.insert(number, len);
            there = Some(hand.buffer.as_ptr().addr());
            work = work.memory((hand.buffer, len));
        }
        self.post_as(at, work, number, there, a >= UNSIGNALED)
    }

    /// Posts what no queue accepts.
    pub(super) fn refused(&mut self, a: u8, b: u8, c: u8) -> Outcome {
        let Some(at) = self.an_owned(a) else {
            return Ok(());
        };
        let remote = self.remote(b >> 4).unwrap_or(Remote {
            address: 0,
            key: uverbs::memory::RemoteKey::from_raw(0),
        });
        for _ in 0..TIMES[pick(TIMES.len(), c)] {
            if self.hands.is_empty() {
                break;
            }
            let number = self.number();
            // The same buffer each time.
            let hand = self.hands.pop();
            let Some(hand) = hand else { break };
            let there = Some(hand.buffer.as_ptr().addr());
            let len = hand.buffer.len();
            let binding;
            let work = match b & 7 {
                0..=2 => Work::new(Operation::FetchAdd { remote, add: 1 }),
                3 => Work::new(Operation::CompareSwap {
                    remote,
                    compare: 0,
                    swap: 0,
                }),
                4 => Work::new(Operation::LocalInvalidate(remote.key)),
                5 => {
                    binding = &BINDING;
                    Work::new(Operation::BindWindow(binding))
                }
                6 => Work::new(Operation::AtomicWrite {
                    remote,
                    value: [0; 8],
                }),
                _ => Work::send().untyped(),
            };
            // Atomics take eight bytes; no request takes more than the buffer has.
            let len = if b & 7 == 7 || len == 8 { len + 1 } else { len };
            self.post(at, work.memory((hand.buffer, len)), number, there)?;
        }
        Ok(())
    }

    /// Posts with an id that the program chooses.
    pub(super) fn post_raw(&mut self, a: u8, b: u8, c: u8) {
        let is_raw = |pair: &Pair| matches!(pair.body, Body::Raw(_));
        let raw: Vec<_> = (0..self.pairs.len())
            .filter(|at| is_raw(&self.pairs[*at]))
            .collect();
        if raw.is_empty() {
            return;
        }
        let remote = self.remote(c);
        let id = self.guess(b, c);
        let number = self.number();
        let mut bytes = [0; INLINE];
        fill(&mut bytes, number, INLINE);
        self.messages.insert(number, INLINE);
        let operation = match (a >> 4 & 7, remote) {
            (0..=3, Some(remote)) => Operation::Write(remote),
            (4, Some(remote)) => Operation::WriteImm(remote, 1),
            (5, Some(remote)) => Operation::Read(remote),
            _ => Operation::Send,
        };
        let reads = matches!(operation, Operation::Read(_));
        let ending = match c {
            0xf0..=0xf7 => Ending::Dropped,
            0xf8..=0xff => Ending::Forgotten,
            _ => Ending::Submitted,
        };
        let pair = &mut self.pairs[raw[pick(raw.len(), a)]];
        pair.pure = false;
        if let Body::Raw(qp) = &mut pair.body {
            let bytes = (!reads).then_some(&bytes[..]);
            let _ = face::post_raw(qp, id, operation, bytes, ending);
        }
    }

    /// An id: one that was seen, or one near it, or near the first possible one.
    fn guess(&self, b: u8, c: u8) -> u64 {
        const FIELDS: [u32; 8] = [0, 0, 24, 24, 32, 32, 32, 48];
        let base = match self.seen.get(pick(self.seen.len(), b)) {
            Some(seen) => *seen,
            None => 1 << 32 | 1 << 24,
        };
        let delta = i64::from(b >> 3) - 4;
        // Often exactly the same.
        if c & 8 != 0 {
            return base;
        }
        base.wrapping_add_signed(delta << FIELDS[usize::from(c & 7)])
    }
}

const BINDING: WindowBinding = WindowBinding {
    kind: MwType::Type2,
    window_key: uverbs::memory::RemoteKey::from_raw(0),
    new_key: uverbs::memory::RemoteKey::from_raw(0),
    region_key: uverbs::memory::LocalKey::from_raw(0),
    address: 0,
    length: 0,
    access: uverbs::AccessFlags::empty(),
};
