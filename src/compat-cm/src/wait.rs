//! Functions of synchronous ids wait for their event. It stays with the id, where the program may
//! read it, until the next one.
//!
//! A thread may be cancelled while it waits. Then the C library unwinds its frames, which must not
//! come to one that catches: in the functions that wait nothing has a destructor, and what may
//! panic is in others, which are not merged with them.

use std::ffi::c_int;

use uverbs_core::cm::EventKind;

use crate::abi::rdma_cm_event;
use crate::answer::{Answer, minus_one};
use crate::channel::Channel;
use crate::errno::Code;
use crate::events;
use crate::failure::{REFUSED, of_status};
use crate::id::Id;
use crate::pointer::{Handle, In};

/// What [`start`] returns if an event is to be waited for.
const WAITS: c_int = 1;

/// Carries out a command, and waits for its event if the id is synchronous: 0, or -1 with errno.
pub(crate) extern "C" fn command<F>(id: Handle<Id>, command: F) -> c_int
where
    F: FnOnce(&Id) -> Answer<()> + Copy,
{
    let done = start(id, command);
    if done != WAITS {
        return done;
    }
    event(id)
}

#[inline(never)]
extern "C" fn start<F: FnOnce(&Id) -> Answer<()>>(id: Handle<Id>, command: F) -> c_int {
    minus_one(|| {
        let own = id.get()?;
        command(own)?;
        if !own.state().is_synchronous {
            return Ok(0);
        }
        own.drop_event();
        Ok(WAITS)
    })
}

/// Waits for the next event of a synchronous id: 0 if it is a success, else -1 with errno.
pub(crate) extern "C" fn event(id: Handle<Id>) -> c_int {
    let mut event: *mut rdma_cm_event = std::ptr::null_mut();
    if events::next(channel_of(id), &mut event) != 0 {
        return -1;
    }
    keep(id, event)
}

#[inline(never)]
pub(crate) extern "C" fn channel_of(id: Handle<Id>) -> Handle<Channel> {
    let none = Handle::of(std::ptr::null_mut());
    id.get().map_or(none, Id::channel_handle)
}

#[inline(never)]
extern "C" fn keep(id: Handle<Id>, event: *mut rdma_cm_event) -> c_int {
    minus_one(|| {
        id.get()?.c.event.set(event);
        outcome(In::of(event)).map(|()| 0)
    })
}

/// The error that an event stands for.
pub(crate) fn outcome(event: In<rdma_cm_event>) -> Answer<()> {
    let event = event.get()?;
    match event.status {
        0 => Ok(()),
        _ if EventKind::from_raw(event.event) == EventKind::Rejected => Err(REFUSED),
        status => Err(of_status(status)),
    }
}

/// The id of the request that a synchronous listener has got; other events are errors.
pub(crate) fn request(event: *mut rdma_cm_event) -> Answer<Handle<Id>> {
    outcome(In::of(event))?;
    let event = In::of(event).get()?;
    if EventKind::from_raw(event.event) != EventKind::ConnectRequest {
        return Err(Code::INVALID);
    }
    Ok(Handle::of(event.id))
}
