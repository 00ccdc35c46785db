//! The UDP socket beside each socket for datagrams: its number, its address, and its options.
//!
//! # Safety
//!
//! Descriptors are this value's own and open. Addresses and values are arrays of this call, whose
//! lengths are told.
#![allow(unsafe_code, reason = "calls the C library")]

use std::ffi::c_int;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

use uverbs_core::cm::CmAddress;

use crate::answer::Answer;
use crate::errno::Code;

/// The most bytes of an option's value.
const VALUE: u32 = 256;

pub(super) fn code(error: &std::io::Error) -> Code {
    Code::new(error.raw_os_error().unwrap_or(libc::EINVAL))
}

/// One without an address, on which no call waits.
pub(super) fn open(domain: c_int) -> Answer<UdpSocket> {
    let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: no memory is involved.
    let fd = unsafe { libc::socket(domain, kind, 0) };
    if fd < 0 {
        return Err(Code::last());
    }
    // SAFETY: a new descriptor, which nobody else has.
    Ok(UdpSocket::from(unsafe { OwnedFd::from_raw_fd(fd) }))
}

pub(super) fn bind(socket: &UdpSocket, address: SocketAddr) -> Answer<()> {
    let (bytes, length) = CmAddress::from(address).to_sockaddr();
    let length = u32::try_from(length).map_err(|_| Code::INVALID)?;
    // SAFETY: an address of this length, of which the kernel only reads.
    done(unsafe { libc::bind(socket.as_raw_fd(), bytes.as_ptr().cast(), length) })
}

pub(super) fn set_option(
    socket: &UdpSocket,
    level: c_int,
    name: c_int,
    value: &[u8],
) -> Answer<()> {
    let length = u32::try_from(value.len()).map_err(|_| Code::INVALID)?;
    let value = value.as_ptr().cast();
    // SAFETY: a value of this length.
    done(unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, value, length) })
}

pub(super) fn option(socket: &UdpSocket, level: c_int, name: c_int) -> Answer<Vec<u8>> {
    let mut value = vec![0_u8; VALUE as usize];
    let mut length = VALUE;
    let place = value.as_mut_ptr().cast();
    // SAFETY: room of this length.
    done(unsafe { libc::getsockopt(socket.as_raw_fd(), level, name, place, &raw mut length) })?;
    value.truncate(length as usize);
    Ok(value)
}

fn done(answer: c_int) -> Answer<()> {
    if answer < 0 {
        return Err(Code::last());
    }
    Ok(())
}

/// The address from which a socket at `own` sends to another one. At any address, and at that of
/// the loopback, which no device has, it is what the system would send from.
pub(super) fn source_for(own: SocketAddr, to: SocketAddr) -> Answer<SocketAddr> {
    if !own.ip().is_unspecified() && !own.ip().is_loopback() {
        return Ok(own);
    }
    let any = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let looks = UdpSocket::bind(any).and_then(|socket| {
        socket.connect(to)?;
        socket.local_addr()
    });
    let mut source = looks.map_err(|error| code(&error))?;
    source.set_port(own.port());
    Ok(source)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bound(text: &str, domain: c_int) -> UdpSocket {
        let socket = open(domain).unwrap();
        bind(&socket, text.parse().unwrap()).unwrap();
        socket
    }

    #[test]
    fn sockets_have_addresses_and_options() {
        let socket = bound("127.0.0.1:0", libc::AF_INET);
        let at = socket.local_addr().unwrap();
        assert_ne!(at.port(), 0);
        let again = open(libc::AF_INET).unwrap();
        let taken = Err(Code::new(libc::EADDRINUSE));
        assert_eq!(bind(&again, at), taken);
        let (level, name) = (libc::SOL_SOCKET, libc::SO_REUSEADDR);
        assert_eq!(option(&again, level, name).unwrap(), [0; 4]);
        set_option(&again, level, name, &1_i32.to_ne_bytes()).unwrap();
        assert_eq!(option(&again, level, name).unwrap(), 1_i32.to_ne_bytes());
        assert_eq!(set_option(&again, level, name, &[1]), Err(Code::INVALID));
        assert_eq!(
            set_option(&again, 12345, 1, &[0; 4]),
            Err(Code::new(libc::ENOPROTOOPT))
        );
    }

    #[test]
    fn the_system_chooses_the_source() {
        let socket = bound("0.0.0.0:0", libc::AF_INET);
        let at = socket.local_addr().unwrap();
        let to = "127.0.0.1:9".parse().unwrap();
        let source = source_for(at, to).unwrap();
        assert_eq!((source.ip(), source.port()), (to.ip(), at.port()));
        let own = "192.0.2.1:5".parse().unwrap();
        assert_eq!(source_for(own, to), Ok(own));
    }
}
