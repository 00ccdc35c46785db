//! Requests carry known values, through the handles that users have: what has no name is refused
//! before the kernel is called, and the state that the library assumes for a queue pair is the
//! kernel's.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::fs::File;
use std::os::fd::AsFd;

use fake_tests::Bench;
use proptest::prelude::*;
use uverbs::address::GlobalRoute;
use uverbs::attr::{Psn, QpAttr, QpCreateFlags};
use uverbs::link::Mtu;
use uverbs::memory::{DmabufRange, LocalKey, MrAdvice, MrAdviceFlags, MwType};
use uverbs::owned::{self, Work};
use uverbs::rate::Rate;
use uverbs::time::{AckTimeout, RetryCount, RnrRetry, RnrTimer};
use uverbs::{
    AccessFlags, AddressVector, CompletionQueue, Context, ErrorKind, Gid, ProtectionDomain,
    QpState, QpType, QueuePair, Result, SendFlags, SendRequest, Sge,
};

/// A queue pair that is connected to itself.
fn connect(pd: &ProtectionDomain, cq: &CompletionQueue, kind: QpType) -> QueuePair {
    let builder = pd.queue_pair(kind, cq, cq).gid_index(1).max_inline_data(16);
    let prepared = builder.build().unwrap();
    if kind == QpType::Ud {
        return prepared.activate().unwrap();
    }
    let endpoint = prepared.endpoint();
    prepared.handshake(endpoint).unwrap()
}

const KINDS_OF_RXE: [QpType; 3] = [QpType::Rc, QpType::Uc, QpType::Ud];

#[test]
fn unknown_states_are_refused_without_a_command() {
    let bench = Bench::newest();
    let context = bench.context().unwrap();
    let (pd, cq) = (context.alloc_pd().unwrap(), context.create_cq(8).unwrap());
    for kind in KINDS_OF_RXE {
        let mut raw = connect(&pd, &cq, kind);
        let mut safe = owned::QueuePair::new(connect(&pd, &cq, kind));
        for number in 7..=u8::MAX {
            let state = QpState::from_raw(number);
            for attr in [
                QpAttr::to(state),
                QpAttr::to(QpState::Reset).cur_state(state),
                QpAttr::new().cur_state(state),
                QpAttr::to(QpState::Error).path_mtu(Mtu::from_raw(number)),
            ] {
                let before = bench.fake.calls();
                for error in [
                    raw.modify(&attr).unwrap_err(),
                    safe.modify(&attr).unwrap_err(),
                ] {
                    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{attr:?}: {error}");
                    assert_eq!(error.errno(), None, "{attr:?}: {error}");
                }
                assert_eq!(bench.fake.calls(), before, "{attr:?}");
            }
        }
        assert_eq!(
            (raw.state(), safe.state()),
            (QpState::ReadyToSend, QpState::ReadyToSend)
        );
        assert_eq!(raw.query().unwrap().state, QpState::ReadyToSend);
        assert_eq!(safe.query().unwrap().state, QpState::ReadyToSend);
    }
}

/// However its number is given, a reset is one: a queue that owns memory accepts it only through
/// its own function, and a raw one starts over.
#[test]
fn a_reset_given_by_number_is_a_reset() {
    let bench = Bench::newest();
    let context = bench.context().unwrap();
    let (pd, mut cq) = (context.alloc_pd().unwrap(), context.create_cq(32).unwrap());
    let reset = QpAttr::to(QpState::from_raw(0));

    let mut safe = owned::QueuePair::new(connect(&pd, &cq, QpType::Rc));
    let [buffer] = pd.buffers::<1>(64).unwrap();
    safe.recv(buffer, 1).unwrap();
    let before = bench.fake.calls();
    let error = safe.modify(&reset).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    assert_eq!(bench.fake.calls(), before);
    assert_eq!(
        (safe.state(), safe.receives_posted()),
        (QpState::ReadyToSend, 1)
    );
    assert_eq!(safe.reset().unwrap().len(), 1);

    let mut raw = connect(&pd, &cq, QpType::Rc);
    let slices: [&[u8]; 1] = [b"stale"];
    let request = SendRequest::send_inline(&slices).signaled();
    for life in 0..3_u64 {
        assert_eq!(raw.state(), QpState::ReadyToSend);
        // There are no receives: the requests stay in the ring.
        for at in 0..16 {
            let mut batch = raw.send_batch();
            batch.push_inline(&request.wr_id(life << 8 | at)).unwrap();
            batch.submit().unwrap();
        }
        raw.modify(&reset).unwrap();
        assert_eq!(raw.state(), QpState::Reset);
        assert_eq!(raw.query().unwrap().state, QpState::Reset);
        while cq.poll().unwrap().is_some() {}
        by_hand(&mut raw, &context);
        assert!(cq.poll().unwrap().is_none(), "requests of before the reset");
    }
}

/// Moves a queue pair that is connected to itself through its states.
fn by_hand(qp: &mut QueuePair, context: &Context) {
    let gid = context.gid(1, 1).unwrap().unwrap().gid;
    let path = AddressVector::global(1, GlobalRoute::new(gid, 1));
    let number = qp.qp_num();
    for attr in [
        QpAttr::to(QpState::Init)
            .pkey_index(0)
            .port(1)
            .access(AccessFlags::LOCAL_WRITE),
        QpAttr::to(QpState::ReadyToReceive)
            .av(path)
            .path_mtu(Mtu::B1024)
            .dest_qpn(number)
            .rq_psn(Psn::from_raw(1))
            .max_dest_rd_atomic(1)
            .min_rnr_timer(RnrTimer::from_raw(1)),
        QpAttr::to(QpState::ReadyToSend)
            .sq_psn(Psn::from_raw(1))
            .timeout(AckTimeout::from_raw(4))
            .retry_count(RetryCount::from_raw(6))
            .rnr_retry(RnrRetry::from_raw(6))
            .max_rd_atomic(1),
    ] {
        qp.modify(&attr).unwrap();
    }
}

#[test]
fn creations_with_unnamed_kinds_or_flags_are_refused() {
    let bench = Bench::newest();
    let context = bench.context().unwrap();
    let (pd, cq) = (context.alloc_pd().unwrap(), context.create_cq(8).unwrap());
    let refused = |what: &str, result: Result<()>, before: u64| {
        let error = result.expect_err(what);
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{what}: {error}");
        assert_eq!(bench.fake.calls(), before, "{what}");
    };
    let before = bench.fake.calls();
    let range = Sge {
        address: 0,
        length: 1,
        key: LocalKey::from_raw(1),
    };
    let ranges = vec![range; 4096];
    let prefetch = |ranges| pd.advise(MrAdvice::Prefetch, MrAdviceFlags::empty(), ranges);
    let error = prefetch(&ranges).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
    assert_eq!(bench.fake.calls(), before);
    let error = prefetch(&ranges[1..]).unwrap_err();
    assert_ne!(error.kind(), ErrorKind::LimitExceeded, "{error}");
    assert_ne!(bench.fake.calls(), before, "the kernel was asked");
    let before = bench.fake.calls();
    for at in 0..32_u32 {
        let bit = 1 << at;
        if 0x1f02 & bit == 0 {
            let builder = pd
                .queue_pair(QpType::Rc, &cq, &cq)
                .create_flags(QpCreateFlags::from_bits_retain(bit));
            refused("create_qp", builder.build().map(drop), before);
        }
        if 0x3ff0_03ff & bit == 0 {
            let access = AccessFlags::from_bits_retain(bit);
            refused("expose", pd.expose(64, access).map(drop), before);
            refused("dmabuf", dmabuf(&pd, access), before);
        }
        if bit != 1 {
            let flags = MrAdviceFlags::from_bits_retain(bit);
            let advised = pd.advise(MrAdvice::Prefetch, flags, &[]);
            refused("advise", advised, before);
        }
    }
    for raw in (0..=300).chain([1 << 8 | 2, 1 << 31, u32::MAX]) {
        let kind = QpType::from_raw(raw);
        if kind.c_name().is_none() {
            refused(
                "create_qp",
                pd.queue_pair(kind, &cq, &cq).build().map(drop),
                before,
            );
        }
        let advice = MrAdvice::from_raw(raw);
        if advice.c_name().is_none() {
            let advised = pd.advise(advice, MrAdviceFlags::empty(), &[]);
            refused("advise", advised, before);
        }
    }
    for raw in 0..=u8::MAX {
        let kind = MwType::from_raw(raw);
        if kind.c_name().is_none() {
            refused("alloc_mw", pd.alloc_mw(kind).map(drop), before);
        }
        let vector = AddressVector {
            static_rate: Rate::from_raw(raw),
            ..AddressVector::default()
        };
        if vector.static_rate.c_name().is_none() {
            refused("create_ah", pd.create_ah(&vector).map(drop), before);
        }
    }
}

fn dmabuf(pd: &ProtectionDomain, access: AccessFlags) -> Result<()> {
    let file = File::open("/dev/null").unwrap();
    let range = DmabufRange {
        fd: file.as_fd(),
        offset: 0,
        length: 4096,
        iova: 0,
    };
    pd.register_dmabuf(&range, access).map(drop)
}

/// Each flag alone: data that the kernel would take from the ring as inline data, with the flag for
/// it, arrives unchanged.
#[test]
fn flags_without_a_name_change_no_message() {
    let bench = Bench::newest();
    let context = bench.context().unwrap();
    let mut pair = fake_tests::Loopback::new(&context).unwrap();
    for at in 0..32_u32 {
        let [mut from, to] = pair.buffers::<2>(64).unwrap();
        from.fill(0x5a);
        pair.qp.recv(to, 1).unwrap();
        let flags = SendFlags::from_bits_retain(1 << at);
        let work = Work::send().memory((from, 64)).flags(flags).user_data(2);
        pair.qp.post(work).unwrap();
        let finished = pair.finish(2).unwrap();
        let received = finished.iter().find(|done| done.user_data() == 1).unwrap();
        assert_eq!(received.bytes(), Some(&[0x5a; 64][..]), "bit {at}");
    }
}

/// What to modify, as numbers that may have a name or not.
#[derive(Clone, Copy, Debug)]
struct Change {
    state: Option<u8>,
    current: Option<u8>,
    others: u8,
    mtu: u8,
    access: u32,
}

fn change() -> impl Strategy<Value = Change> {
    let state = || prop::option::weighted(0.8, prop_oneof![8 => 0..7_u8, 1 => any::<u8>()]);
    let current = prop::option::weighted(0.3, prop_oneof![8 => 0..7_u8, 1 => any::<u8>()]);
    let access = prop_oneof![8 => 0..16_u32, 1 => any::<u32>()];
    let mtu = prop_oneof![8 => 1..6_u8, 1 => any::<u8>()];
    (state(), current, any::<u8>(), mtu, access).prop_map(
        |(state, current, others, mtu, access)| Change {
            state,
            current,
            others,
            mtu,
            access,
        },
    )
}

impl Change {
    /// Usually with what the transition to the state requires; `gid` is the queue pair's own.
    fn attr(self, kind: QpType, number: u32, gid: Gid) -> QpAttr {
        let mut attr = match self.state {
            _ if self.others == 0 => QpAttr::new(),
            Some(1) => QpAttr::new().pkey_index(0).port(1),
            Some(2) if kind != QpType::Ud => QpAttr::new()
                .av(AddressVector::global(1, GlobalRoute::new(gid, 1)))
                .path_mtu(Mtu::from_raw(self.mtu))
                .dest_qpn(number)
                .rq_psn(Psn::from_raw(1)),
            Some(3) => QpAttr::new().sq_psn(Psn::from_raw(1)),
            _ => QpAttr::new(),
        };
        if kind == QpType::Rc && self.state == Some(2) {
            attr = attr
                .max_dest_rd_atomic(1)
                .min_rnr_timer(RnrTimer::from_raw(1));
        }
        if kind == QpType::Rc && self.state == Some(3) && self.current.is_none() {
            attr = attr
                .timeout(AckTimeout::from_raw(4))
                .retry_count(RetryCount::from_raw(6))
                .rnr_retry(RnrRetry::from_raw(6))
                .max_rd_atomic(1);
        }
        match (self.state, kind) {
            (Some(1), QpType::Ud) => attr = attr.qkey(7),
            (Some(1), _) => attr = attr.access(AccessFlags::from_bits_retain(self.access)),
            _ => {}
        }
        attr.state = self.state.map(QpState::from_raw);
        attr.cur_state = self.current.map(QpState::from_raw);
        attr
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 2 } else { 128 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Whatever is requested and whatever its result, the state that the library knows is the one
    /// that the kernel reports.
    #[test]
    fn the_state_that_is_known_is_the_kernels(
        kind in 0..3_usize,
        changes in prop::collection::vec(change(), 1..24),
    ) {
        let bench = Bench::newest();
        let context = bench.context().unwrap();
        let (pd, cq) = (context.alloc_pd().unwrap(), context.create_cq(8).unwrap());
        let kind = KINDS_OF_RXE[kind];
        let gid = context.gid(1, 1).unwrap().unwrap().gid;
        let builder = pd.queue_pair(kind, &cq, &cq);
        let mut qp = builder.gid_index(1).build().unwrap().into_raw();
        for change in changes {
            let attr = change.attr(kind, qp.qp_num(), gid);
            let before = bench.fake.calls();
            let done = qp.modify(&attr);
            let known = qp.state();
            let named = |state: Option<QpState>| state.is_none_or(|state| state.c_name().is_some());
            if !named(attr.state) || !named(attr.cur_state) {
                prop_assert_eq!(done.map_err(|error| error.kind()), Err(ErrorKind::InvalidInput));
                prop_assert_eq!(bench.fake.calls(), before, "{:?}", attr);
            }
            prop_assert_eq!(known, qp.query().unwrap().state, "{:?}", attr);
        }
    }
}

/// Otherwise the property above would only be about queue pairs in RESET.
#[test]
fn random_changes_reach_all_states() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;

    let bench = Bench::newest();
    let context = bench.context().unwrap();
    let (pd, cq) = (context.alloc_pd().unwrap(), context.create_cq(8).unwrap());
    let gid = context.gid(1, 1).unwrap().unwrap().gid;
    let builder = pd.queue_pair(QpType::Rc, &cq, &cq);
    let mut qp = builder.gid_index(1).build().unwrap().into_raw();
    let mut runner = TestRunner::deterministic();
    let mut seen = [0; 7];
    for _ in 0..if cfg!(miri) { 0 } else { 4000 } {
        let change = change().new_tree(&mut runner).unwrap().current();
        let _ = qp.modify(&change.attr(QpType::Rc, qp.qp_num(), gid));
        seen[usize::from(qp.state().raw())] += 1;
    }
    let rare = [QpState::SendQueueError];
    for state in QpState::ALL {
        let times = seen[usize::from(state.raw())];
        assert!(
            cfg!(miri) || times > 0 || rare.contains(state),
            "{state}: {seen:?}"
        );
    }
}
