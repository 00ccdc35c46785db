//! Sequences of calls in any order, on a kernel that refuses some of them.

use std::collections::BTreeSet;

use fake_tests::{Bench, PATHS};
use uverbs::attr::{QpAttr, SrqModify};
use uverbs::error::Errno;
use uverbs::memory::MwType;
use uverbs::owned::{self, SharedReceiveQueue};
use uverbs::{
    AddressHandle, AddressVector, CompletionQueue, Context, MemoryWindow, ProtectionDomain,
    QpState, QpType,
};
use uverbs_fake::{AfterRemoval, Effect, Profile, When};

use crate::tape::Tape;

/// Errnos that calls fail with. Not EIO, which means that the device is gone.
const ERRNOS: [Errno; 8] = [
    Errno::INVAL,
    Errno::NOMEM,
    Errno::AGAIN,
    Errno::BUSY,
    Errno::INTR,
    Errno::MFILE,
    Errno::ACCESS,
    Errno::OPNOTSUPP,
];

/// At most this many objects of each kind.
const FEW: usize = 4;

/// Everything that a program holds. Objects are declared before what they use, and so dropped
/// first.
#[derive(Default)]
struct World {
    qps: Vec<(owned::QueuePair, BTreeSet<u64>)>,
    srqs: Vec<SharedReceiveQueue>,
    handles: Vec<AddressHandle>,
    windows: Vec<MemoryWindow>,
    cqs: Vec<CompletionQueue>,
    pds: Vec<ProtectionDomain>,
    posted: u64,
}

/// Creates, modifies, posts, polls and destroys in any order, with faults at any call.
///
/// # Panics
/// If something is left in the kernel that was not counted as leaked, or a buffer is returned twice
/// or not at all.
pub fn api_machine(bytes: &[u8]) {
    let tape = Tape::new(bytes);
    let bench = Bench::new(tape.one_of(Profile::ALL), tape.one_of(&PATHS));
    let Ok(context) = bench.context() else { return };
    let mut world = World::default();
    let mut removed = false;
    for _ in 0..128 {
        if tape.is_empty() {
            break;
        }
        match tape.byte() % 16 {
            0 => {
                // At most two calls, so that the rest of the sequence remains meaningful.
                for _ in 0..=tape.pick(2) {
                    let at = bench.fake.calls() + u64::from(tape.byte() % 8);
                    let effect = Effect::Fail(tape.one_of(&ERRNOS));
                    bench.inject(When::Call(at), effect);
                }
            }
            1 => bench.fake.freeze(tape.flag()),
            2 if tape.byte() == 7 => {
                removed = true;
                bench.fake.remove_device(
                    tape.one_of(&[AfterRemoval::DestroySucceeds, AfterRemoval::DestroyFails]),
                );
            }
            3..=6 => world.create(&tape, &context),
            7 | 8 => world.destroy(&tape),
            9 => world.change(&tape),
            10..=13 => world.post(&tape),
            _ => world.poll(&tape),
        }
    }
    bench.fake.clear_faults();
    bench.fake.freeze(false);
    drop(world);
    let leaked = context.leaked();
    drop(context);
    if leaked == 0 && !removed {
        assert_eq!(
            bench.fake.objects().total(),
            0,
            "{:?}",
            bench.fake.objects()
        );
    }
}

impl World {
    fn create(&mut self, tape: &Tape, context: &Context) {
        if self.pds.len() < FEW && (self.pds.is_empty() || tape.byte().is_multiple_of(8)) {
            self.pds.extend(context.alloc_pd());
        }
        if self.cqs.len() < FEW && (self.cqs.is_empty() || tape.byte().is_multiple_of(8)) {
            self.cqs.extend(context.create_cq(tape.byte().into()));
        }
        if self.pds.is_empty() || self.cqs.is_empty() {
            return;
        }
        let pd = &self.pds[tape.pick(self.pds.len())];
        match tape.byte() % 4 {
            0 if self.srqs.len() < FEW => {
                let made = pd.create_srq(tape.byte().into(), 1 + u32::from(tape.byte() % 4));
                self.srqs.extend(made.map(SharedReceiveQueue::new));
            }
            1 if self.handles.len() < FEW => {
                let vector = AddressVector::local(1 + tape.byte() % 2, tape.half());
                self.handles.extend(pd.create_ah(&vector));
            }
            2 if self.windows.len() < FEW => {
                let kind = tape.one_of(&[MwType::Type1, MwType::Type2]);
                self.windows.extend(pd.alloc_mw(kind));
            }
            _ if self.qps.len() < FEW => self.create_qp(tape),
            _ => {}
        }
    }

    fn create_qp(&mut self, tape: &Tape) {
        let pd = &self.pds[tape.pick(self.pds.len())];
        let [send, recv] = [(), ()].map(|()| &self.cqs[tape.pick(self.cqs.len())]);
        let kind = tape.one_of(&[QpType::Rc, QpType::Uc, QpType::Ud]);
        let mut builder = pd
            .queue_pair(kind, send, recv)
            .max_send_wr(1 + u32::from(tape.byte() % 16))
            .max_recv_wr(1 + u32::from(tape.byte() % 16))
            .max_inline_data(u32::from(tape.byte() % 64));
        if kind != QpType::Uc || tape.flag() {
            builder = builder.gid_index(tape.byte() % 3);
        }
        let srq = (!self.srqs.is_empty() && tape.flag()).then(|| tape.pick(self.srqs.len()));
        if let Some(at) = srq {
            builder = builder.srq(self.srqs[at].queue());
        }
        let Ok(prepared) = builder.build() else {
            return;
        };
        let endpoint = prepared.endpoint();
        let ready = match kind {
            QpType::Ud => prepared.activate().ok(),
            _ => prepared.handshake(endpoint).ok(),
        };
        if let Some(qp) = ready {
            self.qps.push((owned::QueuePair::new(qp), BTreeSet::new()));
        }
    }

    fn destroy(&mut self, tape: &Tape) {
        fn any<T>(tape: &Tape, from: &mut Vec<T>) -> Option<T> {
            (!from.is_empty()).then(|| from.swap_remove(tape.pick(from.len())))
        }
        match tape.byte() % 6 {
            0 => {
                if let Some((qp, posted)) = any(tape, &mut self.qps)
                    && let Ok(memory) = qp.destroy()
                {
                    assert_eq!(memory.len(), posted.len(), "every buffer comes back once");
                }
            }
            1 => drop(any(tape, &mut self.srqs).map(SharedReceiveQueue::destroy)),
            2 => drop(any(tape, &mut self.handles)),
            3 => drop(any(tape, &mut self.windows).map(MemoryWindow::dealloc)),
            4 => drop(any(tape, &mut self.cqs).map(CompletionQueue::destroy)),
            _ => drop(any(tape, &mut self.pds).map(ProtectionDomain::dealloc)),
        }
    }

    fn change(&mut self, tape: &Tape) {
        match tape.byte() % 4 {
            0 => {
                if let Some(cq) = self.cqs.first_mut() {
                    let _ = cq.resize(tape.byte().into());
                }
            }
            1 => {
                if let Some(srq) = self.srqs.first_mut() {
                    let change = SrqModify {
                        max_wr: tape.maybe(|tape| tape.byte().into()),
                        limit: tape.maybe(|tape| tape.byte().into()),
                    };
                    let _ = srq.modify(&change);
                }
            }
            2 => {
                if let Some((qp, _)) = self.qps.first_mut() {
                    let state = QpState::from_raw(1 + tape.byte() % 6);
                    let _ = qp.modify(&QpAttr::to(state));
                    let _ = qp.query();
                }
            }
            _ => {
                if let Some((qp, posted)) = self.qps.first_mut()
                    && let Ok(memory) = qp.reset()
                {
                    assert_eq!(memory.len(), posted.len(), "every buffer comes back once");
                    posted.clear();
                }
            }
        }
    }

    fn post(&mut self, tape: &Tape) {
        if self.qps.is_empty() || self.pds.is_empty() {
            return;
        }
        let pd = &self.pds[tape.pick(self.pds.len())];
        let Ok([buffer]) = pd.buffers::<1>(32) else {
            return;
        };
        self.posted += 1;
        if !self.srqs.is_empty() && tape.byte().is_multiple_of(4) {
            let at = tape.pick(self.srqs.len());
            let _ = self.srqs[at].recv(buffer, self.posted);
            return;
        }
        let at = tape.pick(self.qps.len());
        let (qp, posted) = &mut self.qps[at];
        // After a doorbell that failed, the queue keeps requests that the device may know of.
        let done = match tape.flag() {
            true => qp.recv(buffer, self.posted).is_ok(),
            false => match qp.send(buffer, tape.pick(33), self.posted) {
                Ok(()) => true,
                Err(refused) => refused.work.is_none(),
            },
        };
        if done {
            posted.insert(self.posted);
        }
    }

    fn poll(&mut self, tape: &Tape) {
        if self.cqs.is_empty() {
            return;
        }
        let at = tape.pick(self.cqs.len());
        let Ok(Some(mut completion)) = self.cqs[at].poll() else {
            return;
        };
        for (qp, posted) in &mut self.qps {
            match qp.complete(completion) {
                Ok(done) => {
                    assert!(posted.remove(&done.user_data()), "{done:?} ended twice");
                    return;
                }
                Err(other) => completion = other,
            }
        }
        for srq in &mut self.srqs {
            match srq.complete(completion) {
                Ok(_) => return,
                Err(other) => completion = other,
            }
        }
    }
}
