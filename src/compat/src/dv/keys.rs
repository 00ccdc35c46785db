//! `mlx5dv_create_mkey`: keys to which requests give their meaning.
//!
//! # Safety
//!
//! Exports names of the library that this one stands for.
#![allow(unsafe_code, reason = "exports names")]

use std::cell::Cell;
use std::ffi::c_int;

use uverbs_core::types::RemoteKey;
use uverbs_mlx5::{IndirectKey, KeyOptions};

use super::abi::{mlx5dv_mkey, mlx5dv_mkey_init_attr};
use super::own;
use crate::answer::{Answer, number, pointer};
use crate::errno::Code;
use crate::lock::Locked;
use crate::pd::Pd;
use crate::pointer::{Handle, Object, Out};

/// A key.
#[repr(C)]
pub(super) struct Mkey {
    c: mlx5dv_mkey,
    pd: Handle<Pd>,
    max_entries: u16,
    changes_variant: bool,
    /// It may have signatures.
    pub(super) signs: bool,
    /// What passes through it may be encrypted.
    pub(super) encrypts: bool,
    /// `None` once it was destroyed.
    inner: Locked<Option<IndirectKey>>,
}

impl Object for Mkey {
    type C = mlx5dv_mkey;
}

/// `MLX5DV_MKEY_INIT_ATTR_FLAGS_…`.
mod flag {
    pub(super) const INDIRECT: u32 = 1;
    pub(super) const SIGNATURES: u32 = 1 << 1;
    pub(super) const ENCRYPTION: u32 = 1 << 2;
    pub(super) const CHANGES_VARIANT: u32 = 1 << 3;
    pub(super) const REMOTE_INVALIDATE: u32 = 1 << 4;
    pub(super) const KNOWN: u32 =
        INDIRECT | SIGNATURES | ENCRYPTION | CHANGES_VARIANT | REMOTE_INVALIDATE;
}

impl Mkey {
    fn create(attr: &mut mlx5dv_mkey_init_attr) -> Answer<*mut mlx5dv_mkey> {
        let pd = Handle::<Pd>::of(attr.pd);
        let domain = pd.get()?;
        let context = own(domain.context()?)?;
        let flags = attr.create_flags;
        if flags == 0 || flags & !flag::KNOWN != 0 {
            return Err(Code::UNSUPPORTED);
        }
        let options = KeyOptions {
            remote_invalidate: flags & flag::REMOTE_INVALIDATE != 0,
            changes_variant: flags & flag::CHANGES_VARIANT != 0,
            signatures: flags & flag::SIGNATURES != 0,
            encryption: flags & flag::ENCRYPTION != 0,
        };
        let inner = domain.domain()?;
        let inner: Option<&uverbs_mlx5::ProtectionDomain> = inner.of();
        let inner = inner.ok_or(Code::UNSUPPORTED)?;
        let made = IndirectKey::create(context, inner, attr.max_entries, options)?;
        attr.max_entries = made.max_entries();
        domain.users.add();
        let key = Self {
            c: mlx5dv_mkey {
                lkey: Cell::new(made.local_key().raw()),
                rkey: Cell::new(made.remote_key().raw()),
            },
            pd,
            max_entries: made.max_entries(),
            changes_variant: options.changes_variant,
            signs: options.signatures,
            encrypts: options.encryption,
            inner: Locked::new(Some(made), true),
        };
        Ok(Self::to_c(Box::into_raw(Box::new(key))))
    }

    /// The key that a request names, with the variant that the program has given it.
    ///
    /// # Errors
    /// EOPNOTSUPP: the variant of such keys is not changed.
    pub(super) fn named(&self) -> Answer<RemoteKey> {
        let key = self.c.lkey.get();
        if key & 0xff != 0 && !self.changes_variant {
            return Err(Code::UNSUPPORTED);
        }
        Ok(RemoteKey::from_raw(key))
    }

    pub(super) fn max_entries(&self) -> usize {
        self.max_entries.into()
    }

    /// Runs `body` with the key itself.
    pub(super) fn with<R>(&self, body: impl FnOnce(&mut IndirectKey) -> Answer<R>) -> Answer<R> {
        self.inner
            .with(|inner| body(inner.as_mut().ok_or(Code::INVALID)?))
    }

    fn end(&self) -> Answer<()> {
        self.inner.with(|inner| {
            let Err(refused) = inner.take().ok_or(Code::INVALID)?.destroy() else {
                return Ok(());
            };
            *inner = refused.handle.map(|key| *key);
            Err(Code::from(refused.error))
        })?;
        self.pd.get()?.users.remove();
        self.free();
        Ok(())
    }
}

#[unsafe(no_mangle)]
extern "C" fn mlx5dv_create_mkey(attr: Out<mlx5dv_mkey_init_attr>) -> *mut mlx5dv_mkey {
    pointer(|| Mkey::create(attr.get()?))
}

#[unsafe(no_mangle)]
extern "C" fn mlx5dv_destroy_mkey(key: Handle<Mkey>) -> c_int {
    number(|| key.get()?.end())
}
