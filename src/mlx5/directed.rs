//! Owned requests that name what they go to: a shared receive queue (XRC) or a DC target.
//!
//! # Safety
//!
//! An owned queue has what a request names in its table before it puts it into the ring, and keeps
//! it there as the module of owned queue pairs says.
#![allow(unsafe_code, reason = "posts memory that an owned queue has")]

use uverbs_any::{AnyQp, Of};
use uverbs_core::types::SendRequest;
use uverbs_core::{PostError, Result};
use uverbs_mlx5::DcDestination;

use crate::owned::kind::Kind;
use crate::owned::qp::put::Put;
use crate::owned::{Batch, QueuePair, Refused, Work};
use crate::transport::{Carries, NamesReceiver, NamesTarget, Rc, Transport};

/// Puts a request of an owned queue into the ring, for the shared receive queue with this number.
fn to_srq(srq: u32) -> impl Put {
    move |queue: &mut AnyQp, request: &SendRequest<'_>| {
        let qp = of_mlx5(queue)?;
        // SAFETY: the queue's table has the memory that the request names.
        unsafe { qp.put_xrc(request, srq) }
    }
}

/// Puts a request of an owned queue into the ring, for this target.
fn to_target<'a>(target: &'a DcDestination<'a>) -> impl Put + use<'a> {
    move |queue: &mut AnyQp, request: &SendRequest<'_>| {
        let qp = of_mlx5(queue)?;
        // SAFETY: the queue's table has the memory that the request names.
        unsafe { qp.put_dc(request, target) }
    }
}

pub(super) fn of_mlx5(queue: &mut AnyQp) -> Result<&mut uverbs_mlx5::QueuePair, PostError> {
    queue.of_mut().ok_or(PostError::UnsupportedOperation)
}

/// What initiators of XRC and DC connections post.
impl<T: Transport> QueuePair<T> {
    /// Posts a request of an XRC initiator to the shared receive queue of the peer with the number
    /// `srq`, which matters only for messages and for writes with an immediate value. No system
    /// call.
    ///
    /// ```no_run
    /// # fn f(qp: &mut uverbs::owned::QueuePair<uverbs::transport::XrcInitiator>, buffer: uverbs::owned::Buffer, peers_srq: u32)
    /// # -> Result<(), Box<dyn std::error::Error>> {
    /// use uverbs::owned::Work;
    ///
    /// qp.post_to_srq(Work::send().memory(buffer).user_data(1), peers_srq)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`post`](Self::post); [`UnsupportedOperation`](PostError::UnsupportedOperation) on queue
    /// pairs of another type or device.
    #[doc(alias = "ibv_wr_set_xrc_srqn")]
    pub fn post_to_srq<K: Kind>(&mut self, work: Work<K>, srq: u32) -> Result<(), Box<Refused>>
    where
        T: NamesReceiver,
        Rc: Carries<K>,
    {
        self.post_by(work, None, to_srq(srq))
    }

    /// The same for a request whose data is copied into the queue, as
    /// [`post_inline`](Self::post_inline) does.
    ///
    /// # Errors
    /// As there, and as [`post_to_srq`](Self::post_to_srq).
    pub fn post_inline_to_srq<K: Kind>(
        &mut self,
        work: Work<K>,
        bytes: &[&[u8]],
        srq: u32,
    ) -> Result<(), Box<Refused>>
    where
        T: NamesReceiver,
        Rc: Carries<K>,
    {
        self.post_by(work, Some(bytes), to_srq(srq))
    }

    /// Posts a request of a DC initiator to a DC target. No system call.
    ///
    /// ```no_run
    /// # fn f(qp: &mut uverbs::owned::QueuePair<uverbs::transport::DcInitiator>, buffer: uverbs::owned::Buffer,
    /// #      path: &uverbs::AddressHandle, number: u32) -> Result<(), Box<dyn std::error::Error>> {
    /// use uverbs::owned::Work;
    ///
    /// qp.post_to_target(Work::send().memory(buffer), &path.to_dc_target(number, 0xfeed))?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`post`](Self::post); [`UnsupportedOperation`](PostError::UnsupportedOperation) on queue
    /// pairs of another type or device; [`NoSuchStream`](PostError::NoSuchStream).
    #[doc(alias = "mlx5dv_wr_set_dc_addr")]
    pub fn post_to_target<K: Kind>(
        &mut self,
        work: Work<K>,
        target: &DcDestination<'_>,
    ) -> Result<(), Box<Refused>>
    where
        T: NamesTarget,
        Rc: Carries<K>,
    {
        self.post_by(work, None, to_target(target))
    }

    /// The same for a request whose data is copied into the queue, as
    /// [`post_inline`](Self::post_inline) does.
    ///
    /// # Errors
    /// As there, and as [`post_to_target`](Self::post_to_target).
    pub fn post_inline_to_target<K: Kind>(
        &mut self,
        work: Work<K>,
        bytes: &[&[u8]],
        target: &DcDestination<'_>,
    ) -> Result<(), Box<Refused>>
    where
        T: NamesTarget,
        Rc: Carries<K>,
    {
        self.post_by(work, Some(bytes), to_target(target))
    }
}

impl<T: Transport> Batch<'_, T> {
    /// Adds a request as [`post_to_srq`](QueuePair::post_to_srq) posts it. No system call.
    ///
    /// # Errors
    /// As there. The batch goes on without it.
    pub fn push_to_srq<K: Kind>(&mut self, work: Work<K>, srq: u32) -> Result<(), Box<Refused>>
    where
        T: NamesReceiver,
        Rc: Carries<K>,
    {
        self.push_by(work, None, to_srq(srq))
    }

    /// Adds a request as [`post_to_target`](QueuePair::post_to_target) posts it. No system call.
    ///
    /// # Errors
    /// As there. The batch goes on without it.
    pub fn push_to_target<K: Kind>(
        &mut self,
        work: Work<K>,
        target: &DcDestination<'_>,
    ) -> Result<(), Box<Refused>>
    where
        T: NamesTarget,
        Rc: Carries<K>,
    {
        self.push_by(work, None, to_target(target))
    }
}
