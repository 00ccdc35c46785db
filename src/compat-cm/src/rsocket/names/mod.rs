//! The functions of `rdma/rsocket.h`, by tables: those of sockets, what is sent and received, and
//! waiting.

use std::ffi::c_int;

use super::sleep::uncancelled;
use crate::answer::{Answer, minus_one, or};
use crate::errno::{Code, set};
use crate::pointer::{Out, items_mut};

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
mod sockets;
mod waits;

/// What a function returns. No thread is cancelled in it. If it succeeds, errno stays what it was:
/// programs look at it after 0 bytes, too, which are the end of a stream.
fn returned<T: Default + PartialOrd>(body: impl FnOnce() -> T) -> T {
    let before = Code::last();
    let value = uncancelled(body);
    if value >= T::default() {
        set(before);
    }
    value
}

/// A number, or -1 with errno.
fn number(body: impl FnOnce() -> Answer<c_int>) -> c_int {
    returned(|| minus_one(body))
}

/// 0, or the same.
fn nothing(body: impl FnOnce() -> Answer<()>) -> c_int {
    number(|| body().map(|()| 0))
}

/// A place in a file, or the same.
fn place(body: impl FnOnce() -> Answer<i64>) -> i64 {
    returned(|| or(-1, body))
}

/// A number of bytes, or the same.
fn size(body: impl FnOnce() -> Answer<usize>) -> isize {
    let count = place(|| Ok(i64::try_from(body()?).unwrap_or(i64::MAX)));
    isize::try_from(count).unwrap_or(isize::MAX)
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
