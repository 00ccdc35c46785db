//! The RDMA netlink socket: three system calls (`socket`, `sendto`, `recvmmsg`) and `close`.
//!
//! The socket is never bound: the kernel gives it an address when it first sends.

use std::fmt;
use std::os::fd::AsFd as _;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::netlink;
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, send, socket_with};

use super::descriptor::Descriptor;
use super::recvmmsg::recv_from_kernel;
use crate::error::Errno;

/// The largest datagram the kernel builds for a dump (`netlink_dump` in
/// `net/netlink/af_netlink.c`); single answers are smaller.
pub const NETLINK_DATAGRAM_MAX: usize = 32 * 1024;

/// The largest datagram that answers one question with one message (`NLMSG_GOODSIZE` in
/// `include/linux/netlink.h`).
const NETLINK_ANSWER_MAX: usize = 8 * 1024;

/// The most datagrams received at once: what a buffer of [`NETLINK_DATAGRAM_MAX`] has room for.
pub const NETLINK_ANSWERS: usize = NETLINK_DATAGRAM_MAX / NETLINK_ANSWER_MAX;

/// How long an answer may take, seconds.
///
/// The kernel answers before `sendto` returns. Only something that stands in for the kernel can be
/// slower.
const PATIENCE_SECONDS: i64 = 2;

/// Carries netlink datagrams. [`RdmaSocket`] is the real one; tests script another.
pub trait NetlinkTransport: fmt::Debug {
    /// Sends the messages of one datagram.
    ///
    /// # Errors
    /// The errno of `sendto(2)`.
    fn send(&mut self, datagram: &[u8]) -> Result<(), Errno>;

    /// Receives one datagram at least and as many as `lengths` has places at most, one to four,
    /// into equal parts of `buffer`. Each length is that of the whole datagram, which is more than
    /// its part has when it was cut off. Returns how many there were.
    ///
    /// # Errors
    /// The errno of `recvmmsg(2)`; ETIMEDOUT when nothing comes.
    fn receive(&mut self, buffer: &mut [u8], lengths: &mut [usize]) -> Result<usize, Errno>;
}

/// A `NETLINK_RDMA` socket.
#[derive(Debug)]
pub struct RdmaSocket {
    fd: Descriptor,
}

impl RdmaSocket {
    /// Opens the socket. The kernel loads `ib_core` for it where modules are loaded on demand.
    ///
    /// # Errors
    /// EPROTONOSUPPORT where the kernel has no RDMA; EAFNOSUPPORT without netlink; EPERM or EACCES
    /// in a sandbox; EMFILE, ENFILE, ENOMEM.
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
        Ok(Self { fd: fd.into() })
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

    fn receive(&mut self, buffer: &mut [u8], lengths: &mut [usize]) -> Result<usize, Errno> {
        loop {
            match recv_from_kernel(self.fd.as_fd(), buffer, lengths) {
                Err(Errno::AGAIN) => self.wait()?,
                Err(Errno::INTR) => {}
                received => return received,
            }
        }
    }
}
