//! Events: the asynchronous event file, and reading events from it and from completion channels.

use std::cell::Cell;
use std::os::fd::{BorrowedFd, OwnedFd};

use uverbs_uapi::ib_user_ioctl_cmds::{
    UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE, UVERBS_METHOD_ASYNC_EVENT_ALLOC,
    UVERBS_OBJECT_ASYNC_EVENT,
};
use uverbs_uapi::ib_user_verbs::{ib_uverbs_async_event_desc, ib_uverbs_comp_event_desc};

use super::legacy::explain_create;
use crate::error::{Errno, Error, ErrorKind, Op, Result};
use crate::file::UverbsFile;
use crate::sys::{Attr, Uhw};
use crate::types::AsyncEventType;

/// Opens an asynchronous event file of the context. Reads block unless O_NONBLOCK is set; closing
/// it destroys it.
///
/// Objects of a context report to its first event file, unless they are created with another one.
/// Without any, their events are dropped. Events of the device and its ports are sent to every
/// event file.
///
/// One system call, since 5.6. On older kernels the only event file is opened together with the
/// context.
///
/// # Errors
/// EMFILE, ENFILE: no descriptor left. EINVAL: the device file has no context.
pub fn alloc_async(file: &UverbsFile) -> Result<OwnedFd> {
    let op = Op::AsyncEvent;
    let fd = Cell::new(None);
    file.ioctl_only(op, || {
        let attrs = [Attr::new_fd(UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE, &fd)];
        file.ioctl(
            op,
            UVERBS_OBJECT_ASYNC_EVENT,
            UVERBS_METHOD_ASYNC_EVENT_ALLOC,
            &attrs,
            &Uhw::NONE,
        )
    })
    .map_err(explain_create)?;
    fd.into_inner()
        .ok_or_else(|| Error::bad_reply(op, "no event file descriptor"))
}

/// An asynchronous event.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct AsyncEvent {
    /// The user data of the object, or the number of the port; see [`AsyncEventType::object`].
    pub element: u64,
    /// What happened.
    pub event: AsyncEventType,
}

/// `ibv_get_async_event`—reads one event from an asynchronous event file.
///
/// One system call, which blocks if the file is blocking.
///
/// The last event of a device that was removed is `DEVICE_FATAL`. The kernel does not report
/// end-of-file after it: reads of a blocking file then block until it is closed
/// (`uverbs_std_types_async_fd.c`). On a non-blocking file a second read detects the removal.
///
/// # Errors
/// [`WouldBlock`](crate::ErrorKind::WouldBlock): no event, and the file is non-blocking.
/// [`DeviceRemoved`](crate::ErrorKind::DeviceRemoved): there will be no more events.
#[doc(alias = "ibv_get_async_event")]
pub fn read_async(file: &UverbsFile, fd: BorrowedFd<'_>) -> Result<AsyncEvent> {
    let op = Op::GetAsyncEvent;
    let raw: ib_uverbs_async_event_desc = match file.read_event(op, fd) {
        Err(error) if error.kind() == ErrorKind::WouldBlock && file.has_no_more_events() => {
            return Err(Error::os(op, Errno::IO).with_kind(ErrorKind::DeviceRemoved));
        }
        read => read?,
    };
    let event = AsyncEventType::from_raw(raw.event_type);
    if event == AsyncEventType::DeviceFatal {
        file.set_fatal();
    }
    Ok(AsyncEvent {
        element: raw.element,
        event,
    })
}

/// A completion event: the queue was armed and has a completion.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct CompletionEvent {
    /// The user data of the completion queue.
    pub cq_user_handle: u64,
}

/// `ibv_get_cq_event`—reads one event from a completion channel.
///
/// One system call, which blocks if the file is blocking.
///
/// # Errors
/// As [`read_async`].
#[doc(alias = "ibv_get_cq_event")]
pub fn read_completion(file: &UverbsFile, fd: BorrowedFd<'_>) -> Result<CompletionEvent> {
    let event: ib_uverbs_comp_event_desc = file.read_event(Op::GetCompletionEvent, fd)?;
    Ok(CompletionEvent {
        cq_user_handle: event.cq_handle,
    })
}
