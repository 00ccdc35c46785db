//! Memory windows: access for a peer that can be granted and revoked without registering again.

use uverbs_core::types::{AccessFlags, MwType, RemoteKey, WindowBinding};
use uverbs_core::{Object, Result};

use crate::{MemoryRegion, ProtectionDomain};

/// `ibv_mw`—a window onto a part of a memory region.
///
/// A window grants nothing until it is bound: post the [`WindowBinding`] that [`bind`](Self::bind)
/// returns with [`Operation::BindWindow`](crate::Operation::BindWindow) on a queue pair of the same
/// protection domain.
///
/// Free or invalidate a type 2 window before destroying the queue pair that it was bound on: on rxe
/// the destroy waits up to a minute for it, and then fails in the kernel.
///
/// rxe (up to Linux 7.2) checks the access that a window was bound for, but checks the bounds of
/// its region instead of its own.
#[doc(alias = "ibv_mw")]
#[derive(Debug)]
pub struct MemoryWindow {
    object: Object,
    key: RemoteKey,
    kind: MwType,
    pd: ProtectionDomain,
}

impl MemoryWindow {
    pub(crate) fn alloc(pd: &ProtectionDomain, kind: MwType) -> Result<Self> {
        let (object, key) = pd
            .context()
            .inner
            .provider
            .alloc_window(&pd.inner.pd, kind)?;
        Ok(Self {
            object,
            key,
            kind,
            pd: pd.clone(),
        })
    }

    /// The key that peers use, as of the last [`bind`](Self::bind).
    pub fn key(&self) -> RemoteKey {
        self.key
    }

    /// Its type.
    pub fn kind(&self) -> MwType {
        self.kind
    }

    /// The protection domain it belongs to.
    pub fn pd(&self) -> &ProtectionDomain {
        &self.pd
    }

    /// `ibv_bind_mw`—the binding of the window to `length` bytes at `address` of `region`, to be
    /// posted.
    ///
    /// The key changes ([`ibv_inc_rkey`](RemoteKey::inc)), so that the old one is worthless once
    /// the binding has completed. A length of 0 unbinds. The region must be registered with
    /// [`MW_BIND`](AccessFlags::MW_BIND). No system call: nothing happens until the binding is
    /// posted.
    #[doc(alias = "ibv_bind_mw")]
    #[doc(alias = "ibv_wr_bind_mw")]
    pub fn bind(
        &mut self,
        region: &MemoryRegion,
        address: u64,
        length: u64,
        access: AccessFlags,
    ) -> WindowBinding {
        let window_key = self.key;
        self.key = window_key.inc();
        WindowBinding {
            kind: self.kind,
            window_key,
            new_key: self.key,
            region_key: region.lkey(),
            address,
            length,
            access,
        }
    }

    /// `ibv_dealloc_mw`—frees it. One system call. Dropping it does the same.
    ///
    /// # Errors
    /// The kernel's errno.
    #[doc(alias = "ibv_dealloc_mw")]
    pub fn dealloc(self) -> Result<()> {
        self.object.destroy().map(|_| ())
    }
}
