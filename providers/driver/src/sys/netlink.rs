//! The RDMA netlink socket: three system calls (`socket`, `sendto`, `recvfrom`) and `close`.
//!
//! The socket is never bound: the kernel gives it an address when it first sends.

use std::fmt;
use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::netlink::{self, SocketAddrNetlink};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recvfrom, send, socket_with,
};

use crate::error::Errno;

/// The largest datagram the kernel builds for a dump (`netlink_dump` in `net/netlink/af_netlink.c`);
/// single answers are smaller.
pub const NETLINK_DATAGRAM_MAX: usize = 32 * 1024;

/// How long an answer may take, seconds.
///
/// The kernel answers before `sendto` returns. Only something that stands in for the kernel can be slower.
const PATIENCE_SECONDS: i64 = 2;

/// Carries netlink datagrams. [`RdmaSocket`] is the real one; tests script another.
pub trait NetlinkTransport: fmt::Debug {
    /// Sends the messages of one datagram.
    ///
    /// # Errors
    /// The errno of `sendto(2)`.
    fn send(&mut self, datagram: &[u8]) -> Result<(), Errno>;

    /// Receives one datagram and says how long it was, which is more than `buffer` has when it was cut off.
    ///
    /// # Errors
    /// The errno of `recvfrom(2)`; ETIMEDOUT when nothing comes.
    fn receive(&mut self, buffer: &mut [u8]) -> Result<usize, Errno>;
}

/// A `NETLINK_RDMA` socket.
#[derive(Debug)]
pub struct RdmaSocket {
    fd: OwnedFd,
}

impl RdmaSocket {
    /// Opens the socket. The kernel loads `ib_core` for it where modules are loaded on demand.
    ///
    /// # Errors
    /// EPROTONOSUPPORT where the kernel has no RDMA; EAFNOSUPPORT without netlink; EPERM or EACCES in a sandbox;
    /// EMFILE, ENFILE, ENOMEM.
    pub fn open() -> Result<Self, Errno> {
        if cfg!(miri) {
            // The interpreter has no such sockets, and would stop at one.
            return Err(Errno::PROTONOSUPPORT);
        }
        let fd = socket_with(
            AddressFamily::NETLINK,
            SocketType::RAW,
            SocketFlags::CLOEXEC,
            Some(netlink::RDMA),
        )?;
        Ok(Self { fd })
    }

    fn wait(&self) -> Result<(), Errno> {
        let patience = Timespec {
            tv_sec: PATIENCE_SECONDS,
            tv_nsec: 0,
        };
        match poll(&mut [PollFd::new(&self.fd, PollFlags::IN)], Some(&patience)) {
            Ok(0) => Err(Errno::TIMEDOUT),
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(errno),
        }
    }
}

impl NetlinkTransport for RdmaSocket {
    fn send(&mut self, datagram: &[u8]) -> Result<(), Errno> {
        loop {
            match send(&self.fd, datagram, SendFlags::empty()) {
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
    }

    fn receive(&mut self, buffer: &mut [u8]) -> Result<usize, Errno> {
        loop {
            match recvfrom(
                &self.fd,
                &mut *buffer,
                RecvFlags::DONTWAIT | RecvFlags::TRUNC,
            ) {
                Ok((_, length, sender)) => {
                    // Processes can send to this socket too; port 0 is the kernel.
                    let sender = sender.and_then(|sender| SocketAddrNetlink::try_from(sender).ok());
                    if sender.is_some_and(|sender| sender.pid() == 0) {
                        return Ok(length);
                    }
                }
                Err(Errno::AGAIN) => self.wait()?,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
    }
}
