//! Programs that try to observe memory changing which a device still writes to, on any device: each
//! is under `#![forbid(unsafe_code)]` and panics if it obtains what it must not obtain.
//!
//! They run in machines, and in `tests/adversary` on in-process devices.
#![forbid(unsafe_code)]

mod forged;
mod named;
mod numbers;

use std::sync::Arc;
use std::time::{Duration, Instant};

use uverbs::owned::{self, Buffer, ExposedMemory, Finished, SharedReceiveQueue};
use uverbs::recorder::Sink;
use uverbs::time::{AckTimeout, RnrRetry, RnrTimer};
use uverbs::{AccessFlags, CompletionQueue, Context, ProtectionDomain, QpType, QueuePair};

pub use forged::{by_an_id, from_elsewhere, held_over_posts};
pub use named::{panic_in_reset, reset_by_another_name, unnamed_flags};
pub use numbers::{
    completion_queues_are_distinguished, numbers_come_again, shared_receives_come_back,
};

/// Where a program runs.
pub trait Stage {
    /// Opens another context of the device, whose calls are reported to `sink`.
    fn open(&self, sink: Option<Arc<dyn Sink>>) -> Context;

    /// Opens a context of another device, if there is one.
    fn open_elsewhere(&self) -> Context;

    /// Lets the device continue.
    fn work(&self);
}

/// Calls a macro with the names of all programs.
#[macro_export]
macro_rules! with_adversary_programs {
    ($with:ident) => {
        $with!(
            by_an_id,
            completion_queues_are_distinguished,
            from_elsewhere,
            held_over_posts,
            numbers_come_again,
            panic_in_reset,
            reset_by_another_name,
            shared_receives_come_back,
            unnamed_flags,
        );
    };
}

/// Longer than any device needs for the requests here.
const PATIENCE: Duration = Duration::from_secs(20);

/// The objects that all programs are built from.
struct Ground<'s> {
    stage: &'s dyn Stage,
    cq: CompletionQueue,
    pd: ProtectionDomain,
}

impl<'s> Ground<'s> {
    fn new(stage: &'s dyn Stage) -> Self {
        Self::on(stage, &stage.open(None))
    }

    fn on(stage: &'s dyn Stage, context: &Context) -> Self {
        Self {
            stage,
            cq: context.create_cq(511).expect("a completion queue"),
            pd: context.alloc_pd().expect("a domain"),
        }
    }

    /// A queue pair connected to itself, which receives from `srq` if that is given.
    fn looped(&self, srq: Option<&SharedReceiveQueue>) -> QueuePair {
        let mut builder = self
            .pd
            .queue_pair(QpType::Rc, &self.cq, &self.cq)
            .max_send_wr(64)
            .max_recv_wr(64)
            .max_inline_data(64)
            .max_rd_atomic(4)
            .max_dest_rd_atomic(4)
            .access(everything())
            .timeout(AckTimeout::code(14).expect("a timeout"))
            .rnr_retry(RnrRetry::new(7).expect("retries"))
            .min_rnr_timer(RnrTimer::code(1).expect("a timer"));
        if let Some(srq) = srq {
            builder = builder.srq(srq.queue());
        }
        let prepared = builder.build().expect("a queue pair");
        let own = prepared.endpoint();
        prepared.handshake(own).expect("connected")
    }

    fn owned(&self) -> owned::QueuePair {
        owned::QueuePair::new(self.looped(None))
    }

    fn exposed(&self) -> ExposedMemory {
        let access = everything().difference(AccessFlags::LOCAL_WRITE);
        self.pd.expose(256, access).expect("exposed memory")
    }

    fn buffer(&self, byte: u8) -> Buffer {
        let [mut buffer] = self.pd.buffers::<1>(64).expect("a buffer");
        buffer.fill(byte);
        buffer
    }

    /// Polls until `take` returns something for a completion.
    fn until<T>(
        &mut self,
        what: &str,
        mut take: impl FnMut(uverbs::Completion<'_>) -> Option<T>,
    ) -> T {
        let since = Instant::now();
        loop {
            self.stage.work();
            while let Some(completion) = self.cq.poll().expect("a ring of completions") {
                if let Some(taken) = take(completion) {
                    return taken;
                }
            }
            assert!(
                since.elapsed() < PATIENCE,
                "{what}: nothing in {PATIENCE:?}"
            );
        }
    }

    /// The end of the next request of `qp`.
    fn finish(&mut self, qp: &mut owned::QueuePair) -> Finished {
        self.until("a request that ends", |done| qp.complete(done).ok())
    }

    /// Checks that no buffer of the program changes, whatever the device still does.
    fn unchanged(&mut self, held: &[(Buffer, u8)]) {
        for _ in 0..50 {
            self.stage.work();
            std::thread::sleep(Duration::from_millis(1));
            for (buffer, byte) in held {
                assert!(
                    buffer.iter().all(|found| found == byte),
                    "a buffer in hand changed: {byte:#x} -> {:#x}",
                    buffer.iter().find(|found| *found != byte).unwrap_or(byte)
                );
            }
        }
    }
}

fn everything() -> AccessFlags {
    AccessFlags::LOCAL_WRITE
        | AccessFlags::REMOTE_READ
        | AccessFlags::REMOTE_WRITE
        | AccessFlags::REMOTE_ATOMIC
}
