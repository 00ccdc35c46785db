//! Netlink sockets: three system calls (`socket`, `sendto`, `recvmmsg`) and `close`.
//!
//! The socket is never bound explicitly: the kernel assigns it an address when it first sends.

use std::fmt;
use std::os::fd::AsFd as _;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::netlink;
use rustix::net::{AddressFamily, Protocol, SendFlags, SocketFlags, SocketType, send, socket_with};

use super::descriptor::Descriptor;
use super::recvmmsg::recv_from_kernel;
use crate::error::Errno;

/// The largest datagram the kernel builds for a dump (`netlink_dump` in
/// `net/netlink/af_netlink.c`); single answers are smaller.
pub const NETLINK_DATAGRAM_MAX: usize = 32 * 1024;

/// The largest datagram that answers one request with one message (`NLMSG_GOODSIZE` in
/// `include/linux/netlink.h`).
const NETLINK_ANSWER_MAX: usize = 8 * 1024;

/// The most datagrams received at once: those that fit a buffer of [`NETLINK_DATAGRAM_MAX`].
pub const NETLINK_ANSWERS: usize = NETLINK_DATAGRAM_MAX / NETLINK_ANSWER_MAX;

/// How long to wait for an answer, in seconds.
///
/// The kernel answers before `sendto` returns. Only a substitute for the kernel can be slower.
const ANSWER_TIMEOUT_SECONDS: i64 = 2;

/// Carries netlink datagrams. [`RdmaSocket`] is the real implementation; tests use scripted ones.
pub trait NetlinkTransport: fmt::Debug {
    /// Sends the messages of one datagram.
    ///
    /// # Errors
    /// The errno of `sendto(2)`.
    fn send(&mut self, datagram: &[u8]) -> Result<(), Errno>;

    /// Receives at least one datagram and at most `lengths.len()` (one to four), into equal parts
    /// of `buffer`. Each length is that of the whole datagram: if it exceeds the part, the datagram
    /// was truncated. Returns the number of datagrams.
    ///
    /// # Errors
    /// The errno of `recvmmsg(2)`; ETIMEDOUT if none arrives.
    fn receive(&mut self, buffer: &mut [u8], lengths: &mut [usize]) -> Result<usize, Errno>;
}

/// A `NETLINK_RDMA` socket.
#[derive(Debug)]
pub struct RdmaSocket {
    fd: Descriptor,
}

impl RdmaSocket {
    /// Opens the socket. The kernel loads `ib_core` for it if modules are loaded on demand.
    ///
    /// # Errors
    /// EPROTONOSUPPORT where the kernel has no RDMA; EAFNOSUPPORT without netlink; EPERM or EACCES
    /// in a sandbox; EMFILE, ENFILE, ENOMEM.
    pub fn open() -> Result<Self, Errno> {
        Self::of(Some(netlink::RDMA))
    }

    fn of(protocol: Option<Protocol>) -> Result<Self, Errno> {
        if cfg!(miri) {
            // Miri does not support such sockets, and would abort.
            return Err(Errno::PROTONOSUPPORT);
        }
        let fd = socket_with(
            AddressFamily::NETLINK,
            SocketType::RAW,
            SocketFlags::CLOEXEC,
            protocol,
        )?;
        Ok(Self { fd: fd.into() })
    }

    fn wait(&self) -> Result<(), Errno> {
        let patience = Timespec {
            tv_sec: ANSWER_TIMEOUT_SECONDS,
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

/// A `NETLINK_ROUTE` socket: routes, neighbours and network devices.
#[derive(Debug)]
pub(crate) struct RouteSocket(RdmaSocket);

impl RouteSocket {
    /// Opens the socket.
    ///
    /// # Errors
    /// As [`RdmaSocket::open`].
    pub(crate) fn open() -> Result<Self, Errno> {
        // The protocol whose number is 0, which rustix takes for the default.
        RdmaSocket::of(None).map(Self)
    }
}

impl NetlinkTransport for RouteSocket {
    fn send(&mut self, datagram: &[u8]) -> Result<(), Errno> {
        self.0.send(datagram)
    }

    fn receive(&mut self, buffer: &mut [u8], lengths: &mut [usize]) -> Result<usize, Errno> {
        self.0.receive(buffer, lengths)
    }
}
