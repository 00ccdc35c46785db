//! The functions of `rdma/rsocket.h`: of sockets here, what is sent and received in `data`, and
//! waiting in `waits`.
//!
//! # Safety
//!
//! Exports names of the library that this one stands for.
#![allow(unsafe_code, reason = "exports names")]

use std::ffi::{c_int, c_void};

use super::calls;
use super::sleep::uncancelled;
use crate::answer::{Answer, minus_one, or};
use crate::errno::{Code, set};
use crate::pointer::{Out, items, items_mut};

/// Functions whose bodies are what is done, and how they return it.
macro_rules! functions {
    ($(
        $(#[$meta:meta])*
        $how:ident $name:ident($($arg:ident: $kind:ty),* $(,)?) -> $out:ty $body:block
    )*) => {$(
        $(#[$meta])*
        #[unsafe(no_mangle)]
        extern "C" fn $name($($arg: $kind),*) -> $out {
            $how(|| $body)
        }
    )*};
}

mod data;
mod waits;

/// A number, or -1 with errno. No thread is cancelled in it.
fn number(body: impl FnOnce() -> Answer<c_int>) -> c_int {
    uncancelled(|| minus_one(body))
}

/// 0, or the same.
fn nothing(body: impl FnOnce() -> Answer<()>) -> c_int {
    number(|| body().map(|()| 0))
}

/// A place in a file, or the same.
fn place(body: impl FnOnce() -> Answer<i64>) -> i64 {
    uncancelled(|| or(-1, || body().inspect_err(|code| set(*code))))
}

/// A number of bytes, or the same.
fn size(body: impl FnOnce() -> Answer<usize>) -> isize {
    let count = place(|| Ok(i64::try_from(body()?).unwrap_or(i64::MAX)));
    isize::try_from(count).unwrap_or(isize::MAX)
}

functions! {
    number rsocket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
        calls::open(domain, kind, protocol)
    }

    nothing rbind(socket: c_int, address: *const u8, length: u32) -> c_int {
        calls::bind(socket, items(address, length as usize)?)
    }

    nothing rlisten(socket: c_int, backlog: c_int) -> c_int {
        calls::listen(socket, backlog)
    }

    number raccept(socket: c_int, address: *mut u8, length: Out<u32>) -> c_int {
        let (new, peer) = calls::accept(socket)?;
        if !address.is_null() {
            let _ = put_address(&peer, address, length);
        }
        Ok(new)
    }

    nothing rconnect(socket: c_int, address: *const u8, length: u32) -> c_int {
        calls::connect(socket, items(address, length as usize)?)
    }

    nothing rshutdown(socket: c_int, how: c_int) -> c_int {
        calls::shutdown(socket, how)
    }

    nothing rclose(socket: c_int) -> c_int {
        calls::close(socket)
    }

    nothing rgetpeername(socket: c_int, address: *mut u8, length: Out<u32>) -> c_int {
        put_address(&calls::peer_name(socket)?, address, length)
    }

    nothing rgetsockname(socket: c_int, address: *mut u8, length: Out<u32>) -> c_int {
        put_address(&calls::own_name(socket)?, address, length)
    }

    nothing rsetsockopt(
        socket: c_int,
        level: c_int,
        name: c_int,
        value: *const u8,
        length: u32,
    ) -> c_int {
        calls::set_option(socket, level, name, items(value, length as usize)?)
    }

    nothing rgetsockopt(
        socket: c_int,
        level: c_int,
        name: c_int,
        value: *mut u8,
        length: Out<u32>,
    ) -> c_int {
        put_bytes(&calls::option(socket, level, name)?, value, length).map(drop)
    }

    /// The third argument is there if the command takes one, in the place of any other.
    number rfcntl(socket: c_int, command: c_int, argument: c_int) -> c_int {
        calls::control(socket, command, argument)
    }

    /// Memory that the peer may write into if `protection` says so.
    place riomap(
        socket: c_int,
        start: *mut c_void,
        length: usize,
        protection: c_int,
        _flags: c_int,
        offset: i64,
    ) -> i64 {
        let place = (start.expose_provenance(), length);
        calls::map(socket, place, protection, offset)
    }

    nothing riounmap(socket: c_int, start: *mut c_void, length: usize) -> c_int {
        calls::unmap(socket, start.addr(), length)
    }
}

fn many(count: impl TryInto<usize>) -> Answer<usize> {
    count.try_into().map_err(|_| Code::INVALID)
}

/// Writes as much as there is room for: how many bytes.
fn put_bytes(bytes: &[u8], to: *mut u8, length: Out<u32>) -> Answer<usize> {
    let room = length.get()?;
    let count = bytes.len().min(*room as usize);
    for (to, from) in items_mut(to, count)?.iter_mut().zip(bytes) {
        *to = *from;
    }
    *room = u32::try_from(count).unwrap_or(u32::MAX);
    Ok(count)
}

/// An address; its length is what it has, also if there is less room.
fn put_address(address: &[u8], to: *mut u8, length: Out<u32>) -> Answer<()> {
    put_bytes(address, to, length)?;
    length.put(u32::try_from(address.len()).unwrap_or(u32::MAX))
}
