//! `mlx5dv_devx_…`: replies of commands that are not waited for, and events of firmware objects.
//! Both arrive through descriptors that programs may wait on.
//!
//! # Safety
//!
//! Exports names of the library that this one stands for. Descriptors of the program are open
//! during a call, and there is room for as many bytes as it says, as the C interface demands.
#![allow(unsafe_code, reason = "exports names; borrows a program's descriptor")]

use std::ffi::{c_int, c_void};
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd};

use uverbs_mlx5::devx::{EventChannel, EventType, QueryReplies};
use uverbs_mlx5::prm::Mailbox;

use super::abi::{mlx5dv_devx_cmd_comp, mlx5dv_devx_event_channel};
use super::devx::{Made, firmware};
use super::held::Held;
use crate::answer::{Answer, number, pointer};
use crate::channel::read_bytes;
use crate::context::Context;
use crate::errno::{Code, set};
use crate::pointer::{Handle, items};

type Replies = Held<mlx5dv_devx_cmd_comp, QueryReplies>;
type Events = Held<mlx5dv_devx_event_channel, EventChannel>;

/// The number in front of each reply and each event.
const NUMBER: usize = size_of::<u64>();

#[unsafe(no_mangle)]
extern "C" fn mlx5dv_devx_create_cmd_comp(context: Handle<Context>) -> *mut mlx5dv_devx_cmd_comp {
    pointer(|| {
        let replies = firmware(context)?.query_replies()?;
        let fd = replies.as_fd().as_raw_fd();
        Replies::give(context, mlx5dv_devx_cmd_comp { fd }, replies)
    })
}

#[unsafe(no_mangle)]
extern "C" fn mlx5dv_devx_destroy_cmd_comp(replies: Handle<Replies>) {
    number(|| {
        replies.get()?.end(|replies| {
            drop(replies);
            Ok(())
        })
    });
}

#[unsafe(no_mangle)]
extern "C" fn mlx5dv_devx_obj_query_async(
    made: Handle<Made>,
    input: *const c_void,
    input_length: usize,
    output_length: usize,
    id: u64,
    replies: Handle<Replies>,
) -> c_int {
    number(|| {
        let command = Mailbox::from(items(input.cast::<u8>(), input_length)?.to_vec());
        let length = u16::try_from(output_length).map_err(|_| Code::INVALID)?;
        let replies = replies.get()?;
        made.get()?.with(|made| {
            replies.with(|replies| Ok(made.query_async(replies, &command, length, id)?))
        })
    })
}

/// The number of the query, then its reply.
#[unsafe(no_mangle)]
extern "C" fn mlx5dv_devx_get_async_cmd_comp(
    replies: Handle<Replies>,
    into: *mut c_void,
    room: usize,
) -> c_int {
    let Ok(held) = replies.get() else {
        set(Code::INVALID);
        return Code::INVALID.number();
    };
    whether_read(read_bytes(held.c().fd, into, room))
}

/// Apart from the function that waits: see [`crate::channel`].
#[inline(never)]
extern "C" fn whether_read(count: isize) -> c_int {
    number(|| match usize::try_from(count) {
        Ok(count) if count >= NUMBER => Ok(()),
        Ok(_) => Err(Code::INVALID),
        Err(_) => Err(Code::last()),
    })
}

/// `MLX5DV_DEVX_CREATE_EVENT_CHANNEL_FLAGS_OMIT_EV_DATA`.
const OMIT_DATA: c_int = 1;

#[unsafe(no_mangle)]
extern "C" fn mlx5dv_devx_create_event_channel(
    context: Handle<Context>,
    flags: c_int,
) -> *mut mlx5dv_devx_event_channel {
    pointer(|| {
        if flags & !OMIT_DATA != 0 {
            return Err(Code::INVALID);
        }
        let events = firmware(context)?.event_channel(flags & OMIT_DATA != 0)?;
        let fd = events.as_fd().as_raw_fd();
        Events::give(context, mlx5dv_devx_event_channel { fd }, events)
    })
}

#[unsafe(no_mangle)]
extern "C" fn mlx5dv_devx_destroy_event_channel(events: Handle<Events>) {
    number(|| {
        events.get()?.end(|events| {
            drop(events);
            Ok(())
        })
    });
}

/// Subscribes to events of an object, or of the device.
fn subscribe(
    events: Handle<Events>,
    made: Handle<Made>,
    by: impl Fn(&EventChannel, Option<&uverbs_mlx5::devx::DevxObject>) -> uverbs_core::Result<()>,
) -> Answer<()> {
    events.get()?.with(|events| match made.optional() {
        Some(made) => made.with(|made| Ok(by(events, Some(made))?)),
        None => Ok(by(events, None)?),
    })
}

#[unsafe(no_mangle)]
extern "C" fn mlx5dv_devx_subscribe_devx_event(
    events: Handle<Events>,
    made: Handle<Made>,
    bytes: u16,
    kinds: *const u16,
    cookie: u64,
) -> c_int {
    number(|| {
        let kinds = items(kinds, usize::from(bytes) / size_of::<u16>())?;
        let kinds: Vec<_> = kinds.iter().map(|raw| EventType::from_raw(*raw)).collect();
        subscribe(events, made, |events, made| {
            events.subscribe(made, &kinds, cookie)
        })
    })
}

#[unsafe(no_mangle)]
extern "C" fn mlx5dv_devx_subscribe_devx_event_fd(
    events: Handle<Events>,
    fd: c_int,
    made: Handle<Made>,
    kind: u16,
) -> c_int {
    number(|| {
        if fd < 0 {
            return Err(Code::new(libc::EBADF));
        }
        // SAFETY: not -1; the program keeps it open during the call.
        let fd = unsafe { BorrowedFd::borrow_raw(fd) };
        let kinds = [EventType::from_raw(kind)];
        subscribe(events, made, |events, made| {
            events.subscribe_eventfd(made, &kinds, fd)
        })
    })
}

/// The number of bytes: the subscriber's number, then the event, unless the channel omits it.
#[unsafe(no_mangle)]
extern "C" fn mlx5dv_devx_get_event(
    events: Handle<Events>,
    into: *mut c_void,
    room: usize,
) -> isize {
    let Ok(held) = events.get() else {
        set(Code::INVALID);
        return -1;
    };
    let count = read_bytes(held.c().fd, into, room);
    if usize::try_from(count).is_ok_and(|count| count < NUMBER) {
        set(Code::INVALID);
        return -1;
    }
    count
}
