//! Event channels.
//!
//! # Safety
//!
//! Exports names of the library that this one stands for. Events are read by the C library's
//! `write`, at which a thread may be cancelled: nothing is owned, and no lock is held, across it.
//! Its command names memory of the caller, which has room for the reply.
#![allow(
    unsafe_code,
    reason = "exports names; writes a command to a descriptor"
)]

use std::ffi::c_int;
use std::os::fd::AsRawFd as _;

use uverbs_core::cm::raw::{
    RDMA_USER_CM_CMD_GET_EVENT, rdma_ucm_cmd_hdr, rdma_ucm_event_resp, rdma_ucm_get_event,
};
use uverbs_core::cm::{self, CmFile};
use uverbs_core::discover::Options;

use crate::abi::rdma_event_channel;
use crate::answer::{Answer, or, pointer};
use crate::device;
use crate::errno::{Code, set};
use crate::pointer::{Handle, Object};

/// An event channel: an opened connection manager.
#[repr(C)]
pub(crate) struct Channel {
    c: rdma_event_channel,
    pub(crate) file: CmFile,
}

impl Object for Channel {
    type C = rdma_event_channel;
}

/// A request for an event, with its header.
#[repr(C)]
struct Request {
    header: rdma_ucm_cmd_hdr,
    body: rdma_ucm_get_event,
}

/// Bytes of a request after its header, and of its reply.
const LENGTH: u16 = 8;
const ROOM: u16 = 336;

const _: () = {
    assert!(size_of::<rdma_ucm_get_event>() == LENGTH as usize);
    assert!(size_of::<rdma_ucm_event_resp>() == ROOM as usize);
};

/// Opens a channel. Its descriptor blocks; programs may change that.
pub(crate) fn open() -> Answer<Handle<Channel>> {
    device::some()?;
    let file = cm::open(&Options::default())?;
    // SAFETY: (1) what is written to it is a request for an event, with room for the reply.
    let fd = unsafe { file.event_fd() }.as_raw_fd();
    let channel = Channel {
        c: rdma_event_channel { fd },
        file,
    };
    Ok(Handle::of(Channel::to_c(Box::into_raw(Box::new(channel)))))
}

/// Closes a channel.
pub(crate) fn close(channel: Handle<Channel>) -> Answer<()> {
    channel.get()?.free();
    Ok(())
}

/// The descriptor of a channel, -1 with errno for NULL.
#[inline(never)]
pub(crate) extern "C" fn descriptor(channel: Handle<Channel>) -> c_int {
    channel.get().map_or_else(
        |code| {
            set(code);
            -1
        },
        |channel| channel.c.fd,
    )
}

/// Reads an event, with the number of its id, or waits for one; false with errno. A cancellation
/// point: nothing here has a destructor. It ends with EINTR after a signal, and with EAGAIN if the
/// program has made the descriptor non-blocking.
pub(crate) extern "C" fn read_event(fd: c_int, into: *mut rdma_ucm_event_resp) -> bool {
    let request = Request {
        header: rdma_ucm_cmd_hdr {
            cmd: RDMA_USER_CM_CMD_GET_EVENT,
            r#in: LENGTH,
            out: ROOM,
        },
        body: rdma_ucm_get_event {
            response: into.expose_provenance() as u64,
        },
    };
    let size = size_of::<Request>();
    // SAFETY: the request is as long as that, and the kernel writes at most `ROOM` bytes to `into`.
    let written = unsafe { libc::write(fd, (&raw const request).cast(), size) };
    if written >= 0 && usize::try_from(written) != Ok(size) {
        set(Code::NO_DATA);
    }
    usize::try_from(written) == Ok(size)
}

#[unsafe(no_mangle)]
extern "C" fn rdma_create_event_channel() -> *mut rdma_event_channel {
    pointer(|| Ok(open()?.raw()))
}

#[unsafe(no_mangle)]
extern "C" fn rdma_destroy_event_channel(channel: Handle<Channel>) {
    or((), || close(channel));
}
