//! Sockets, their addresses and options, and memory that peers write into.
//!
//! # Safety
//!
//! Exports names of the library that this one stands for.
#![allow(unsafe_code, reason = "exports names")]

use std::ffi::{c_int, c_void};

use super::super::calls;
use super::{nothing, number, place, put_address, put_bytes};
use crate::pointer::{Out, items};

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
