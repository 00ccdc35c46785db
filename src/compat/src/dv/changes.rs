//! Requests of `mlx5dv_qp_ex` that change keys, raw ones, and copies by the device, composed
//! between `ibv_wr_start` and `ibv_wr_complete`.
//!
//! # Safety
//!
//! As for any request (`sends`).
#![allow(unsafe_code, reason = "posts requests that name memory")]

use std::ffi::c_void;

use uverbs_any::{AnyQp, Of};
use uverbs_core::PostError;
use uverbs_core::types::{AccessFlags, LocalKey, RemoteKey, SendFlags, Sge};
use uverbs_mlx5::{
    Encryption, Interleaved, KeyChange, KeyLayout, QueuePair, SignatureChange, Signatures, Unit,
};

use super::abi::{mlx5dv_mkey_conf_attr, mlx5dv_mr_interleaved};
use super::dynamic::Extended;
use super::encryption::Encrypting;
use super::keys::Mkey;
use crate::abi::ibv_sge;
use crate::answer::Answer;
use crate::batch::{Batch, What};
use crate::errno::Code;
use crate::pointer::{Handle, In, items};
use crate::qp::Qp;
use crate::sends::INLINE;

/// A request of the vendor's.
pub(crate) enum Request {
    Change(Change),
    /// As it is, in units.
    Raw(Vec<Unit>),
    /// A copy by the device, from one place to another.
    Copy(Sge, Sge),
}

/// A change of a key.
pub(crate) struct Change {
    key: RemoteKey,
    max_entries: usize,
    /// How many of the functions that say what to change are still to be called.
    left: u8,
    access: Option<AccessFlags>,
    layout: Option<Layout>,
    /// The key itself, if it may have signatures or be encrypted.
    changes: Option<Handle<Mkey>>,
    signs: bool,
    encrypts: bool,
    resets: bool,
    signatures: Option<Signatures>,
    encryption: Option<Encrypting>,
}

impl Change {
    /// Says what signatures the key has.
    pub(super) fn set_signatures(
        &mut self,
        signatures: impl FnOnce() -> Answer<Signatures>,
    ) -> Answer<()> {
        if !self.signs || self.signatures.is_some() {
            return Err(Code::INVALID);
        }
        self.signatures = Some(signatures()?);
        Ok(())
    }

    /// Says how what passes through the key is encrypted.
    pub(super) fn set_encryption(
        &mut self,
        encryption: impl FnOnce() -> Answer<Encrypting>,
    ) -> Answer<()> {
        if !self.encrypts || self.encryption.is_some() {
            return Err(Code::INVALID);
        }
        self.encryption = Some(encryption()?);
        Ok(())
    }

    fn signature_change(&self) -> SignatureChange<'_> {
        match &self.signatures {
            Some(signatures) => SignatureChange::Set(signatures),
            None if self.resets => SignatureChange::Reset,
            None => SignatureChange::Keep,
        }
    }
}

enum Layout {
    List(Vec<Sge>),
    Interleaved(u32, Vec<Interleaved>),
}

impl Request {
    /// Puts it into the ring.
    ///
    /// # Errors
    /// ENOMEM for more entries than a request has room for.
    pub(crate) fn put(&self, queue: &mut AnyQp, wr_id: u64, flags: SendFlags) -> Answer<()> {
        let own: Option<&mut QueuePair> = queue.of_mut();
        let own = own.ok_or(Code::UNSUPPORTED)?;
        let put = match self {
            Self::Change(change) if change.left != 0 => return Err(Code::INVALID),
            Self::Change(change) => {
                let has = change
                    .changes
                    .map(|key| (key, change.signature_change(), change.encryption.as_ref()));
                let layout = change.layout.as_ref().map(|layout| match layout {
                    Layout::List(list) => KeyLayout::List(list),
                    Layout::Interleaved(repeats, pieces) => KeyLayout::Interleaved {
                        repeats: *repeats,
                        pieces,
                    },
                });
                let change = KeyChange {
                    key: change.key,
                    access: change.access,
                    layout,
                };
                match has {
                    // SAFETY: as the C interface asks, the program keeps what the key maps
                    // registered for as long as the key maps it.
                    None => unsafe { own.put_key_change(wr_id, flags, &change) },
                    Some((key, signatures, encryption)) => key.get()?.with(|key| {
                        let mut put = |encryption: Option<&Encryption<'_>>| {
                            // SAFETY: as above.
                            Ok(unsafe {
                                own.put_signed_key_change(
                                    wr_id, flags, key, &change, signatures, encryption,
                                )
                            })
                        };
                        match encryption {
                            Some(encryption) => encryption.with(|encryption| put(Some(encryption))),
                            None => put(None),
                        }
                    })?,
                }
            }
            // SAFETY: the program answers for what a request does that it composed itself.
            Self::Raw(units) => unsafe { own.put_raw(wr_id, units) },
            // SAFETY: as above.
            Self::Copy(from, to) => unsafe { own.put_copy(wr_id, flags, from, to) },
        };
        put.map_err(|error| match error {
            PostError::TooManySges { .. } => Code::NO_ROOM,
            error => error.into(),
        })
    }
}

/// Runs `compose` for the thread that composes requests; an error is that of the whole batch.
fn composing(qp: Handle<Extended>, compose: impl FnOnce(&Qp, &mut Batch) -> Answer<()>) {
    let Ok(own) = qp.get() else { return };
    let own = own.queue_pair();
    own.compose(|batch| {
        if batch.failed.is_none()
            && let Err(code) = compose(own, batch)
        {
            batch.fail(code);
        }
    });
}

/// Lets one of the functions change what was begun last.
pub(super) fn set(qp: Handle<Extended>, set: impl FnOnce(&mut Change) -> Answer<()>) {
    composing(qp, |_, batch| {
        let Some(Request::Change(change)) = batch.vendors_request() else {
            return Err(Code::INVALID);
        };
        change.left = change.left.checked_sub(1).ok_or(Code::INVALID)?;
        set(change)
    });
}

pub(super) extern "C" fn configure(
    qp: Handle<Extended>,
    key: Handle<Mkey>,
    setters: u8,
    attr: In<mlx5dv_mkey_conf_attr>,
) {
    /// `MLX5DV_MKEY_CONF_FLAG_RESET_SIG_ATTR`.
    const FORGETS_SIGNATURES: u32 = 1;
    composing(qp, |own, batch| {
        let (handle, key, attr) = (key, key.get()?, attr.get()?);
        let is_inline = own.c.wr_flags.get() & INLINE != 0;
        if !is_inline || attr.conf_flags & !FORGETS_SIGNATURES != 0 || attr.comp_mask != 0 {
            return Err(Code::UNSUPPORTED);
        }
        let change = Change {
            key: key.named()?,
            max_entries: key.max_entries(),
            left: setters,
            access: None,
            layout: None,
            changes: (key.signs || key.encrypts).then_some(handle),
            signs: key.signs,
            encrypts: key.encrypts,
            resets: key.signs && attr.conf_flags & FORGETS_SIGNATURES != 0,
            signatures: None,
            encryption: None,
        };
        batch.keep(own, What::Vendors(Box::new(Request::Change(change))));
        Ok(())
    });
}

pub(super) extern "C" fn set_access_flags(qp: Handle<Extended>, access: u32) {
    const KNOWN: u32 = 0xf;
    set(qp, |change| {
        if access & !KNOWN != 0 || change.access.is_some() {
            return Err(Code::INVALID);
        }
        change.access = Some(AccessFlags::from_bits_retain(access));
        Ok(())
    });
}

fn set_layout(change: &mut Change, entries: usize, layout: Layout) -> Answer<()> {
    if entries > change.max_entries {
        return Err(Code::NO_ROOM);
    }
    if change.layout.is_some() {
        return Err(Code::INVALID);
    }
    change.layout = Some(layout);
    Ok(())
}

pub(super) extern "C" fn set_layout_list(qp: Handle<Extended>, count: u16, first: *const ibv_sge) {
    set(qp, |change| {
        let list = items(first.cast::<Sge>(), count.into())?;
        set_layout(change, list.len(), Layout::List(list.to_vec()))
    });
}

pub(super) extern "C" fn set_layout_interleaved(
    qp: Handle<Extended>,
    repeats: u32,
    count: u16,
    first: *const mlx5dv_mr_interleaved,
) {
    set(qp, |change| {
        let pieces = items(first, count.into())?.iter();
        let pieces = pieces.map(|piece| Interleaved {
            address: piece.addr,
            bytes: piece.bytes_count,
            skip: piece.bytes_skip,
            key: LocalKey::from_raw(piece.lkey),
        });
        let layout = Layout::Interleaved(repeats, pieces.collect());
        set_layout(change, count.into(), layout)
    });
}

/// What the older functions configure.
static BOTH: mlx5dv_mkey_conf_attr = mlx5dv_mkey_conf_attr {
    conf_flags: 0,
    comp_mask: 0,
};

pub(super) extern "C" fn map_list(
    qp: Handle<Extended>,
    key: Handle<Mkey>,
    access: u32,
    count: u16,
    first: *const ibv_sge,
) {
    configure(qp, key, 2, In::of(&raw const BOTH));
    set_access_flags(qp, access);
    set_layout_list(qp, count, first);
}

pub(super) extern "C" fn map_interleaved(
    qp: Handle<Extended>,
    key: Handle<Mkey>,
    access: u32,
    repeats: u32,
    count: u16,
    first: *const mlx5dv_mr_interleaved,
) {
    configure(qp, key, 2, In::of(&raw const BOTH));
    set_access_flags(qp, access);
    set_layout_interleaved(qp, repeats, count, first);
}

/// No bytes, and more than the device copies at a time, are EINVAL.
pub(super) extern "C" fn copy(
    qp: Handle<Extended>,
    to_key: u32,
    to: u64,
    from_key: u32,
    from: u64,
    length: usize,
) {
    composing(qp, |own, batch| {
        let length = u32::try_from(length).map_err(|_| Code::INVALID)?;
        let place = |address, key| Sge {
            address,
            length,
            key: LocalKey::from_raw(key),
        };
        let request = Request::Copy(place(from, from_key), place(to, to_key));
        batch.keep(own, What::Vendors(Box::new(request)));
        Ok(())
    });
}

/// The number of units is in the last byte of the first word of the control segment's second half.
pub(super) extern "C" fn raw_wqe(qp: Handle<Extended>, request: *const c_void) {
    /// Where it is, and its bits.
    const UNITS_AT: usize = 7;
    const UNITS: u8 = 0x3f;
    composing(qp, |own, batch| {
        let first = items(request.cast::<u8>(), size_of::<Unit>())?;
        let units = first.get(UNITS_AT).map_or(0, |byte| byte & UNITS);
        let bytes = items(request.cast::<u8>(), size_of::<Unit>() * usize::from(units))?;
        let (words, _) = bytes.as_chunks::<8>();
        let (units, _) = words.as_chunks::<2>();
        let units = units.iter().map(|unit| unit.map(u64::from_ne_bytes));
        let request = Request::Raw(units.collect());
        batch.keep(own, What::Vendors(Box::new(request)));
        Ok(())
    });
}
