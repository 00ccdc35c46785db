//! Completion queues on a kernel that answers by a script, with a device that a test plays.
#![allow(clippy::unwrap_used, reason = "tests")]

mod creation;
mod polling;
mod resizing;

use uverbs_core::Errno;
use uverbs_core::contract::{Cq as _, Entry as _, TypedCq as _};
use uverbs_core::hw::QueueBuffer;
use uverbs_core::types::{Timestamps, WcFlags, WcOpcode, WcStatus};
use uverbs_uapi::ib_user_ioctl_cmds::UVERBS_ATTR_UHW_IN;
use uverbs_uapi::mlx5_abi::mlx5_ib_alloc_ucontext_resp;
use uverbs_uapi::mlx5_user_ioctl_cmds::{
    MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_LENGTH, MLX5_IB_ATTR_UAR_OBJ_ALLOC_PAGE_ID,
};

use super::*;
use crate::tests::lender::Lender;
use crate::tests::scripted::Scripted;
use crate::tracker::registration::{Registered, Reports};
use crate::tracker::table::Owner;
use crate::tracker::{QueuePairTracker, Receives, RecvTracker};

/// The device's number of each completion queue.
const NUMBER: u32 = 0x45_6789;
/// The device's number of the queue pair.
const QPN: u32 = 0x1234;

/// An opened device.
struct Bench {
    kernel: Arc<Scripted>,
    context: Context,
}

impl Bench {
    fn new() -> Self {
        Self::with(|_| ())
    }

    fn with(change: impl FnOnce(&mut mlx5_ib_alloc_ucontext_resp)) -> Self {
        let (kernel, context) = Scripted::context_with(|replies| {
            replies.device.base.max_cqe = 1000;
            replies.device.timestamp_mask = u64::MAX;
            change(&mut replies.opened);
        });
        let bench = Self { kernel, context };
        bench.page(7);
        let id = MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_LENGTH;
        bench.kernel.answer(id, &4096_u32.to_ne_bytes());
        bench.kernel.answer_by_driver(&NUMBER.to_ne_bytes());
        bench
    }

    /// The number of the page by which queues are armed.
    fn page(&self, number: u32) {
        let id = MLX5_IB_ATTR_UAR_OBJ_ALLOC_PAGE_ID;
        self.kernel.answer(id, &number.to_ne_bytes());
    }

    fn create(&self, init: &CqInit<'_>) -> Result<CompletionQueue> {
        CompletionQueue::create(&self.context, init, Entries::default())
    }

    /// The driver data of the last request that had some.
    fn told<T: zerocopy::FromBytes>(&self) -> T {
        let inputs = self.kernel.take_inputs(UVERBS_ATTR_UHW_IN);
        let last = inputs.iter().rfind(|bytes| !bytes.is_empty()).unwrap();
        T::read_from_bytes(last).unwrap()
    }
}

fn init(entries: u32) -> CqInit<'static> {
    CqInit {
        entries,
        user_handle: 5,
        comp_channel: None,
        vector: 0,
        events: None,
        timestamps: Timestamps::None,
        ignores_overrun: false,
        unpolled: None,
        memory: None,
        extra: None,
    }
}

/// A queue pair of 8 requests in either direction that reports to a queue, and the device.
struct Device {
    pair: Arc<QueuePairTracker>,
    registered: Registered,
    /// Entries written.
    produced: u64,
    posted: u32,
}

impl Device {
    fn new(context: &Context, cq: &CompletionQueue) -> Self {
        let receives = Receives::Own(RecvTracker::new(8));
        let pair = Arc::new(QueuePairTracker::new(8, receives));
        pair.set_number(QPN);
        pair.restart(0, 0);
        let owner = Owner::QueuePair(Arc::clone(&pair));
        let op = Op::CreateQueuePair;
        let registered = Registered::new(op, context.trackers(), owner).unwrap();
        let registered = registered.created(Reports {
            sends: Some(Arc::clone(&cq.shared)),
            receives: Some(Arc::clone(&cq.shared)),
        });
        Self {
            pair,
            registered,
            produced: 0,
            posted: 0,
        }
    }

    /// Writes an entry of this opcode, format and counter, with this timestamp.
    fn write(&mut self, ring: &CqRing, kind: u32, counter: u32, stamp: u64) {
        let first = ring.first(self.produced);
        let queue = u64::from(self.registered.user_index()) << 32;
        ring.units.put(first, [0, 0]);
        // A route, and VLAN 0x77.
        let headers = 1_u64 << 60 | 0x77;
        ring.units.put(first + 1, [0, headers.to_be()]);
        ring.units.put(first + 2, [queue.to_be(), 64_u64.to_be()]);
        let owner = (ring.count(self.produced) / u64::from(ring.entries())) & 1;
        let numbers = u64::from(QPN) << 32 | u64::from(counter) << 16;
        let tail = numbers | u64::from(kind) << 4 | owner;
        ring.units.put(first + 3, [stamp.to_be(), tail.to_be()]);
        self.produced += 1;
    }

    /// Completes a request with number `wr_id`.
    fn send(&mut self, cq: &CompletionQueue, wr_id: u64) {
        let index = self.posted & 7;
        self.posted += 1;
        let kind = WcOpcode::RdmaRead;
        self.pair.send.posted(index, wr_id, self.posted, kind);
        self.write(cq.consumer.ring(), opcode::REQUEST, index, wr_id + 1);
    }
}

/// What the device reads of how many entries were taken.
fn given_back(cq: &CompletionQueue) -> u32 {
    cq.record.load(CONSUMER)
}
