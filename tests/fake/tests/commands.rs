//! Every command of an rxe device, once on each kernel and with each forced encoding: it reaches
//! the kernel as the rules say, and the answer is understood.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::cell::RefCell;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use fake_tests::{Bench, PATHS, expected, expected_ring, thinned, ways};
use uverbs::address::GlobalRoute;
use uverbs::attr::{Psn, QpAttr, QpAttrMask, QpCaps, SrqModify};
use uverbs::link::Mtu;
use uverbs::memory::{MwType, ReregFlags};
use uverbs::time::{AckTimeout, RetryCount, RnrRetry, RnrTimer};
use uverbs::{AccessFlags, AddressVector, Gid, QpState, QpType};
use uverbs_core::error::{ErrorKind, Result};
use uverbs_core::sys::{Pointer, Uhw, cells};
use uverbs_core::{CommandPath, UverbsFile, cmd};
use uverbs_fake::{CallKind, Feature, Profile};
use uverbs_uapi::ib_user_ioctl_cmds::*;
use uverbs_uapi::ib_user_verbs::*;
use uverbs_uapi::rdma_user_rxe::{
    mminfo, rxe_create_ah_resp, rxe_create_cq_resp, rxe_create_qp_resp, rxe_create_srq_resp,
    rxe_modify_srq_cmd, rxe_resize_cq_resp,
};
use zerocopy::IntoBytes;

const EX: u32 = IB_USER_VERBS_CMD_FLAG_EXTENDED;

/// Runs commands and checks how each was encoded.
struct Run<'a> {
    bench: &'a Bench,
    file: Arc<UverbsFile>,
    profile: Profile,
    steps: RefCell<usize>,
}

impl Run<'_> {
    /// Issues a command. `None` if the forced encoding does not have it; the library must then
    /// report that.
    fn step<T>(
        &self,
        name: &str,
        method: Option<(u16, u16)>,
        command: Option<u32>,
        issue: impl FnOnce(&UverbsFile) -> Result<T>,
    ) -> Option<T> {
        let wanted = expected(self.profile, self.bench.path, method, command);
        self.check(name, wanted, issue)
    }

    /// The same for a command of a data path.
    fn ring(
        &self,
        name: &str,
        op: uverbs::error::Op,
        command: u32,
        issue: impl FnOnce(&UverbsFile) -> Result<(), uverbs::error::Errno>,
    ) {
        let wanted = expected_ring(self.profile, self.bench.path, command);
        self.check(name, wanted, |ch| {
            issue(ch).map_err(|errno| uverbs::Error::os(op, errno))
        });
    }

    fn check<T>(
        &self,
        name: &str,
        wanted: Option<CallKind>,
        issue: impl FnOnce(&UverbsFile) -> Result<T>,
    ) -> Option<T> {
        let Self { bench, profile, .. } = self;
        let before = bench.fake.seen().len();
        let answer = issue(&self.file);
        *self.steps.borrow_mut() += 1;
        let seen = bench.fake.seen()[before..].last().map(|seen| seen.call);
        let context = format!("{name} on {:?} by {:?}", profile.version(), bench.path);
        match (wanted, answer) {
            (Some(wanted), Ok(value)) => {
                assert_eq!(seen, Some(wanted), "{context}");
                Some(value)
            }
            (Some(_), Err(error)) => panic!("{context}: {error}"),
            (None, Err(error)) => {
                assert_eq!(error.kind(), ErrorKind::Unsupported, "{context}: {error}");
                None
            }
            (None, Ok(_)) => panic!("{context} cannot have worked: {seen:?}"),
        }
    }
}

fn address() -> AddressVector {
    AddressVector {
        grh: Some(GlobalRoute {
            dgid: Gid::from([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1]),
            sgid_index: 1,
            ..GlobalRoute::default()
        }),
        ..AddressVector::local(1, 0)
    }
}

const CAPS: QpCaps = QpCaps {
    max_send_wr: 8,
    max_recv_wr: 8,
    max_send_sge: 2,
    max_recv_sge: 2,
    max_inline_data: 64,
};

/// The whole life of every object. Returns how many commands were issued.
fn everything(profile: Profile, path: CommandPath) -> usize {
    let bench = Bench::new(profile, path);
    let run = Run {
        bench: &bench,
        file: bench.file().unwrap(),
        profile,
        steps: RefCell::new(0),
    };
    let device = |method| Some((UVERBS_OBJECT_DEVICE, method));
    let Some(context) = run.step(
        "get_context",
        device(UVERBS_METHOD_GET_CONTEXT),
        Some(IB_USER_VERBS_CMD_GET_CONTEXT),
        |ch| cmd::context::get(ch, &cmd::context::GetContext::default(), &Uhw::NONE),
    ) else {
        return *run.steps.borrow();
    };
    assert_eq!(context.num_comp_vectors, 2);
    let async_fd = context.async_fd.or_else(|| {
        let alloc = Some((UVERBS_OBJECT_ASYNC_EVENT, UVERBS_METHOD_ASYNC_EVENT_ALLOC));
        run.step("async_event", alloc, None, cmd::event::alloc_async)
    });
    let async_fd: OwnedFd = async_fd.expect("an event file");
    queries(&run);
    let Some(pd) = run.step("alloc_pd", None, Some(IB_USER_VERBS_CMD_ALLOC_PD), |ch| {
        cmd::pd::alloc(ch, &Uhw::NONE)
    }) else {
        return *run.steps.borrow();
    };
    memory(&run, pd);
    queues(&run, pd, &async_fd);
    run.step(
        "dealloc_pd",
        Some((UVERBS_OBJECT_PD, UVERBS_METHOD_PD_DESTROY)),
        Some(IB_USER_VERBS_CMD_DEALLOC_PD),
        |ch| cmd::pd::KIND.destroy(ch, pd),
    );
    let Run { file, steps, .. } = run;
    drop((async_fd, file));
    assert_eq!(
        bench.fake.objects().total(),
        0,
        "{:?}",
        bench.fake.objects()
    );
    steps.into_inner()
}

fn queries(run: &Run<'_>) {
    let device = |method| Some((UVERBS_OBJECT_DEVICE, method));
    let query = if run.profile.has(Feature::ExtendedOfRxe) {
        EX | IB_USER_VERBS_EX_CMD_QUERY_DEVICE
    } else {
        IB_USER_VERBS_CMD_QUERY_DEVICE
    };
    if let Some(attr) = run.step("query_device", None, Some(query), |ch| {
        cmd::device::query(ch, &Uhw::NONE)
    }) {
        let large = run.profile.has(Feature::LargeLimits);
        assert_eq!(attr.max_qp_wr, if large { 1 << 20 } else { 1 << 14 });
        assert_eq!(attr.max_cqe, 32767);
    }
    let port = run.step(
        "query_port",
        device(UVERBS_METHOD_QUERY_PORT),
        Some(IB_USER_VERBS_CMD_QUERY_PORT),
        |ch| cmd::device::query_port(ch, 1),
    );
    if let Some(port) = port {
        assert_eq!(port.active_mtu, Mtu::B1024);
    }
    if run
        .profile
        .has_method(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_GID_TABLE)
    {
        let table = run.step(
            "query_gid_table",
            device(UVERBS_METHOD_QUERY_GID_TABLE),
            None,
            |ch| cmd::gid::query_table(ch, 16),
        );
        assert_eq!(table.unwrap().len(), 2);
        let entry = run.step(
            "query_gid",
            device(UVERBS_METHOD_QUERY_GID_ENTRY),
            None,
            |ch| cmd::gid::query_entry(ch, 1, 1),
        );
        assert_eq!(entry.unwrap().unwrap().index, 1);
        assert!(cmd::gid::query_entry(&run.file, 1, 9).unwrap().is_none());
        assert!(cmd::gid::query_entry(&run.file, 2, 0).is_err());
    }
    if run
        .profile
        .has_method(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INFO_HANDLES)
    {
        let handles = run.step(
            "info_handles",
            device(UVERBS_METHOD_INFO_HANDLES),
            None,
            |ch| cmd::device::info_handles(ch, UVERBS_OBJECT_PD, 8),
        );
        assert!(handles.unwrap().is_empty());
    }
}

fn memory(run: &Run<'_>, pd: u32) {
    let memory = vec![0_u64; 512];
    let start = memory.as_ptr().expose_provenance() as u64;
    let register = cmd::mr::Register {
        pd,
        start,
        length: 4096,
        iova: start,
        access: AccessFlags::LOCAL_WRITE | AccessFlags::MW_BIND,
    };
    let mr = run
        .step("reg_mr", None, Some(IB_USER_VERBS_CMD_REG_MR), |ch| {
            cmd::mr::register(ch, &register, &Uhw::NONE)
        })
        .expect("registered");
    let rereg = cmd::mr::Reregister {
        mr: mr.handle,
        flags: ReregFlags::CHANGE_ACCESS,
        start: 0,
        length: 0,
        iova: 0,
        pd: 0,
        access: AccessFlags::LOCAL_WRITE,
    };
    if run.profile.has(Feature::Reregister) {
        let keys = run.step("rereg_mr", None, Some(IB_USER_VERBS_CMD_REREG_MR), |ch| {
            cmd::mr::reregister(ch, &rereg, &Uhw::NONE)
        });
        assert_eq!(keys.unwrap().lkey, mr.lkey);
    } else {
        let refused = cmd::mr::reregister(&run.file, &rereg, &Uhw::NONE).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Unsupported);
    }
    let windows = [MwType::Type1, MwType::Type2];
    if !run.profile.has(Feature::MemoryWindows) {
        for kind in windows {
            let refused = cmd::mw::alloc(&run.file, pd, kind, &Uhw::NONE).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Unsupported);
        }
    }
    let windows = windows.into_iter();
    for kind in windows.filter(|_| run.profile.has(Feature::MemoryWindows)) {
        let mw = run
            .step("alloc_mw", None, Some(IB_USER_VERBS_CMD_ALLOC_MW), |ch| {
                cmd::mw::alloc(ch, pd, kind, &Uhw::NONE)
            })
            .unwrap();
        run.step(
            "dealloc_mw",
            Some((UVERBS_OBJECT_MW, UVERBS_METHOD_MW_DESTROY)),
            Some(IB_USER_VERBS_CMD_DEALLOC_MW),
            |ch| cmd::mw::KIND.destroy(ch, mw.handle),
        );
    }
    let mut reply = rxe_create_ah_resp::default();
    let ah = run
        .step("create_ah", None, Some(IB_USER_VERBS_CMD_CREATE_AH), |ch| {
            cmd::ah::create(ch, pd, &address(), 0, &Uhw::new(&[], cells(&mut reply)))
        })
        .unwrap();
    assert_eq!(reply.ah_num != 0, run.profile.has(Feature::AddressNumbers));
    run.step(
        "destroy_ah",
        Some((UVERBS_OBJECT_AH, UVERBS_METHOD_AH_DESTROY)),
        Some(IB_USER_VERBS_CMD_DESTROY_AH),
        |ch| cmd::ah::KIND.destroy(ch, ah),
    );
    // The domain is in use: destroying it now must fail and leave it unchanged.
    let busy = cmd::pd::KIND.destroy(&run.file, pd).unwrap_err();
    assert_eq!(busy.kind(), ErrorKind::Busy);
    run.step(
        "dereg_mr",
        Some((UVERBS_OBJECT_MR, UVERBS_METHOD_MR_DESTROY)),
        Some(IB_USER_VERBS_CMD_DEREG_MR),
        |ch| cmd::mr::KIND.destroy(ch, mr.handle),
    );
}

fn queues(run: &Run<'_>, pd: u32, async_fd: &OwnedFd) {
    let channel_fd = run
        .step(
            "create_comp_channel",
            None,
            Some(IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL),
            cmd::comp_channel::create,
        )
        .unwrap();
    let mut place = rxe_create_cq_resp::default();
    let create = cmd::cq::Create {
        comp_channel: Some(channel_fd.as_fd()),
        ..cmd::cq::Create::new(20, 77)
    };
    let cq = run
        .step(
            "create_cq",
            Some((UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_CREATE)),
            Some(IB_USER_VERBS_CMD_CREATE_CQ),
            |ch| cmd::cq::create(ch, &create, &Uhw::new(&[], cells(&mut place))),
        )
        .unwrap();
    assert_eq!(cq.entries, 31);
    assert_ne!(place.mi.size, 0);
    let mut place = rxe_resize_cq_resp::default();
    let entries = run.step("resize_cq", None, Some(IB_USER_VERBS_CMD_RESIZE_CQ), |ch| {
        cmd::cq::resize(ch, cq.handle, 40, &Uhw::new(&[], cells(&mut place)))
    });
    assert_eq!(entries, Some(63));
    run.ring(
        "req_notify_cq",
        uverbs::error::Op::RequestNotification,
        IB_USER_VERBS_CMD_REQ_NOTIFY_CQ,
        |ch| cmd::cq::request_notify(ch, cq.handle, false),
    );
    let srq = shared_receive(run, pd);
    queue_pairs(run, pd, cq.handle, srq);
    run.step(
        "destroy_srq",
        Some((UVERBS_OBJECT_SRQ, UVERBS_METHOD_SRQ_DESTROY)),
        Some(IB_USER_VERBS_CMD_DESTROY_SRQ),
        |ch| cmd::srq::KIND.destroy(ch, srq),
    );
    // The destroy counts an event that was read.
    run.bench.fake.raise(uverbs_fake::Source::Cq(1), 0);
    let event = cmd::event::read_async(&run.file, async_fd.as_fd()).unwrap();
    assert_eq!(event.element, 77);
    let counts = run.step(
        "destroy_cq",
        Some((UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_DESTROY)),
        Some(IB_USER_VERBS_CMD_DESTROY_CQ),
        |ch| cmd::cq::KIND.destroy(ch, cq.handle),
    );
    assert_eq!(counts.unwrap().asynchronous, 1);
}

fn shared_receive(run: &Run<'_>, pd: u32) -> u32 {
    let mut reply = rxe_create_srq_resp::default();
    let create = cmd::srq::Create {
        pd,
        kind: cmd::srq::Kind::Basic,
        max_wr: 10,
        max_sge: 2,
        limit: 0,
        user_handle: 5,
        event_fd: None,
    };
    let srq = run
        .step(
            "create_srq",
            Some((UVERBS_OBJECT_SRQ, UVERBS_METHOD_SRQ_CREATE)),
            Some(IB_USER_VERBS_CMD_CREATE_SRQ),
            |ch| cmd::srq::create(ch, &create, &Uhw::new(&[], cells(&mut reply))),
        )
        .unwrap();
    assert_eq!((srq.max_wr, srq.max_sge), (15, 2));
    let mut place = mminfo::default();
    let request = rxe_modify_srq_cmd::default();
    let uhw = Uhw {
        input: request.as_bytes(),
        pointer: Some(Pointer {
            offset: 0,
            buffer: cells(&mut place),
        }),
        ..Uhw::NONE
    };
    let change = SrqModify {
        max_wr: Some(20),
        limit: Some(4),
    };
    run.step(
        "modify_srq",
        None,
        Some(IB_USER_VERBS_CMD_MODIFY_SRQ),
        |ch| cmd::srq::modify(ch, srq.handle, &change, &uhw),
    );
    assert_ne!(place.size, 0);
    let attr = run.step("query_srq", None, Some(IB_USER_VERBS_CMD_QUERY_SRQ), |ch| {
        cmd::srq::query(ch, srq.handle)
    });
    assert_eq!(attr.unwrap().max_wr, 31);
    srq.handle
}

fn queue_pairs(run: &Run<'_>, pd: u32, cq: u32, srq: u32) {
    for (qp_type, srq) in [
        (QpType::Rc, None),
        (QpType::Uc, None),
        (QpType::Ud, None),
        (QpType::Rc, Some(srq)),
    ] {
        let mut reply = rxe_create_qp_resp::default();
        let create = cmd::qp::Create {
            send_cq: Some(cq),
            recv_cq: Some(cq),
            srq,
            ..cmd::qp::Create::new(qp_type, cmd::qp::Parent::Pd(pd), 9, CAPS)
        };
        let qp = run
            .step(
                "create_qp",
                Some((UVERBS_OBJECT_QP, UVERBS_METHOD_QP_CREATE)),
                Some(IB_USER_VERBS_CMD_CREATE_QP),
                |ch| cmd::qp::create(ch, &create, &Uhw::new(&[], cells(&mut reply))),
            )
            .unwrap();
        assert!(qp.caps.max_send_wr >= CAPS.max_send_wr);
        assert_eq!(reply.rq_mi.size == 0, srq.is_some());
        for attr in way_to_rts(qp_type, qp.qp_num) {
            run.step("modify_qp", None, Some(IB_USER_VERBS_CMD_MODIFY_QP), |ch| {
                cmd::qp::modify(ch, qp.handle, &attr, &Uhw::NONE)
            });
        }
        let info = run
            .step("query_qp", None, Some(IB_USER_VERBS_CMD_QUERY_QP), |ch| {
                cmd::qp::query(ch, qp.handle, QpAttrMask::STATE)
            })
            .unwrap();
        assert_eq!(info.state, QpState::ReadyToSend);
        run.ring(
            "post_send",
            uverbs::error::Op::PostSend,
            IB_USER_VERBS_CMD_POST_SEND,
            |ch| cmd::qp::doorbell(ch, qp.handle),
        );
        if qp_type == QpType::Ud {
            multicast(run, qp.handle);
        }
        run.step(
            "destroy_qp",
            Some((UVERBS_OBJECT_QP, UVERBS_METHOD_QP_DESTROY)),
            Some(IB_USER_VERBS_CMD_DESTROY_QP),
            |ch| cmd::qp::KIND.destroy(ch, qp.handle),
        );
    }
}

fn multicast(run: &Run<'_>, qp: u32) {
    let group = Gid::from([
        0xff, 0x0e, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xef, 1, 2, 3,
    ]);
    run.step(
        "attach_mcast",
        None,
        Some(IB_USER_VERBS_CMD_ATTACH_MCAST),
        |ch| cmd::mcast::attach(ch, qp, &group, 0),
    );
    let busy = cmd::qp::KIND.destroy(&run.file, qp).unwrap_err();
    assert_eq!(busy.kind(), ErrorKind::Busy);
    run.step(
        "detach_mcast",
        None,
        Some(IB_USER_VERBS_CMD_DETACH_MCAST),
        |ch| cmd::mcast::detach(ch, qp, &group, 0),
    );
}

fn way_to_rts(qp_type: QpType, number: u32) -> [QpAttr; 3] {
    let init = QpAttr::to(QpState::Init).port(1).pkey_index(0);
    let rtr = QpAttr::to(QpState::ReadyToReceive);
    let rts = QpAttr::to(QpState::ReadyToSend).sq_psn(Psn::new(7).unwrap());
    if qp_type == QpType::Ud {
        return [init.qkey(0x11), rtr, rts];
    }
    let init = init.access(AccessFlags::LOCAL_WRITE);
    let rtr = rtr
        .av(address())
        .path_mtu(Mtu::B1024)
        .dest_qpn(number)
        .rq_psn(Psn::new(7).unwrap());
    if qp_type == QpType::Uc {
        return [init, rtr, rts];
    }
    let rtr = rtr
        .max_dest_rd_atomic(1)
        .min_rnr_timer(RnrTimer::try_from(16).unwrap());
    let rts = rts
        .timeout(AckTimeout::try_from(4).unwrap())
        .retry_count(RetryCount::try_from(6).unwrap())
        .rnr_retry(RnrRetry::try_from(6).unwrap())
        .max_rd_atomic(1);
    [init, rtr, rts]
}

#[test]
fn every_command_takes_the_encoding_that_the_rules_say() {
    let all = Profile::ALL
        .iter()
        .flat_map(|profile| PATHS.map(|path| (*profile, path)));
    for (profile, path) in thinned(all, 5) {
        let steps = everything(profile, path);
        let possible = expected(profile, path, None, Some(IB_USER_VERBS_CMD_ALLOC_PD)).is_some();
        assert!(
            steps >= 38 || !possible,
            "{:?} by {path:?}: {steps} commands",
            profile.version()
        );
    }
}

#[test]
fn a_kernel_without_the_ioctl_or_without_invoke_write_is_served_by_write() {
    for profile in [
        Profile::v6_1().without_ioctl(),
        Profile::v6_1().without_invoke_write(),
        Profile::v4_18().with_cq_methods(),
    ] {
        for path in ways() {
            everything(profile, path);
        }
    }
}

#[test]
fn nothing_is_written_where_write_is_forbidden() {
    for path in [
        CommandPath::Auto,
        CommandPath::Ioctl,
        CommandPath::InvokeWrite,
    ] {
        let bench = Bench::new(Profile::v6_12().without_write(), path);
        let context = bench.context().unwrap();
        let looped = fake_tests::Loopback::new(&context).unwrap();
        drop(looped);
        let written = |seen: &uverbs_fake::Seen| matches!(seen.call, CallKind::Written(_));
        assert!(!bench.fake.seen().iter().any(written));
    }
}
