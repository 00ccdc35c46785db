//! Completion channels and their events.
//!
//! # Safety
//!
//! Exports names of the library that this one stands for. Events are read by the C library's
//! `read`, at which a thread may be cancelled: nothing is owned, and no lock is held, across it.
//! The C library then unwinds the frames of the thread, and the language ends the process if one of
//! them has a destructor or may catch. So functions that wait only call others that are not
//! inlined.
#![allow(unsafe_code, reason = "exports names; reads from a descriptor")]

use std::ffi::{c_int, c_void};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::sync::atomic::{AtomicI32, Ordering};

use uverbs_core::contract;

use crate::abi::{ibv_comp_channel, ibv_cq};
use crate::answer::{minus_one, number, pointer};
use crate::context::Context;
use crate::cq::Cq;
use crate::errno::{Code, set};
use crate::events;
use crate::pointer::{Handle, Object, Out};

/// A completion channel.
#[repr(C)]
pub(crate) struct Channel {
    c: ibv_comp_channel,
    fd: OwnedFd,
}

impl Object for Channel {
    type C = ibv_comp_channel;
}

impl Channel {
    /// Its descriptor.
    pub(crate) fn fd(&self) -> std::os::fd::BorrowedFd<'_> {
        std::os::fd::AsFd::as_fd(&self.fd)
    }

    /// Counts the completion queues that use it.
    pub(crate) fn count(&self, by: c_int) {
        self.c.refcnt.fetch_add(by, Ordering::AcqRel);
    }

    /// The context it is of.
    pub(crate) fn context(&self) -> Handle<Context> {
        Handle::of(self.c.context)
    }
}

#[unsafe(no_mangle)]
extern "C" fn ibv_create_comp_channel(context: Handle<Context>) -> *mut ibv_comp_channel {
    pointer(|| {
        let opened = context.get()?;
        let fd = contract::completion_channel(opened.file())?;
        opened.users.add();
        let channel = Channel {
            c: ibv_comp_channel {
                context: context.raw(),
                fd: fd.as_raw_fd(),
                refcnt: AtomicI32::new(0),
            },
            fd,
        };
        Ok(Channel::to_c(Box::into_raw(Box::new(channel))))
    })
}

/// Refused (EBUSY) while completion queues use it.
#[unsafe(no_mangle)]
extern "C" fn ibv_destroy_comp_channel(channel: Handle<Channel>) -> c_int {
    number(|| {
        let channel = channel.get()?;
        if channel.c.refcnt.load(Ordering::Acquire) != 0 {
            return Err(Code::BUSY);
        }
        channel.context().get()?.leave();
        channel.free();
        Ok(())
    })
}

/// Reads one event. A cancellation point: nothing here has a destructor.
pub(crate) extern "C" fn read_event(fd: c_int, event: *mut u64, words: usize) -> bool {
    let size = words * size_of::<u64>();
    // SAFETY: the caller has a buffer of this many words.
    let count = unsafe { libc::read(fd, event.cast::<c_void>(), size) };
    usize::try_from(count).is_ok_and(|count| count == size)
}

/// Reads what there is, into the program's memory; the number of bytes, or -1 with errno. A
/// cancellation point, as above.
pub(crate) extern "C" fn read_bytes(fd: c_int, into: *mut c_void, room: usize) -> isize {
    // SAFETY: the program says that there is room for this many bytes.
    unsafe { libc::read(fd, into, room) }
}

#[unsafe(no_mangle)]
extern "C" fn ibv_get_cq_event(
    channel: Handle<Channel>,
    cq: Out<*mut ibv_cq>,
    cq_context: Out<*mut c_void>,
) -> c_int {
    let Ok(channel) = channel.get() else {
        set(Code::INVALID);
        return -1;
    };
    let mut cookie = 0_u64;
    if !read_event(channel.c.fd, &raw mut cookie, 1) {
        return -1;
    }
    deliver(cookie, cq, cq_context)
}

#[inline(never)]
extern "C" fn deliver(cookie: u64, cq: Out<*mut ibv_cq>, cq_context: Out<*mut c_void>) -> c_int {
    minus_one(|| {
        let found = events::find(cookie).ok_or(Code::new(libc::EIO))?;
        let queue = found.pointer.cast::<ibv_cq>();
        found.count();
        let own = Handle::<Cq>::of(queue).get()?;
        cq.put(queue)?;
        cq_context.put(own.cq_context())?;
        Ok(0)
    })
}

#[unsafe(no_mangle)]
extern "C" fn ibv_ack_cq_events(cq: Handle<Cq>, events: u32) {
    if let Ok(queue) = cq.get() {
        queue.acknowledge(events);
    }
}
