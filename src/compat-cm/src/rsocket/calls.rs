//! What the functions of the header do, for the socket with a number.

use std::ffi::c_int;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use uverbs_core::cm::CmAddress;

use super::link::Link;
use super::options::Options;
use super::stream::{Stream, lock};
use super::{keepalive, table};
use crate::abi::Storage;
use crate::answer::Answer;
use crate::errno::Code;
use crate::peer;

const UNSUPPORTED: Code = Code::UNSUPPORTED;

/// Families of IP.
const AF_INET: c_int = 2;
const AF_INET6: c_int = 10;

pub(super) fn open(domain: c_int, kind: c_int, protocol: c_int) -> Answer<c_int> {
    let flags = kind & (libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK);
    let is_stream = kind & !flags == libc::SOCK_STREAM;
    let is_ip = [AF_INET, AF_INET6].contains(&domain);
    if !is_ip || !is_stream || ![0, libc::IPPROTO_TCP].contains(&protocol) {
        return Err(UNSUPPORTED);
    }
    let is_nonblocking = flags & libc::SOCK_NONBLOCK != 0;
    let stream = Stream::new(Link::new()?, Options::new(), is_nonblocking);
    Ok(table::add(Arc::new(stream)))
}

pub(super) fn bind(socket: c_int, address: &[u8]) -> Answer<()> {
    let address = storage(address)?;
    table::find(socket)?.bind((&raw const address).cast())
}

fn storage(address: &[u8]) -> Answer<Storage> {
    let address = CmAddress::from_sockaddr(address).ok_or(Code::INVALID)?;
    Ok(peer::store(Some(address)))
}

pub(super) fn listen(socket: c_int, backlog: c_int) -> Answer<()> {
    table::find(socket)?.listen(u32::try_from(backlog).unwrap_or(0))
}

/// A new socket, and the peer's address.
pub(super) fn accept(socket: c_int) -> Answer<(c_int, Vec<u8>)> {
    let new = table::find(socket)?.accept()?;
    let peer = new.peer_name()?;
    Ok((table::add(new), peer))
}

pub(super) fn connect(socket: c_int, address: &[u8]) -> Answer<()> {
    let address = storage(address)?;
    table::find(socket)?.connect(address)
}

pub(super) fn shutdown(socket: c_int, how: c_int) -> Answer<()> {
    table::find(socket)?.shutdown(how)
}

pub(super) fn close(socket: c_int) -> Answer<()> {
    table::remove(socket)?.close();
    Ok(())
}

pub(super) fn receive(socket: c_int, bytes: &mut [u8], flags: c_int) -> Answer<usize> {
    table::find(socket)?.receive(bytes, flags)
}

/// The first part that has room, then what is there for the others.
pub(super) fn receive_parts(socket: c_int, parts: Vec<&mut [u8]>, flags: c_int) -> Answer<usize> {
    let stream = table::find(socket)?;
    let mut received = 0;
    for part in parts.into_iter().filter(|part| !part.is_empty()) {
        let room = part.len();
        let later = if received > 0 { libc::MSG_DONTWAIT } else { 0 };
        match stream.receive(part, flags | later) {
            Ok(count) => {
                received += count;
                if count < room || flags & libc::MSG_PEEK != 0 {
                    break;
                }
            }
            Err(_) if received > 0 => break,
            Err(code) => return Err(code),
        }
    }
    Ok(received)
}

pub(super) fn receive_from(
    socket: c_int,
    bytes: &mut [u8],
    flags: c_int,
) -> Answer<(usize, Vec<u8>)> {
    let stream = table::find(socket)?;
    let count = stream.receive(bytes, flags)?;
    Ok((count, stream.peer_name()?))
}

pub(super) fn send(socket: c_int, parts: &[&[u8]], flags: c_int) -> Answer<usize> {
    table::find(socket)?.send(parts, flags)
}

pub(super) fn peer_name(socket: c_int) -> Answer<Vec<u8>> {
    table::find(socket)?.peer_name()
}

pub(super) fn own_name(socket: c_int) -> Answer<Vec<u8>> {
    table::find(socket)?.own_name()
}

pub(super) fn set_option(socket: c_int, level: c_int, name: c_int, value: &[u8]) -> Answer<()> {
    let stream = table::find(socket)?;
    stream.set_option(level, name, value)?;
    match (level, name) {
        (libc::SOL_SOCKET, libc::SO_KEEPALIVE) | (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE) => {
            keepalive::changed(&stream)
        }
        _ => Ok(()),
    }
}

pub(super) fn option(socket: c_int, level: c_int, name: c_int) -> Answer<Vec<u8>> {
    table::find(socket)?.option(level, name)
}

pub(super) fn map(
    socket: c_int,
    place: (usize, usize),
    protection: c_int,
    offset: i64,
) -> Answer<i64> {
    /// `PROT_WRITE`.
    const WRITE: c_int = 2;
    if protection & !WRITE != 0 {
        return Err(Code::INVALID);
    }
    table::find(socket)?.map(place, protection & WRITE != 0, offset)
}

pub(super) fn unmap(socket: c_int, start: usize, length: usize) -> Answer<()> {
    table::find(socket)?.unmap(start, length)
}

pub(super) fn write_mapped(
    socket: c_int,
    bytes: &[u8],
    offset: i64,
    flags: c_int,
) -> Answer<usize> {
    table::find(socket)?.write_mapped(bytes, offset.cast_unsigned(), flags)
}

/// `fcntl`: whether calls wait. The flag that closes descriptors at `exec` is always set.
pub(super) fn control(socket: c_int, command: c_int, argument: c_int) -> Answer<c_int> {
    let stream = table::find(socket)?;
    match command {
        libc::F_GETFL => {
            let is_nonblocking = stream.is_nonblocking.load(Ordering::Relaxed);
            let blocking = if is_nonblocking { libc::O_NONBLOCK } else { 0 };
            Ok(libc::O_RDWR | blocking)
        }
        libc::F_SETFL => {
            let is_nonblocking = argument & libc::O_NONBLOCK != 0;
            stream
                .is_nonblocking
                .store(is_nonblocking, Ordering::Relaxed);
            Ok(0)
        }
        libc::F_GETFD => Ok(libc::FD_CLOEXEC),
        libc::F_SETFD => Ok(0),
        _ => Err(UNSUPPORTED),
    }
}

/// The bytes of an address that C gets.
fn address(storage: &Storage) -> Vec<u8> {
    let length = storage.0.first_chunk().copied();
    let length = length.and_then(CmAddress::sockaddr_len);
    let bytes = length.and_then(|length| storage.0.get(..length));
    bytes.map_or_else(Vec::new, <[u8]>::to_vec)
}

impl Stream {
    fn peer_name(&self) -> Answer<Vec<u8>> {
        let _progress = lock(&self.progress);
        Ok(address(&self.link.id()?.c.route.addr.dst_storage.get()))
    }

    fn own_name(&self) -> Answer<Vec<u8>> {
        let _progress = lock(&self.progress);
        Ok(address(&self.link.id()?.c.route.addr.src_storage.get()))
    }
}
