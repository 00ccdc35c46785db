//! What is sent and received.
//!
//! # Safety
//!
//! Exports names of the library that this one stands for.
#![allow(unsafe_code, reason = "exports names")]

use std::ffi::c_int;

use super::super::calls;
use super::{many, put_address, size};
use crate::answer::Answer;
use crate::errno::Code;
use crate::pointer::{In, Out, items, items_mut};

functions! {
    size rrecv(socket: c_int, bytes: *mut u8, length: usize, flags: c_int) -> isize {
        calls::receive(socket, &mut [items_mut(bytes, length)?], flags)
    }

    size rread(socket: c_int, bytes: *mut u8, length: usize) -> isize {
        calls::receive(socket, &mut [items_mut(bytes, length)?], 0)
    }

    size rrecvfrom(
        socket: c_int,
        bytes: *mut u8,
        length: usize,
        flags: c_int,
        address: *mut u8,
        address_length: Out<u32>,
    ) -> isize {
        let (count, source) = calls::receive_from(socket, items_mut(bytes, length)?, flags)?;
        if !source.is_empty() && !address.is_null() {
            put_address(&source, address, address_length)?;
        }
        Ok(count)
    }

    size rrecvmsg(socket: c_int, message: In<libc::msghdr>, flags: c_int) -> isize {
        let message = message.get()?;
        no_control(message)?;
        receive_parts(socket, message.msg_iov, parts_of(message)?, flags)
    }

    size rreadv(socket: c_int, parts: *const libc::iovec, count: c_int) -> isize {
        receive_parts(socket, parts, many(count)?, 0)
    }

    size rsend(socket: c_int, bytes: *const u8, length: usize, flags: c_int) -> isize {
        calls::send(socket, &[items(bytes, length)?], flags)
    }

    size rwrite(socket: c_int, bytes: *const u8, length: usize) -> isize {
        calls::send(socket, &[items(bytes, length)?], 0)
    }

    size rsendto(
        socket: c_int,
        bytes: *const u8,
        length: usize,
        flags: c_int,
        address: *const u8,
        address_length: u32,
    ) -> isize {
        let parts = [items(bytes, length)?];
        let is_given = !address.is_null() || address_length > 0;
        let to = is_given.then(|| items(address, address_length as usize));
        calls::send_to(socket, &parts, flags, to.transpose()?)
    }

    size rsendmsg(socket: c_int, message: In<libc::msghdr>, flags: c_int) -> isize {
        let message = message.get()?;
        no_control(message)?;
        send_parts(socket, message.msg_iov, parts_of(message)?, flags)
    }

    size rwritev(socket: c_int, parts: *const libc::iovec, count: c_int) -> isize {
        send_parts(socket, parts, many(count)?, 0)
    }

    size riowrite(
        socket: c_int,
        bytes: *const u8,
        length: usize,
        offset: i64,
        flags: c_int,
    ) -> isize {
        calls::write_mapped(socket, items(bytes, length)?, offset, flags)
    }
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
