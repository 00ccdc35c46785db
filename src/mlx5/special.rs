//! Owned requests that other devices do not have: masked atomics, and frames with headers of their
//! own.
//!
//! # Safety
//!
//! An owned queue has what a request names in its table before it puts it into the ring, and keeps
//! it there as the module of owned queue pairs says. A buffer in the table is accessed by nobody
//! but the device, which does not see the request yet.
#![allow(unsafe_code, reason = "posts memory that an owned queue has")]

use uverbs_any::AnyQp;
use uverbs_core::types::{Operation, Payload, Remote, SendRequest};
use uverbs_core::{PostError, Result};
use uverbs_mlx5::{Frame, MaskedAtomic};

use super::directed::of_mlx5;
use crate::owned::kind::{Atomic, Message};
use crate::owned::qp::put::Put;
use crate::owned::{Batch, QueuePair, Refused, Work};
use crate::transport::{Carries, Frames, Transport};

/// The bits of a word that a masked atomic operation works on. What it does with them is said by
/// the request ([`Work::compare_swap`], [`Work::fetch_add`]).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum AtomicMasks {
    /// For [`Work::compare_swap`].
    CompareSwap {
        /// The bits that are compared.
        compare: u64,
        /// The bits that are written.
        swap: u64,
    },
    /// For [`Work::fetch_add`].
    FetchAdd {
        /// The highest bits of the fields that are added separately: no carry leaves them.
        boundary: u64,
    },
}

impl AtomicMasks {
    /// The operation under these masks, and the memory that it changes.
    fn over(self, operation: &Operation<'_>) -> Option<(Remote, MaskedAtomic)> {
        match (*operation, self) {
            (
                Operation::CompareSwap {
                    remote,
                    compare,
                    swap,
                },
                Self::CompareSwap {
                    compare: compare_mask,
                    swap: swap_mask,
                },
            ) => {
                let masked = MaskedAtomic::CompareSwap {
                    compare,
                    compare_mask,
                    swap,
                    swap_mask,
                };
                Some((remote, masked))
            }
            (Operation::FetchAdd { remote, add }, Self::FetchAdd { boundary }) => {
                Some((remote, MaskedAtomic::FetchAdd { add, boundary }))
            }
            _ => None,
        }
    }
}

/// Puts an atomic operation of an owned queue into the ring, under masks.
fn masked(masks: AtomicMasks) -> impl Put {
    move |queue: &mut AnyQp, request: &SendRequest<'_>| {
        let qp = of_mlx5(queue)?;
        let operation = masks.over(&request.operation);
        let (Some((remote, operation)), Payload::Gather([sge])) = (operation, request.payload)
        else {
            return Err(PostError::InvalidRequest);
        };
        // SAFETY: the queue's table has the memory that the request names.
        unsafe { qp.put_masked_atomic(request.wr_id, request.flags, remote, operation, sge) }
    }
}

/// Puts a frame of an owned queue into the ring, whose first bytes may be read from its memory.
///
/// # Safety
/// As many of its first bytes as a device may require ([`HEADER`]) lie in buffers.
unsafe fn packet() -> impl Put {
    |queue: &mut AnyQp, request: &SendRequest<'_>| {
        let qp = of_mlx5(queue)?;
        // SAFETY: the queue's table has the memory that the request names. Its first bytes lie in
        // buffers, which are memory of this process, and which nobody accesses now.
        unsafe { qp.put_packet(request) }
    }
}

/// Puts a frame of an owned queue into the ring, behind `header`.
fn headed(header: &[u8], segment: Option<u16>) -> impl Put {
    move |queue: &mut AnyQp, request: &SendRequest<'_>| {
        let qp = of_mlx5(queue)?;
        let Payload::Gather(rest) = request.payload else {
            return Err(PostError::InvalidRequest);
        };
        let frame = Frame {
            wr_id: request.wr_id,
            flags: request.flags,
            header,
            rest,
            segment,
        };
        // SAFETY: the queue's table has the memory that the request names.
        unsafe { qp.put_frame(&frame) }
    }
}

/// The most bytes of a frame that a device requires in its request.
const HEADER: usize = 18;

impl<T: Transport> QueuePair<T> {
    /// Posts an atomic operation on some bits of a word, as
    /// [`push_masked_atomic`](crate::SendBatch::push_masked_atomic) does. No system call.
    ///
    /// ```no_run
    /// # fn f(qp: &mut uverbs::owned::QueuePair, buffer: uverbs::owned::Buffer, word: uverbs::Remote)
    /// # -> Result<(), Box<dyn std::error::Error>> {
    /// use uverbs::mlx5::AtomicMasks;
    /// use uverbs::owned::Work;
    ///
    /// // Two counters of 32 bits in a word: neither's carry reaches the other.
    /// let add = Work::fetch_add(word, 1 << 32 | 1).memory((buffer, 8)).user_data(1);
    /// qp.post_masked(add, AtomicMasks::FetchAdd { boundary: 1 << 31 })?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As there, and as [`post`](Self::post); [`InvalidRequest`](PostError::InvalidRequest) for
    /// masks of the other operation.
    #[doc(alias = "IBV_EXP_WR_EXT_MASKED_ATOMIC_CMP_AND_SWP")]
    #[doc(alias = "IBV_EXP_WR_EXT_MASKED_ATOMIC_FETCH_AND_ADD")]
    pub fn post_masked(
        &mut self,
        work: Work<Atomic>,
        masks: AtomicMasks,
    ) -> Result<(), Box<Refused>>
    where
        T: Carries<Atomic>,
    {
        self.post_by(work, None, masked(masks))
    }

    /// Posts a frame that lies in memory, also on devices that require its first bytes in the
    /// request, as [`push_packet`](crate::SendBatch::push_packet) does. No system call.
    ///
    /// # Errors
    /// As there, and as [`post`](Self::post); [`InvalidRequest`](PostError::InvalidRequest) for a
    /// frame whose first 18 bytes, or all if there are fewer, do not lie in buffers: peers may be
    /// changing other memory, or this process cannot read it.
    pub fn post_packet(&mut self, work: Work<Message>) -> Result<(), Box<Refused>>
    where
        T: Frames,
    {
        if !work.starts_in_buffers(HEADER) {
            return Err(work.refused(PostError::InvalidRequest));
        }
        // SAFETY: that its first bytes lie in buffers was just checked.
        let put = unsafe { packet() };
        self.post_by(work, None, put)
    }

    /// Posts a frame whose first bytes are `header`, which is copied into the queue, and whose
    /// rest is the request's memory, as [`push_frame`](crate::SendBatch::push_frame) does. With
    /// `segment`, the device cuts the rest into pieces of so many bytes, and puts the header before
    /// each. No system call.
    ///
    /// # Errors
    /// As there, and as [`post`](Self::post).
    #[doc(alias = "IBV_WR_TSO")]
    #[doc(alias = "ibv_wr_send_tso")]
    pub fn post_frame(
        &mut self,
        work: Work<Message>,
        header: &[u8],
        segment: Option<u16>,
    ) -> Result<(), Box<Refused>>
    where
        T: Frames,
    {
        self.post_by(work, None, headed(header, segment))
    }
}

impl<T: Transport> Batch<'_, T> {
    /// Adds a request as [`post_masked`](QueuePair::post_masked) posts it. No system call.
    ///
    /// # Errors
    /// As there. The batch goes on without it.
    pub fn push_masked(
        &mut self,
        work: Work<Atomic>,
        masks: AtomicMasks,
    ) -> Result<(), Box<Refused>>
    where
        T: Carries<Atomic>,
    {
        self.push_by(work, None, masked(masks))
    }

    /// Adds a frame as [`post_packet`](QueuePair::post_packet) posts it. No system call.
    ///
    /// # Errors
    /// As there. The batch goes on without it.
    pub fn push_packet(&mut self, work: Work<Message>) -> Result<(), Box<Refused>>
    where
        T: Frames,
    {
        if !work.starts_in_buffers(HEADER) {
            return Err(work.refused(PostError::InvalidRequest));
        }
        // SAFETY: that its first bytes lie in buffers was just checked.
        let put = unsafe { packet() };
        self.push_by(work, None, put)
    }

    /// Adds a frame as [`post_frame`](QueuePair::post_frame) posts it. No system call.
    ///
    /// # Errors
    /// As there. The batch goes on without it.
    pub fn push_frame(
        &mut self,
        work: Work<Message>,
        header: &[u8],
        segment: Option<u16>,
    ) -> Result<(), Box<Refused>>
    where
        T: Frames,
    {
        self.push_by(work, None, headed(header, segment))
    }
}
