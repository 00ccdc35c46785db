//! Events from the kernel: which id they are for, and what this library does before the program
//! gets them.
//!
//! # Safety
//!
//! Exports names of the library that this one stands for.
#![allow(unsafe_code, reason = "exports names")]

use std::ffi::c_int;

use uverbs_core::cm::raw::rdma_ucm_event_resp;
use uverbs_core::cm::{self, EventKind};
use uverbs_core::types::Ece;

use crate::abi::rdma_cm_event;
use crate::answer::{Answer, minus_one};
use crate::channel::{self, Channel};
use crate::errno::{Code, set};
use crate::event::{Event, kind};
use crate::failure::{NO_DEVICE, status};
use crate::id::{self, Id};
use crate::multicast::{self, Join};
use crate::pointer::{Handle, Out};
use crate::table::{Owner, Target, find};
use crate::{qp_state, query};

/// An event was taken, but the program gets none.
const NOTHING: c_int = 1;

/// Waits for the next event: 0, or -1 with errno.
///
/// A thread may be cancelled while it waits. Then the C library unwinds its frames, which must not
/// come to one that catches: nothing has a destructor here, and what may panic is elsewhere.
pub(crate) extern "C" fn next(channel: Handle<Channel>, into: &mut *mut rdma_cm_event) -> c_int {
    let fd = channel::descriptor(channel);
    if fd < 0 {
        return -1;
    }
    loop {
        let mut raw = rdma_ucm_event_resp::default();
        if !channel::read_event(fd, &raw mut raw) {
            return -1;
        }
        let done = take(channel, &raw, into);
        if done != NOTHING {
            return done;
        }
    }
}

#[inline(never)]
extern "C" fn take(
    channel: Handle<Channel>,
    raw: &rdma_ucm_event_resp,
    into: &mut *mut rdma_cm_event,
) -> c_int {
    minus_one(|| match deliver(channel, raw)? {
        Some(event) => {
            *into = event.leak();
            Ok(0)
        }
        None => Ok(NOTHING),
    })
}

#[unsafe(no_mangle)]
extern "C" fn rdma_get_cm_event(channel: Handle<Channel>, into: Out<*mut rdma_cm_event>) -> c_int {
    let Ok(into) = into.get() else {
        set(Code::INVALID);
        return -1;
    };
    next(channel, into)
}

/// Finds out whom an event is for, and what it means for them.
fn deliver(channel: Handle<Channel>, raw: &rdma_ucm_event_resp) -> Answer<Option<Box<Event>>> {
    match (find(raw.uid), kind(raw)) {
        (Some(Target::Join(owner, join)), kind) if kind.is_of_multicast() => {
            Ok(Some(of_group(owner, join, raw)?))
        }
        (Some(Target::Id(owner)), EventKind::ConnectRequest) => request(owner, raw),
        (Some(Target::Id(owner)), kind) if !kind.is_of_multicast() => of_id(owner, kind, raw),
        (_, EventKind::ConnectRequest) => {
            // Its listener is gone: nobody else would ever destroy the new id.
            let _ = cm::destroy_id(&channel.get()?.file, raw.id);
            Ok(None)
        }
        _ => Ok(None),
    }
}

fn ece(raw: &rdma_ucm_event_resp) -> Ece {
    Ece {
        vendor_id: raw.ece.vendor_id,
        options: raw.ece.attr_mod,
        comp_mask: 0,
    }
}

/// An event of an id.
fn of_id(owner: Owner, kind: EventKind, raw: &rdma_ucm_event_resp) -> Answer<Option<Box<Event>>> {
    let handle = owner.id();
    let id = handle.get()?;
    let ends = matches!(kind, EventKind::Rejected | EventKind::Disconnected);
    if ends && id.state().has_failed {
        // The program knows already.
        owner.shared.acknowledge();
        return Ok(None);
    }
    let mut event = Event::new(owner, raw, id.is_datagram());
    let (done, otherwise) = match kind {
        EventKind::AddressResolved => (address_resolved(id), EventKind::AddressError),
        EventKind::RouteResolved => (query::paths(id), EventKind::RouteError),
        EventKind::ConnectResponse if id.c.qp.get().is_null() => {
            id.state().remote_ece = ece(raw);
            (Ok(()), kind)
        }
        EventKind::ConnectResponse => {
            let done = qp_state::answered(id, ece(raw));
            if done.is_ok() {
                event.c.event = EventKind::Established.raw();
            } else {
                id.state().has_failed = true;
            }
            (done, EventKind::ConnectError)
        }
        EventKind::Rejected => {
            let _ = qp_state::to_error(id);
            (Ok(()), kind)
        }
        EventKind::User => {
            event.c.param.arg = argument(raw);
            (Ok(()), kind)
        }
        _ => (Ok(()), kind),
    };
    if let Err(code) = done {
        event.c.event = otherwise.raw();
        event.c.status = status(code);
    }
    Ok(Some(event))
}

/// What a program wrote into an event of its own.
fn argument(raw: &rdma_ucm_event_resp) -> u64 {
    cm::decode_event(raw).map_or(0, |event| event.argument())
}

fn address_resolved(id: &Id) -> Answer<()> {
    query::addresses(id)?;
    if id.c.verbs.get().is_null() {
        return Err(NO_DEVICE);
    }
    query::gids(id)
}

/// A request: the program gets a new id, on the listener's channel.
fn request(owner: Owner, raw: &rdma_ucm_event_resp) -> Answer<Option<Box<Event>>> {
    let handle = owner.id();
    let listener = handle.get()?;
    let new = Id::new(
        listener.channel_handle(),
        listener.c.context.get(),
        listener.c.ps,
        listener.c.qp_type,
    );
    let id = new.get()?;
    id.set_number(raw.id);
    let mut event = Event::new(owner, raw, listener.is_datagram());
    if !listener.is_datagram() {
        let asked = event.connection();
        let mut state = id.state();
        state.initiator_depth = asked.initiator_depth;
        state.responder_resources = asked.responder_resources;
        state.remote_ece = ece(raw);
    }
    if prepare(listener, id).is_err() {
        // As if it had not come: the peer is refused.
        let _ = id::destroy(new);
        event.count();
        return Ok(None);
    }
    event.c.listen_id = handle.raw();
    event.c.id = new.raw();
    Ok(Some(event))
}

fn prepare(listener: &Id, id: &Id) -> Answer<()> {
    if listener.state().is_synchronous {
        id::migrate(id, Handle::of(std::ptr::null_mut()))?;
    }
    query::addresses(id)?;
    query::gids(id)?;
    query::paths(id)
}

/// An event of a group that an id has joined, or tried to.
fn of_group(
    owner: Owner,
    join: std::sync::Arc<Join>,
    raw: &rdma_ucm_event_resp,
) -> Answer<Box<Event>> {
    let handle = owner.id();
    let id = handle.get()?;
    let mut event = Event::new(owner, raw, true);
    event.carry(join.context());
    if kind(raw) == EventKind::MulticastJoin
        && let Err(code) = multicast::joined(id, &join, &event.datagram().ah_attr)
    {
        event.c.event = EventKind::MulticastError.raw();
        event.c.status = status(code);
    }
    event.join = Some(join);
    Ok(event)
}
