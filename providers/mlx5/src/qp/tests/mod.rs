//! Queue pairs on a kernel that answers by a script.
#![allow(clippy::unwrap_used, reason = "tests")]

mod copies;
mod creation;
mod entropy;
mod posting;
mod states;
mod stops;

use std::sync::Arc;

use uverbs_core::contract::{Link, Qp as _, QpInit};
use uverbs_core::types::{
    AccessFlags, Address, AddressVector, Mtu, Operation, Payload, Psn, QpAttr, QpCaps,
    QpCreateFlags, QpState, QpType, SendRequest, SigMode,
};
use uverbs_core::{Errno, Error, ErrorKind, Object, PostError, Result, cmd};
use uverbs_uapi::ib_user_ioctl_cmds::{UVERBS_ATTR_CREATE_QP_RESP_QP_NUM, UVERBS_ATTR_UHW_IN};
use uverbs_uapi::mlx5_abi::{
    MLX5_QP_FLAG_TYPE_DCI, MLX5_QP_FLAG_TYPE_DCT, MLX5_QP_FLAG_UAR_PAGE_INDEX, mlx5_ib_create_qp,
    mlx5_ib_modify_qp_resp,
};
use uverbs_uapi::mlx5_user_ioctl_cmds::{
    MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_LENGTH, MLX5_IB_ATTR_UAR_OBJ_ALLOC_PAGE_ID,
};
use zerocopy::{FromBytes as _, IntoBytes as _};

use super::{DcDestination, QpExtra, QueuePair, Streams, XrcDomain};
use crate::context::{Context, ProtectionDomain, ThreadDomain};
use crate::cqe::CqShared;
use crate::cqe::ring::CqRing;
use crate::tests::scripted::{Replies, Scripted};
use crate::tracker::SrqTracker;

/// A context with a completion queue and a shared receive queue, of which the device uses nothing.
struct Bench {
    kernel: Arc<Scripted>,
    context: Context,
    pd: ProtectionDomain,
    cq: Arc<Object>,
    completions: Arc<CqShared>,
    srq: Arc<Object>,
    receives: Arc<SrqTracker>,
}

/// The page of the doorbells, and the number of each queue pair.
const PAGE: u32 = 7;
const NUMBER: u32 = 0x123;

impl Bench {
    fn new() -> Self {
        Self::with(|_| ())
    }

    fn with(change: impl FnOnce(&mut Replies)) -> Self {
        let (kernel, context) = Scripted::context_with(change);
        let pd = kernel.pd(&context);
        let object = |kind, handle| Arc::new(Object::new(context.file(), kind, handle, []));
        kernel.answer(
            MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_LENGTH,
            &4096_u32.to_ne_bytes(),
        );
        kernel.answer(MLX5_IB_ATTR_UAR_OBJ_ALLOC_PAGE_ID, &PAGE.to_ne_bytes());
        kernel.answer(UVERBS_ATTR_CREATE_QP_RESP_QP_NUM, &NUMBER.to_ne_bytes());
        kernel.take_calls();
        Self {
            cq: object(&cmd::cq::KIND, 0xc9),
            completions: CqShared::new(&Arc::new(CqRing::alone(6, 64, 0).unwrap())),
            srq: object(&cmd::srq::KIND, 0x59),
            receives: Arc::new(SrqTracker::new(4)),
            kernel,
            context,
            pd,
        }
    }

    fn init(&self, kind: QpType) -> QpInit<'_> {
        let cq = Link::new(&self.cq, &self.completions);
        QpInit {
            kind,
            send_cq: cq,
            recv_cq: cq,
            srq: None,
            caps: QpCaps {
                max_send_wr: 16,
                max_recv_wr: 8,
                max_send_sge: 2,
                max_recv_sge: 2,
                max_inline_data: 0,
            },
            signal: SigMode::All,
            flags: QpCreateFlags::empty(),
            user_handle: 5,
            extra: None,
        }
    }

    fn create(&self, extra: &QpExtra, init: &QpInit<'_>) -> Result<QueuePair> {
        extra.create(&self.context, &self.pd, init)
    }

    fn refused(&self, extra: &QpExtra, init: &QpInit<'_>) -> Error {
        let error = self.create(extra, init).unwrap_err();
        assert_eq!(self.kernel.take_calls(), [""; 0], "{error}");
        error
    }

    /// What the driver was told of the last queue pair.
    fn told(&self) -> mlx5_ib_create_qp {
        let inputs = self.kernel.take_inputs(UVERBS_ATTR_UHW_IN);
        let last = inputs.iter().rfind(|bytes| !bytes.is_empty()).unwrap();
        mlx5_ib_create_qp::read_from_bytes(last).unwrap()
    }
}

fn put(qp: &mut QueuePair) -> Result<(), PostError> {
    let request = SendRequest::new(Operation::Send, Payload::Gather(&[]));
    // SAFETY: it names no memory.
    #[expect(unsafe_code, reason = "posts a request")]
    unsafe {
        qp.put_send(&request)
    }
}

fn initialised() -> QpAttr {
    QpAttr::to(QpState::Init)
        .access(AccessFlags::LOCAL_WRITE)
        .pkey_index(0)
        .port(1)
}

/// Moves an unreliable connection to RTS.
fn ready(qp: &mut QueuePair) {
    let receiving = QpAttr::to(QpState::ReadyToReceive)
        .av(AddressVector::default())
        .path_mtu(Mtu::B1024)
        .dest_qpn(17)
        .rq_psn(Psn::default());
    let sending = QpAttr::to(QpState::ReadyToSend).sq_psn(Psn::default());
    for attr in [initialised(), receiving, sending] {
        qp.modify(&attr).unwrap();
    }
}

#[test]
fn the_kernel_is_told_where_the_queues_are() {
    let bench = Bench::new();
    let qp = bench
        .create(&QpExtra::default(), &bench.init(QpType::Rc))
        .unwrap();
    assert_eq!(qp.base().number, NUMBER);
    let told = bench.told();
    assert_eq!(told.rq_wqe_count, 8);
    assert!(told.sq_wqe_count >= 16 && told.sq_wqe_count.is_power_of_two());
    assert_ne!((told.buf_addr, told.db_addr), (0, 0));
    assert_eq!(
        (told.flags, told.bfreg_index),
        (MLX5_QP_FLAG_UAR_PAGE_INDEX, PAGE)
    );
    let shared = QpInit {
        srq: Some(Link::new(&bench.srq, &bench.receives)),
        ..bench.init(QpType::Rc)
    };
    let sharing = bench.create(&QpExtra::default(), &shared).unwrap();
    assert_eq!(bench.told().rq_wqe_count, 0);
    let error = Object::destroy_shared(Arc::clone(&bench.srq)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
    drop((qp, sharing));
}

#[test]
fn what_no_device_creates_is_refused() {
    let bench = Bench::new();
    let plain = QpExtra::default();
    for kind in [QpType::XrcTarget, QpType::Driver] {
        let error = bench.refused(&plain, &bench.init(kind));
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    }
    let flagged = QpInit {
        flags: QpCreateFlags::SOURCE_QPN,
        ..bench.init(QpType::Rc)
    };
    let error = bench.refused(&plain, &flagged);
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    let mut large = bench.init(QpType::Rc);
    large.caps.max_send_wr = 32769;
    assert_eq!(
        bench.refused(&plain, &large).kind(),
        ErrorKind::LimitExceeded
    );
    let mut wide = bench.init(QpType::Rc);
    wide.caps.max_recv_sge = 31;
    assert_eq!(
        bench.refused(&plain, &wide).kind(),
        ErrorKind::LimitExceeded
    );
    let error = bench.refused(
        &QpExtra::default().with_headers(14),
        &bench.init(QpType::Rc),
    );
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
}

#[test]
fn ends_of_dynamic_connections() {
    let bench = Bench::new();
    let init = bench.init(QpType::Driver);
    let initiator = bench.create(&QpExtra::dc_initiator(), &init).unwrap();
    let told = bench.told();
    assert_ne!(told.flags & MLX5_QP_FLAG_TYPE_DCI, 0);
    assert_eq!(told.rq_wqe_count, 0, "it receives nothing");
    let streams = Streams {
        log_concurrent: 1,
        log_errored: 0,
    };
    bench.kernel.take_calls();
    let error = bench.refused(&QpExtra::dc_initiator().with_streams(streams), &init);
    assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
    let error = bench.refused(&QpExtra::dc_target(0x1234), &init);
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    let init = QpInit {
        srq: Some(Link::new(&bench.srq, &bench.receives)),
        ..init
    };
    let mut target = bench.create(&QpExtra::dc_target(0x1234), &init).unwrap();
    let told = bench.told();
    assert_ne!(told.flags & MLX5_QP_FLAG_TYPE_DCT, 0);
    assert_eq!((told.sq_buf_addr, told.sq_wqe_count), (0x1234, 0));
    assert!(put(&mut target).is_err(), "it cannot send");

    target.modify(&QpAttr::to(QpState::Init)).unwrap();
    let ready = QpAttr::to(QpState::ReadyToReceive);
    let reply = mlx5_ib_modify_qp_resp {
        response_length: 8,
        dctn: 0x55,
        ..mlx5_ib_modify_qp_resp::default()
    };
    bench.kernel.answer_by_driver(reply.as_bytes());
    target.modify(&ready).unwrap();
    assert_eq!(target.base().number, 0x55);
    drop(initiator);
}

#[test]
fn a_target_without_a_number_is_an_error() {
    let bench = Bench::new();
    let init = QpInit {
        srq: Some(Link::new(&bench.srq, &bench.receives)),
        ..bench.init(QpType::Driver)
    };
    let mut target = bench.create(&QpExtra::dc_target(1), &init).unwrap();
    target.modify(&QpAttr::to(QpState::Init)).unwrap();
    let reply = mlx5_ib_modify_qp_resp {
        response_length: 7,
        ..mlx5_ib_modify_qp_resp::default()
    };
    bench.kernel.answer_by_driver(reply.as_bytes());
    let ready = QpAttr::to(QpState::ReadyToReceive);
    let error = target.modify(&ready).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BadReply, "{error}");
}

#[test]
fn receiving_ends_of_xrc_belong_to_a_domain() {
    let (bench, other) = (Bench::new(), Bench::new());
    let [own, foreign] = [&bench, &other].map(|of| XrcDomain::open(&of.context, None).unwrap());
    let target = own.create_target(&bench.context, 9).unwrap();
    assert_eq!(target.base().number, NUMBER);
    assert_eq!(bench.told().sq_wqe_count, 0);
    bench.kernel.take_calls();
    let error = foreign.create_target(&bench.context, 9).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    let error = bench.refused(&QpExtra::xrc_target(&own), &bench.init(QpType::Rc));
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
}

#[test]
fn after_a_reset_of_unknown_outcome_only_a_reset_is_allowed() {
    let bench = Bench::new();
    let mut qp = bench
        .create(&QpExtra::default(), &bench.init(QpType::Uc))
        .unwrap();
    assert!(put(&mut qp).is_err(), "it is reset");
    ready(&mut qp);
    put(&mut qp).unwrap();
    qp.abort_send();
    let reset = QpAttr::to(QpState::Reset);
    bench.kernel.refuse("", Errno::INVAL);
    assert!(qp.modify(&reset).is_err());
    put(&mut qp).unwrap();
    qp.abort_send();
    bench.kernel.accept();
    bench.kernel.refuse("", Errno::TIMEDOUT);
    let error = qp.modify(&reset).unwrap_err();
    assert!(error.outcome_is_unknown(), "{error}");
    assert!(put(&mut qp).is_err(), "it may be reset");
    bench.kernel.accept();
    bench.kernel.take_calls();
    let error = qp.modify(&initialised()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidState, "{error}");
    assert_eq!(bench.kernel.take_calls(), [""; 0]);
    qp.modify(&reset).unwrap();
    ready(&mut qp);
    put(&mut qp).unwrap();
}

#[test]
fn queue_pairs_of_a_thread_use_its_page() {
    let (bench, other) = (Bench::new(), Bench::new());
    bench
        .kernel
        .answer(MLX5_IB_ATTR_UAR_OBJ_ALLOC_PAGE_ID, &99_u32.to_ne_bytes());
    let thread = ThreadDomain::alloc(&bench.context).unwrap();
    let error = other.pd.with_thread(&thread).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    let pd = bench.pd.with_thread(&thread).unwrap();
    assert_eq!(pd.number(), bench.pd.number());
    let error = thread.dealloc().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
    bench
        .kernel
        .answer(MLX5_IB_ATTR_UAR_OBJ_ALLOC_PAGE_ID, &PAGE.to_ne_bytes());
    let init = bench.init(QpType::Rc);
    let qp = QpExtra::default()
        .create(&bench.context, &pd, &init)
        .unwrap();
    assert_eq!(bench.told().bfreg_index, 99);
    let elsewhere = bench.create(&QpExtra::default(), &init).unwrap();
    assert_eq!(bench.told().bfreg_index, PAGE);
    drop((qp, elsewhere));
}

/// Moves it to RTS, whatever the device thinks of that.
fn sending(mut qp: QueuePair) -> QueuePair {
    qp.entered(QpState::ReadyToSend);
    qp
}

#[test]
fn shared_queue_numbers_of_xrc_requests_have_24_bits() {
    let bench = Bench::new();
    let request = SendRequest::new(Operation::Send, Payload::Gather(&[]));
    let plain = bench.create(&QpExtra::default(), &bench.init(QpType::Rc));
    let initiator = bench.create(&QpExtra::default(), &bench.init(QpType::XrcInitiator));
    let (mut plain, mut initiator) = (sending(plain.unwrap()), sending(initiator.unwrap()));
    #[expect(unsafe_code, reason = "posts requests")]
    let put = |qp: &mut QueuePair, srq| {
        // SAFETY: it names no memory.
        unsafe { qp.put_xrc(&request, srq) }
    };
    assert_eq!(put(&mut initiator, 0xff_ffff), Ok(()));
    assert_eq!(
        put(&mut initiator, 0x100_0000),
        Err(PostError::InvalidRequest)
    );
    assert_eq!(put(&mut plain, 1), Err(PostError::UnsupportedOperation));
    let without = self::put(&mut initiator);
    assert_eq!(
        without,
        Err(PostError::InvalidRequest),
        "no shared queue is named"
    );
}

#[test]
fn an_initiator_names_its_target() {
    let bench = Bench::new();
    let request = SendRequest::new(Operation::Send, Payload::Gather(&[]));
    let init = bench.init(QpType::Driver);
    let mut initiator = sending(bench.create(&QpExtra::dc_initiator(), &init).unwrap());
    let plain = bench.create(&QpExtra::default(), &bench.init(QpType::Rc));
    let mut plain = sending(plain.unwrap());
    let address = Address::new(bench.context.file(), None, 0, [0; 88]);
    let to = DcDestination {
        address: &address,
        number: 0xff_ffff,
        access_key: 7,
        stream: 0,
    };
    #[expect(unsafe_code, reason = "posts requests")]
    let put = |qp: &mut QueuePair, to: &DcDestination<'_>| {
        // SAFETY: it names no memory.
        unsafe { qp.put_dc(&request, to) }
    };
    assert_eq!(put(&mut initiator, &to), Ok(()));
    let beyond = DcDestination {
        number: 0x100_0000,
        ..to
    };
    assert_eq!(put(&mut initiator, &beyond), Err(PostError::InvalidRequest));
    let (requested, streams) = (1, 1);
    let error = PostError::NoSuchStream { requested, streams };
    assert_eq!(put(&mut initiator, &to.in_stream(1)), Err(error));
    assert_eq!(put(&mut plain, &to), Err(PostError::UnsupportedOperation));
}
