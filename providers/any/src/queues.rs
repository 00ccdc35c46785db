//! Queues of any provider: one variant each, one comparison per call.

use std::convert::Infallible;
use std::marker::PhantomData;
use std::sync::Arc;

use uverbs_core::contract::{
    CompletionSlot, Cq, Link, Qp, QpBase, RawCompletion, Srq, Success, Usual, UsualSend,
};
use uverbs_core::types::{
    Ece, QpAttr, QpAttrMask, QpInfo, RecvRequest, SendRequest, SrqAttr, SrqModify, WorkCompletion,
};
use uverbs_core::{Object, PollError, PostError, Result};

rows!(handle!(
    /// A completion queue of any provider.
    AnyCq of CompletionQueue, InPlace
));
rows!(handle!(
    /// A shared receive queue of any provider.
    AnySrq of SharedReceiveQueue, InPlace
));
rows!(handle!(
    /// A queue pair of any provider.
    AnyQp of QueuePair, InPlace
));

impl Cq for AnyCq {
    fn object(&self) -> &Arc<Object> {
        rows!(arms!(*self, ref cq => cq.object()))
    }

    fn link(&self) -> Link<'_> {
        rows!(arms!(*self, ref cq => cq.link()))
    }

    fn entries(&self) -> u32 {
        rows!(arms!(*self, ref cq => cq.entries()))
    }

    #[inline]
    fn next(&mut self) -> Result<Option<WorkCompletion>, PollError> {
        rows!(arms!(*self, ref mut cq => cq.next()))
    }

    #[inline]
    fn release(&mut self) {
        rows!(arms!(*self, ref mut cq => cq.release()));
    }

    #[expect(clippy::inline_always, reason = "a part of polling")]
    #[inline(always)]
    fn poll(&mut self) -> Result<Option<WorkCompletion>, PollError> {
        rows!(arms!(*self, ref mut cq => cq.poll()))
    }

    fn poll_stamped(&mut self) -> Result<Option<(WorkCompletion, Option<u64>)>, PollError> {
        rows!(arms!(*self, ref mut cq => cq.poll_stamped()))
    }

    #[inline]
    fn poll_into(&mut self, out: &mut [WorkCompletion]) -> Result<usize, PollError> {
        rows!(arms!(*self, ref mut cq => cq.poll_into(out)))
    }

    #[expect(clippy::inline_always, reason = "a part of polling")]
    #[inline(always)]
    fn poll_usual<S: CompletionSlot>(&mut self, slot: &mut S) -> Usual {
        rows!(arms!(*self, ref mut cq => cq.poll_usual(slot)))
    }

    fn read(&self, raw: &RawCompletion) -> Success {
        rows!(arms!(*self, ref cq => cq.read(raw)))
    }

    #[inline]
    fn poll_slots<S: CompletionSlot>(&mut self, out: &mut [S]) -> Result<usize, PollError> {
        rows!(arms!(*self, ref mut cq => cq.poll_slots(out)))
    }

    fn forget(&mut self, qp_num: u32) {
        rows!(arms!(*self, ref mut cq => cq.forget(qp_num)));
    }

    fn arm(&mut self, solicited_only: bool) -> Result<()> {
        rows!(arms!(*self, ref mut cq => cq.arm(solicited_only)))
    }

    fn resize(&mut self, entries: u32) -> Result<()> {
        rows!(arms!(*self, ref mut cq => cq.resize(entries)))
    }
}

impl Srq for AnySrq {
    fn object(&self) -> &Arc<Object> {
        rows!(arms!(*self, ref srq => srq.object()))
    }

    fn object_mut(&mut self) -> &mut Arc<Object> {
        rows!(arms!(*self, ref mut srq => srq.object_mut()))
    }

    fn link(&self) -> Link<'_> {
        rows!(arms!(*self, ref srq => srq.link()))
    }

    fn size(&self) -> SrqAttr {
        rows!(arms!(*self, ref srq => srq.size()))
    }

    fn number(&self) -> u32 {
        rows!(arms!(*self, ref srq => srq.number()))
    }

    fn modify(&mut self, change: &SrqModify) -> Result<()> {
        rows!(arms!(*self, ref mut srq => srq.modify(change)))
    }

    fn query(&self) -> Result<SrqAttr> {
        rows!(arms!(*self, ref srq => srq.query()))
    }

    #[expect(unsafe_code, reason = "forwards its safety contract")]
    #[inline]
    unsafe fn put(&mut self, request: &RecvRequest<'_>) -> Result<(), PostError> {
        rows!(arms!(*self, ref mut srq => {
            // SAFETY: the caller promises what `Srq::put` requires.
            unsafe { srq.put(request) }
        }))
    }

    #[inline]
    fn submit(&mut self) -> Result<(), PostError> {
        rows!(arms!(*self, ref mut srq => srq.submit()))
    }

    #[inline]
    fn abort(&mut self) {
        rows!(arms!(*self, ref mut srq => srq.abort()));
    }

    fn take_unreported(&mut self, each: &mut dyn FnMut(u64)) {
        rows!(arms!(*self, ref mut srq => srq.take_unreported(each)));
    }
}

/// Defines the short way of any provider.
macro_rules! usual {
    (() $($(#[$on:meta])* $driver:ident = $vendor:ident;)*) => {
        /// A place for a usual send request of any provider.
        #[derive(Debug)]
        pub enum AnyUsualSend<'q> {
            $(
                $(#[$on])*
                #[doc = concat!("`", stringify!($vendor), "`'s.")]
                $driver(<$vendor::QueuePair as Qp>::Usual<'q>),
            )*
            /// There is always a variant that has the lifetime.
            #[doc(hidden)]
            None(Infallible, PhantomData<&'q ()>),
        }

        impl UsualSend for AnyUsualSend<'_> {
            #[expect(unsafe_code, reason = "forwards its safety contract")]
            #[inline(always)]
            unsafe fn post(self, request: SendRequest<'_>) -> bool {
                match self {
                    $(
                        $(#[$on])*
                        // SAFETY: the caller promises what `UsualSend::post` requires.
                        Self::$driver(own) => unsafe { own.post(request) },
                    )*
                    Self::None(none, _) => match none {},
                }
            }
        }

        impl AnyQp {
            #[inline(always)]
            fn any_usual_send(&mut self) -> Option<AnyUsualSend<'_>> {
                // One comparison; the compiler would make two of what follows.
                if !self.has_usual_sends() {
                    return None;
                }
                match *self {
                    $(
                        $(#[$on])*
                        Self::$driver(ref mut qp) => qp.usual_send().map(AnyUsualSend::$driver),
                    )*
                }
            }
        }
    };
}

rows!(usual!());

impl Qp for AnyQp {
    type Usual<'q> = AnyUsualSend<'q>;

    #[inline]
    fn base(&self) -> &QpBase {
        rows!(arms!(*self, ref qp => qp.base()))
    }

    fn object_mut(&mut self) -> &mut Object {
        rows!(arms!(*self, ref mut qp => qp.object_mut()))
    }

    fn modify(&mut self, attr: &QpAttr) -> Result<()> {
        rows!(arms!(*self, ref mut qp => qp.modify(attr)))
    }

    fn query(&mut self, mask: QpAttrMask) -> Result<QpInfo> {
        rows!(arms!(*self, ref mut qp => qp.query(mask)))
    }

    fn ece(&self) -> Result<Ece> {
        rows!(arms!(*self, ref qp => qp.ece()))
    }

    fn check_ece(&self, ece: &Ece) -> Result<()> {
        rows!(arms!(*self, ref qp => qp.check_ece(ece)))
    }

    fn set_ece(&mut self, ece: &Ece) -> Result<()> {
        rows!(arms!(*self, ref mut qp => qp.set_ece(ece)))
    }

    #[expect(unsafe_code, reason = "forwards its safety contract")]
    #[expect(clippy::inline_always, reason = "a part of posting")]
    #[inline(always)]
    unsafe fn put_send(&mut self, request: &SendRequest<'_>) -> Result<(), PostError> {
        rows!(arms!(*self, ref mut qp => {
            // SAFETY: the caller promises what `Qp::put_send` requires.
            unsafe { qp.put_send(request) }
        }))
    }

    #[expect(clippy::inline_always, reason = "a part of posting")]
    #[inline(always)]
    fn submit_send(&mut self) -> Result<(), PostError> {
        rows!(arms!(*self, ref mut qp => qp.submit_send()))
    }

    #[inline]
    fn abort_send(&mut self) {
        rows!(arms!(*self, ref mut qp => qp.abort_send()));
    }

    #[expect(unsafe_code, reason = "forwards its safety contract")]
    #[expect(clippy::inline_always, reason = "a part of posting")]
    #[inline(always)]
    unsafe fn post_send(&mut self, requests: &[SendRequest<'_>]) -> Result<(), (usize, PostError)> {
        rows!(arms!(*self, ref mut qp => {
            // SAFETY: the caller's promise, for each request.
            unsafe { qp.post_send(requests) }
        }))
    }

    #[expect(clippy::inline_always, reason = "a part of posting")]
    #[inline(always)]
    fn has_usual_sends(&self) -> bool {
        rows!(arms!(*self, ref qp => qp.has_usual_sends()))
    }

    #[expect(clippy::inline_always, reason = "a part of posting")]
    #[inline(always)]
    fn usual_send(&mut self) -> Option<AnyUsualSend<'_>> {
        self.any_usual_send()
    }

    #[expect(unsafe_code, reason = "forwards its safety contract")]
    #[expect(clippy::inline_always, reason = "a part of posting")]
    #[inline(always)]
    unsafe fn put_composed<'r>(&mut self, request: impl Fn() -> SendRequest<'r>) -> bool {
        rows!(arms!(*self, ref mut qp => {
            // SAFETY: the caller promises what `Qp::put_composed` requires.
            unsafe { qp.put_composed(request) }
        }))
    }

    #[expect(clippy::inline_always, reason = "a part of posting")]
    #[inline(always)]
    fn submit_composed(&mut self) -> bool {
        rows!(arms!(*self, ref mut qp => qp.submit_composed()))
    }

    fn find_room(&mut self) -> bool {
        rows!(arms!(*self, ref mut qp => qp.find_room()))
    }

    #[expect(unsafe_code, reason = "forwards its safety contract")]
    #[expect(clippy::inline_always, reason = "a part of posting")]
    #[inline(always)]
    unsafe fn post_usual_recv(&mut self, request: &RecvRequest<'_>) -> bool {
        rows!(arms!(*self, ref mut qp => {
            // SAFETY: the caller promises what `Qp::post_usual_recv` requires.
            unsafe { qp.post_usual_recv(request) }
        }))
    }

    #[expect(unsafe_code, reason = "forwards its safety contract")]
    #[expect(clippy::inline_always, reason = "a part of posting")]
    #[inline(always)]
    unsafe fn put_recv_list<'r>(
        &mut self,
        request: impl Fn() -> Option<RecvRequest<'r>>,
        next: impl Fn(),
    ) {
        rows!(arms!(*self, ref mut qp => {
            // SAFETY: the caller promises what `Qp::put_recv_list` requires.
            unsafe { qp.put_recv_list(request, next) }
        }));
    }

    #[expect(unsafe_code, reason = "forwards its safety contract")]
    #[expect(clippy::inline_always, reason = "a part of posting")]
    #[inline(always)]
    unsafe fn put_recv(&mut self, request: &RecvRequest<'_>) -> Result<(), PostError> {
        rows!(arms!(*self, ref mut qp => {
            // SAFETY: the caller promises what `Qp::put_recv` requires.
            unsafe { qp.put_recv(request) }
        }))
    }

    #[expect(clippy::inline_always, reason = "a part of posting")]
    #[inline(always)]
    fn submit_recv(&mut self) -> Result<(), PostError> {
        rows!(arms!(*self, ref mut qp => qp.submit_recv()))
    }

    #[inline]
    fn abort_recv(&mut self) {
        rows!(arms!(*self, ref mut qp => qp.abort_recv()));
    }

    #[expect(unsafe_code, reason = "forwards its safety contract")]
    #[expect(clippy::inline_always, reason = "a part of posting")]
    #[inline(always)]
    unsafe fn post_recv(&mut self, requests: &[RecvRequest<'_>]) -> Result<(), (usize, PostError)> {
        rows!(arms!(*self, ref mut qp => {
            // SAFETY: the caller's promise, for each request.
            unsafe { qp.post_recv(requests) }
        }))
    }
}
