//! Sending: to a peer's queue pair, or over UDP as long as that is not known.

use std::ffi::c_int;
use std::net::SocketAddr;
use std::os::fd::AsRawFd as _;
use std::sync::Arc;

use super::super::sleep;
use super::super::stream::{WOULD_BLOCK, lock};
use super::local::Local;
use super::state::State;
use super::wire::Announcement;
use super::{Datagram, udp};
use crate::answer::Answer;
use crate::errno::Code;

const TOO_LONG: Code = Code::new(libc::EMSGSIZE);
const NO_PEER: Code = Code::new(libc::EDESTADDRREQ);

impl Datagram {
    /// Has a peer remembered, and which queue pair sends to it: makes that if there is none yet.
    pub(super) fn meet(&self, state: &mut State, peer: SocketAddr) -> Answer<usize> {
        if let Some(known) = state.peers.find(peer) {
            return Ok(known.local);
        }
        if peer.is_ipv4() != self.is_ipv4 {
            return Err(Code::new(libc::EAFNOSUPPORT));
        }
        let own = self.udp.local_addr().map_err(|error| udp::code(&error))?;
        let source = udp::source_for(own, peer)?;
        let known = state.locals.iter();
        let known = known.map(|local| local.address).position(|at| at == source);
        let local = known.map_or_else(|| self.make_local(state, source), Ok)?;
        state.peers.add(peer, local);
        Ok(local)
    }

    /// Makes the queue pair for an address.
    fn make_local(&self, state: &mut State, address: SocketAddr) -> Answer<usize> {
        let sizes = lock(&self.options).sizes;
        state.locals.push(Local::new(address, sizes)?);
        // Those who sleep do not know of it.
        self.sleepers.wake();
        Ok(state.locals.len() - 1)
    }

    /// Sends the parts as one datagram, to the socket's peer if no address is given.
    pub(in super::super) fn send(
        self: &Arc<Self>,
        parts: &[&[u8]],
        flags: c_int,
        to: Option<SocketAddr>,
    ) -> Answer<usize> {
        self.start()?;
        let blocks = self.blocks(flags);
        let length = parts
            .iter()
            .try_fold(0_usize, |sum, part| sum.checked_add(part.len()));
        let length = length.ok_or(TOO_LONG)?;
        loop {
            let sent = self.wait(blocks, |state| {
                self.try_send(state, parts, length, to).transpose()
            })?;
            match sent {
                Sent::Done => return Ok(length),
                Sent::UdpIsFull if !blocks => return Err(WOULD_BLOCK),
                Sent::UdpIsFull => {
                    let mut udp = sleep::reads(self.udp.as_raw_fd());
                    udp.events = libc::POLLOUT;
                    sleep::poll(&mut [udp], None)?;
                }
            }
        }
    }

    /// `None` if all places to send from are in use.
    fn try_send(
        &self,
        state: &mut State,
        parts: &[&[u8]],
        length: usize,
        to: Option<SocketAddr>,
    ) -> Answer<Option<Sent>> {
        if state.is_closed {
            return Err(Code::INVALID);
        }
        let to = to.or(state.peer).or(state.last).ok_or(NO_PEER)?;
        let at = self.meet(state, to)?;
        state.last = Some(to);
        let way = state.peers.find(to).and_then(|peer| peer.way.clone());
        let local = state.locals.get_mut(at).ok_or(Code::INVALID)?;
        if length > local.most {
            return Err(TOO_LONG);
        }
        if let Some(way) = way {
            if local.is_broken {
                return Err(Code::new(libc::EIO));
            }
            let sent = local.send(parts, &way.handle, way.qp_num)?;
            return Ok(sent.then_some(Sent::Done));
        }
        match self.announce(local, to, Some(parts)) {
            Err(code) if code == WOULD_BLOCK => Ok(Some(Sent::UdpIsFull)),
            done => done.map(|()| Some(Sent::Done)),
        }
    }

    /// Tells a peer the number of the queue pair over UDP, with data, or as an answer to such.
    pub(super) fn announce(
        &self,
        local: &Local,
        to: SocketAddr,
        data: Option<&[&[u8]]>,
    ) -> Answer<()> {
        let announcement = Announcement {
            has_data: data.is_some(),
            qp_num: local.qp_num,
        };
        let mut bytes = announcement.to_bytes(local.address.ip());
        for part in data.unwrap_or_default() {
            bytes.extend_from_slice(part);
        }
        let sent = self.udp.send_to(&bytes, to);
        sent.map(drop).map_err(|error| udp::code(&error))
    }
}

/// What became of a datagram.
enum Sent {
    Done,
    UdpIsFull,
}
