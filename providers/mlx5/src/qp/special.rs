//! Sending on queue pairs whose requests need more parameters: extended and dynamic connections,
//! Ethernet.

use uverbs_core::PostError;
use uverbs_core::types::{Address, QpType, Remote, SendFlags, SendRequest, Sge, WcOpcode};

use super::{QueuePair, Role};
use crate::memory::{Encryption, IndirectKey, SignatureChange};
use crate::sq::raw::Frame;
use crate::wqe::layout::KeyChange;
use crate::wqe::operations::Operations;
use crate::wqe::request::Kind;
use crate::wqe::{self, Unit, opcode};

/// The receiving end of a dynamic connection.
#[derive(Clone, Copy, Debug)]
pub struct DcDestination<'a> {
    /// The path.
    pub address: &'a Address,
    /// The target's number, 24 bits.
    pub number: u32,
    /// The target's access key.
    pub access_key: u64,
    /// The initiator's stream that the request belongs to; the first is 0.
    pub stream: u16,
}

impl DcDestination<'_> {
    /// `mlx5dv_wr_set_dc_addr_stream`—the same, for a request in this stream of its initiator.
    #[doc(alias = "mlx5dv_wr_set_dc_addr_stream")]
    #[must_use]
    pub const fn in_stream(self, stream: u16) -> Self {
        Self { stream, ..self }
    }
}

/// An atomic operation on 8 bytes with masks.
#[derive(Clone, Copy, Debug)]
pub enum MaskedAtomic {
    /// Replace the bits of `swap_mask` by those of `swap` if the bits of `compare_mask` equal those
    /// of `compare` (`IBV_EXP_WR_EXT_MASKED_ATOMIC_CMP_AND_SWP`).
    CompareSwap {
        /// The expected value.
        compare: u64,
        /// The bits of it that are compared.
        compare_mask: u64,
        /// The new value.
        swap: u64,
        /// The bits of it that are written.
        swap_mask: u64,
    },
    /// Add, without carries out of the bits that are set in `boundary`
    /// (`IBV_EXP_WR_EXT_MASKED_ATOMIC_FETCH_AND_ADD`).
    FetchAdd {
        /// The summand.
        add: u64,
        /// The highest bits of the fields that are added separately.
        boundary: u64,
    },
}

/// Numbers of queues have 24 bits; in a request, other bits are next to them.
const fn check_number(number: u32) -> Result<(), PostError> {
    if number > 0xff_ffff {
        return Err(PostError::InvalidRequest);
    }
    Ok(())
}

impl QueuePair {
    /// Puts a masked atomic operation on a queue pair of a plain reliable connection: the old value
    /// is written to `sge`, 8 bytes.
    ///
    /// Not every device supports it: others complete it with
    /// [`LocalQpOperation`](uverbs_core::types::WcStatus::LocalQpOperation).
    ///
    /// # Errors
    /// As `put_send`; [`PostError::InvalidRequest`]: not 8 bytes, or not aligned to 8.
    ///
    /// # Safety
    /// As `put_send`.
    #[allow(unsafe_code, reason = "names memory that a device will access")]
    pub unsafe fn put_masked_atomic(
        &mut self,
        wr_id: u64,
        flags: SendFlags,
        remote: Remote,
        operation: MaskedAtomic,
        sge: &Sge,
    ) -> Result<(), PostError> {
        if self.base.kind != QpType::Rc {
            return Err(PostError::UnsupportedOperation);
        }
        if sge.length != 8 || !remote.address.is_multiple_of(8) {
            return Err(PostError::InvalidRequest);
        }
        let ring = self.send_ring()?;
        if !ring.limits().operations.contains(Operations::ATOMIC) {
            return Err(PostError::UnsupportedOperation);
        }
        let at = ring.admit()?;
        let mut writer = ring.writer(at);
        writer.unit(wqe::remote(remote));
        let kind = match operation {
            MaskedAtomic::CompareSwap {
                compare,
                compare_mask,
                swap,
                swap_mask,
            } => {
                let units = wqe::masked_compare_swap(swap, compare, swap_mask, compare_mask);
                writer.units(&units);
                Kind::new(opcode::MASKED_COMPARE_SWAP, 0, WcOpcode::CompareSwap)
            }
            MaskedAtomic::FetchAdd { add, boundary } => {
                writer.unit(wqe::masked_fetch_add(add, boundary));
                Kind::new(opcode::MASKED_FETCH_ADD, 0, WcOpcode::FetchAdd)
            }
        };
        writer.unit(wqe::data(sge));
        let at = writer.at;
        ring.commit(wr_id, flags, kind, at);
        Ok(())
    }

    /// Puts a change of an indirect key on a queue pair of a plain reliable connection. The
    /// requests after it wait for it. Its completion has the opcode
    /// [`Driver1`](uverbs_core::types::WcOpcode::Driver1).
    ///
    /// A request has room for as many entries as a request's inline data have 16 bytes
    /// (`max_inline_data`, plus 4), one less if they are interleaved.
    ///
    /// # Errors
    /// As `put_send`; [`PostError::UnsupportedOperation`] on other queue pairs;
    /// [`PostError::TooManySges`] for more entries than a request has room for;
    /// [`PostError::InvalidRequest`]: other rights than a key can have, or pieces that do not fit
    /// their fields.
    ///
    /// # Safety
    /// As `put_send`, for what the key maps, until it is changed once more, invalidated or
    /// destroyed: whoever has the key may access that with the key's rights.
    #[doc(alias = "mlx5dv_wr_mr_list")]
    #[doc(alias = "mlx5dv_wr_mr_interleaved")]
    #[allow(unsafe_code, reason = "names memory that a device will access")]
    pub unsafe fn put_key_change(
        &mut self,
        wr_id: u64,
        flags: SendFlags,
        change: &KeyChange<'_>,
    ) -> Result<(), PostError> {
        if self.base.kind != QpType::Rc {
            return Err(PostError::UnsupportedOperation);
        }
        self.send_ring()?.put_key_change(wr_id, flags, change)
    }

    /// The same of a key that was created with signatures or encryption: up to three requests, of
    /// which only the last one completes.
    ///
    /// Signatures take the room of 4 entries, encryption that of 4 more, whenever one of both
    /// changes.
    ///
    /// # Errors
    /// As [`put_key_change`](Self::put_key_change); [`PostError::InvalidRequest`] also for what the
    /// key was not created for, another key than that of the change, one that maps more than 32
    /// bits count (or one unit, where the device encrypts no more), signatures of no side, bytes to
    /// be copied between sides that are not the same, and an order of encryption that does not go
    /// with signatures of both sides.
    ///
    /// # Safety
    /// As [`put_key_change`](Self::put_key_change).
    #[doc(alias = "mlx5dv_wr_set_mkey_sig_block")]
    #[doc(alias = "mlx5dv_wr_set_mkey_crypto")]
    #[allow(unsafe_code, reason = "names memory that a device will access")]
    pub unsafe fn put_signed_key_change(
        &mut self,
        wr_id: u64,
        flags: SendFlags,
        key: &mut IndirectKey,
        change: &KeyChange<'_>,
        signatures: SignatureChange<'_>,
        encryption: Option<&Encryption<'_>>,
    ) -> Result<(), PostError> {
        if self.base.kind != QpType::Rc {
            return Err(PostError::UnsupportedOperation);
        }
        if (key.remote_key().raw() ^ change.key.raw()) >> 8 != 0 {
            return Err(PostError::InvalidRequest);
        }
        let ring = self.send_ring()?;
        key.change(change, signatures, encryption, |signing| {
            ring.put_signed_key_change(wr_id, flags, change, signing)
        })
    }

    /// `mlx5dv_wr_raw_wqe`—puts a request as it is, but for its place in the ring. Its completion,
    /// if it asks for one, has the opcode [`Driver2`](uverbs_core::types::WcOpcode::Driver2).
    ///
    /// # Errors
    /// As `put_send`; [`PostError::UnsupportedOperation`] on a queue pair that only receives;
    /// [`PostError::TooManySges`] if it is longer than the queue's requests;
    /// [`PostError::InvalidRequest`] if its control segment names another queue or length.
    ///
    /// # Safety
    /// As `put_send`, for whatever the request makes the device do.
    #[doc(alias = "mlx5dv_wr_raw_wqe")]
    #[allow(unsafe_code, reason = "names memory that a device will access")]
    pub unsafe fn put_raw(&mut self, wr_id: u64, request: &[Unit]) -> Result<(), PostError> {
        self.send_ring()?.put_raw(wr_id, request)
    }

    /// Puts a request on a queue pair that is neither for plain connections nor for datagrams.
    pub(super) fn put_special(&mut self, request: &SendRequest<'_>) -> Result<(), PostError> {
        let ring = self.send.as_mut().ok_or(PostError::UnsupportedOperation)?;
        let rare = self.rare.as_ref();
        match rare.and_then(|rare| rare.ethernet.as_ref()) {
            Some(ethernet) => ring.put_ethernet(ethernet, request),
            // The functions below specify the destination of the request.
            None => Err(PostError::InvalidRequest),
        }
    }

    /// Puts a request on an XRC initiator, for the peer's shared receive queue `srq`; its number is
    /// used for sends and for writes with an immediate value.
    ///
    /// # Errors
    /// As `put_send`; [`PostError::UnsupportedOperation`] on other queue pairs;
    /// [`PostError::InvalidRequest`] for a number of more than 24 bits.
    ///
    /// # Safety
    /// As `put_send`.
    #[allow(unsafe_code, reason = "names memory that a device will access")]
    pub unsafe fn put_xrc(&mut self, request: &SendRequest<'_>, srq: u32) -> Result<(), PostError> {
        if self.base.kind != QpType::XrcInitiator {
            return Err(PostError::UnsupportedOperation);
        }
        check_number(srq)?;
        self.send_ring()?.put_routed(request, &[wqe::xrc(srq)])
    }

    /// Puts a request on a DC initiator.
    ///
    /// # Errors
    /// As `put_send`; [`PostError::UnsupportedOperation`] on other queue pairs;
    /// [`PostError::InvalidRequest`] for a number of more than 24 bits;
    /// [`PostError::NoSuchStream`].
    ///
    /// # Safety
    /// As `put_send`.
    #[doc(alias = "mlx5dv_wr_set_dc_addr")]
    #[allow(unsafe_code, reason = "names memory that a device will access")]
    pub unsafe fn put_dc(
        &mut self,
        request: &SendRequest<'_>,
        to: &DcDestination<'_>,
    ) -> Result<(), PostError> {
        if self.role != Role::Initiator {
            return Err(PostError::UnsupportedOperation);
        }
        check_number(to.number)?;
        let route = wqe::datagram(to.address.vector(), to.access_key, to.number);
        if u32::from(to.stream) >= self.streams() {
            return Err(PostError::NoSuchStream {
                requested: to.stream.into(),
                streams: self.streams(),
            });
        }
        self.send_ring()?.put_in_stream(request, &route, to.stream)
    }

    /// Puts a frame that is entirely in registered memory. The bytes that the device requires
    /// inline are copied into the request from the addresses of the scatter/gather entries.
    ///
    /// # Errors
    /// As `put_send`; [`PostError::UnsupportedOperation`] on queue pairs other than raw packet;
    /// [`PostError::InvalidRequest`] for a frame that is shorter than the bytes that the device
    /// requires inline.
    ///
    /// # Safety
    /// As `put_send`. And the first 18 bytes of the scatter/gather entries are memory of this
    /// process at the addresses that the entries name, which nothing writes to before this returns.
    #[allow(unsafe_code, reason = "names memory that is read now and by a device")]
    pub unsafe fn put_packet(&mut self, request: &SendRequest<'_>) -> Result<(), PostError> {
        let ring = self.send.as_mut().ok_or(PostError::UnsupportedOperation)?;
        let ethernet = self
            .rare
            .as_ref()
            .and_then(|rare| rare.ethernet.as_ref())
            .ok_or(PostError::UnsupportedOperation)?;
        // SAFETY: the caller's promise: this much of it is where the entries say, and does not
        // change.
        unsafe { ring.put_packet(ethernet, request) }
    }

    /// Puts a frame whose header is passed separately, or one that the device segments.
    ///
    /// # Errors
    /// As `put_send`; [`PostError::UnsupportedOperation`] on queue pairs other than raw packet.
    ///
    /// # Safety
    /// As `put_send`.
    #[allow(unsafe_code, reason = "names memory that a device will access")]
    pub unsafe fn put_frame(&mut self, frame: &Frame<'_>) -> Result<(), PostError> {
        let ring = self.send.as_mut().ok_or(PostError::UnsupportedOperation)?;
        let ethernet = self
            .rare
            .as_ref()
            .and_then(|rare| rare.ethernet.as_ref())
            .ok_or(PostError::UnsupportedOperation)?;
        ring.put_frame(ethernet, frame)
    }
}
