//! Copies from local memory to local memory by the device (`MMO`, memory-to-memory operations).
//! Layouts: Programmer's Reference Manual, `INIT2INIT_QP`; of the request, as libmlx5 writes it.

use uverbs_core::contract::{Context as _, MrInit};
use uverbs_core::hw::Pages;
use uverbs_core::types::{AccessFlags, LocalKey, QpType, SendFlags, Sge, WcOpcode};
use uverbs_core::{Error, ErrorKind, Op, PostError, Result};

use super::{QueuePair, Role};
use crate::context::{Context, ProtectionDomain};
use crate::devx::Devx;
use crate::tracker::SentKind;
use crate::wqe::request::Kind;
use crate::wqe::{self, Unit};

/// What the device writes of a copy besides the bytes.
const SCRATCH: usize = 64;

/// What a queue pair needs for copies.
#[derive(Clone, Copy, Debug)]
pub(super) struct Copies {
    /// The most bytes of one.
    max: u32,
    /// Where the device writes what else it has to say: the key and the address.
    scratch: (LocalKey, u64),
}

/// The most bytes of a copy by the device; 0 if it has none. Two system calls at most.
fn most(context: &Context) -> Result<(u32, bool)> {
    let caps = Devx::new(context.file()).general_caps()?;
    Ok((caps.max_copy(), caps.copies_by_queue_pairs))
}

impl QueuePair {
    /// Prepares copies for a queue pair that was just created.
    pub(super) fn prepare_copies(
        &mut self,
        context: &Context,
        pd: &ProtectionDomain,
    ) -> Result<()> {
        let op = Op::CreateQueuePair;
        let copies = self.base.kind == QpType::Rc || self.role == Role::Initiator;
        let (max, is_to_allow) = if copies { most(context)? } else { (0, false) };
        if max == 0 {
            return Err(Error::new(op, ErrorKind::Unsupported)
                .fact("type", self.base.kind.to_string())
                .fact("device_lacks", "copies of local memory"));
        }
        let pages = Pages::for_device(SCRATCH).map_err(|errno| Error::os(op, errno))?;
        let address = pages.address();
        let init = MrInit {
            address,
            length: SCRATCH as u64,
            iova: address,
            access: AccessFlags::LOCAL_WRITE,
        };
        let region = context.base().register(pd.object(), &init, pages)?;
        let rare = self.rare.get_or_insert_default();
        rare.copies = Some(Copies {
            max,
            scratch: (region.lkey, address),
        });
        self.base.object.keep(region);
        if is_to_allow {
            self.has_to_tell().copies = true;
        }
        Ok(())
    }

    /// `mlx5dv_wr_memcpy`—puts a copy from one place of local memory to another, of the same
    /// length, which the device makes by itself. Its completion has the opcode
    /// [`Driver3`](uverbs_core::types::WcOpcode::Driver3).
    ///
    /// # Errors
    /// As `put_send`; [`PostError::UnsupportedOperation`] on a queue pair that was created without
    /// [copies](super::QpExtra::with_copies); [`PostError::InvalidRequest`] for no bytes, and for
    /// places of different lengths; [`PostError::MessageTooLong`] for more than the device copies
    /// at a time.
    ///
    /// # Safety
    /// As `put_send`, for both places.
    #[doc(alias = "mlx5dv_wr_memcpy")]
    #[allow(unsafe_code, reason = "names memory that a device will access")]
    pub unsafe fn put_copy(
        &mut self,
        wr_id: u64,
        flags: SendFlags,
        from: &Sge,
        to: &Sge,
    ) -> Result<(), PostError> {
        let copies = self.rare.as_ref().and_then(|rare| rare.copies);
        let copies = copies.ok_or(PostError::UnsupportedOperation)?;
        if from.length == 0 || from.length != to.length {
            return Err(PostError::InvalidRequest);
        }
        if from.length > copies.max {
            let max = copies.max.into();
            let requested = from.length.into();
            return Err(PostError::MessageTooLong { requested, max });
        }
        let (key, address) = copies.scratch;
        let units = [wqe::scratch(key, address), place(from), place(to)];
        let ring = self.send_ring()?;
        let at = ring.admit()?;
        let mut writer = ring.writer(at);
        writer.units(&units);
        let at = writer.at;
        let kind = Kind::new(wqe::opcode::COPY, 0, WcOpcode::Driver3);
        ring.commit_as(wr_id, flags, kind, at, SentKind::COPY);
        Ok(())
    }
}

/// A place in a copy: 2 GiB, which its field has no bit for, are 0.
fn place(sge: &Sge) -> Unit {
    wqe::data(&Sge {
        length: sge.length & !(1 << 31),
        ..*sge
    })
}
