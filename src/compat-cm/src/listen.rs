//! Local addresses, and listening.
//!
//! # Safety
//!
//! Exports names of the library that this one stands for.
#![allow(unsafe_code, reason = "exports names")]

use std::ffi::{c_int, c_void};

use uverbs_core::cm;

use crate::answer::{Answer, minus_one, or};
use crate::id::Id;
use crate::pointer::Handle;
use crate::{peer, query};

/// Gives an id its local address.
pub(crate) fn bind(id: &Id, address: *const c_void) -> Answer<()> {
    cm::bind(&id.channel()?.file, id.number(), peer::read(address)?)?;
    query::addresses(id)?;
    query::gids(id)
}

/// Has an id take requests.
pub(crate) fn start(id: &Id, backlog: u32) -> Answer<()> {
    cm::listen(&id.channel()?.file, id.number(), backlog)?;
    query::addresses(id)
}

#[unsafe(no_mangle)]
extern "C" fn rdma_bind_addr(id: Handle<Id>, address: *const c_void) -> c_int {
    minus_one(|| bind(id.get()?, address).map(|()| 0))
}

/// A backlog below 0 is as many requests as the system allows, like one of 0.
#[unsafe(no_mangle)]
extern "C" fn rdma_listen(id: Handle<Id>, backlog: c_int) -> c_int {
    minus_one(|| {
        start(id.get()?, u32::try_from(backlog).unwrap_or(0))?;
        Ok(0)
    })
}

#[unsafe(no_mangle)]
extern "C" fn rdma_get_src_port(id: Handle<Id>) -> u16 {
    or(0, || {
        Ok(peer::port(&id.get()?.c.route.addr.src_storage.get()))
    })
}

#[unsafe(no_mangle)]
extern "C" fn rdma_get_dst_port(id: Handle<Id>) -> u16 {
    or(0, || {
        Ok(peer::port(&id.get()?.c.route.addr.dst_storage.get()))
    })
}
