//! Device operations that are the same for every provider.

use std::os::fd::{BorrowedFd, OwnedFd};

use crate::cmd;
use crate::error::{Error, ErrorKind, Op, Result};
use crate::file::UverbsFile;
use crate::object::Object;
use crate::sys::Uhw;
use crate::types::{MrAdvice, MrAdviceFlags, PortAttr, Sge};
use uverbs_uapi::ib_user_verbs::ib_uverbs_sge;

pub use cmd::event::read_async as read_async_event;

/// The most ranges that fit an attribute, whose length has 16 bits.
const MAX_RANGES: usize = 4095;

/// `ibv_query_port`.
///
/// # Errors
/// EINVAL for a port that the device does not have.
pub fn query_port(file: &UverbsFile, port: u8) -> Result<PortAttr> {
    cmd::device::query_port(file, port.into())
}

/// `ibv_modify_cq`: how completions of a queue are gathered before an event.
///
/// # Errors
/// As [`cmd::cq::modify`].
pub fn moderate_cq(cq: &Object, count: u16, period_us: u16) -> Result<()> {
    cmd::cq::modify(cq.file(), cq.handle(), count, period_us)
}

/// `ibv_advise_mr`, for ranges of regions of a protection domain.
///
/// # Errors
/// As [`cmd::mr::advise`]; [`LimitExceeded`](crate::ErrorKind::LimitExceeded) for more than 4095
/// ranges.
pub fn advise_memory(
    file: &UverbsFile,
    pd: &Object,
    advice: MrAdvice,
    flags: MrAdviceFlags,
    entries: &[Sge],
) -> Result<()> {
    if entries.len() > MAX_RANGES {
        return Err(Error::new(Op::AdviseMemory, ErrorKind::LimitExceeded)
            .fact("ranges", entries.len())
            .fact("max", MAX_RANGES));
    }
    let ranges: Vec<_> = entries
        .iter()
        .map(|sge| ib_uverbs_sge {
            addr: sge.address,
            length: sge.length,
            lkey: sge.key.raw(),
        })
        .collect();
    let request = cmd::mr::Advise {
        pd: pd.handle(),
        advice,
        flags,
        ranges: &ranges,
    };
    cmd::mr::advise(file, &request, &Uhw::NONE)
}

/// `ibv_query_port_speed`, in units of 100 Mb/s.
///
/// # Errors
/// Unsupported on most kernels and devices.
pub fn query_port_speed(file: &UverbsFile, port: u8) -> Result<u64> {
    cmd::device::query_port_speed(file, port.into())
}

/// Creates the file that asynchronous events are read from.
///
/// # Errors
/// EMFILE, ENFILE, ENOMEM.
pub fn event_file(file: &UverbsFile) -> Result<OwnedFd> {
    cmd::event::alloc_async(file)
}

/// `ibv_create_comp_channel`.
///
/// # Errors
/// EMFILE, ENFILE, ENOMEM.
pub fn completion_channel(file: &UverbsFile) -> Result<OwnedFd> {
    cmd::comp_channel::create(file)
}

/// Reads one completion event and returns the user data of its queue.
///
/// # Errors
/// Those of [`UverbsFile::read_event`].
pub fn read_completion_event(file: &UverbsFile, fd: BorrowedFd<'_>) -> Result<u64> {
    Ok(cmd::event::read_completion(file, fd)?.cq_user_handle)
}

/// Makes reads of an event file fail with EAGAIN instead of blocking.
///
/// # Errors
/// The errno of `fcntl(2)`.
pub fn set_nonblocking(op: Op, fd: BorrowedFd<'_>) -> Result<()> {
    crate::sys::set_nonblocking(fd).map_err(|errno| Error::os(op, errno))
}
