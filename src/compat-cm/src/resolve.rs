//! From a peer's address to a device and a path.
//!
//! # Safety
//!
//! Exports names of the library that this one stands for.
#![allow(unsafe_code, reason = "exports names")]

use std::ffi::{c_int, c_void};
use std::time::Duration;

use uverbs_core::cm;

use crate::answer::Answer;
use crate::failure::NO_DEVICE;
use crate::id::Id;
use crate::pointer::Handle;
use crate::{peer, wait};

/// Milliseconds of C; below 0 the longest time.
fn time(milliseconds: c_int) -> Duration {
    let milliseconds = u64::try_from(milliseconds);
    milliseconds.map_or(Duration::MAX, Duration::from_millis)
}

/// Starts to look for the device and the peer's link address.
pub(crate) fn address(
    id: &Id,
    source: *const c_void,
    destination: *const c_void,
    timeout: c_int,
) -> Answer<()> {
    let to = peer::read(destination)?;
    let from = peer::read_if_any(source)?;
    cm::resolve_address(&id.channel()?.file, id.number(), from, to, time(timeout))?;
    id.c.route.addr.dst_storage.set(peer::store(Some(to)));
    Ok(())
}

/// Starts to look for the path.
pub(crate) fn route(id: &Id, timeout: c_int) -> Answer<()> {
    if id.c.verbs.get().is_null() {
        return Err(NO_DEVICE);
    }
    Ok(cm::resolve_route(
        &id.channel()?.file,
        id.number(),
        time(timeout),
    )?)
}

#[unsafe(no_mangle)]
extern "C" fn rdma_resolve_addr(
    id: Handle<Id>,
    source: *const c_void,
    destination: *const c_void,
    timeout: c_int,
) -> c_int {
    wait::command(id, |id| address(id, source, destination, timeout))
}

#[unsafe(no_mangle)]
extern "C" fn rdma_resolve_route(id: Handle<Id>, timeout: c_int) -> c_int {
    wait::command(id, |id| route(id, timeout))
}
