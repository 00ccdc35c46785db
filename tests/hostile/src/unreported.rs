//! Receives of a shared queue whose completions are not polled, through the whole mlx5 provider.
//!
//! # Safety
//!
//! Requests name no memory.
#![allow(unsafe_code, reason = "posts requests without memory")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use uverbs_core::UverbsFile;
use uverbs_core::contract::{
    Context as _, Cq as _, CqInit, OpenInit, Qp as _, QpInit, Srq as _, SrqInit,
};
use uverbs_core::file::CommandPath;
use uverbs_core::types::{
    QpAttr, QpCaps, QpCreateFlags, QpState, QpType, RecvRequest, SigMode, SrqAttr, SrqType,
    Timestamps,
};
use uverbs_mlx5::{CompletionQueue, Context, QueuePair, SharedReceiveQueue};
use uverbs_uapi::ib_user_ioctl_verbs::RDMA_DRIVER_MLX5;

use crate::liar::descriptor;
use crate::mlx5::{Adapter, ENTRY};

struct World {
    adapter: Adapter,
    cq: CompletionQueue,
    qp: QueuePair,
    srq: SharedReceiveQueue,
}

/// A queue pair that receives from a shared queue holding `count` requests.
fn world(adapter: Adapter, count: u64) -> World {
    let kernel = Arc::new(adapter.clone());
    let fd = descriptor().unwrap();
    // SAFETY: (1) the adapter takes calls on every descriptor; (2, 3) it keeps what it is given,
    // and requests name no memory.
    let file = unsafe { UverbsFile::new(kernel, fd, RDMA_DRIVER_MLX5, CommandPath::Auto) };
    let context = Context::open(Arc::new(file), &OpenInit::default()).unwrap();
    let pd = context.alloc_pd().unwrap();
    let init = CqInit {
        entries: 7,
        user_handle: 0,
        comp_channel: None,
        vector: 0,
        events: None,
        timestamps: Timestamps::None,
        ignores_overrun: false,
        unpolled: None,
        memory: None,
        extra: None,
    };
    let cq = context.create_cq(&init).unwrap();
    let init = SrqInit {
        kind: SrqType::Basic,
        attr: SrqAttr {
            max_wr: 3,
            max_sge: 1,
            limit: 0,
        },
        user_handle: 0,
    };
    let mut srq = context.create_srq(&pd, &init).unwrap();
    let init = QpInit {
        kind: QpType::Rc,
        send_cq: cq.link(),
        recv_cq: cq.link(),
        srq: Some(srq.link()),
        caps: QpCaps::default(),
        signal: SigMode::All,
        flags: QpCreateFlags::empty(),
        user_handle: 0,
        extra: None,
    };
    let qp = context.create_qp(&pd, &init).unwrap();
    for wr_id in 0..count {
        put(&mut srq, 10 + wr_id);
    }
    World {
        adapter,
        cq,
        qp,
        srq,
    }
}

fn put(srq: &mut SharedReceiveQueue, wr_id: u64) {
    let request = RecvRequest {
        wr_id,
        scatter: &[],
    };
    // SAFETY: the request names no memory.
    unsafe { srq.put(&request) }.unwrap();
    srq.submit().unwrap();
}

impl World {
    /// A message arrives for the only queue pair and uses up the request `index`, as the entry at
    /// `position` reports.
    fn message(&self, position: usize, index: u16) {
        const RECEIVE: u64 = 2;
        let rings = self.adapter.rings();
        let ring = rings.iter().find(|ring| ring.of_completions).unwrap();
        self.adapter.write(ring, position * ENTRY + 32, 0);
        let tail = 0x77_u64 << 32 | u64::from(index) << 16 | RECEIVE << 4;
        self.adapter
            .write(ring, position * ENTRY + 56, tail.to_be());
    }

    fn taken(&mut self) -> Vec<u64> {
        taken(&mut self.srq)
    }
}

fn taken(srq: &mut SharedReceiveQueue) -> Vec<u64> {
    let mut taken = Vec::new();
    srq.take_unreported(&mut |wr_id| taken.push(wr_id));
    taken
}

/// Requests that a destroyed or reset queue pair had used up are reported when their entry is
/// skipped.
#[test]
fn what_an_ended_incarnation_used_up_is_reported() {
    for (by_device, reset) in [(false, false), (false, true), (true, false), (true, true)] {
        let adapter = if by_device {
            Adapter::by_device()
        } else {
            Adapter::default()
        };
        let mut world = world(adapter, 3);
        world.message(0, 0);
        world.message(1, 1);
        assert_eq!(world.cq.poll().unwrap().unwrap().wr_id, 10);
        let World {
            mut qp,
            mut cq,
            mut srq,
            ..
        } = world;
        let kept = if reset {
            qp.modify(&QpAttr::to(QpState::Reset)).unwrap();
            Some(qp)
        } else {
            qp.object_mut().end().unwrap();
            drop(qp);
            None
        };
        assert!(taken(&mut srq).is_empty(), "it was not passed over yet");
        assert_eq!(cq.poll(), Ok(None));
        assert_eq!(taken(&mut srq), [11]);
        assert!(taken(&mut srq).is_empty(), "once");
        for wr_id in [20, 21] {
            put(&mut srq, wr_id);
        }
        drop(kept);
    }
}

/// Entries that are never skipped are reported when the completion queue is gone, whichever handle
/// is dropped first.
#[test]
fn what_is_left_in_a_completion_queue_is_reported() {
    for cq_first in [false, true] {
        for by_device in [false, true] {
            let adapter = if by_device {
                Adapter::by_device()
            } else {
                Adapter::default()
            };
            let mut world = world(adapter, 3);
            world.message(0, 0);
            world.message(1, 1);
            assert_eq!(world.cq.poll().unwrap().unwrap().wr_id, 10);
            assert!(world.taken().is_empty());
            // The kernel's completion queue lives until the queue pair is gone; messages may still
            // arrive.
            world.message(2, 2);
            let World {
                qp, cq, mut srq, ..
            } = world;
            if cq_first {
                drop(cq);
                assert!(taken(&mut srq).is_empty());
                drop(qp);
            } else {
                drop(qp);
                assert!(taken(&mut srq).is_empty());
                drop(cq);
            }
            assert_eq!(taken(&mut srq), [11, 12]);
            for wr_id in [20, 21, 22] {
                put(&mut srq, wr_id);
            }
        }
    }
}
