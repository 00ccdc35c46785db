//! What the functions of the header do, for the socket with a number.

use std::ffi::c_int;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use uverbs_core::cm::CmAddress;

use super::datagram::Datagram;
use super::link::Link;
use super::options::Options;
use super::stream::{Stream, lock};
use super::table::Socket;
use super::{datagram, keepalive, sets, table};
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
    if ![AF_INET, AF_INET6].contains(&domain) {
        return Err(UNSUPPORTED);
    }
    let is_nonblocking = flags & libc::SOCK_NONBLOCK != 0;
    let socket = match (kind & !flags, protocol) {
        (libc::SOCK_STREAM, 0 | libc::IPPROTO_TCP) => {
            let stream = Stream::new(Link::new()?, Options::new(), is_nonblocking);
            Socket::Stream(Arc::new(stream))
        }
        (libc::SOCK_DGRAM, 0 | libc::IPPROTO_UDP) => {
            Socket::Datagram(Arc::new(Datagram::new(domain, is_nonblocking)?))
        }
        _ => return Err(UNSUPPORTED),
    };
    Ok(table::add(socket))
}

pub(super) fn bind(socket: c_int, address: &[u8]) -> Answer<()> {
    match table::find(socket)? {
        Socket::Stream(stream) => {
            let address = storage(address)?;
            stream.bind((&raw const address).cast())
        }
        Socket::Datagram(socket) => socket.bind(datagram::address(address)?),
    }
}

fn storage(address: &[u8]) -> Answer<Storage> {
    let address = CmAddress::from_sockaddr(address).ok_or(Code::INVALID)?;
    Ok(peer::store(Some(address)))
}

pub(super) fn listen(socket: c_int, backlog: c_int) -> Answer<()> {
    table::stream(socket)?.listen(u32::try_from(backlog).unwrap_or(0))
}

/// A new socket, and the peer's address.
pub(super) fn accept(socket: c_int) -> Answer<(c_int, Vec<u8>)> {
    let new = table::stream(socket)?.accept()?;
    let peer = new.peer_name()?;
    Ok((table::add(Socket::Stream(new)), peer))
}

pub(super) fn connect(socket: c_int, address: &[u8]) -> Answer<()> {
    match table::find(socket)? {
        Socket::Stream(stream) => stream.connect(storage(address)?),
        Socket::Datagram(socket) => socket.connect(datagram::address(address)?),
    }
}

pub(super) fn shutdown(socket: c_int, how: c_int) -> Answer<()> {
    table::stream(socket)?.shutdown(how)
}

pub(super) fn close(socket: c_int) -> Answer<()> {
    match table::remove(socket) {
        Ok(Socket::Stream(stream)) => stream.close(),
        Ok(Socket::Datagram(socket)) => socket.close(),
        Err(_) => return sets::close(socket),
    }
    Ok(())
}

/// Of a stream: the first part that has room, then what is there for the others.
pub(super) fn receive(socket: c_int, parts: &mut [&mut [u8]], flags: c_int) -> Answer<usize> {
    match table::find(socket)? {
        Socket::Stream(stream) => stream.receive_parts(parts, flags),
        Socket::Datagram(socket) => Ok(socket.receive(parts, flags)?.0),
    }
}

pub(super) fn receive_from(
    socket: c_int,
    bytes: &mut [u8],
    flags: c_int,
) -> Answer<(usize, Vec<u8>)> {
    match table::find(socket)? {
        Socket::Stream(stream) => {
            let count = stream.receive(bytes, flags)?;
            // Nothing is from nobody.
            let source = if count > 0 {
                stream.peer_name()?
            } else {
                Vec::new()
            };
            Ok((count, source))
        }
        Socket::Datagram(socket) => socket.receive(&mut [bytes], flags),
    }
}

pub(super) fn send(socket: c_int, parts: &[&[u8]], flags: c_int) -> Answer<usize> {
    match table::find(socket)? {
        Socket::Stream(stream) => stream.send(parts, flags),
        Socket::Datagram(socket) => socket.send(parts, flags, None),
    }
}

/// To an address, if there is one.
pub(super) fn send_to(
    socket: c_int,
    parts: &[&[u8]],
    flags: c_int,
    to: Option<&[u8]>,
) -> Answer<usize> {
    match (table::find(socket)?, to) {
        (Socket::Stream(_), Some(_)) => Err(Code::new(libc::EISCONN)),
        (Socket::Stream(stream), None) => stream.send(parts, flags),
        (Socket::Datagram(socket), to) => {
            let to = to.map(datagram::address).transpose()?;
            socket.send(parts, flags, to)
        }
    }
}

pub(super) fn peer_name(socket: c_int) -> Answer<Vec<u8>> {
    match table::find(socket)? {
        Socket::Stream(stream) => stream.peer_name(),
        Socket::Datagram(socket) => socket.peer_name(),
    }
}

pub(super) fn own_name(socket: c_int) -> Answer<Vec<u8>> {
    match table::find(socket)? {
        Socket::Stream(stream) => stream.own_name(),
        Socket::Datagram(socket) => socket.own_name(),
    }
}

pub(super) fn set_option(socket: c_int, level: c_int, name: c_int, value: &[u8]) -> Answer<()> {
    let stream = match table::find(socket)? {
        Socket::Stream(stream) => stream,
        Socket::Datagram(socket) => return socket.set_option(level, name, value),
    };
    stream.set_option(level, name, value)?;
    match (level, name) {
        (libc::SOL_SOCKET, libc::SO_KEEPALIVE) | (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE) => {
            keepalive::changed(&stream)
        }
        _ => Ok(()),
    }
}

pub(super) fn option(socket: c_int, level: c_int, name: c_int) -> Answer<Vec<u8>> {
    match table::find(socket)? {
        Socket::Stream(stream) => stream.option(level, name),
        Socket::Datagram(socket) => socket.option(level, name),
    }
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
    table::stream(socket)?.map(place, protection & WRITE != 0, offset)
}

pub(super) fn unmap(socket: c_int, start: usize, length: usize) -> Answer<()> {
    table::stream(socket)?.unmap(start, length)
}

pub(super) fn write_mapped(
    socket: c_int,
    bytes: &[u8],
    offset: i64,
    flags: c_int,
) -> Answer<usize> {
    table::stream(socket)?.write_mapped(bytes, offset.cast_unsigned(), flags)
}

/// `fcntl`: whether calls wait. The flag that closes descriptors at `exec` is always set.
pub(super) fn control(socket: c_int, command: c_int, argument: c_int) -> Answer<c_int> {
    let socket = table::find(socket)?;
    let is_nonblocking = socket.is_nonblocking();
    match command {
        libc::F_GETFL => {
            let is_nonblocking = is_nonblocking.load(Ordering::Relaxed);
            let blocking = if is_nonblocking { libc::O_NONBLOCK } else { 0 };
            Ok(libc::O_RDWR | blocking)
        }
        libc::F_SETFL => {
            is_nonblocking.store(argument & libc::O_NONBLOCK != 0, Ordering::Relaxed);
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
