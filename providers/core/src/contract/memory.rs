//! Memory regions and windows: the same for every provider.

use std::any::Any;
use std::sync::Arc;

use super::ContextBase;
use crate::cmd;
use crate::error::Result;
use crate::file::UverbsFile;
use crate::object::Object;
use crate::sys::Uhw;
use crate::types::{AccessFlags, LocalKey, MwType, RemoteKey, ReregFlags};

/// What memory is registered.
#[derive(Clone, Copy, Debug)]
pub struct MrInit {
    /// Where it starts in this process.
    pub address: u64,
    /// Bytes.
    pub length: u64,
    /// The address that work requests use for its first byte.
    pub iova: u64,
    /// What it may be used for.
    pub access: AccessFlags,
}

/// What part of a dmabuf is registered.
#[derive(Clone, Copy, Debug)]
pub struct DmabufInit<'a> {
    /// The dmabuf.
    pub fd: std::os::fd::BorrowedFd<'a>,
    /// Where the part starts in it.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
    /// The address that work requests use for its first byte.
    pub iova: u64,
    /// What it may be used for.
    pub access: AccessFlags,
}

/// A registered memory region.
#[derive(Debug)]
pub struct Mr {
    /// The kernel object.
    pub object: Object,
    /// The key for local pieces.
    pub lkey: LocalKey,
    /// The key for peers.
    pub rkey: RemoteKey,
}

impl Mr {
    /// Registers memory by `command`. `keep` is released once the kernel no longer uses the region.
    fn create(
        file: &Arc<UverbsFile>,
        pd: &Arc<Object>,
        keep: impl Any + Send + Sync,
        command: impl FnOnce() -> Result<cmd::mr::Registered>,
    ) -> Result<Self> {
        let kind = &cmd::mr::KIND;
        let parents = [Arc::clone(pd)];
        let (object, done) =
            Object::create(file, kind, parents, keep, command, |done| done.handle)?;
        Ok(Self {
            object,
            lkey: done.lkey,
            rkey: done.rkey,
        })
    }

    /// `ibv_rereg_mr`: changes what `change` names of the region. With new memory, `keep` takes the
    /// place of what it kept.
    ///
    /// # Errors
    /// Those of the command. Drivers may leave the region unusable when a change of its memory
    /// fails. Where nobody knows what became of it
    /// ([`Error::outcome_is_unknown`](crate::Error::outcome_is_unknown)), the region keeps both.
    pub fn reregister(
        &mut self,
        change: &MrChange<'_>,
        keep: impl Any + Send + Sync,
    ) -> Result<()> {
        let mut flags = ReregFlags::empty();
        flags.set(ReregFlags::CHANGE_TRANSLATION, change.memory.is_some());
        flags.set(ReregFlags::CHANGE_PD, change.pd.is_some());
        flags.set(ReregFlags::CHANGE_ACCESS, change.access.is_some());
        let (start, length, iova) = change.memory.unwrap_or_default();
        let request = cmd::mr::Reregister {
            mr: self.object.handle(),
            flags,
            start,
            length,
            iova,
            pd: change.pd.map_or(0, |pd| pd.handle()),
            access: change.access.unwrap_or_default(),
        };
        let keep = change.memory.map(|_| keep);
        let keys = self.object.exchange(change.pd.cloned(), keep, |file| {
            cmd::mr::reregister(file, &request, &Uhw::NONE)
        })?;
        self.lkey = keys.lkey;
        self.rkey = keys.rkey;
        Ok(())
    }
}

impl ContextBase {
    /// `ibv_reg_mr_iova`: registers memory in `pd`. `keep` is released once the kernel no longer
    /// uses the region.
    ///
    /// # Errors
    /// Those of the command. Where nobody knows whether the region exists
    /// ([`Error::outcome_is_unknown`](crate::Error::outcome_is_unknown)), `keep` is given up.
    pub fn register(
        &self,
        pd: &Arc<Object>,
        init: &MrInit,
        keep: impl Any + Send + Sync,
    ) -> Result<Mr> {
        let request = cmd::mr::Register {
            pd: pd.handle(),
            start: init.address,
            length: init.length,
            iova: init.iova,
            access: self.opened.core_support.final_access(init.access),
        };
        Mr::create(&self.file, pd, keep, || {
            cmd::mr::register(&self.file, &request, &Uhw::NONE)
        })
    }

    /// `ibv_reg_dmabuf_mr`: registers a part of a dmabuf in `pd`, with what a driver adds.
    ///
    /// # Errors
    /// Those of the command.
    pub fn register_dmabuf(
        &self,
        pd: &Arc<Object>,
        init: &DmabufInit<'_>,
        uhw: &Uhw<'_>,
    ) -> Result<Mr> {
        let request = cmd::mr::RegisterDmabuf {
            pd: pd.handle(),
            fd: init.fd,
            offset: init.offset,
            length: init.length,
            iova: init.iova,
            access: self.opened.core_support.final_access(init.access),
        };
        Mr::create(&self.file, pd, (), || {
            cmd::mr::register_dmabuf(&self.file, &request, uhw)
        })
    }

    /// `ibv_alloc_mw`.
    ///
    /// # Errors
    /// Those of the command.
    pub fn alloc_window(&self, pd: &Arc<Object>, kind: MwType) -> Result<(Object, RemoteKey)> {
        let done = cmd::mw::alloc(&self.file, pd.handle(), kind, &Uhw::NONE)?;
        let object = Object::new(&self.file, &cmd::mw::KIND, done.handle, [Arc::clone(pd)]);
        Ok((object, done.rkey))
    }
}

/// What changes about a region.
#[derive(Clone, Copy, Debug, Default)]
pub struct MrChange<'a> {
    /// New memory: start, bytes, and the address of its first byte in work requests.
    pub memory: Option<(u64, u64, u64)>,
    /// New protection domain.
    pub pd: Option<&'a Arc<Object>>,
    /// New access.
    pub access: Option<AccessFlags>,
}
