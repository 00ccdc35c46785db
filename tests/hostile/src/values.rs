//! The mlx5 provider requests only known values, on a kernel that would carry out everything.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use uverbs::attr::{MigrationState, Psn, QpAttr, QpCreateFlags};
use uverbs::link::Mtu;
use uverbs::memory::MwType;
use uverbs::mlx5::{FlowFlags, FlowInit, FlowKind, FlowSpec, WorkQueueFlags};
use uverbs::rate::Rate;
use uverbs::recorder::{Collector, Recorder};
use uverbs::time::{AckTimeout, RetryCount, RnrRetry, RnrTimer};
use uverbs::{
    AccessFlags, AddressVector, Context, ErrorKind, PostError, QpState, QpType, QueuePair, Result,
    SendFlags, SendRequest,
};

use crate::adapter::{open, queues};
use crate::mlx5::Adapter;

struct Bench {
    context: Context,
    calls: Arc<Collector>,
}

impl Bench {
    fn new() -> Self {
        let calls = Arc::new(Collector::new());
        let kernel = Recorder::new(Adapter::default(), calls.clone());
        Self {
            context: open(Arc::new(kernel)).unwrap(),
            calls,
        }
    }

    /// The request is refused, and does not reach the kernel.
    fn refused<T>(&self, what: &str, ask: impl FnOnce() -> Result<T>) {
        self.calls.take();
        let Err(error) = ask() else {
            panic!("{what} was carried out");
        };
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{what}: {error}");
        assert_eq!(error.errno(), None, "{what}: {error}");
        assert_eq!(self.calls.take().len(), 0, "{what}");
    }
}

#[test]
fn unknown_states_are_refused_without_a_command() {
    let bench = Bench::new();
    let (pd, cq, mut safe) = queues(&bench.context, false).unwrap();
    let mut raw = connect(&pd, &cq);
    for number in 0..=u8::MAX {
        let state = QpState::from_raw(number);
        let mtu = Mtu::from_raw(number);
        let migration = MigrationState::from_raw(number);
        let named = QpAttr::to(QpState::ReadyToSend);
        let changes = [
            (state.c_name().is_none(), QpAttr::to(state)),
            (state.c_name().is_none(), named.cur_state(state)),
            (state.c_name().is_none(), QpAttr::new().cur_state(state)),
            (mtu.c_name().is_none(), QpAttr::new().path_mtu(mtu)),
            (migration.c_name().is_none(), named.migration(migration)),
        ];
        for (unnamed, attr) in changes {
            if unnamed {
                bench.refused("modify_qp", || raw.modify(&attr));
                bench.refused("modify_qp", || safe.modify(&attr));
            }
        }
        assert_eq!(raw.state(), QpState::ReadyToSend);
        assert_eq!(safe.state(), QpState::ReadyToSend);
    }
    for at in (10..20).chain([30, 31]) {
        let access = AccessFlags::from_bits_retain(1 << at);
        bench.refused("modify_qp", || raw.modify(&QpAttr::new().access(access)));
    }
    // The only name that a queue which owns memory does not accept, however it is spelled.
    bench.refused("modify_qp", || {
        safe.modify(&QpAttr::to(QpState::from_raw(0)))
    });
}

fn connect(pd: &uverbs::ProtectionDomain, cq: &uverbs::CompletionQueue) -> QueuePair {
    let builder = pd
        .queue_pair(QpType::Rc, cq, cq)
        .max_send_wr(8)
        .path_mtu(Mtu::B1024)
        .max_rd_atomic(0);
    let mut qp = builder.build().unwrap().into_raw();
    to_itself(&mut qp);
    qp
}

fn to_itself(qp: &mut QueuePair) {
    let number = qp.qp_num();
    for attr in [
        QpAttr::to(QpState::Init)
            .pkey_index(0)
            .port(1)
            .access(AccessFlags::LOCAL_WRITE),
        QpAttr::to(QpState::ReadyToReceive)
            .av(AddressVector::local(1, 7))
            .path_mtu(Mtu::B1024)
            .dest_qpn(number)
            .rq_psn(Psn::from_raw(1))
            .max_dest_rd_atomic(0)
            .min_rnr_timer(RnrTimer::from_raw(1)),
        QpAttr::to(QpState::ReadyToSend)
            .sq_psn(Psn::from_raw(1))
            .timeout(AckTimeout::from_raw(4))
            .retry_count(RetryCount::from_raw(6))
            .rnr_retry(RnrRetry::from_raw(6))
            .max_rd_atomic(0),
    ] {
        qp.modify(&attr).unwrap();
    }
}

/// The rings are reset together with the device, in whatever way the state is given.
#[test]
fn a_reset_starts_over() {
    let bench = Bench::new();
    let (pd, cq, _) = queues(&bench.context, false).unwrap();
    let mut qp = connect(&pd, &cq);
    let fill = |qp: &mut QueuePair| {
        let mut batch = qp.send_batch();
        let mut count = 0;
        while batch.push_inline(&SendRequest::send(&[])).is_ok() {
            count += 1;
        }
        batch.submit().unwrap();
        count
    };
    let room = fill(&mut qp);
    assert!(room >= 8 && fill(&mut qp) == 0);
    for _ in 0..3 {
        qp.modify(&QpAttr::to(QpState::from_raw(0))).unwrap();
        assert_eq!(qp.state(), QpState::Reset);
        to_itself(&mut qp);
        assert_eq!(fill(&mut qp), room);
    }
}

#[test]
fn creations_with_unnamed_kinds_or_flags_are_refused() {
    let bench = Bench::new();
    let (pd, cq, _) = queues(&bench.context, false).unwrap();
    let adapter = bench.context.mlx5().unwrap();
    let mut qp = connect(&pd, &cq);
    for at in 0..32_u32 {
        let bit = 1 << at;
        if 0x1f02 & bit == 0 {
            let builder = pd
                .queue_pair(QpType::Uc, &cq, &cq)
                .create_flags(QpCreateFlags::from_bits_retain(bit));
            bench.refused("create_qp", || builder.build());
        }
        if 0xf & bit == 0 {
            let flags = WorkQueueFlags::from_bits_retain(bit);
            let builder = adapter.work_queue(&pd, &cq).create_flags(flags);
            bench.refused("create_wq", || builder.build());
        }
        if 6 & bit == 0 {
            let init = FlowInit {
                kind: FlowKind::Normal,
                priority: 0,
                port: 1,
                flags: FlowFlags::from_bits_retain(bit),
                specs: &[FlowSpec::Drop],
            };
            bench.refused("create_flow", || qp.create_flow(&init));
        }
        if 0x3ff0_03ff & bit == 0 {
            let access = AccessFlags::from_bits_retain(bit);
            bench.refused("expose", || pd.expose(64, access));
        }
    }
    for raw in 0..=u8::MAX {
        let kind = QpType::from_raw(raw.into());
        if kind.c_name().is_none() {
            bench.refused("create_qp", || pd.queue_pair(kind, &cq, &cq).build());
        }
        if MwType::from_raw(raw).c_name().is_none() {
            bench.refused("alloc_mw", || pd.alloc_mw(MwType::from_raw(raw)));
        }
        let vector = AddressVector {
            static_rate: Rate::from_raw(raw),
            ..AddressVector::local(1, 7)
        };
        if vector.static_rate.c_name().is_none() {
            bench.refused("create_ah", || pd.create_ah(&vector));
        }
    }
}

/// Numbers of queues that share a word with other bits in a request.
#[test]
#[expect(unsafe_code, reason = "posts requests that name no memory")]
fn numbers_of_queues_have_24_bits() {
    let bench = Bench::new();
    let (pd, cq, _) = queues(&bench.context, false).unwrap();
    let address = pd.create_ah(&AddressVector::local(1, 7)).unwrap();
    let request = SendRequest::send(&[]).with(SendFlags::from_bits_retain(!0));
    let builder = pd.dc_initiator(&cq).max_rd_atomic(0).path_mtu(Mtu::B1024);
    let mut initiator = builder.build().unwrap().activate().unwrap();
    let builder = pd.queue_pair(QpType::XrcInitiator, &cq, &cq);
    let mut extended = builder.build().unwrap().into_raw();
    to_itself(&mut extended);
    let builder = pd.queue_pair(QpType::Ud, &cq, &cq);
    let mut datagrams = builder.build().unwrap().activate().unwrap();
    for (number, posted) in [
        (0, Ok(())),
        (0xff_ffff, Ok(())),
        (1 << 24, Err(PostError::InvalidRequest)),
        (1 << 31, Err(PostError::InvalidRequest)),
    ] {
        let mut batch = initiator.send_batch();
        // SAFETY: the request names no memory.
        let put = unsafe { batch.push_dc(&request, &address.to_dc_target(number, 5)) };
        assert_eq!(put, posted, "{number:#x}");
        let mut batch = extended.send_batch();
        // SAFETY: as above.
        let put = unsafe { batch.push_xrc(&request, number) };
        assert_eq!(put, posted, "{number:#x}");
        let mut batch = datagrams.send_batch();
        let put = batch.push_inline(&request.to(address.to(number, 5)));
        assert_eq!(put, posted, "{number:#x}");
    }
}

/// What the kernel carried out is recorded, even if its answer is unusable.
#[test]
fn a_target_whose_number_is_not_reported_is_there() {
    let bench = Bench::new();
    let (pd, cq, _) = queues(&bench.context, false).unwrap();
    let srq = pd.create_srq(4, 1).unwrap();
    let builder = pd.dc_target(&srq, &cq, 5);
    let mut target = builder.build().unwrap().into_raw();
    let init = QpAttr::to(QpState::Init).pkey_index(0).port(1);
    target.modify(&init.access(AccessFlags::empty())).unwrap();
    let ready = QpAttr::to(QpState::ReadyToReceive)
        .av(AddressVector::local(1, 7))
        .path_mtu(Mtu::B1024)
        .min_rnr_timer(RnrTimer::from_raw(1));
    let error = target.modify(&ready).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BadReply, "{error}");
    assert_eq!(target.state(), QpState::ReadyToReceive);
}
