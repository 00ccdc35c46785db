//! Memory regions (`UVERBS_OBJECT_MR`).
//!
//! # Memory
//!
//! These functions take addresses as numbers, as the kernel does. From the registration until the
//! kernel has confirmed the destroy, the device may read the memory, and write it if the access
//! flags allow that. The layers above ensure that it stays valid and that no Rust reference
//! conflicts with these accesses.

use std::os::fd::{AsRawFd, BorrowedFd};

use uverbs_uapi::ib_user_ioctl_cmds::{
    UVERBS_ATTR_ADVISE_MR_ADVICE, UVERBS_ATTR_ADVISE_MR_FLAGS, UVERBS_ATTR_ADVISE_MR_PD_HANDLE,
    UVERBS_ATTR_ADVISE_MR_SGE_LIST, UVERBS_ATTR_DESTROY_MR_HANDLE, UVERBS_ATTR_QUERY_MR_HANDLE,
    UVERBS_ATTR_QUERY_MR_RESP_IOVA, UVERBS_ATTR_QUERY_MR_RESP_LENGTH,
    UVERBS_ATTR_QUERY_MR_RESP_LKEY, UVERBS_ATTR_QUERY_MR_RESP_RKEY,
    UVERBS_ATTR_REG_DM_MR_ACCESS_FLAGS, UVERBS_ATTR_REG_DM_MR_DM_HANDLE,
    UVERBS_ATTR_REG_DM_MR_HANDLE, UVERBS_ATTR_REG_DM_MR_LENGTH, UVERBS_ATTR_REG_DM_MR_OFFSET,
    UVERBS_ATTR_REG_DM_MR_PD_HANDLE, UVERBS_ATTR_REG_DM_MR_RESP_LKEY,
    UVERBS_ATTR_REG_DM_MR_RESP_RKEY, UVERBS_ATTR_REG_DMABUF_MR_ACCESS_FLAGS,
    UVERBS_ATTR_REG_DMABUF_MR_FD, UVERBS_ATTR_REG_DMABUF_MR_HANDLE, UVERBS_ATTR_REG_DMABUF_MR_IOVA,
    UVERBS_ATTR_REG_DMABUF_MR_LENGTH, UVERBS_ATTR_REG_DMABUF_MR_OFFSET,
    UVERBS_ATTR_REG_DMABUF_MR_PD_HANDLE, UVERBS_ATTR_REG_DMABUF_MR_RESP_LKEY,
    UVERBS_ATTR_REG_DMABUF_MR_RESP_RKEY, UVERBS_ATTR_REG_MR_ACCESS_FLAGS, UVERBS_ATTR_REG_MR_ADDR,
    UVERBS_ATTR_REG_MR_DMA_HANDLE, UVERBS_ATTR_REG_MR_FD, UVERBS_ATTR_REG_MR_FD_OFFSET,
    UVERBS_ATTR_REG_MR_HANDLE, UVERBS_ATTR_REG_MR_IOVA, UVERBS_ATTR_REG_MR_LENGTH,
    UVERBS_ATTR_REG_MR_PD_HANDLE, UVERBS_ATTR_REG_MR_RESP_LKEY, UVERBS_ATTR_REG_MR_RESP_RKEY,
    UVERBS_METHOD_ADVISE_MR, UVERBS_METHOD_DM_MR_REG, UVERBS_METHOD_MR_DESTROY,
    UVERBS_METHOD_QUERY_MR, UVERBS_METHOD_REG_DMABUF_MR, UVERBS_METHOD_REG_MR, UVERBS_OBJECT_MR,
};
use uverbs_uapi::ib_user_verbs::{
    IB_USER_VERBS_CMD_DEREG_MR, IB_USER_VERBS_CMD_REG_MR, IB_USER_VERBS_CMD_REREG_MR,
    ib_uverbs_reg_mr, ib_uverbs_reg_mr_resp, ib_uverbs_rereg_mr, ib_uverbs_rereg_mr_resp,
    ib_uverbs_sge,
};

use super::legacy::{Legacy, NO_HANDLE, explain_pin, handle_slot, new_handle};
use crate::error::{Op, Result};
use crate::file::UverbsFile;
use crate::kind;
use crate::sys::{Attr, Uhw, Value, cells};
use crate::types::{AccessFlags, LocalKey, MrAdvice, MrAdviceFlags, RemoteKey, ReregFlags};

/// Memory of this process to register.
#[derive(Clone, Copy, Debug)]
pub struct Register {
    /// The protection domain.
    pub pd: u32,
    /// Where it starts in this process.
    pub start: u64,
    /// Bytes. `u64::MAX` with `start` 0 and on-demand paging is the whole address space.
    pub length: u64,
    /// The address of the start in work requests. It must have the same offset in its page as
    /// `start`.
    pub iova: u64,
    /// Access rights, final:
    /// [`CoreSupport::final_access`](super::context::CoreSupport::final_access) was applied.
    pub access: AccessFlags,
}

/// A memory region.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Registered {
    /// Its handle.
    pub handle: u32,
    /// Its key for the local device.
    pub lkey: LocalKey,
    /// Its key for peers.
    pub rkey: RemoteKey,
}

/// `ibv_reg_mr`, `ibv_reg_mr_iova`—registers memory of this process.
///
/// One system call, which pins the memory unless it is registered on-demand: the legacy command,
/// which every kernel has.
///
/// # Errors
/// [`InvalidInput`](crate::ErrorKind::InvalidInput): an access flag without a name, except optional
/// ones ([`AccessFlags::OPTIONAL`]). ENOMEM: above the limit of locked memory. EFAULT: not mapped,
/// or not writable. EINVAL: flags that contradict each other or that the device does not have, or
/// an `iova` with another offset in its page. EAGAIN: the rdma cgroup.
#[doc(alias = "ibv_reg_mr")]
#[doc(alias = "ibv_reg_mr_iova")]
#[doc(alias = "ibv_reg_mr_iova2")]
pub fn register(file: &UverbsFile, request: &Register, uhw: &Uhw<'_>) -> Result<Registered> {
    let op = Op::RegisterMemory;
    let command = ib_uverbs_reg_mr {
        response: 0,
        start: request.start,
        length: request.length,
        hca_va: request.iova,
        pd_handle: request.pd,
        access_flags: request.access.checked(op, "access")?,
    };
    let unanswered = ib_uverbs_reg_mr_resp {
        mr_handle: NO_HANDLE,
        ..ib_uverbs_reg_mr_resp::default()
    };
    let reply = Legacy::plain(op, IB_USER_VERBS_CMD_REG_MR)
        .call(file, &command, unanswered, uhw)
        .map_err(|error| explain_pin(error).fact("bytes", request.length))?;
    registered(op, reply.mr_handle, reply.lkey, reply.rkey)
}

fn registered(op: Op, handle: u32, lkey: u32, rkey: u32) -> Result<Registered> {
    Ok(Registered {
        handle: new_handle(op, handle)?,
        lkey: LocalKey::from_raw(lkey),
        rkey: RemoteKey::from_raw(rkey),
    })
}

/// The memory of a region.
#[derive(Clone, Copy, Debug)]
pub enum Source<'a> {
    /// Memory of this process, from this address.
    Address(u64),
    /// A dma-buf.
    Fd {
        /// Its descriptor.
        fd: BorrowedFd<'a>,
        /// Where the region starts in it, in bytes; the same offset in its page as the `iova`.
        offset: u64,
    },
}

/// Memory to register, with everything that the newest command supports.
#[derive(Clone, Copy, Debug)]
pub struct RegisterEx<'a> {
    /// The protection domain.
    pub pd: u32,
    /// The memory.
    pub source: Source<'a>,
    /// Bytes.
    pub length: u64,
    /// The address of the start in work requests.
    pub iova: u64,
    /// Access rights, final.
    pub access: AccessFlags,
    /// Hints for the device's DMA; see [`dmah`](super::dmah).
    pub dma_handle: Option<u32>,
}

/// `ibv_reg_mr_ex`—registers memory of this process or a dma-buf, with hints for the DMA.
///
/// One system call; `MR/REG_MR` since 6.17. Without it, plain memory without hints is registered by
/// [`register`] and a dma-buf without hints by [`register_dmabuf`].
///
/// # Errors
/// As [`register`] and [`register_dmabuf`].
#[doc(alias = "ibv_reg_mr_ex")]
pub fn register_ex(
    file: &UverbsFile,
    request: &RegisterEx<'_>,
    uhw: &Uhw<'_>,
) -> Result<Registered> {
    let op = Op::RegisterMemory;
    let by_ioctl = || register_by_ioctl(file, request, uhw);
    let RegisterEx {
        pd,
        length,
        iova,
        access,
        ..
    } = *request;
    match (request.source, request.dma_handle) {
        (_, Some(_)) => file.ioctl_only(op, by_ioctl),
        (Source::Address(start), None) => file.dispatch(op, by_ioctl, || {
            let plain = Register {
                pd,
                start,
                length,
                iova,
                access,
            };
            register(file, &plain, uhw)
        }),
        (Source::Fd { fd, offset }, None) => file.dispatch(op, by_ioctl, || {
            let dmabuf = RegisterDmabuf {
                pd,
                fd,
                offset,
                length,
                iova,
                access,
            };
            register_dmabuf(file, &dmabuf, uhw)
        }),
    }
}

fn register_by_ioctl(
    file: &UverbsFile,
    request: &RegisterEx<'_>,
    uhw: &Uhw<'_>,
) -> Result<Registered> {
    let op = Op::RegisterMemory;
    let (address, dmabuf) = match &request.source {
        Source::Address(address) => (Some(address), None),
        Source::Fd { fd, offset } => (None, Some((*fd, offset))),
    };
    let access = request.access.checked(op, "access")?;
    let handle = handle_slot();
    let mut lkey = 0_u32;
    let mut rkey = 0_u32;
    file.ioctl(
        op,
        UVERBS_OBJECT_MR,
        UVERBS_METHOD_REG_MR,
        &[
            Attr::new_object(UVERBS_ATTR_REG_MR_HANDLE, &handle),
            Attr::object(UVERBS_ATTR_REG_MR_PD_HANDLE, request.pd),
            Attr::maybe(
                request.dma_handle,
                UVERBS_ATTR_REG_MR_DMA_HANDLE,
                Attr::object,
            ),
            Attr::input(UVERBS_ATTR_REG_MR_IOVA, &request.iova),
            Attr::maybe(address, UVERBS_ATTR_REG_MR_ADDR, Attr::input),
            Attr::input(UVERBS_ATTR_REG_MR_LENGTH, &request.length),
            Attr::constant(UVERBS_ATTR_REG_MR_ACCESS_FLAGS, access),
            Attr::maybe(dmabuf.map(|(fd, _)| fd), UVERBS_ATTR_REG_MR_FD, Attr::fd),
            Attr::maybe(
                dmabuf.map(|(_, offset)| offset),
                UVERBS_ATTR_REG_MR_FD_OFFSET,
                Attr::input,
            ),
            Attr::output(UVERBS_ATTR_REG_MR_RESP_LKEY, cells(&mut lkey)),
            Attr::output(UVERBS_ATTR_REG_MR_RESP_RKEY, cells(&mut rkey)),
        ],
        uhw,
    )
    .map_err(|error| explain_pin(error).fact("bytes", request.length))?;
    registered(op, handle.get(), lkey, rkey)
}

/// A dma-buf to register.
#[derive(Clone, Copy, Debug)]
pub struct RegisterDmabuf<'a> {
    /// The protection domain.
    pub pd: u32,
    /// Its descriptor.
    pub fd: BorrowedFd<'a>,
    /// Where the region starts in it, in bytes; the same offset in its page as the `iova`.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
    /// The address of the start in work requests.
    pub iova: u64,
    /// Access rights, final. Only local write, remote read, write and atomic, and relaxed ordering.
    pub access: AccessFlags,
}

/// `ibv_reg_dmabuf_mr`—registers memory that another driver exports.
///
/// One system call, since 5.12.
///
/// # Errors
/// [`InvalidInput`](crate::ErrorKind::InvalidInput): an access flag without a name. EOPNOTSUPP: the
/// driver does not take dma-bufs. EBADF, EINVAL: not a dma-buf, or a range outside it.
#[doc(alias = "ibv_reg_dmabuf_mr")]
pub fn register_dmabuf(
    file: &UverbsFile,
    request: &RegisterDmabuf<'_>,
    uhw: &Uhw<'_>,
) -> Result<Registered> {
    let op = Op::RegisterDmabuf;
    let fd = request.fd.as_raw_fd();
    let access = request.access.checked(op, "access")?;
    let handle = handle_slot();
    let mut lkey = 0_u32;
    let mut rkey = 0_u32;
    let mut register = || {
        let attrs = [
            Attr::new_object(UVERBS_ATTR_REG_DMABUF_MR_HANDLE, &handle),
            Attr::object(UVERBS_ATTR_REG_DMABUF_MR_PD_HANDLE, request.pd),
            Attr::input(UVERBS_ATTR_REG_DMABUF_MR_OFFSET, &request.offset),
            Attr::input(UVERBS_ATTR_REG_DMABUF_MR_LENGTH, &request.length),
            Attr::input(UVERBS_ATTR_REG_DMABUF_MR_IOVA, &request.iova),
            // The only descriptor that is passed as data.
            Attr::input(UVERBS_ATTR_REG_DMABUF_MR_FD, &fd),
            Attr::constant(UVERBS_ATTR_REG_DMABUF_MR_ACCESS_FLAGS, access),
            Attr::output(UVERBS_ATTR_REG_DMABUF_MR_RESP_LKEY, cells(&mut lkey)),
            Attr::output(UVERBS_ATTR_REG_DMABUF_MR_RESP_RKEY, cells(&mut rkey)),
        ];
        let method = UVERBS_METHOD_REG_DMABUF_MR;
        file.ioctl(op, UVERBS_OBJECT_MR, method, &attrs, uhw)
    };
    // A kernel that lacks only the driver's attributes has the method.
    let done = if uhw.attrs.is_empty() {
        file.ioctl_only(op, register)
    } else {
        register()
    };
    done.map_err(|error| {
        error
            .fact("bytes", request.length)
            .fact("offset", request.offset)
    })?;
    registered(op, handle.get(), lkey, rkey)
}

/// Device memory to register.
#[derive(Clone, Copy, Debug)]
pub struct RegisterDm {
    /// The protection domain.
    pub pd: u32,
    /// The device memory.
    pub dm: u32,
    /// Where the region starts in it, in bytes.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
    /// Access rights, final. Must include [`AccessFlags::ZERO_BASED`].
    pub access: AccessFlags,
}

/// `ibv_reg_dm_mr`—registers device memory.
///
/// One system call, since 4.17.
///
/// # Errors
/// [`InvalidInput`](crate::ErrorKind::InvalidInput): an access flag without a name. EINVAL: outside
/// the device memory, or not zero-based. EOPNOTSUPP: the driver has none.
#[doc(alias = "ibv_reg_dm_mr")]
pub fn register_dm(file: &UverbsFile, request: &RegisterDm, uhw: &Uhw<'_>) -> Result<Registered> {
    let op = Op::RegisterDeviceMemory;
    let access = request.access.checked(op, "access")?;
    let handle = handle_slot();
    let mut lkey = 0_u32;
    let mut rkey = 0_u32;
    file.ioctl_only(op, || {
        let attrs = [
            Attr::new_object(UVERBS_ATTR_REG_DM_MR_HANDLE, &handle),
            Attr::input(UVERBS_ATTR_REG_DM_MR_OFFSET, &request.offset),
            Attr::input(UVERBS_ATTR_REG_DM_MR_LENGTH, &request.length),
            Attr::object(UVERBS_ATTR_REG_DM_MR_PD_HANDLE, request.pd),
            Attr::constant(UVERBS_ATTR_REG_DM_MR_ACCESS_FLAGS, access),
            Attr::object(UVERBS_ATTR_REG_DM_MR_DM_HANDLE, request.dm),
            Attr::output(UVERBS_ATTR_REG_DM_MR_RESP_LKEY, cells(&mut lkey)),
            Attr::output(UVERBS_ATTR_REG_DM_MR_RESP_RKEY, cells(&mut rkey)),
        ];
        file.ioctl(op, UVERBS_OBJECT_MR, UVERBS_METHOD_DM_MR_REG, &attrs, uhw)
    })
    .map_err(|error| {
        error
            .fact("bytes", request.length)
            .fact("offset", request.offset)
    })?;
    registered(op, handle.get(), lkey, rkey)
}

/// Changes to a region. Only the fields that `flags` select are used.
#[derive(Clone, Copy, Debug)]
pub struct Reregister {
    /// The region.
    pub mr: u32,
    /// What changes.
    pub flags: ReregFlags,
    /// New memory: where it starts.
    pub start: u64,
    /// New memory: bytes.
    pub length: u64,
    /// New memory: the address by which work requests name the start.
    pub iova: u64,
    /// New protection domain.
    pub pd: u32,
    /// New access flags, final.
    pub access: AccessFlags,
}

/// The keys of a region.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Keys {
    /// For the local device.
    pub lkey: LocalKey,
    /// For peers.
    pub rkey: RemoteKey,
}

/// `ibv_rereg_mr`—changes a region. Its keys may change as well.
///
/// One system call, the legacy command. On failure the region may be left unusable, depending on
/// the driver.
///
/// # Errors
/// [`InvalidInput`](crate::ErrorKind::InvalidInput): a change or an access flag without a name.
/// EOPNOTSUPP: the driver cannot, or a flag is unknown. EINVAL: nothing to change, or as
/// [`register`]. EBUSY: windows are bound to it.
#[doc(alias = "ibv_rereg_mr")]
pub fn reregister(file: &UverbsFile, request: &Reregister, uhw: &Uhw<'_>) -> Result<Keys> {
    let op = Op::ReregisterMemory;
    let command = ib_uverbs_rereg_mr {
        response: 0,
        mr_handle: request.mr,
        flags: request.flags.checked(op, "flags")?,
        start: request.start,
        length: request.length,
        hca_va: request.iova,
        pd_handle: request.pd,
        access_flags: request.access.checked(op, "access")?,
    };
    let reply = Legacy::plain(op, IB_USER_VERBS_CMD_REREG_MR)
        .call(file, &command, ib_uverbs_rereg_mr_resp::default(), uhw)
        .map_err(|error| explain_pin(error).fact("changes", request.flags.to_string()))?;
    Ok(Keys {
        lkey: LocalKey::from_raw(reply.lkey),
        rkey: RemoteKey::from_raw(reply.rkey),
    })
}

/// What can be queried about a region.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct MrInfo {
    /// Its key for the local device.
    pub lkey: LocalKey,
    /// Its key for peers.
    pub rkey: RemoteKey,
    /// Bytes.
    pub length: u64,
    /// The address by which work requests name the start, if the kernel reports it (5.11).
    pub iova: Option<u64>,
}

/// `ibv_import_mr`—queries a region of this context, which another process may have created.
///
/// One system call, since 5.9.
///
/// # Errors
/// ENOENT: there is no such region.
#[doc(alias = "ibv_import_mr")]
pub fn query(file: &UverbsFile, mr: u32) -> Result<MrInfo> {
    let op = Op::QueryMemory;
    let mut lkey = 0_u32;
    let mut rkey = 0_u32;
    let mut length = 0_u64;
    let mut iova = 0_u64;
    let knows_iova = file.ioctl_only(op, || {
        let attrs = [
            Attr::object(UVERBS_ATTR_QUERY_MR_HANDLE, mr),
            Attr::output(UVERBS_ATTR_QUERY_MR_RESP_LKEY, cells(&mut lkey)),
            Attr::output(UVERBS_ATTR_QUERY_MR_RESP_RKEY, cells(&mut rkey)),
            Attr::output(UVERBS_ATTR_QUERY_MR_RESP_LENGTH, cells(&mut length)),
            Attr::output(UVERBS_ATTR_QUERY_MR_RESP_IOVA, cells(&mut iova)).optional(),
        ];
        file.ioctl(
            op,
            UVERBS_OBJECT_MR,
            UVERBS_METHOD_QUERY_MR,
            &attrs,
            &Uhw::NONE,
        )?;
        Ok(matches!(&attrs[4].value, Value::Out(_, written) if written.get()))
    })?;
    Ok(MrInfo {
        lkey: LocalKey::from_raw(lkey),
        rkey: RemoteKey::from_raw(rkey),
        length,
        iova: knows_iova.then_some(iova),
    })
}

/// Advice about unpinned memory.
#[derive(Clone, Copy, Debug)]
pub struct Advise<'a> {
    /// The protection domain of the regions.
    pub pd: u32,
    /// The advice.
    pub advice: MrAdvice,
    /// Flags.
    pub flags: MrAdviceFlags,
    /// Ranges of regions, by their lkeys. At most 4095.
    pub ranges: &'a [ib_uverbs_sge],
}

/// `ibv_advise_mr`—prefetches ranges of on-demand regions.
///
/// One system call, since 5.0.
///
/// # Errors
/// [`InvalidInput`](crate::ErrorKind::InvalidInput): advice, or a flag, without a name. EOPNOTSUPP:
/// the driver does not take this advice. EINVAL, ENOENT: a range is not in an on-demand region.
/// EFAULT: not mapped.
#[doc(alias = "ibv_advise_mr")]
pub fn advise(file: &UverbsFile, request: &Advise<'_>, uhw: &Uhw<'_>) -> Result<()> {
    let op = Op::AdviseMemory;
    let advice = request.advice.checked(op, "advice")?;
    let flags = request.flags.checked(op, "flags")?;
    file.ioctl_only(op, || {
        let attrs = [
            Attr::object(UVERBS_ATTR_ADVISE_MR_PD_HANDLE, request.pd),
            Attr::constant(UVERBS_ATTR_ADVISE_MR_ADVICE, advice),
            Attr::constant(UVERBS_ATTR_ADVISE_MR_FLAGS, flags),
            Attr::input(UVERBS_ATTR_ADVISE_MR_SGE_LIST, request.ranges),
        ];
        file.ioctl(op, UVERBS_OBJECT_MR, UVERBS_METHOD_ADVISE_MR, &attrs, uhw)
    })
    .map_err(|error| error.fact("ranges", request.ranges.len()))
}

/// Memory regions, which `ibv_dereg_mr` deregisters. Once it has succeeded, the device no longer
/// accesses the memory.
///
/// One system call; `MR/DESTROY` since 5.0, else `DEREG_MR`.
///
/// # Errors
/// EBUSY: memory windows are bound to it.
#[doc(alias = "ibv_dereg_mr")]
pub static KIND: kind::Kind = kind::Kind {
    name: "MemoryRegion",
    op: Op::DeregisterMemory,
    object: UVERBS_OBJECT_MR,
    method: UVERBS_METHOD_MR_DESTROY,
    attr: UVERBS_ATTR_DESTROY_MR_HANDLE,
    counts: kind::Counts::None,
    legacy: kind::Legacy::Plain(IB_USER_VERBS_CMD_DEREG_MR),
};
