//! Connection establishment (ECE) options that two adapters offer beyond the standard: offered,
//! exchanged, agreed to.

use mlx5_tests::Model;
use uverbs::attr::{Ece, QpAttr};
use uverbs::error::Op;
use uverbs::time::AckTimeout;
use uverbs::{
    AccessFlags, CompletionQueue, Context, ErrorKind, PreparedQueuePair, ProtectionDomain, QpState,
    QpType, QueuePair, SendRequest,
};
use verbs_tests::{
    Registered, device_name, kernel_may_say, next, open, open_named, peer_name, raw,
};

const VERSION: u32 = 0x1000_0000;
/// The options of the model's functions, and the options that both have.
const ONE: u32 = VERSION | 0b0111;
const OTHER: u32 = VERSION | 0b1101;
const BOTH: u32 = ONE & OTHER;

const TYPES: [QpType; 3] = [QpType::Rc, QpType::Uc, QpType::Ud];

fn ece(options: u32) -> Ece {
    Ece {
        vendor_id: Ece::MELLANOX,
        options,
        comp_mask: 0,
    }
}

struct End {
    pd: ProtectionDomain,
    cq: CompletionQueue,
}

impl End {
    fn of(context: &Context) -> Self {
        Self {
            pd: context.alloc_pd().unwrap(),
            cq: context.create_cq(16).unwrap(),
        }
    }

    fn prepare(&self, kind: QpType) -> PreparedQueuePair {
        let builder = self
            .pd
            .queue_pair(kind, &self.cq, &self.cq)
            .access(AccessFlags::LOCAL_WRITE)
            .timeout(AckTimeout::code(14).unwrap());
        builder.build().unwrap()
    }

    /// A queue pair in INIT, to be connected to itself.
    fn initialized(&self) -> (QueuePair, [QpAttr; 2]) {
        let prepared = self.prepare(QpType::Rc);
        let own = prepared.endpoint();
        let ready = QpAttr::to(QpState::ReadyToReceive)
            .av(prepared.path_to(&own).unwrap())
            .path_mtu(uverbs::link::Mtu::B1024)
            .dest_qpn(own.qp_num)
            .rq_psn(own.psn)
            .max_dest_rd_atomic(1)
            .min_rnr_timer(uverbs::time::RnrTimer::default());
        let sends = QpAttr::to(QpState::ReadyToSend)
            .sq_psn(own.psn)
            .timeout(AckTimeout::default())
            .retry_count(uverbs::time::RetryCount::default())
            .rnr_retry(uverbs::time::RnrRetry::default())
            .max_rd_atomic(1);
        let mut qp = prepared.into_raw();
        let init = QpAttr::to(QpState::Init).pkey_index(0).port(1);
        qp.modify(&init.access(AccessFlags::LOCAL_WRITE)).unwrap();
        (qp, [ready, sends])
    }
}

#[test]
fn two_adapters_agree_to_what_both_have() {
    let (one, other) = (open_named(&device_name()), open_named(&peer_name()));
    let (mut a, mut b) = (End::of(&one), End::of(&other));
    let (mut first, mut second) = (a.prepare(QpType::Rc), b.prepare(QpType::Rc));
    // As exchanged over a channel of the user's.
    let endpoints = [&first, &second].map(|end| (end.endpoint(), end.ece().unwrap().to_bytes()));
    assert_eq!(Ece::from_bytes(&endpoints[0].1), ece(ONE));
    assert_eq!(Ece::from_bytes(&endpoints[1].1), ece(OTHER));
    first.set_ece(&Ece::from_bytes(&endpoints[1].1)).unwrap();
    second.set_ece(&Ece::from_bytes(&endpoints[0].1)).unwrap();
    assert_eq!(first.ece().unwrap(), ece(ONE), "still what it offers");
    let mut first = first.handshake(endpoints[1].0).unwrap();
    let mut second = second.handshake(endpoints[0].0).unwrap();
    assert_eq!(first.ece().unwrap(), ece(BOTH));
    assert_eq!(second.ece().unwrap(), ece(BOTH));

    let (from, to) = (Registered::local(&a.pd, 64), Registered::local(&b.pd, 64));
    from.fill(|at| u8::try_from(at).unwrap());
    raw::recv(&mut second, 1, &[to.sge(0, 64)]).unwrap();
    let sges = [from.sge(0, 64)];
    raw::send(&mut first, &[SendRequest::send(&sges).signaled()]).unwrap();
    assert!(next(&mut a.cq).is_success() && next(&mut b.cq).is_success());
    assert_eq!(to.all(), from.all());
}

#[test]
fn every_transport_offers_and_agrees() {
    let end = End::of(&open());
    for kind in TYPES {
        let mut prepared = end.prepare(kind);
        assert_eq!(prepared.ece().unwrap(), ece(ONE), "{kind}");
        let own = prepared.endpoint();
        prepared.set_ece(&ece(OTHER)).unwrap();
        let qp = match kind {
            QpType::Ud => prepared.activate().unwrap(),
            _ => prepared.handshake(own).unwrap(),
        };
        assert_eq!(qp.ece().unwrap(), ece(BOTH), "{kind}");
    }
    // Known before the queue pair is created.
    let builder = end.pd.queue_pair(QpType::Rc, &end.cq, &end.cq);
    let prepared = builder.ece(ece(OTHER)).build().unwrap();
    let own = prepared.endpoint();
    assert_eq!(prepared.handshake(own).unwrap().ece().unwrap(), ece(BOTH));
}

#[test]
fn dynamic_ends_agree_when_they_are_made() {
    let end = End::of(&open());
    let srq = end.pd.create_srq(4, 1).unwrap();
    let mut target = end.pd.dc_target(&srq, &end.cq, 7).build().unwrap();
    assert_eq!(
        target.ece().unwrap(),
        ece(0),
        "there is nothing to offer yet"
    );
    target.set_ece(&ece(OTHER)).unwrap();
    assert_eq!(target.activate().unwrap().ece().unwrap(), ece(BOTH));
    let mut initiator = end.pd.dc_initiator(&end.cq).build().unwrap();
    assert_eq!(initiator.ece().unwrap(), ece(ONE));
    initiator.set_ece(&ece(OTHER)).unwrap();
    assert_eq!(initiator.activate().unwrap().ece().unwrap(), ece(BOTH));
}

/// Each transition that the kernel allows to carry options: from INIT, from RTR, and when it is
/// already in RTS.
#[test]
fn options_are_negotiated_at_any_transition_after_init() {
    let end = End::of(&open());
    for carrier in 0..3 {
        let (mut qp, steps) = end.initialized();
        let last = QpAttr::to(QpState::ReadyToSend)
            .access(AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_READ);
        for (at, step) in steps.iter().chain([&last]).enumerate() {
            if at == carrier {
                qp.set_ece(&ece(OTHER)).unwrap();
                assert_eq!(qp.ece().unwrap(), ece(0), "not agreed yet");
            }
            qp.modify(step).unwrap();
            let options = if at < carrier { ONE } else { BOTH };
            assert_eq!(qp.ece().unwrap(), ece(options), "step {at} of {carrier}");
        }
        qp.modify(&QpAttr::to(QpState::Reset)).unwrap();
        assert_eq!(qp.ece().unwrap(), ece(ONE), "from the beginning");
    }
}

#[test]
fn unacceptable_options_are_reported() {
    let end = End::of(&open());
    let mut prepared = end.prepare(QpType::Rc);
    for (vendor_id, comp_mask, kind) in [
        (0, 0, ErrorKind::Unsupported),
        (0x8086, 0, ErrorKind::InvalidInput),
        (Ece::MELLANOX, 1, ErrorKind::InvalidInput),
    ] {
        let peer = Ece {
            vendor_id,
            options: OTHER,
            comp_mask,
        };
        let error = prepared.set_ece(&peer).unwrap_err();
        assert_eq!((error.kind(), error.op()), (kind, Op::SetEce), "{error}");
        let builder = end.pd.queue_pair(QpType::Rc, &end.cq, &end.cq);
        let error = builder.ece(peer).build().unwrap_err();
        assert_eq!((error.kind(), error.op()), (kind, Op::SetEce), "{error}");
    }
    // A different version has nothing in common with this one.
    prepared.set_ece(&ece(0x2000_0007)).unwrap();
    let own = prepared.endpoint();
    let qp = prepared.handshake(own).unwrap();
    assert_eq!(qp.ece().unwrap(), ece(0));
}

#[test]
fn a_refused_change_leaves_the_request_for_the_next() {
    kernel_may_say("mlx5");
    let mut model = Model::open();
    let end = End::of(&open());
    let (mut qp, [ready, _]) = end.initialized();
    qp.set_ece(&ece(OTHER)).unwrap();
    // INIT2RTR_QP.
    model.make("fail 0 503 1");
    qp.modify(&ready).unwrap_err();
    assert_eq!(qp.ece().unwrap(), ece(0));
    qp.modify(&ready).unwrap();
    assert_eq!(qp.ece().unwrap(), ece(BOTH));
}

/// The result for a device whose firmware does not support options.
pub(crate) fn is_missing(context: &Context) {
    let end = End::of(context);
    let mut prepared = end.prepare(QpType::Rc);
    let error = prepared.ece().unwrap_err();
    assert_eq!(
        (error.kind(), error.op()),
        (ErrorKind::Unsupported, Op::QueryEce)
    );
    let error = prepared.set_ece(&ece(OTHER)).unwrap_err();
    assert_eq!(
        (error.kind(), error.op()),
        (ErrorKind::Unsupported, Op::SetEce)
    );
    let builder = end.pd.queue_pair(QpType::Rc, &end.cq, &end.cq);
    let error = builder.ece(ece(OTHER)).build().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    let own = prepared.endpoint();
    let qp = prepared.handshake(own).unwrap();
    assert_eq!(qp.state(), QpState::ReadyToSend);
}
