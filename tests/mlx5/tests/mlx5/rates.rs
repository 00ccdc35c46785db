//! Rates that the device grants, and their effect on traffic.
//!
//! Raw packets are paced on every kernel, datagrams and unreliable connections where the kernel
//! passes their rates on; elsewhere such rates are refused before the kernel is called.

use std::time::{Duration, Instant};

use mlx5_tests::Model;
use uverbs::attr::QpAttr;
use uverbs::link::LinkLayer;
use uverbs::mlx5::caps::PacingCaps;
use uverbs::mlx5::pacing::RateLimit;
use uverbs::{
    AddressHandle, CompletionQueue, Context, ErrorKind, QpState, QpType, QueuePair, SendRequest,
};
use verbs_tests::{Pair, Side, drain, open, own_address, raw};

/// Bytes per message, and number of messages posted at once.
const SIZE: usize = 512;
const COUNT: usize = 48;
/// Kilobits in all of them.
const KILOBITS: u64 = (SIZE * COUNT * 8 / 1000) as u64;
/// A rate at which they take 196 ms, and one at which they take a tenth of that.
const SLOW: u32 = 1000;
const FAST: u32 = 10_000;
const QKEY: u32 = 0x1111_1111;

/// The model with its shaper enabled; dropping this disables it.
struct Shaped(Model);

impl Shaped {
    fn new() -> Self {
        let mut model = Model::open();
        model.make("shaper on");
        Self(model)
    }

    /// Number of rates in the first function's table.
    fn rates(&mut self) -> u32 {
        let census = self.0.ask("census 0");
        let Some((_, rest)) = census.split_once("(\"rate\", ") else {
            return 0;
        };
        rest.split(')').next().unwrap().parse().unwrap()
    }
}

impl Drop for Shaped {
    fn drop(&mut self) {
        self.0.make("shaper off");
    }
}

/// A queue pair that sends without being answered.
struct Sender {
    qp: QueuePair,
    cq: CompletionQueue,
    address: Option<(AddressHandle, u32)>,
    frame: Vec<u8>,
    /// Its peer.
    _other: Option<Side>,
}

impl Sender {
    fn new(context: &Context, kind: QpType) -> Self {
        if kind == QpType::RawPacket {
            return Self::raw(context);
        }
        let pair = Pair::between(context, context, kind, |mut builder| {
            builder = builder.max_inline_data(512);
            if kind == QpType::Ud {
                builder = builder.qkey(QKEY);
            }
            builder
        });
        let (a, b) = (pair.a, pair.b);
        let address = (kind == QpType::Ud).then(|| {
            let vector = own_address(context, &a.qp);
            (a.pd.create_ah(&vector).unwrap(), b.qp.qp_num())
        });
        Self {
            qp: a.qp,
            cq: a.cq,
            address,
            frame: vec![7; SIZE],
            _other: Some(b),
        }
    }

    fn raw(context: &Context) -> Self {
        let pd = context.alloc_pd().unwrap();
        let cq = context.create_cq(256).unwrap();
        let builder = pd
            .queue_pair(QpType::RawPacket, &cq, &cq)
            .max_send_wr(64)
            .max_inline_data(512);
        let mut qp = builder.build().unwrap().into_raw();
        qp.modify(&QpAttr::to(QpState::Init).port(1)).unwrap();
        qp.modify(&QpAttr::to(QpState::ReadyToReceive)).unwrap();
        qp.modify(&QpAttr::to(QpState::ReadyToSend)).unwrap();
        // From one locally administered address to another that nobody has; with an experimental
        // type.
        let mut frame = vec![0; SIZE];
        frame[..14].copy_from_slice(&[2, 0, 0, 0, 9, 9, 2, 0, 0, 0, 9, 8, 0x88, 0xb5]);
        Self {
            qp,
            cq,
            address: None,
            frame,
            _other: None,
        }
    }

    fn post(&mut self, count: usize) {
        let bytes: [&[u8]; 1] = [&self.frame];
        let request = SendRequest::send_inline(&bytes).signaled();
        let request = match &self.address {
            Some((handle, number)) => request.to(handle.to(*number, QKEY)),
            None => request,
        };
        raw::send(&mut self.qp, &vec![request; count]).unwrap();
    }

    fn finish(&mut self, count: usize) {
        let done = drain(&mut self.cq, count);
        assert!(
            done.iter().all(uverbs::WorkCompletion::is_success),
            "{done:?}"
        );
    }

    /// How long the messages take.
    fn time(&mut self) -> Duration {
        let since = Instant::now();
        self.post(COUNT);
        self.finish(COUNT);
        since.elapsed()
    }
}

/// The shortest time that a rate permits for the messages: one goes at once, and the model makes up
/// for 20 ms.
fn least(rate: u32) -> Duration {
    let all = Duration::from_millis(KILOBITS * 1000 / u64::from(rate));
    (all * 9 / 10).saturating_sub(Duration::from_millis(25))
}

/// What is paced here: raw packets need an Ethernet port, and InfiniBand has nothing to pace where
/// the kernel passes only their rates on.
fn kinds(context: &Context, caps: &PacingCaps) -> Vec<QpType> {
    let is_ethernet = context.query_port(1).unwrap().link_layer == LinkLayer::Ethernet;
    let kinds: Vec<_> = [QpType::RawPacket, QpType::Uc, QpType::Ud]
        .into_iter()
        .filter(|kind| caps.qp_types.contains(*kind))
        .filter(|kind| is_ethernet || *kind != QpType::RawPacket)
        .collect();
    println!("paced: {kinds:?}");
    assert!(!kinds.is_empty() || !is_ethernet);
    kinds
}

#[test]
fn a_rate_takes_effect_changes_under_traffic_and_ends() {
    let context = open();
    let caps = context.mlx5().unwrap().caps().pacing;
    let mut model = Shaped::new();
    for kind in kinds(&context, &caps) {
        let mut sender = Sender::new(&context, kind);
        let free = sender.time();
        let slow = RateLimit::kbps(SLOW).max_burst(4096).typical_packet(512);
        sender.qp.modify_rate_limit(&slow).unwrap();
        assert_eq!(model.rates(), 1, "{kind}");
        let paced = sender.time();
        assert!(paced >= least(SLOW), "{kind}: {paced:?}");

        // Requests at the slow rate are still waiting when it is changed, and continue at the new
        // one.
        let since = Instant::now();
        sender.post(COUNT);
        sender.qp.modify_rate_limit(&RateLimit::kbps(FAST)).unwrap();
        sender.finish(COUNT);
        let changed = since.elapsed();
        assert_eq!(model.rates(), 1, "{kind}: the old rate's place is free");
        assert!(changed < paced, "{kind}: {changed:?} {paced:?}");
        let fast = sender.time();
        assert!(fast >= least(FAST) && fast < paced, "{kind}: {fast:?}");

        sender.qp.modify_rate_limit(&RateLimit::UNLIMITED).unwrap();
        assert_eq!(model.rates(), 0, "{kind}");
        let after = sender.time();
        assert!(after < paced / 2, "{kind}: {after:?} after {paced:?}");
        println!(
            "{kind}: {free:?} free, {paced:?} at {SLOW} kb/s, {changed:?} changed, {fast:?} at {FAST} kb/s, {after:?} after"
        );
    }
    assert_eq!(context.leaked(), 0);
}

#[test]
fn a_rate_ends_with_its_queue_pair() {
    let context = open();
    let mut model = Shaped::new();
    let caps = context.mlx5().unwrap().caps().pacing;
    for kind in kinds(&context, &caps) {
        let mut one = Sender::new(&context, kind);
        let mut same = Sender::new(&context, kind);
        let limit = RateLimit::kbps(FAST);
        one.qp.modify_rate_limit(&limit).unwrap();
        same.qp.modify_rate_limit(&limit).unwrap();
        assert_eq!(model.rates(), 1, "{kind}: one place for both");
        drop(one);
        assert_eq!(model.rates(), 1, "{kind}");
        // A reset ends it, too.
        same.qp.modify(&QpAttr::to(QpState::Reset)).unwrap();
        assert_eq!(model.rates(), 0, "{kind}");
    }
}

#[test]
fn rates_beyond_the_device_are_refused_with_what_it_has() {
    let context = open();
    let caps = context.mlx5().unwrap().caps().pacing;
    for kind in kinds(&context, &caps) {
        let mut sender = Sender::new(&context, kind);
        let error = sender
            .qp
            .modify_rate_limit(&RateLimit::kbps(caps.max_rate + 1))
            .unwrap_err();
        assert_eq!(
            (error.kind(), error.errno()),
            (ErrorKind::LimitExceeded, None)
        );
        let text = error.to_string();
        assert!(text.contains(&format!("max {}", caps.max_rate)), "{text}");
        let error = sender
            .qp
            .modify_rate_limit(&RateLimit::UNLIMITED.max_burst(1000))
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        // The refused call has changed nothing.
        sender.post(1);
        sender.finish(1);
    }
}

#[test]
fn kinds_that_the_kernel_does_not_pace_are_named() {
    let context = open();
    let caps = context.mlx5().unwrap().caps().pacing;
    for kind in [QpType::Rc, QpType::Uc, QpType::Ud] {
        if caps.qp_types.contains(kind) {
            continue;
        }
        let mut pair = Pair::between(&context, &context, kind, |builder| builder);
        let error = pair
            .a
            .qp
            .modify_rate_limit(&RateLimit::kbps(FAST))
            .unwrap_err();
        assert_eq!(
            (error.kind(), error.errno()),
            (ErrorKind::Unsupported, None),
            "{error}"
        );
        let kinds = caps.qp_types.to_string();
        assert!(
            caps.max_rate == 0 || error.to_string().contains(&kinds),
            "{error}"
        );
    }
}

#[test]
fn roce_the_firmware_s_refusal_of_a_rate_reaches_the_user() {
    verbs_tests::kernel_may_say("mlx5");
    verbs_tests::kernel_may_say("Failed configuring rate limit");
    let context = open();
    let mut model = Model::open();
    let mut sender = Sender::new(&context, QpType::RawPacket);
    // SET_PP_RATE_LIMIT, then MODIFY_SQ: limits exceeded, and a resource that is busy.
    for (opcode, status) in [("780", "6"), ("905", "6")] {
        model.make(&format!("fail 0 {opcode} 1 0 {status}"));
        let error = sender
            .qp
            .modify_rate_limit(&RateLimit::kbps(FAST))
            .unwrap_err();
        assert!(error.errno().is_some(), "{error}");
        let text = error.to_string();
        assert!(text.contains("rate_kbps 10000"), "{text}");
        sender.post(1);
        sender.finish(1);
    }
    sender.qp.modify_rate_limit(&RateLimit::kbps(FAST)).unwrap();
}
