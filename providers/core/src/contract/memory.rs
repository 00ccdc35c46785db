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

/// The memory to register.
#[derive(Clone, Copy, Debug)]
pub struct MrInit {
    /// Where it starts in this process.
    pub address: u64,
    /// Bytes.
    pub length: u64,
    /// The address of its first byte in work requests.
    pub iova: u64,
    /// Access rights.
    pub access: AccessFlags,
}

/// The part of a dma-buf to register.
#[derive(Clone, Copy, Debug)]
pub struct DmabufInit<'a> {
    /// The dma-buf.
    pub fd: std::os::fd::BorrowedFd<'a>,
    /// Where the part starts in it, in bytes.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
    /// The address of its first byte in work requests.
    pub iova: u64,
    /// Access rights.
    pub access: AccessFlags,
}

/// Memory to register with everything that the newest kernels support.
#[derive(Clone, Copy, Debug)]
pub struct HintedInit<'a> {
    /// The memory.
    pub source: cmd::mr::Source<'a>,
    /// Bytes.
    pub length: u64,
    /// The address of its first byte in work requests.
    pub iova: u64,
    /// Access rights.
    pub access: AccessFlags,
    /// Hints for the device's DMA ([`ContextBase::alloc_dma_hints`]).
    pub hints: Option<&'a Object>,
}

/// A registered memory region.
#[derive(Debug)]
pub struct Mr {
    /// The kernel object.
    pub object: Object,
    /// The key for local requests.
    pub lkey: LocalKey,
    /// The key for peers.
    pub rkey: RemoteKey,
}

impl Mr {
    /// Registers memory by `command`. `keep` is released once the kernel no longer uses the memory.
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

    /// `ibv_rereg_mr`: changes the parts of the region that `change` names. With new memory, `keep`
    /// replaces what the region kept alive before.
    ///
    /// # Errors
    /// Those of the command. Drivers may leave the region unusable if changing its memory fails. If
    /// the outcome is unknown ([`Error::outcome_is_unknown`](crate::Error::outcome_is_unknown)),
    /// the region keeps both.
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

/// `ibv_import_mr`: what is known of a region of a context, whoever registered it.
///
/// # Errors
/// Those of the command.
#[doc(alias = "ibv_import_mr")]
pub fn query_region(file: &UverbsFile, handle: u32) -> Result<cmd::mr::MrInfo> {
    cmd::mr::query(file, handle)
}

impl ContextBase {
    /// `ibv_reg_mr_iova`: registers memory in `pd`. `keep` is released once the kernel no longer
    /// uses the region.
    ///
    /// # Errors
    /// Those of the command. If it is unknown whether the region exists
    /// ([`Error::outcome_is_unknown`](crate::Error::outcome_is_unknown)), `keep` is leaked.
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

    /// `ibv_reg_dmabuf_mr`: registers a part of a dma-buf in `pd`, with driver data.
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

    /// `ibv_alloc_dmah`: allocates hints for the device's DMA, which regions may have.
    ///
    /// # Errors
    /// Those of the command.
    pub fn alloc_dma_hints(&self, hints: &cmd::dmah::Alloc) -> Result<Object> {
        let handle = cmd::dmah::alloc(&self.file, hints, &Uhw::NONE)?;
        Ok(Object::new(&self.file, &cmd::dmah::KIND, handle, []))
    }

    /// `ibv_reg_mr_ex`: registers memory in `pd`, with hints if there are any. `keep` is released
    /// once the kernel no longer uses the region. The kernel keeps the hints as long.
    ///
    /// # Errors
    /// As [`register`](Self::register).
    pub fn register_hinted(
        &self,
        pd: &Arc<Object>,
        init: &HintedInit<'_>,
        keep: impl Any + Send + Sync,
    ) -> Result<Mr> {
        let request = cmd::mr::RegisterEx {
            pd: pd.handle(),
            source: init.source,
            length: init.length,
            iova: init.iova,
            access: self.opened.core_support.final_access(init.access),
            dma_handle: init.hints.map(Object::handle),
        };
        Mr::create(&self.file, pd, keep, || {
            cmd::mr::register_ex(&self.file, &request, &Uhw::NONE)
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

/// The changes to a region.
#[derive(Clone, Copy, Debug, Default)]
pub struct MrChange<'a> {
    /// New memory: start, bytes, and the address of its first byte in work requests.
    pub memory: Option<(u64, u64, u64)>,
    /// New protection domain.
    pub pd: Option<&'a Arc<Object>>,
    /// New access rights.
    pub access: Option<AccessFlags>,
}
