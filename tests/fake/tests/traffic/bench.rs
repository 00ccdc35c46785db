//! A queue pair connected to itself, and random requests on it.

use super::world::World;
use uverbs::completion::WcOpcode;
use uverbs::owned::{self, ExposedMemory, Finished, Memory, Work};
use uverbs::{AccessFlags, CompletionQueue, ProtectionDomain, QpType, SendFlags, WcStatus};

pub(super) const ALL: AccessFlags = AccessFlags::LOCAL_WRITE
    .union(AccessFlags::REMOTE_WRITE)
    .union(AccessFlags::REMOTE_READ)
    .union(AccessFlags::REMOTE_ATOMIC);

/// The peer's memory.
const TARGET: usize = 1 << 14;

/// The longest message: several packets.
const LONGEST: usize = 9000;

/// Sizes of a queue pair.
pub(super) struct Shape {
    pub(super) sends: u32,
    pub(super) receives: u32,
    /// Scatter/gather entries of a request.
    pub(super) sges: u32,
    pub(super) inline: u32,
    /// Its receives are in a shared queue.
    pub(super) shared: bool,
    pub(super) kind: QpType,
}

pub(super) struct Bench {
    pub(super) world: World,
    pub(super) pd: ProtectionDomain,
    pub(super) send_cq: CompletionQueue,
    pub(super) recv_cq: CompletionQueue,
    pub(super) qp: owned::QueuePair,
    srq: Option<owned::SharedReceiveQueue>,
    target: ExposedMemory,
    /// What the target should hold.
    expected: Vec<u8>,
    sges: usize,
    inline: usize,
    most: usize,
    /// How many of the operations the transport has.
    kinds: usize,
    random: u64,
    next: u64,
}

/// A request under way, and what it should lead to.
struct Expected {
    user_data: u64,
    opcode: WcOpcode,
    signaled: bool,
    /// What a read or an atomic operation should bring.
    brings: Option<Vec<u8>>,
    /// Bytes, immediate value and opcode of the receive that it completes.
    received: Option<(Vec<u8>, Option<u32>, WcOpcode)>,
}

impl Bench {
    pub(super) fn new(world: World, shape: &Shape, seed: u64) -> Self {
        let context = world.open();
        let pd = context.alloc_pd().unwrap();
        let send_cq = context.create_cq(shape.sends).unwrap();
        let recv_cq = context.create_cq(shape.receives).unwrap();
        let srq = shape
            .shared
            .then(|| pd.create_srq(shape.receives, 1).unwrap());
        let mut builder = pd
            .queue_pair(shape.kind, &send_cq, &recv_cq)
            .access(ALL)
            .max_send_wr(shape.sends)
            .max_send_sge(shape.sges)
            .max_inline_data(shape.inline);
        builder = match &srq {
            Some(srq) => builder.srq(srq).max_recv_wr(0).max_recv_sge(0),
            None => builder.max_recv_wr(shape.receives).max_recv_sge(shape.sges),
        };
        if let Some(index) = world.gid_index() {
            builder = builder.gid_index(index);
        }
        let prepared = builder.build().unwrap();
        let endpoint = prepared.endpoint();
        let qp = owned::QueuePair::new(prepared.handshake(endpoint).unwrap());
        let target = pd.expose(TARGET, ALL).unwrap();
        Self {
            srq: srq.map(owned::SharedReceiveQueue::new),
            target,
            expected: vec![0; TARGET],
            sges: shape.sges as usize,
            inline: shape.inline as usize,
            most: shape.sends.min(shape.receives) as usize,
            kinds: if shape.kind == QpType::Uc { 4 } else { 7 },
            random: seed << 32 | 0x9e37_79b9,
            next: 0,
            world,
            pd,
            send_cq,
            recv_cq,
            qp,
        }
    }

    /// A number below `bound`.
    fn below(&mut self, bound: usize) -> usize {
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.random >> 33).unwrap() % bound
    }

    fn bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length)
            .map(|_| u8::try_from(self.below(256)).unwrap())
            .collect()
    }

    /// Lengths that add up to `length`, at most as many as a request may have.
    fn parts(&mut self, length: usize, most: usize) -> Vec<usize> {
        let count = 1 + self.below(most);
        let mut cuts: Vec<usize> = (1..count).map(|_| self.below(length + 1)).collect();
        cuts.extend([0, length]);
        cuts.sort_unstable();
        cuts.windows(2).map(|cut| cut[1] - cut[0]).collect()
    }

    /// Registered memory for `bytes`, in several parts or one.
    fn memory(&mut self, bytes: &[u8], most: usize) -> Memory {
        let parts = self.parts(bytes.len(), most);
        let mut rest = bytes;
        let mut list = Vec::new();
        for part in parts {
            let (now, later) = rest.split_at(part);
            let [mut buffer] = self.pd.buffers::<1>(part.max(1)).unwrap();
            buffer[..part].copy_from_slice(now);
            list.push(Memory::Buffer(buffer, part));
            rest = later;
        }
        match list.len() {
            1 => list.remove(0),
            _ => Memory::List(list),
        }
    }

    /// Posts a receive of at least `length` bytes.
    fn receive(&mut self, length: usize, user_data: u64) {
        let room = length + self.below(100);
        match &mut self.srq {
            Some(srq) => {
                let [buffer] = self.pd.buffers::<1>(room.max(1)).unwrap();
                srq.recv(buffer, user_data).unwrap();
            }
            None if room == 0 => self.qp.recv_empty(user_data).unwrap(),
            None => {
                let memory = self.memory(&vec![0; room], self.sges);
                self.qp.recv_into(memory, user_data).unwrap();
            }
        }
    }

    /// A random request: what is posted, its inline data, and what is expected.
    fn request(&mut self, signaled: bool) -> (Work, Option<Vec<Vec<u8>>>, Expected) {
        let kind = self.below(self.kinds);
        let inlined = kind < 4 && self.inline > 0 && self.below(2) == 0;
        let most = if inlined { self.inline } else { LONGEST };
        let short = self.below(2) == 0;
        let length = self.below(1 + if short { most.min(100) } else { most });
        let length = if kind > 4 { 8 } else { length };
        let at = self.below((TARGET - LONGEST) / 8) * 8;
        let imm = u32::try_from(self.below(1 << 31)).unwrap();
        let to = self.target.remote_at(at..at + length).unwrap();
        let bytes = self.bytes(length);
        self.next += 1;
        let user_data = self.next;
        let compare = self.word(at).wrapping_add(self.below(2) as u64);
        let (work, opcode) = match kind {
            0 => (Work::send().untyped(), WcOpcode::Send),
            1 => (Work::send_imm(imm).untyped(), WcOpcode::Send),
            2 => (Work::write(to).untyped(), WcOpcode::RdmaWrite),
            3 => (Work::write_imm(to, imm).untyped(), WcOpcode::RdmaWrite),
            4 => (Work::read(to).untyped(), WcOpcode::RdmaRead),
            5 => (
                Work::compare_swap(to, compare, imm.into()).untyped(),
                WcOpcode::CompareSwap,
            ),
            _ => (
                Work::fetch_add(to, imm.into()).untyped(),
                WcOpcode::FetchAdd,
            ),
        };
        let brings = (kind >= 4).then(|| self.expected[at..at + length].to_vec());
        let received = match kind {
            0 => Some((bytes.clone(), None, WcOpcode::Recv)),
            1 => Some((bytes.clone(), Some(imm), WcOpcode::Recv)),
            3 => Some((Vec::new(), Some(imm), WcOpcode::RecvRdmaWithImm)),
            _ => None,
        };
        match kind {
            2 | 3 => self.expected[at..at + length].copy_from_slice(&bytes),
            5 if self.word(at) == compare => self.set_word(at, imm.into()),
            6 => self.set_word(at, self.word(at).wrapping_add(imm.into())),
            _ => {}
        }
        if let Some((bytes, ..)) = &received {
            self.receive(bytes.len(), user_data);
        }
        let mut work = work.user_data(user_data);
        if !signaled {
            work = work.unsignaled();
        }
        if self.below(4) == 0 {
            work = work.flags(SendFlags::FENCE);
        }
        let inline = inlined.then(|| {
            let mut rest = bytes.as_slice();
            let parts = self.parts(length, 6);
            let take = |part: usize| {
                let (now, later) = rest.split_at(part);
                rest = later;
                now.to_vec()
            };
            parts.into_iter().map(take).collect()
        });
        if inline.is_none() && (length > 0 || kind > 4) {
            let most = if kind > 4 { 1 } else { self.sges };
            let memory = self.memory(&bytes, most);
            work = work.memory(memory);
        }
        let expects = Expected {
            user_data,
            opcode,
            signaled,
            brings,
            received,
        };
        (work, inline, expects)
    }

    fn word(&self, at: usize) -> u64 {
        u64::from_ne_bytes(self.expected[at..at + 8].try_into().unwrap())
    }

    fn set_word(&mut self, at: usize, word: u64) {
        self.expected[at..at + 8].copy_from_slice(&word.to_ne_bytes());
    }

    /// One request, to its end.
    pub(super) fn one(&mut self) {
        let (work, inline, expects) = self.request(true);
        match inline {
            Some(parts) => {
                let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
                self.qp.post_inline(work, &parts).unwrap();
            }
            None => self.qp.post(work).unwrap(),
        }
        self.world.run();
        self.check(vec![expects]);
    }

    /// Several with one doorbell, to their end.
    pub(super) fn batch(&mut self) {
        self.batch_while(|_| ());
    }

    /// The same; `meanwhile` happens when they are carried out, and nothing is polled.
    pub(super) fn batch_while(&mut self, meanwhile: impl FnOnce(&mut Self)) {
        let count = 1 + self.below(self.most.min(40));
        let mut requests: Vec<_> = (1..=count)
            .map(|at| {
                let signaled = at == count || self.below(3) > 0;
                self.request(signaled)
            })
            .collect();
        let mut batch = self.qp.batch();
        let mut all = Vec::new();
        let mut refused = Vec::new();
        for (work, inline, expects) in requests.drain(..) {
            let pushed = match &inline {
                Some(parts) => {
                    let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
                    batch.push_inline(work, &parts)
                }
                None => batch.push(work),
            };
            match pushed {
                Ok(()) => all.push(expects),
                Err(error) => refused.push((error.error, expects.user_data)),
            }
        }
        assert_eq!(batch.len(), all.len());
        batch.submit().unwrap();
        assert!(refused.is_empty(), "{refused:?}");
        self.world.run();
        meanwhile(self);
        self.check(all);
    }

    pub(super) fn resize(&mut self, entries: u32) {
        let waiting = u32::try_from(self.most).unwrap();
        for cq in [&mut self.send_cq, &mut self.recv_cq] {
            cq.resize(entries.max(waiting)).unwrap();
            assert!(cq.entries() >= entries);
        }
    }

    /// The next completion of the send queue.
    pub(super) fn sent(&mut self) -> Option<Finished> {
        let completion = self.send_cq.poll().unwrap()?;
        assert_eq!(completion.qp_num, self.qp.qp_num());
        Some(self.qp.complete(completion).unwrap())
    }

    /// The next completion of the receive queue.
    pub(super) fn received(&mut self) -> Option<Finished> {
        let completion = self.recv_cq.poll().unwrap()?;
        assert_eq!(completion.qp_num, self.qp.qp_num());
        Some(match &mut self.srq {
            Some(srq) => srq.complete(completion).unwrap(),
            None => self.qp.complete(completion).unwrap(),
        })
    }

    /// Everything that should have completed has, in its order and with its data.
    fn check(&mut self, all: Vec<Expected>) {
        let mut brought = Vec::new();
        for expects in all.iter().filter(|expects| expects.signaled) {
            let done = self.sent().unwrap();
            assert_eq!(done.status(), WcStatus::Success, "{done:?}");
            assert_eq!(done.user_data(), expects.user_data);
            assert_eq!(done.opcode(), expects.opcode, "{done:?}");
            brought.push((done.user_data(), done.into_memory()));
        }
        assert!(self.sent().is_none());
        while let Some(one) = self.qp.released() {
            assert!(one.carried_out);
            brought.push((one.user_data, one.memory));
        }
        for expects in all {
            if let Some((bytes, imm, opcode)) = expects.received {
                let done = self.received().unwrap();
                assert_eq!(done.status(), WcStatus::Success, "{done:?}");
                assert_eq!(done.user_data(), expects.user_data);
                assert_eq!(done.opcode(), opcode);
                assert_eq!(done.imm(), imm);
                if opcode == WcOpcode::Recv {
                    assert_eq!(done.len(), bytes.len());
                    assert!(contents(&done.into_memory()).starts_with(&bytes));
                }
            }
            if let Some(bytes) = expects.brings {
                let memory = brought
                    .iter()
                    .find(|(number, _)| *number == expects.user_data);
                let found = memory
                    .map(|(_, memory)| contents(memory))
                    .unwrap_or_default();
                assert_eq!(found, bytes, "{:?}", expects.opcode);
            }
        }
        assert!(self.received().is_none());
        assert_eq!(self.qp.sends_posted(), 0);
        let mut found = vec![0; TARGET];
        assert!(self.target.read(0, &mut found));
        assert!(found == self.expected, "the peer's memory");
    }

    /// Nothing is left anywhere.
    pub(super) fn end(self) {
        assert_eq!(self.qp.receives_posted(), 0);
        assert!(self.qp.destroy().unwrap().is_empty());
        if let Some(srq) = self.srq {
            assert!(srq.destroy().unwrap().is_empty());
        }
        drop((self.target, self.send_cq, self.recv_cq, self.pd));
        assert_eq!(self.world.left(), None);
    }
}

/// The bytes of a request's memory.
pub(super) fn contents(memory: &Memory) -> Vec<u8> {
    match memory {
        Memory::Buffer(buffer, length) => buffer[..*length].to_vec(),
        Memory::List(list) => list.iter().flat_map(contents).collect(),
        _ => Vec::new(),
    }
}
