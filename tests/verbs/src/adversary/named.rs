//! Values that a program spells in its own way, and code of the program that panics.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use uverbs::attr::QpAttr;
use uverbs::link::Mtu;
use uverbs::owned::{self, Buffer, ExposedMemory, Work};
use uverbs::recorder::{Record, Sink};
use uverbs::time::{AckTimeout, RetryCount, RnrRetry, RnrTimer};
use uverbs::{AddressVector, QpState, QueuePairEndpoint, SendFlags, WcStatus};

use super::{Ground, Stage, everything};

/// How many reads are posted.
const READS: u8 = 8;

/// A queue pair that has read a lot, and can be connected again.
pub(super) struct Reader {
    pub(super) qp: owned::QueuePair,
    pub(super) source: ExposedMemory,
    end: QueuePairEndpoint,
    path: AddressVector,
    held: Vec<(Buffer, u8)>,
}

impl Reader {
    /// Reads bytes of 7, and keeps what was read.
    pub(super) fn new(ground: &mut Ground<'_>) -> Self {
        let source = ground.exposed();
        assert!(source.write(0, &[7; 256]));
        let mut qp = ground.owned();
        let builder = ground
            .pd
            .queue_pair(uverbs::QpType::Rc, &ground.cq, &ground.cq);
        let other = builder.max_send_wr(1).build().expect("a queue pair");
        let end = QueuePairEndpoint {
            qp_num: qp.qp_num(),
            ..other.endpoint()
        };
        let path = other.path_to(&end).expect("a path to itself");
        let mut held = Vec::new();
        for _ in 0..READS {
            let buffer = ground.buffer(0);
            let read = Work::read(source.remote()).memory((buffer, 64));
            qp.post(read).expect("a read");
        }
        for _ in 0..READS {
            let done = ground.finish(&mut qp);
            assert_eq!(done.status(), WcStatus::Success);
            held.extend(done.into_buffer().map(|buffer| (buffer, 7)));
        }
        // A read from before would now return something different.
        assert!(source.write(0, &[0xbb; 256]));
        Self {
            qp,
            source,
            end,
            path,
            held,
        }
    }

    /// From RESET to RTS, as far as possible.
    pub(super) fn connect(&mut self) -> uverbs::Result<()> {
        let init = QpAttr::to(QpState::Init).port(1).pkey_index(0);
        self.qp.modify(&init.access(everything()))?;
        let receive = QpAttr::to(QpState::ReadyToReceive)
            .av(self.path)
            .path_mtu(Mtu::B1024)
            .dest_qpn(self.end.qp_num)
            .rq_psn(self.end.psn)
            .max_dest_rd_atomic(4)
            .min_rnr_timer(RnrTimer::from_raw(1));
        self.qp.modify(&receive)?;
        let send = QpAttr::to(QpState::ReadyToSend)
            .sq_psn(self.end.psn)
            .timeout(AckTimeout::from_raw(14))
            .retry_count(RetryCount::from_raw(7))
            .rnr_retry(RnrRetry::from_raw(7))
            .max_rd_atomic(4);
        self.qp.modify(&send)
    }
}

/// RESET in every possible spelling, given to what must not accept it; then the queue pair's next
/// incarnation.
pub fn reset_by_another_name(stage: &dyn Stage) {
    for state in [QpState::Reset, QpState::from_raw(0)] {
        let mut ground = Ground::new(stage);
        let mut reader = Reader::new(&mut ground);
        let room = ground.buffer(0);
        reader.qp.recv(room, 1).expect("a receive");
        let taken = reader.qp.modify(&QpAttr::to(state)).is_ok();
        // If it was accepted, this starts the next incarnation.
        let _ = reader.connect();
        ground.unchanged(&reader.held);
        assert!(
            !taken,
            "{state:?} discards what is posted and gives nothing back"
        );
        reader
            .qp
            .modify(&QpAttr::to(QpState::Error))
            .expect("an error state");
        assert_eq!(ground.finish(&mut reader.qp).user_data(), 1);
        drop(reader.source);
    }
}

/// Panics on request.
#[derive(Debug, Default)]
struct Panics(AtomicBool);

impl Sink for Panics {
    fn record(&self, _: &Record) {
        assert!(!self.0.swap(false, Ordering::Relaxed), "as it was told to");
    }
}

/// A reset that the program's own code interrupts with a panic, after the kernel has carried it
/// out.
pub fn panic_in_reset(stage: &dyn Stage) {
    let sink = Arc::new(Panics::default());
    let mut ground = Ground::on(stage, &stage.open(Some(sink.clone())));
    let mut reader = Reader::new(&mut ground);
    sink.0.store(true, Ordering::Relaxed);
    let unwound = catch_unwind(AssertUnwindSafe(|| reader.qp.reset()));
    drop(unwound);
    sink.0.store(false, Ordering::Relaxed);
    // Either it is as after a reset, or it is unusable.
    let _ = reader.qp.query();
    let _ = reader.connect();
    ground.unchanged(&reader.held);
    let again = ground.buffer(0);
    let read = Work::read(reader.source.remote()).memory((again, 64));
    if reader.qp.post(read.user_data(9)).is_ok() {
        let done = ground.finish(&mut reader.qp);
        assert_eq!((done.user_data(), done.status()), (9, WcStatus::Success));
    }
}

/// Flags without a name, by which a peer must not receive anything but the bytes that were sent.
pub fn unnamed_flags(stage: &dyn Stage) {
    let mut ground = Ground::new(stage);
    let mut qp = ground.owned();
    for bit in 0..32 {
        let flags = SendFlags::from_bits_retain(1 << bit);
        let (room, message) = (ground.buffer(0), ground.buffer(0x5a));
        qp.recv(room, 1).expect("a receive");
        let work = Work::send().memory((message, 64)).flags(flags).user_data(2);
        if qp.post(work).is_err() {
            // The receive waits for the next one, and the one posted for that waits permanently.
            continue;
        }
        let mut left = 2;
        while left > 0 {
            left -= 1;
            let done = ground.finish(&mut qp);
            assert_eq!(done.status(), WcStatus::Success, "{flags:?}");
            if done.user_data() == 1 {
                assert_eq!(done.bytes(), Some(&[0x5a; 64][..]), "{flags:?}");
            }
        }
    }
}
