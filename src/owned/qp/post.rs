//! Posting send requests, whose memory the queue owns from then on.

use uverbs_core::{PostError, Result};

use super::QueuePair;
use super::put::{Carried, Put};
use crate::owned::Buffer;
#[cfg(doc)]
use crate::owned::Memory;
use crate::owned::kind::{Kind, Message, MessageImm};
use crate::owned::work::{Refused, Work};
use crate::transport::{Carries, Transport};

impl<T: Transport> QueuePair<T> {
    /// Posts a send request. One system call on rxe.
    ///
    /// # Errors
    /// Why it was refused, and the request with its memory.
    #[expect(clippy::inline_always, reason = "a part of posting")]
    #[inline(always)]
    pub fn post<K: Kind>(&mut self, work: Work<K>) -> Result<(), Box<Refused>>
    where
        T: Carries<K>,
    {
        self.owner.post(work.parts, None)
    }

    /// Posts a send or write request, with or without an immediate value, whose data is copied into
    /// the queue: `bytes` can be used again at once, and the request has no memory. One system call
    /// on rxe.
    ///
    /// ```no_run
    /// # fn f(qp: &mut uverbs::owned::QueuePair, peer: uverbs::Remote) -> Result<(), Box<dyn std::error::Error>> {
    /// use uverbs::owned::Work;
    ///
    /// qp.post_inline(Work::write_imm(peer, 7).user_data(1), &[b"head", b"body"])?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`InlineTooLong`](PostError::InlineTooLong) for more than the queue pair was created for;
    /// [`InvalidRequest`](PostError::InvalidRequest) for a request that has memory, too;
    /// else as [`post`](Self::post).
    #[expect(clippy::inline_always, reason = "a part of posting")]
    #[inline(always)]
    pub fn post_inline<K: Kind>(
        &mut self,
        work: Work<K>,
        bytes: &[&[u8]],
    ) -> Result<(), Box<Refused>>
    where
        T: Carries<K>,
    {
        self.owner.post(work.parts, Some(bytes))
    }

    /// Posts a message, as [`Owner::post_message`](super::Owner::post_message).
    #[inline]
    pub(crate) fn post_message(
        &mut self,
        imm: u32,
        carried: Carried<'_>,
        user_data: u64,
        signaled: bool,
    ) -> Result<(), (PostError, Option<Buffer>)>
    where
        T: Carries<MessageImm>,
    {
        self.owner.post_message(imm, carried, user_data, signaled)
    }

    /// Posts a request that `put` puts into the ring.
    pub(crate) fn post_by<K: Kind>(
        &mut self,
        work: Work<K>,
        inline: Option<&[&[u8]]>,
        put: impl Put,
    ) -> Result<(), Box<Refused>> {
        self.owner.post_by(work.parts, inline, put)
    }

    /// Sends the first `len` bytes of `buffer`.
    ///
    /// # Errors
    /// As [`post`](Self::post).
    #[expect(clippy::inline_always, reason = "a part of posting")]
    #[inline(always)]
    pub fn send(&mut self, buffer: Buffer, len: usize, user_data: u64) -> Result<(), Box<Refused>>
    where
        T: Carries<Message>,
    {
        self.post(Work::send().memory((buffer, len)).user_data(user_data))
    }

    /// Sends bytes that are copied into the queue and need no buffer. Its completion is reported
    /// like that of every request, with [`Memory::None`].
    ///
    /// # Errors
    /// [`InlineTooLong`](PostError::InlineTooLong) for more than the queue pair was created for;
    /// else as [`post`](Self::post).
    #[expect(clippy::inline_always, reason = "a part of posting")]
    #[inline(always)]
    pub fn send_inline(&mut self, bytes: &[u8], user_data: u64) -> Result<(), PostError>
    where
        T: Carries<Message>,
    {
        self.post_inline(Work::send().user_data(user_data), &[bytes])
            .map_err(|refused| refused.error)
    }
}
