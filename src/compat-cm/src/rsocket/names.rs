//! The functions of `rdma/rsocket.h`.
//!
//! # Safety
//!
//! Exports names of the library that this one stands for.
#![allow(unsafe_code, reason = "exports names")]

use std::ffi::{c_int, c_void};

use super::select::words;
use super::sleep::uncancelled;
use super::{calls, poll, select};
use crate::answer::{Answer, minus_one, or};
use crate::errno::Code;
use crate::pointer::{In, Out, items, items_mut};

/// A function that returns a number, or -1 with errno. No thread is cancelled in it.
fn number(body: impl FnOnce() -> Answer<c_int>) -> c_int {
    uncancelled(|| minus_one(body))
}

fn nothing(body: impl FnOnce() -> Answer<()>) -> c_int {
    number(|| body().map(|()| 0))
}

/// The same for a number of bytes.
fn size(body: impl FnOnce() -> Answer<usize>) -> isize {
    let body = || {
        body()
            .map(|count| isize::try_from(count).unwrap_or(isize::MAX))
            .inspect_err(|code| crate::errno::set(*code))
    };
    uncancelled(|| or(-1, body))
}

#[unsafe(no_mangle)]
extern "C" fn rsocket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    number(|| calls::open(domain, kind, protocol))
}

#[unsafe(no_mangle)]
extern "C" fn rbind(socket: c_int, address: *const c_void, length: u32) -> c_int {
    nothing(|| calls::bind(socket, items(address.cast(), length as usize)?))
}

#[unsafe(no_mangle)]
extern "C" fn rlisten(socket: c_int, backlog: c_int) -> c_int {
    nothing(|| calls::listen(socket, backlog))
}

#[unsafe(no_mangle)]
extern "C" fn raccept(socket: c_int, address: *mut u8, length: Out<u32>) -> c_int {
    number(|| {
        let (new, peer) = calls::accept(socket)?;
        if !address.is_null() {
            let _ = put_address(&peer, address, length);
        }
        Ok(new)
    })
}

#[unsafe(no_mangle)]
extern "C" fn rconnect(socket: c_int, address: *const c_void, length: u32) -> c_int {
    nothing(|| calls::connect(socket, items(address.cast(), length as usize)?))
}

#[unsafe(no_mangle)]
extern "C" fn rshutdown(socket: c_int, how: c_int) -> c_int {
    nothing(|| calls::shutdown(socket, how))
}

#[unsafe(no_mangle)]
extern "C" fn rclose(socket: c_int) -> c_int {
    nothing(|| calls::close(socket))
}

#[unsafe(no_mangle)]
extern "C" fn rrecv(socket: c_int, bytes: *mut u8, length: usize, flags: c_int) -> isize {
    size(|| calls::receive(socket, &mut [items_mut(bytes, length)?], flags))
}

#[unsafe(no_mangle)]
extern "C" fn rread(socket: c_int, bytes: *mut u8, length: usize) -> isize {
    rrecv(socket, bytes, length, 0)
}

#[unsafe(no_mangle)]
extern "C" fn rrecvfrom(
    socket: c_int,
    bytes: *mut u8,
    length: usize,
    flags: c_int,
    address: *mut u8,
    address_length: Out<u32>,
) -> isize {
    size(|| {
        let (count, source) = calls::receive_from(socket, items_mut(bytes, length)?, flags)?;
        if !source.is_empty() && !address.is_null() {
            put_address(&source, address, address_length)?;
        }
        Ok(count)
    })
}

#[unsafe(no_mangle)]
extern "C" fn rrecvmsg(socket: c_int, message: In<libc::msghdr>, flags: c_int) -> isize {
    size(|| {
        let message = message.get()?;
        no_control(message)?;
        receive_parts(socket, message.msg_iov, parts_of(message)?, flags)
    })
}

#[unsafe(no_mangle)]
extern "C" fn rreadv(socket: c_int, parts: *const libc::iovec, count: c_int) -> isize {
    size(|| receive_parts(socket, parts, many(count)?, 0))
}

#[unsafe(no_mangle)]
extern "C" fn rsend(socket: c_int, bytes: *const u8, length: usize, flags: c_int) -> isize {
    size(|| calls::send(socket, &[items(bytes, length)?], flags))
}

#[unsafe(no_mangle)]
extern "C" fn rwrite(socket: c_int, bytes: *const u8, length: usize) -> isize {
    rsend(socket, bytes, length, 0)
}

#[unsafe(no_mangle)]
extern "C" fn rsendto(
    socket: c_int,
    bytes: *const u8,
    length: usize,
    flags: c_int,
    address: *const c_void,
    address_length: u32,
) -> isize {
    size(|| {
        let parts = [items(bytes, length)?];
        let is_given = !address.is_null() || address_length > 0;
        let to = is_given.then(|| items(address.cast(), address_length as usize));
        calls::send_to(socket, &parts, flags, to.transpose()?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn rsendmsg(socket: c_int, message: In<libc::msghdr>, flags: c_int) -> isize {
    size(|| {
        let message = message.get()?;
        no_control(message)?;
        send_parts(socket, message.msg_iov, parts_of(message)?, flags)
    })
}

#[unsafe(no_mangle)]
extern "C" fn rwritev(socket: c_int, parts: *const libc::iovec, count: c_int) -> isize {
    size(|| send_parts(socket, parts, many(count)?, 0))
}

#[unsafe(no_mangle)]
extern "C" fn rpoll(fds: *mut libc::pollfd, count: libc::nfds_t, timeout: c_int) -> c_int {
    number(|| poll::poll(items_mut(fds, many(count)?)?, timeout))
}

#[unsafe(no_mangle)]
extern "C" fn rselect(
    count: c_int,
    reads: *mut u64,
    writes: *mut u64,
    excepts: *mut u64,
    timeout: In<libc::timeval>,
) -> c_int {
    number(|| {
        let count = many(count)?;
        let set = |set: *mut u64| {
            let is_there = !set.is_null();
            is_there.then(|| items_mut(set, words(count))).transpose()
        };
        let sets = [set(reads)?, set(writes)?, set(excepts)?];
        let timeout = timeout.get().map_or(-1, |time| {
            let whole = time.tv_sec.saturating_mul(1000);
            let all = whole.saturating_add((time.tv_usec + 999) / 1000);
            c_int::try_from(all).unwrap_or(c_int::MAX)
        });
        select::select(count, sets, timeout)
    })
}

#[unsafe(no_mangle)]
extern "C" fn rgetpeername(socket: c_int, address: *mut u8, length: Out<u32>) -> c_int {
    nothing(|| put_address(&calls::peer_name(socket)?, address, length))
}

#[unsafe(no_mangle)]
extern "C" fn rgetsockname(socket: c_int, address: *mut u8, length: Out<u32>) -> c_int {
    nothing(|| put_address(&calls::own_name(socket)?, address, length))
}

#[unsafe(no_mangle)]
extern "C" fn rsetsockopt(
    socket: c_int,
    level: c_int,
    name: c_int,
    value: *const u8,
    length: u32,
) -> c_int {
    nothing(|| calls::set_option(socket, level, name, items(value, length as usize)?))
}

#[unsafe(no_mangle)]
extern "C" fn rgetsockopt(
    socket: c_int,
    level: c_int,
    name: c_int,
    value: *mut u8,
    length: Out<u32>,
) -> c_int {
    nothing(|| put_bytes(&calls::option(socket, level, name)?, value, length).map(drop))
}

/// The third argument is there if the command takes one, in the place of any other.
#[unsafe(no_mangle)]
extern "C" fn rfcntl(socket: c_int, command: c_int, argument: c_int) -> c_int {
    number(|| calls::control(socket, command, argument))
}

/// Memory that the peer may write into if `protection` says so.
#[unsafe(no_mangle)]
extern "C" fn riomap(
    socket: c_int,
    start: *mut c_void,
    length: usize,
    protection: c_int,
    _flags: c_int,
    offset: i64,
) -> i64 {
    uncancelled(|| {
        or(-1, || {
            let place = (start.expose_provenance(), length);
            calls::map(socket, place, protection, offset)
                .inspect_err(|code| crate::errno::set(*code))
        })
    })
}

#[unsafe(no_mangle)]
extern "C" fn riounmap(socket: c_int, start: *mut c_void, length: usize) -> c_int {
    nothing(|| calls::unmap(socket, start.addr(), length))
}

#[unsafe(no_mangle)]
extern "C" fn riowrite(
    socket: c_int,
    bytes: *const u8,
    length: usize,
    offset: i64,
    flags: c_int,
) -> isize {
    size(|| calls::write_mapped(socket, items(bytes, length)?, offset, flags))
}

fn many(count: impl TryInto<usize>) -> Answer<usize> {
    count.try_into().map_err(|_| Code::INVALID)
}

/// How many parts it has. C libraries have several types for that.
fn parts_of(message: &libc::msghdr) -> Answer<usize> {
    many(message.msg_iovlen)
}

fn no_control(message: &libc::msghdr) -> Answer<()> {
    if message.msg_control.is_null() || message.msg_controllen == 0 {
        return Ok(());
    }
    Err(Code::UNSUPPORTED)
}

fn send_parts(
    socket: c_int,
    parts: *const libc::iovec,
    count: usize,
    flags: c_int,
) -> Answer<usize> {
    let parts = items(parts, count)?.iter();
    let parts = parts.map(|part| items(part.iov_base.cast_const().cast(), part.iov_len));
    calls::send(socket, &parts.collect::<Answer<Vec<_>>>()?, flags)
}

fn receive_parts(
    socket: c_int,
    parts: *const libc::iovec,
    count: usize,
    flags: c_int,
) -> Answer<usize> {
    let parts = items(parts, count)?.iter();
    let parts = parts.map(|part| items_mut(part.iov_base.cast(), part.iov_len));
    calls::receive(socket, &mut parts.collect::<Answer<Vec<_>>>()?, flags)
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
