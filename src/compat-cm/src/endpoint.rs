//! Synchronous ids that are made in one step, from the result of a look-up.
//!
//! # Safety
//!
//! Exports names of the library that this one stands for.
//!
//! As in `wait`, the functions that wait have no destructors, and what may panic is elsewhere.
#![allow(unsafe_code, reason = "exports names")]

use std::ffi::c_int;

use uverbs_compat_base::abi::{ibv_pd, ibv_qp_init_attr};

use crate::abi::{rdma_addrinfo, rdma_cm_event, rdma_cm_id};
use crate::addrinfo::PASSIVE;
use crate::answer::{Answer, minus_one, or};
use crate::errno::{Code, set};
use crate::event::{self, Event};
use crate::id::{self, Id};
use crate::pointer::{Handle, In, Out, items};
use crate::{events, listen, option, qp, resolve, srq, wait};

/// How long to look for an address, and for a path, in milliseconds.
const TIMEOUT: c_int = 2000;

/// Makes an id: of a listener, or one that has found its peer. Its queue pair is made, too, or with
/// each request, if there are attributes for it.
#[unsafe(no_mangle)]
extern "C" fn rdma_create_ep(
    into: Out<*mut rdma_cm_id>,
    found: In<rdma_addrinfo>,
    pd: *mut ibv_pd,
    attr: Out<ibv_qp_init_attr>,
) -> c_int {
    let mut id = Handle::of(std::ptr::null_mut());
    if begin(into, found, &mut id) != 0 {
        return -1;
    }
    if make(id, found, pd, attr) != 0 {
        abandon(id);
        return -1;
    }
    into.put_if_any(id.raw());
    0
}

#[inline(never)]
extern "C" fn begin(
    into: Out<*mut rdma_cm_id>,
    found: In<rdma_addrinfo>,
    id: &mut Handle<Id>,
) -> c_int {
    minus_one(|| {
        into.get()?;
        let found = found.get()?;
        let [space, kind] = [found.ai_port_space, found.ai_qp_type].map(c_int::cast_unsigned);
        let none = std::ptr::null_mut();
        *id = id::create(Handle::of(none), none.cast(), space, kind)?;
        Ok(0)
    })
}

extern "C" fn make(
    id: Handle<Id>,
    found: In<rdma_addrinfo>,
    pd: *mut ibv_pd,
    attr: Out<ibv_qp_init_attr>,
) -> c_int {
    if is_passive(found) {
        return listener(id, found, pd, attr);
    }
    if wait::command(id, |id| address(id, found)) != 0 {
        return -1;
    }
    if wait::command(id, |id| route(id, found)) != 0 {
        return -1;
    }
    queue_pair(id, found, pd, attr)
}

#[inline(never)]
extern "C" fn is_passive(found: In<rdma_addrinfo>) -> bool {
    found.get().is_ok_and(|found| found.ai_flags & PASSIVE != 0)
}

#[inline(never)]
extern "C" fn listener(
    id: Handle<Id>,
    found: In<rdma_addrinfo>,
    pd: *mut ibv_pd,
    attr: Out<ibv_qp_init_attr>,
) -> c_int {
    minus_one(|| {
        let (id, found) = (id.get()?, found.get()?);
        listen::bind(id, found.ai_src_addr)?;
        if !pd.is_null() {
            id.c.pd.set(pd);
        }
        if let Ok(attr) = attr.get() {
            let mut attr = *attr;
            attr.qp_type = found.ai_qp_type.cast_unsigned();
            id.state().qp_init = Some(attr);
        }
        Ok(0)
    })
}

fn address(id: &Id, found: In<rdma_addrinfo>) -> Answer<()> {
    let found = found.get()?;
    resolve::address(id, found.ai_src_addr, found.ai_dst_addr, TIMEOUT)
}

/// A path that the look-up has found, or one to be looked for.
fn route(id: &Id, found: In<rdma_addrinfo>) -> Answer<()> {
    const LEVEL: c_int = 1;
    const PATH: c_int = 1;
    let found = found.get()?;
    match found.ai_route_len {
        0 => resolve::route(id, TIMEOUT),
        length => option::set(id, LEVEL, PATH, found.ai_route, length),
    }
}

#[inline(never)]
extern "C" fn queue_pair(
    id: Handle<Id>,
    found: In<rdma_addrinfo>,
    pd: *mut ibv_pd,
    attr: Out<ibv_qp_init_attr>,
) -> c_int {
    minus_one(|| {
        let (id, found) = (id.get()?, found.get()?);
        if let Ok(attr) = attr.get() {
            attr.qp_type = found.ai_qp_type.cast_unsigned();
            qp::create(id, pd, attr)?;
        }
        let header = items(
            found.ai_connect.cast::<u8>().cast_const(),
            found.ai_connect_len,
        )?;
        id.state().connect_header = header.to_vec();
        Ok(0)
    })
}

/// Destroys what was made so far; `errno` stays.
#[inline(never)]
extern "C" fn abandon(id: Handle<Id>) {
    let code = Code::last();
    rdma_destroy_ep(id);
    set(code);
}

#[unsafe(no_mangle)]
extern "C" fn rdma_destroy_ep(handle: Handle<Id>) {
    or((), || {
        let id = handle.get()?;
        if !id.c.qp.get().is_null() {
            qp::destroy(id);
        }
        if !id.c.srq.get().is_null() {
            srq::destroy(id);
        }
        id::destroy(handle)
    });
}

/// Waits for the next request of a synchronous listener.
#[unsafe(no_mangle)]
extern "C" fn rdma_get_request(listener: Handle<Id>, into: Out<*mut rdma_cm_id>) -> c_int {
    if listens(listener, into) != 0 {
        return -1;
    }
    let mut event: *mut rdma_cm_event = std::ptr::null_mut();
    if events::next(wait::channel_of(listener), &mut event) != 0 {
        return -1;
    }
    requested(listener, event, into)
}

#[inline(never)]
extern "C" fn listens(listener: Handle<Id>, into: Out<*mut rdma_cm_id>) -> c_int {
    minus_one(|| {
        into.get()?;
        let listener = listener.get()?;
        if !listener.state().is_synchronous {
            return Err(Code::INVALID);
        }
        listener.drop_event();
        Ok(0)
    })
}

#[inline(never)]
extern "C" fn requested(
    listener: Handle<Id>,
    event: *mut rdma_cm_event,
    into: Out<*mut rdma_cm_id>,
) -> c_int {
    minus_one(|| {
        let listener = listener.get()?;
        let new = match wait::request(event) {
            Ok(new) => new,
            Err(code) => {
                listener.c.event.set(event);
                return Err(code);
            }
        };
        let template = listener.state().qp_init;
        if let Some(mut attr) = template
            && let Err(code) = qp::create(new.get()?, listener.c.pd.get(), &mut attr)
        {
            // Nobody knows the new id, so nobody else can refuse its peer.
            id::destroy(new)?;
            event::acknowledge(Handle::<Event>::of(event))?;
            return Err(code);
        }
        new.get()?.c.event.set(event);
        into.put(new.raw())?;
        Ok(0)
    })
}
