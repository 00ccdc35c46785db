//! A socket for datagrams: queue pairs for the addresses that it sends from (`local`), and a UDP
//! socket with the same address (`udp`).
//!
//! A datagram for a peer whose queue pair is not known goes over UDP, with the number of the
//! sender's (`wire`). The peer's thread (`service`) answers with its own number, and both look for
//! the way to the other one (`ways`); what is sent then goes from one queue pair to the other one.
//! As with UDP, each datagram arrives whole, or not at all, and any host may send some: what it
//! says is checked, and only so much of it is remembered (`peers`, `state`).

mod local;
mod options;
mod peers;
mod queues;
mod receive;
mod send;
mod service;
mod state;
mod udp;
mod ways;
mod wire;

use std::ffi::c_int;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use uverbs_core::cm::CmAddress;

use self::service::Service;
use self::state::State;
use super::options::Options;
use super::settings::Defaults;
use super::sleep::{self, Sleepers};
use super::stream::{WOULD_BLOCK, lock};
use crate::answer::Answer;
use crate::errno::Code;

pub(super) struct Datagram {
    state: Mutex<State>,
    service: Service,
    udp: UdpSocket,
    is_ipv4: bool,
    options: Mutex<Options>,
    pub(super) is_nonblocking: AtomicBool,
    pub(super) sleepers: Sleepers,
}

impl Datagram {
    pub(super) fn new(domain: c_int, is_nonblocking: bool) -> Answer<Self> {
        Ok(Self {
            state: Mutex::default(),
            service: Service::default(),
            udp: udp::open(domain)?,
            is_ipv4: domain == libc::AF_INET,
            options: Mutex::new(Options::new()),
            is_nonblocking: AtomicBool::new(is_nonblocking),
            sleepers: Sleepers::default(),
        })
    }

    /// The socket's number: that of the UDP socket.
    pub(super) fn fd(&self) -> c_int {
        self.udp.as_raw_fd()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// From now on the socket hears its peers.
    fn start(self: &Arc<Self>) -> Answer<()> {
        self.service.start(self)
    }

    pub(super) fn bind(self: &Arc<Self>, address: SocketAddr) -> Answer<()> {
        self.start()?;
        udp::bind(&self.udp, address)
    }

    /// Sets the peer, and makes the queue pair that sends to it.
    pub(super) fn connect(self: &Arc<Self>, address: SocketAddr) -> Answer<()> {
        self.start()?;
        let connected = self.udp.connect(address);
        connected.map_err(|error| udp::code(&error))?;
        let mut state = self.state();
        self.meet(&mut state, address)?;
        state.peer = Some(address);
        Ok(())
    }

    pub(super) fn own_name(&self) -> Answer<Vec<u8>> {
        let address = self.udp.local_addr();
        address.map(bytes_of).map_err(|error| udp::code(&error))
    }

    pub(super) fn peer_name(&self) -> Answer<Vec<u8>> {
        let address = self.udp.peer_addr();
        address.map(bytes_of).map_err(|error| udp::code(&error))
    }

    /// Whether a call with these flags waits.
    fn blocks(&self, flags: c_int) -> bool {
        flags & libc::MSG_DONTWAIT == 0 && !self.is_nonblocking.load(Ordering::Relaxed)
    }

    /// Waits until `test` has an answer: polls for a moment, then sleeps.
    fn wait<R>(
        &self,
        blocks: bool,
        mut test: impl FnMut(&mut State) -> Option<Answer<R>>,
    ) -> Answer<R> {
        let mut look = || {
            let mut state = self.state();
            self.process(&mut state);
            test(&mut state)
        };
        let begun = Instant::now();
        loop {
            if let Some(answer) = look() {
                return answer;
            }
            if !blocks {
                return Err(WOULD_BLOCK);
            }
            if begun.elapsed() > Defaults::get().polls_for {
                break;
            }
        }
        let bell = sleep::bell()?;
        self.sleepers.enter(&bell);
        let answer = loop {
            let fds = self.prepare_sleep();
            if let Some(answer) = look() {
                break answer;
            }
            let bell_fd = sleep::fd_of(&bell);
            let mut fds: Vec<_> = fds.into_iter().chain([bell_fd]).map(sleep::reads).collect();
            if let Err(code) = sleep::poll(&mut fds, None) {
                break Err(code);
            }
            bell.silence();
            let events: Vec<_> = fds.iter().map(|fd| fd.revents).collect();
            self.woken(&events);
        };
        self.sleepers.leave(&bell);
        answer
    }

    /// Takes all completions.
    fn process(&self, state: &mut State) {
        if state.process(self.is_ipv4) {
            self.sleepers.wake();
        }
    }

    /// What of `events` there is now.
    pub(super) fn ready(&self, events: i16) -> i16 {
        let mut state = self.state();
        self.process(&mut state);
        let mut ready = 0;
        if state.has_arrived() {
            ready |= events & libc::POLLIN;
        }
        if self.service.is_running() && state.has_room() {
            ready |= events & libc::POLLOUT;
        }
        if state.is_broken() {
            ready |= libc::POLLERR;
        }
        ready
    }

    /// The descriptors to be slept at; asks for events.
    pub(super) fn prepare_sleep(&self) -> Vec<c_int> {
        self.state().arm()
    }

    /// Takes the events that it was woken for, of the descriptors from [`Self::prepare_sleep`].
    pub(super) fn woken(&self, events: &[i16]) {
        self.state().awake(events);
    }

    /// Ends everything, once all that was sent has left: others that use the socket find it ended.
    pub(super) fn close(&self) {
        self.service.stop();
        self.state().is_closed = true;
        self.sleepers.wake();
        let _ = self.wait(true, |state| state.is_idle().then_some(Ok(())));
    }
}

fn bytes_of(address: SocketAddr) -> Vec<u8> {
    let (bytes, length) = CmAddress::from(address).to_sockaddr();
    bytes.get(..length).unwrap_or_default().to_vec()
}

/// The IP address that a program passes.
pub(super) fn address(bytes: &[u8]) -> Answer<SocketAddr> {
    match CmAddress::from_sockaddr(bytes) {
        Some(CmAddress::Ip(address)) => Ok(address),
        Some(_) => Err(Code::new(libc::EAFNOSUPPORT)),
        None => Err(Code::INVALID),
    }
}
