//! Keys that map pieces of regions as requests say, and requests that are composed elsewhere.

use uverbs_core::types::SendFlags;
use uverbs_core::{Error, ErrorKind, Op, PostError, Result};
use uverbs_mlx5::{Encryption, IndirectKey, KeyChange, KeyOptions, SignatureChange, Unit};

use crate::transport::{Requests, Transport};
use crate::{ProtectionDomain, SendBatch};

impl ProtectionDomain {
    /// `mlx5dv_create_mkey`—creates a key with room for at least `max_entries` pieces of regions of
    /// this protection domain, rounded up to a multiple of 4. It maps nothing and cannot be used
    /// before [`push_key_change`](SendBatch::push_key_change) says what it maps. mlx5 devices only;
    /// one system call, three more for signatures, two more for encryption, which wait for the
    /// firmware.
    ///
    /// ```no_run
    /// use uverbs::mlx5::{KeyChange, KeyLayout, KeyOptions};
    /// use uverbs::{AccessFlags, SendFlags};
    ///
    /// # fn f(qp: &mut uverbs::QueuePair, pieces: &[uverbs::Sge]) -> Result<(), Box<dyn std::error::Error>> {
    /// let key = qp.pd().create_indirect_key(4, KeyOptions::default())?;
    /// let change = KeyChange {
    ///     key: key.remote_key(),
    ///     access: Some(AccessFlags::LOCAL_WRITE),
    ///     layout: Some(KeyLayout::List(pieces)),
    /// };
    /// let mut batch = qp.send_batch();
    /// // SAFETY: the regions of the pieces stay registered, and their memory is not accessed by
    /// // references, until the key is gone.
    /// unsafe { batch.push_key_change(7, SendFlags::SIGNALED, &change) }?;
    /// batch.submit()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// | kind | errno | cause |
    /// |---|---|---|
    /// | [`Unsupported`](ErrorKind::Unsupported) | – | not an mlx5 device; variants that change, and the device or the kernel (before 6.2) does not announce them; signatures or encryption, and the device does not announce them |
    /// | [`InvalidInput`](ErrorKind::InvalidInput) | – | more than 65,532 entries |
    /// | any | any | what the firmware's status means, with status and syndrome |
    #[doc(alias = "mlx5dv_create_mkey")]
    pub fn create_indirect_key(
        &self,
        max_entries: u16,
        options: KeyOptions,
    ) -> Result<IndirectKey> {
        let (Some(context), Some(pd)) = (self.context().of_mlx5(), self.of_mlx5()) else {
            return Err(Error::new(Op::DevxCreate, ErrorKind::Unsupported)
                .fact("device", self.context().name().to_owned()));
        };
        IndirectKey::create(context, pd, max_entries, options)
    }
}

impl<T: Transport> SendBatch<'_, T> {
    /// `mlx5dv_wr_mkey_configure`—puts a change of an indirect key into the ring. Reliable
    /// connections of mlx5 devices only; no system call. The requests after it wait for it; its
    /// completion has the opcode [`Driver1`](crate::completion::WcOpcode::Driver1).
    ///
    /// A request has room for as many entries as a request's inline data have 16 bytes
    /// (`max_inline_data`, plus 4), one less if they are interleaved.
    ///
    /// # Errors
    /// As [`push`](Self::push); [`PostError::UnsupportedOperation`] on queue pairs of another type
    /// or device; [`PostError::TooManySges`] for more entries than a request has room for;
    /// [`PostError::InvalidRequest`] for other rights than a key can have (local write, remote
    /// read, write and atomic), and for pieces that are longer than 65,535 bytes with their gap.
    ///
    /// # Safety
    /// 1. What the key maps is memory of regions that stay registered, and to which obligations as
    ///    those of [`push`](Self::push) are met for every access through the key, until the key is
    ///    changed again, invalidated or destroyed.
    #[doc(alias = "mlx5dv_wr_mkey_configure")]
    #[doc(alias = "mlx5dv_wr_mr_list")]
    #[doc(alias = "mlx5dv_wr_mr_interleaved")]
    #[expect(unsafe_code, reason = "names memory that a device will access")]
    pub unsafe fn push_key_change(
        &mut self,
        wr_id: u64,
        flags: SendFlags,
        change: &KeyChange<'_>,
    ) -> Result<(), PostError>
    where
        T: Requests,
    {
        let qp = self.of_mlx5()?;
        // SAFETY: the caller promises what the provider requires.
        unsafe { qp.put_key_change(wr_id, flags, change) }
    }

    /// `mlx5dv_wr_set_mkey_sig_block`, `mlx5dv_wr_set_mkey_crypto`—the same of a key that was
    /// created with [`signatures`](KeyOptions::signatures) or
    /// [`encryption`](KeyOptions::encryption): up to three requests, of which only the last one
    /// completes. What passes through the key is then checked against the signatures of the side
    /// that it comes from, and gets those of the side that it goes to; [`IndirectKey::check`] tells
    /// what was wrong.
    ///
    /// Signatures take the room of 4 entries in the request, encryption that of 4 more, whenever
    /// one of both changes.
    ///
    /// ```no_run
    /// use uverbs::mlx5::{
    ///     BlockSize, Crc, KeyChange, KeyLayout, KeyOptions, Signature, SignatureChange, Signatures,
    ///     SignedBlocks,
    /// };
    /// use uverbs::{AccessFlags, SendFlags};
    ///
    /// # fn f(qp: &mut uverbs::QueuePair, pieces: &[uverbs::Sge]) -> Result<(), Box<dyn std::error::Error>> {
    /// let options = KeyOptions { signatures: true, ..KeyOptions::default() };
    /// let mut key = qp.pd().create_indirect_key(4, options)?;
    /// let signatures = Signatures {
    ///     memory: Some(SignedBlocks {
    ///         size: BlockSize::Bytes512,
    ///         signature: Signature::Crc { kind: Crc::Crc32, starts_with_ones: true },
    ///     }),
    ///     wire: None,
    ///     check: 0xf0,
    ///     copy: None,
    /// };
    /// let change = KeyChange {
    ///     key: key.remote_key(),
    ///     access: Some(AccessFlags::LOCAL_WRITE),
    ///     layout: Some(KeyLayout::List(pieces)),
    /// };
    /// let set = SignatureChange::Set(&signatures);
    /// let mut batch = qp.send_batch();
    /// // SAFETY: the regions of the pieces stay registered, and their memory is not accessed by
    /// // references, until the key is gone.
    /// unsafe { batch.push_signed_key_change(7, SendFlags::SIGNALED, &mut key, &change, set, None) }?;
    /// batch.submit()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`push_key_change`](Self::push_key_change); [`PostError::InvalidRequest`] also for what
    /// the key was not created for, another key than that of the change, one that maps more than 32
    /// bits count (or one unit, where the device encrypts no more), signatures of no side, bytes to
    /// be copied between sides that are not the same, and an order of encryption that does not go
    /// with signatures of both sides.
    ///
    /// # Safety
    /// 1. As [`push_key_change`](Self::push_key_change).
    #[doc(alias = "mlx5dv_wr_set_mkey_sig_block")]
    #[doc(alias = "mlx5dv_wr_set_mkey_crypto")]
    #[expect(unsafe_code, reason = "names memory that a device will access")]
    pub unsafe fn push_signed_key_change(
        &mut self,
        wr_id: u64,
        flags: SendFlags,
        key: &mut IndirectKey,
        change: &KeyChange<'_>,
        signatures: SignatureChange<'_>,
        encryption: Option<&Encryption<'_>>,
    ) -> Result<(), PostError>
    where
        T: Requests,
    {
        let qp = self.of_mlx5()?;
        // SAFETY: the caller promises what the provider requires.
        unsafe { qp.put_signed_key_change(wr_id, flags, key, change, signatures, encryption) }
    }

    /// `mlx5dv_wr_raw_wqe`—puts a request into the ring as it is, in units of 16 bytes in memory
    /// order; only its place in the ring is filled in. mlx5 devices only; no system call. If it
    /// asks for a completion, that has the opcode
    /// [`Driver2`](crate::completion::WcOpcode::Driver2).
    ///
    /// # Errors
    /// As [`push`](Self::push); [`PostError::UnsupportedOperation`] on queue pairs of another
    /// device; [`PostError::TooManySges`] if it is longer than requests of this queue can be;
    /// [`PostError::InvalidRequest`] if its control segment has the number of another queue, or of
    /// other than its units.
    ///
    /// # Safety
    /// 1. As [`push`](Self::push), for whatever the request makes the device do.
    #[doc(alias = "mlx5dv_wr_raw_wqe")]
    #[expect(unsafe_code, reason = "names memory that a device will access")]
    pub unsafe fn push_raw(&mut self, wr_id: u64, request: &[Unit]) -> Result<(), PostError>
    where
        T: Requests,
    {
        let qp = self.of_mlx5()?;
        // SAFETY: the caller promises what the provider requires.
        unsafe { qp.put_raw(wr_id, request) }
    }
}
