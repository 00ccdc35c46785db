//! Random calls on objects in random states: typed errors, no panic, nothing left.

use std::time::{Duration, Instant};

use uverbs::attr::{QpAttr, SrqModify};
use uverbs::memory::MwType;
use uverbs::owned::{Buffer, QueuePair, SharedReceiveQueue, Work};
use uverbs::{AccessFlags, CompletionQueue, ProtectionDomain, QpState, QpType, SendFlags};

use crate::support::kernel_log::{FAILED_REQUEST, excuse};
use crate::support::memory::{Memory, descriptors};
use crate::support::objects::Objects;

/// How long random calls are made.
const DURATION: Duration = Duration::from_secs(8);

/// SplitMix64: the seed determines the whole run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end as u64).unwrap_or(0)
    }

    /// Small, large and impossible sizes.
    fn size(&mut self) -> u32 {
        const SIZES: [u32; 9] = [0, 1, 2, 7, 64, 500, 40_000, 1 << 31, u32::MAX];
        SIZES[self.below(SIZES.len())]
    }
}

const KINDS: [QpType; 4] = [QpType::Rc, QpType::Uc, QpType::Ud, QpType::RawPacket];

/// The objects created so far in a run.
#[derive(Default)]
struct World {
    pds: Vec<ProtectionDomain>,
    cqs: Vec<CompletionQueue>,
    srqs: Vec<SharedReceiveQueue>,
    qps: Vec<QueuePair>,
    buffers: Vec<Buffer>,
    calls: u64,
    refused: u64,
}

impl World {
    /// Counts what was refused.
    fn made<T, E>(&mut self, result: Result<T, E>) -> Option<T> {
        self.calls += 1;
        self.refused += u64::from(result.is_err());
        result.ok()
    }

    fn step(&mut self, context: &uverbs::Context, random: &mut Random) {
        let pick = |list: usize, random: &mut Random| (list > 0).then(|| random.below(list));
        match random.below(24) {
            0 if self.pds.len() < 4 => {
                let pd = self.made(context.alloc_pd());
                self.pds.extend(pd);
            }
            1 | 2 if self.cqs.len() < 8 => {
                let cq = self.made(context.create_cq(random.size()));
                self.cqs.extend(cq);
            }
            3 if self.srqs.len() < 4 => {
                let Some(at) = pick(self.pds.len(), random) else {
                    return;
                };
                let srq = self.pds[at].create_srq(random.size(), random.size() & 3);
                self.srqs.extend(srq.ok().map(SharedReceiveQueue::new));
            }
            4..=6 if self.qps.len() < 12 => self.build(random),
            7 if self.buffers.len() < 32 => {
                let Some(at) = pick(self.pds.len(), random) else {
                    return;
                };
                let list =
                    self.pds[at].buffer_list(1 + random.below(4), random.size() as usize % 70_000);
                let list = self.made(list);
                self.buffers.extend(list.into_iter().flatten());
            }
            8 => {
                let Some(at) = pick(self.pds.len(), random) else {
                    return;
                };
                let access =
                    AccessFlags::from_bits_retain(u32::try_from(random.next() & 0x7f).unwrap_or(0));
                let exposed = self.pds[at].expose(random.size() as usize % 70_000, access);
                let window =
                    self.pds[at].alloc_mw(MwType::from_raw(random.size().to_le_bytes()[0]));
                self.made(exposed);
                self.made(window);
            }
            9..=12 => self.post(random),
            13..=16 => self.poll(random),
            17 => {
                let Some(at) = pick(self.qps.len(), random) else {
                    return;
                };
                let attr = QpAttr::to(QpState::from_raw(random.size().to_le_bytes()[0] & 7));
                let done = self.qps[at].modify(&attr);
                self.made(done);
            }
            18 => {
                let Some(at) = pick(self.qps.len(), random) else {
                    return;
                };
                if let Some(memory) = {
                    let done = self.qps[at].reset();
                    self.made(done)
                } {
                    self.buffers.extend(
                        memory
                            .into_iter()
                            .filter_map(uverbs::owned::Memory::into_buffer),
                    );
                }
            }
            19 => {
                let Some(at) = pick(self.cqs.len(), random) else {
                    return;
                };
                // Never below what may be pending: only the kernel knows that, and logs it.
                let done = self.cqs[at].resize(random.size().max(64));
                self.made(done);
            }
            20 => {
                let Some(at) = pick(self.srqs.len(), random) else {
                    return;
                };
                let change = SrqModify {
                    max_wr: (random.below(2) == 0).then(|| random.size()),
                    limit: (random.below(2) == 0).then(|| random.size()),
                };
                let done = self.srqs[at].modify(&change);
                self.made(done);
            }
            21 => {
                let _ = context.try_async_event();
            }
            _ => self.destroy(random),
        }
    }

    fn build(&mut self, random: &mut Random) {
        if self.pds.is_empty() || self.cqs.is_empty() {
            return;
        }
        let pd = &self.pds[random.below(self.pds.len())];
        let (send, recv) = (random.below(self.cqs.len()), random.below(self.cqs.len()));
        let kind = KINDS[random.below(KINDS.len())];
        let mut builder = pd
            .queue_pair(kind, &self.cqs[send], &self.cqs[recv])
            .max_send_wr(random.size() % 5000)
            .max_recv_wr(random.size() % 5000)
            .max_inline_data(random.size() % 700)
            .max_rd_atomic(1);
        if random.below(3) == 0 && !self.srqs.is_empty() {
            let at = random.below(self.srqs.len());
            builder = builder.srq(self.srqs[at].queue());
        }
        let connected = builder.build().and_then(|prepared| {
            let endpoint = prepared.endpoint();
            match (random.below(5), kind) {
                (0, _) => Ok(prepared.into_raw()),
                (_, QpType::Ud) => prepared.activate().map_err(Into::into),
                _ => prepared.handshake(endpoint).map_err(Into::into),
            }
        });
        if let Some(qp) = self.made(connected) {
            self.qps.push(QueuePair::new(qp));
        }
    }

    fn post(&mut self, random: &mut Random) {
        if self.qps.is_empty() {
            return;
        }
        let at = random.below(self.qps.len());
        let Some(buffer) = self.buffers.pop() else {
            let done = self.qps[at].send_inline(&vec![1; random.below(600)], 3);
            self.made(done);
            return;
        };
        if random.below(2) == 0 {
            if let Err(refused) = self.qps[at].recv(buffer, 1) {
                self.buffers.push(refused.buffer);
            }
            return;
        }
        let len = random.below(buffer.len() + 2);
        let flags = SendFlags::from_bits_retain(u32::try_from(random.next() & 7).unwrap_or(0));
        let work = Work::send().memory((buffer, len)).flags(flags).user_data(2);
        if let Err(refused) = self.qps[at].post(work)
            && let Some(work) = refused.work
        {
            self.buffers.extend(work.take_memory().into_buffer());
        }
    }

    fn poll(&mut self, random: &mut Random) {
        if self.cqs.is_empty() {
            return;
        }
        let at = random.below(self.cqs.len());
        let Ok(Some(mut done)) = self.cqs[at].poll() else {
            return;
        };
        for qp in &mut self.qps {
            match qp.complete(done) {
                Ok(finished) => return self.buffers.extend(finished.into_buffer()),
                Err(other) => done = other,
            }
        }
        for srq in &mut self.srqs {
            match srq.complete(done) {
                Ok(finished) => return self.buffers.extend(finished.into_buffer()),
                Err(other) => done = other,
            }
        }
    }

    fn destroy(&mut self, random: &mut Random) {
        match random.below(5) {
            0 if !self.pds.is_empty() => drop(self.pds.swap_remove(random.below(self.pds.len()))),
            1 if !self.cqs.is_empty() => {
                let at = random.below(self.cqs.len());
                let done = self.cqs.swap_remove(at).destroy();
                self.made(done);
            }
            2 if !self.srqs.is_empty() => {
                drop(self.srqs.swap_remove(random.below(self.srqs.len())));
            }
            3 if !self.qps.is_empty() => {
                let at = random.below(self.qps.len());
                let memory = self
                    .qps
                    .swap_remove(at)
                    .destroy()
                    .expect("a queue pair is always destroyed");
                self.buffers.extend(
                    memory
                        .into_iter()
                        .filter_map(uverbs::owned::Memory::into_buffer),
                );
            }
            4 if !self.buffers.is_empty() => {
                drop(self.buffers.swap_remove(random.below(self.buffers.len())));
            }
            _ => {}
        }
    }
}

#[test]
fn calls_in_any_order() {
    // Requests fail and queues overrun here, and a queue pair whose request failed is in another
    // state than the library knows.
    excuse(FAILED_REQUEST);
    excuse("queue full");
    excuse("rxe_modify_qp: returned err = -22");
    let before = Objects::now();
    let open = descriptors();
    let seed = std::env::var("UVERBS_TEST_SEED")
        .ok()
        .and_then(|text| text.parse().ok());
    let clock = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .expect("after 1970");
    let seed = seed.unwrap_or(u64::from(clock.subsec_nanos()));
    println!("\nUVERBS_TEST_SEED={seed}");
    let mut random = Random(seed);
    let since = Instant::now();
    let (mut calls, mut refused, mut worlds) = (0, 0, 0);
    while since.elapsed() < DURATION {
        let context = verbs_tests::open();
        let mut world = World::default();
        for _ in 0..400 {
            world.step(&context, &mut random);
        }
        (calls, refused, worlds) = (calls + world.calls, refused + world.refused, worlds + 1);
        drop(world);
        assert_eq!(context.leaked(), 0, "seed {seed}");
        drop(context);
        before.same_now();
    }
    println!(
        "FIGURE: {worlds} worlds of 400 steps, {calls} calls that can be refused, {refused} were"
    );
    assert!(refused > 50 && calls > 2 * refused);
    assert_eq!(descriptors(), open);
    assert_eq!(Memory::now().pinned, 0);
}
