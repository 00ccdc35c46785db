//! Queue pairs.

mod copies;
mod create;
mod dc;
mod ece;
mod entropy;
mod extra;
pub mod flow;
mod memory;
mod number;
pub mod pacing;
mod place;
mod plan;
mod raw;
mod scatter;
mod sends;
mod special;
mod spreading;
mod state;
mod stops;
#[cfg(test)]
mod tests;
mod typed;
mod xrc;

use std::sync::Arc;

use uverbs_core::contract::{self, QpBase};
#[cfg(feature = "rings")]
use uverbs_core::rings::QueueKind;
use uverbs_core::types::{
    Ece, QpAttr, QpAttrMask, QpCaps, QpInfo, QpType, RecvRequest, SendRequest,
};
use uverbs_core::{Object, Op, PostError, Result};

use crate::context::Context;
use crate::context::caps::PacingCaps;
#[cfg(feature = "rings")]
use crate::rings::Route;
use crate::rq::{ReceiveRing, ScatteredRing};
use crate::sq::raw::Ethernet;
use crate::sq::{SendRing, UsualSend};
use crate::tracker::registration::Reports;
use crate::tracker::table::Trackers;
use crate::tracker::{QueuePairTracker, Receives};
use copies::Copies;
use create::Parent;
pub use dc::Streams;
use ece::Establishment;
pub use entropy::LagPort;
pub use extra::QpExtra;
use pacing::{RateLimit, modify_rate_limit};
pub use place::QpPlace;
use plan::{Role, Special};
pub use raw::RawNumbers;
use sends::Sends;
pub use special::{DcDestination, MaskedAtomic};
use stops::Told;
pub use xrc::{SharedXrcDomain, XrcDomain};

/// An mlx5 queue pair.
#[derive(Debug)]
pub struct QueuePair {
    send: Sends,
    /// `None` if it receives from a shared queue, and for a size of 0.
    recv: Option<ReceiveRing>,
    /// In place of `recv`, if small messages are delivered in completions.
    scattered: Option<Box<ScatteredRing>>,
    base: QpBase,
    tracker: Arc<QueuePairTracker>,
    reports: Reports,
    role: Role,
    ece: Establishment,
    rare: Option<Box<Rare>>,
}

/// What few queue pairs have.
#[derive(Debug, Default)]
struct Rare {
    raw: Option<RawNumbers>,
    /// The number of streams of an initiator, if it has more than one.
    streams: Option<u32>,
    ethernet: Option<Ethernet>,
    /// For a target whose completions carry the device's number: where its number is registered
    /// once it is known.
    unnumbered: Option<Arc<Trackers>>,
    copies: Option<Copies>,
    /// What the device has to be told whenever it is initialised.
    told: Told,
    /// Tells it. A function, so that only programs with something to tell contain it.
    tell: Option<fn(&QueuePair) -> Result<()>>,
}

impl Rare {
    /// Allocates nothing for a queue pair that has none of it.
    fn boxed(self) -> Option<Box<Self>> {
        let some = self.raw.is_some()
            || self.streams.is_some()
            || self.ethernet.is_some()
            || self.unnumbered.is_some();
        some.then(|| Box::new(self))
    }
}

impl QueuePair {
    /// The numbers of the objects underneath a raw packet queue pair.
    pub fn raw_numbers(&self) -> Option<RawNumbers> {
        self.rare.as_ref()?.raw
    }

    /// How many streams it has: 1, unless it is a DC initiator that was created with more.
    pub fn streams(&self) -> u32 {
        let rare = self.rare.as_ref();
        rare.and_then(|rare| rare.streams).unwrap_or(1)
    }

    /// The receiving end of an XRC connection that was created elsewhere. One system call, which
    /// queries its state.
    pub(crate) fn opened(context: &Context, object: Object, number: u32) -> Result<Self> {
        let mut opened = Self {
            send: Sends::None,
            recv: None,
            scattered: None,
            base: QpBase::new(
                object,
                number,
                QpType::XrcTarget,
                QpCaps::default(),
                context.device(),
            ),
            tracker: Arc::new(QueuePairTracker::new(0, Receives::None)),
            reports: Reports::default(),
            role: Role::None,
            ece: Establishment::new(context.config().ece(), 0),
            rare: None,
        };
        opened.query_attr(QpAttrMask::STATE)?;
        Ok(opened)
    }

    /// Reports to the device's observer what is submitted from here on.
    #[cfg(feature = "rings")]
    fn watch(&mut self) {
        let file = Arc::clone(self.base.object.file());
        let (kind, number) = (self.base.kind, self.base.number);
        if let Some(send) = self.send.as_mut() {
            send.watch(file.watched(QueueKind::Send, number), Route::of(kind));
        }
        if let Some(recv) = self.any_receive_ring() {
            recv.watch(file.watched(QueueKind::Receive, number));
        }
    }

    /// `ibv_modify_qp_rate_limit`—sets the queue pair's send rate; the device's limits are in
    /// `caps`.
    ///
    /// One system call; it waits for the firmware.
    ///
    /// # Errors
    /// Those of [`modify_rate_limit`].
    #[doc(alias = "ibv_modify_qp_rate_limit")]
    pub fn set_rate_limit(&self, caps: &PacingCaps, limit: &RateLimit) -> Result<()> {
        let file = self.base.object.file();
        file.check_process(Op::ModifyRateLimit)?;
        modify_rate_limit(
            &self.base.object,
            self.base.kind,
            self.base.state,
            caps,
            limit,
        )
    }

    #[inline]
    fn send_ring(&mut self) -> Result<&mut SendRing, PostError> {
        self.send.as_mut().ok_or(PostError::UnsupportedOperation)
    }

    /// Puts a request that is not sent by a plain connection.
    #[inline(never)]
    fn put_other(&mut self, request: &SendRequest<'_>) -> Result<(), PostError> {
        match self.base.kind {
            QpType::Ud => self.send_ring()?.put_datagram(request),
            _ => self.put_special(request),
        }
    }

    /// Posts datagrams.
    #[inline(never)]
    fn post_datagrams(&mut self, requests: &[SendRequest<'_>]) -> Result<(), (usize, PostError)> {
        match self.send.as_mut() {
            Some(ring) => ring.post_datagrams(requests),
            None => Err((0, PostError::UnsupportedOperation)),
        }
    }

    /// Posts requests that are neither sent by a plain connection nor datagrams.
    #[inline(never)]
    fn post_others(&mut self, requests: &[SendRequest<'_>]) -> Result<(), (usize, PostError)> {
        let ring = |queue: &mut Self| queue.send_ring()?.submit();
        // A batch that was forgotten instead of dropped must not be submitted with this one.
        contract::Qp::abort_send(self);
        for (posted, request) in requests.iter().enumerate() {
            if let Err(error) = self.put_other(request) {
                ring(self).map_err(|error| (0, error))?;
                return Err((posted, error));
            }
        }
        ring(self).map_err(|error| (0, error))
    }

    /// The receive ring, wherever messages are delivered.
    fn any_receive_ring(&mut self) -> Option<&mut ReceiveRing> {
        let scattered = self.scattered.as_deref_mut();
        self.recv
            .as_mut()
            .or(scattered.map(|scattered| &mut scattered.ring))
    }

    fn scattered_ring(&mut self) -> Result<&mut ScatteredRing, PostError> {
        self.scattered
            .as_deref_mut()
            .ok_or(PostError::UnsupportedOperation)
    }

    #[cold]
    #[inline(never)]
    fn post_scattered(&mut self, requests: &[RecvRequest<'_>]) -> Result<(), (usize, PostError)> {
        let ring = self.scattered_ring().map_err(|error| (0, error))?;
        ring.post(requests)
    }

    #[cold]
    #[inline(never)]
    fn put_scattered(&mut self, request: &RecvRequest<'_>) -> Result<(), PostError> {
        self.scattered_ring()?.put(request)
    }

    #[cold]
    #[inline(never)]
    fn submit_scattered(&mut self) -> Result<(), PostError> {
        self.scattered_ring()?.submit()
    }
}

impl contract::Qp for QueuePair {
    type Usual<'q> = UsualSend<'q>;

    fn base(&self) -> &QpBase {
        &self.base
    }

    fn object_mut(&mut self) -> &mut Object {
        &mut self.base.object
    }

    fn modify(&mut self, attr: &QpAttr) -> Result<()> {
        self.change(attr)
    }

    fn query(&mut self, mask: QpAttrMask) -> Result<QpInfo> {
        self.query_attr(mask)
    }

    fn ece(&self) -> Result<Ece> {
        self.ece.options()
    }

    fn check_ece(&self, ece: &Ece) -> Result<()> {
        self.ece.check(ece)
    }

    fn set_ece(&mut self, ece: &Ece) -> Result<()> {
        self.ece.set_peer(ece)
    }

    #[expect(unsafe_code, reason = "passes its obligations on")]
    #[expect(clippy::inline_always, reason = "a part of posting")]
    #[inline(always)]
    unsafe fn put_send(&mut self, request: &SendRequest<'_>) -> Result<(), PostError> {
        match &mut self.send {
            Sends::Plain(ring) => ring.put(request),
            // A copy is passed: once the address of the request is passed on, the compiler no
            // longer knows anything about its fields.
            _ => self.put_other(&{ *request }),
        }
    }

    #[expect(clippy::inline_always, reason = "a part of posting")]
    #[inline(always)]
    fn submit_send(&mut self) -> Result<(), PostError> {
        self.send_ring()?.submit()
    }

    #[inline]
    fn abort_send(&mut self) {
        if let Some(send) = self.send.as_mut() {
            send.abort();
        }
    }

    #[expect(unsafe_code, reason = "passes its obligations on")]
    #[expect(clippy::inline_always, reason = "a part of posting")]
    #[inline(always)]
    unsafe fn post_send(&mut self, requests: &[SendRequest<'_>]) -> Result<(), (usize, PostError)> {
        if let Sends::Plain(ring) = &mut self.send {
            return ring.post(requests);
        }
        let post = match self.base.kind {
            QpType::Ud => Self::post_datagrams,
            _ => Self::post_others,
        };
        match requests {
            // A copy is passed: once the address of the request is passed on, the compiler no
            // longer knows anything about its fields.
            [one] => post(self, &[*one]),
            _ => post(self, requests),
        }
    }

    #[expect(clippy::inline_always, reason = "a part of posting")]
    #[inline(always)]
    fn has_usual_sends(&self) -> bool {
        matches!(self.send, Sends::Plain(_))
    }

    #[expect(clippy::inline_always, reason = "a part of posting")]
    #[inline(always)]
    fn usual_send(&mut self) -> Option<UsualSend<'_>> {
        match &mut self.send {
            Sends::Plain(ring) => ring.usual_send(),
            _ => None,
        }
    }

    #[expect(unsafe_code, reason = "passes its obligations on")]
    #[expect(clippy::inline_always, reason = "a part of posting")]
    #[inline(always)]
    unsafe fn put_composed<'r>(&mut self, request: impl Fn() -> SendRequest<'r>) -> bool {
        match &mut self.send {
            Sends::Plain(ring) => ring.put_composed(request),
            _ => false,
        }
    }

    #[expect(clippy::inline_always, reason = "a part of posting")]
    #[inline(always)]
    fn submit_composed(&mut self) -> bool {
        match &mut self.send {
            Sends::Plain(ring) => ring.submit_composed(),
            _ => false,
        }
    }

    fn find_room(&mut self) -> bool {
        self.send.as_mut().is_some_and(SendRing::find_room)
    }

    #[expect(unsafe_code, reason = "passes its obligations on")]
    #[expect(clippy::inline_always, reason = "a part of posting")]
    #[inline(always)]
    unsafe fn post_usual_recv(&mut self, request: &RecvRequest<'_>) -> bool {
        match &mut self.recv {
            Some(ring) => ring.post_usual(*request),
            None => false,
        }
    }

    #[expect(unsafe_code, reason = "passes its obligations on")]
    #[expect(clippy::inline_always, reason = "a part of posting")]
    #[inline(always)]
    unsafe fn put_recv_list<'r>(
        &mut self,
        request: impl Fn() -> Option<RecvRequest<'r>>,
        next: impl Fn(),
    ) {
        if let Some(ring) = &mut self.recv {
            ring.put_list(request, next);
        }
    }

    #[expect(unsafe_code, reason = "passes its obligations on")]
    #[expect(clippy::inline_always, reason = "a part of posting")]
    #[inline(always)]
    unsafe fn post_recv(&mut self, requests: &[RecvRequest<'_>]) -> Result<(), (usize, PostError)> {
        match &mut self.recv {
            Some(ring) => ring.post(requests),
            None => match requests {
                // A copy is passed: once the address of the request is passed on, the compiler no
                // longer knows anything about its fields.
                [one] => self.post_scattered(&[*one]),
                _ => self.post_scattered(requests),
            },
        }
    }

    #[expect(unsafe_code, reason = "passes its obligations on")]
    #[expect(clippy::inline_always, reason = "a part of posting")]
    #[inline(always)]
    unsafe fn put_recv(&mut self, request: &RecvRequest<'_>) -> Result<(), PostError> {
        match &mut self.recv {
            Some(ring) => ring.put(request),
            // A copy is passed: once the address of the request is passed on, the compiler no
            // longer knows anything about its fields.
            None => self.put_scattered(&{ *request }),
        }
    }

    #[expect(clippy::inline_always, reason = "a part of posting")]
    #[inline(always)]
    fn submit_recv(&mut self) -> Result<(), PostError> {
        match &mut self.recv {
            Some(ring) => ring.submit(),
            None => self.submit_scattered(),
        }
    }

    #[inline]
    fn abort_recv(&mut self) {
        if let Some(recv) = self.any_receive_ring() {
            recv.abort();
        }
    }
}
