//! What the functions of a socket lock: its queue pairs, its peers, and what has arrived.

use std::collections::VecDeque;
use std::ffi::c_int;
use std::net::SocketAddr;
use std::sync::Arc;

use super::local::{Local, PLACE};
use super::peers::{Peers, Way};
use super::queues::Handle;
use super::wire;

/// The most datagrams over UDP that wait for the program.
const WAITING: usize = 64;

/// A datagram that waits for the program.
#[derive(Debug)]
pub(super) struct Arrived {
    pub(super) source: SocketAddr,
    pub(super) bytes: Bytes,
}

#[derive(Debug)]
pub(super) enum Bytes {
    /// In a place of a queue pair's ring: where they begin there, and how many they are.
    In {
        local: usize,
        place: usize,
        at: usize,
        length: usize,
    },
    Own(Vec<u8>),
}

/// Ways use the domains of queue pairs: they are dropped before.
#[derive(Default)]
pub(super) struct State {
    pub(super) peers: Peers,
    pub(super) locals: Vec<Local>,
    /// The peer that the socket is connected to.
    pub(super) peer: Option<SocketAddr>,
    /// Whom the last datagram was sent to.
    pub(super) last: Option<SocketAddr>,
    pub(super) waiting: VecDeque<Arrived>,
    from_udp: usize,
    pub(super) is_closed: bool,
}

impl State {
    /// Takes all completions: true if there were any.
    pub(super) fn process(&mut self, is_ipv4: bool) -> bool {
        let mut has_changed = false;
        let Self {
            locals, waiting, ..
        } = self;
        for (number, local) in locals.iter_mut().enumerate() {
            let mut places = Vec::new();
            has_changed |= local.process(|place, length| places.push((place, length)));
            for (place, length) in places {
                let mut head = [0; 24];
                let known = length.min(head.len()).min(PLACE as usize);
                let head = head.get_mut(..known).unwrap_or_default();
                let source = local.read(place, 0, head);
                let source = source.then(|| wire::parse_origin(head, is_ipv4)).flatten();
                let Some(source) = source else {
                    local.is_broken |= local.give_back(place).is_err();
                    continue;
                };
                let at = wire::origin_len(is_ipv4);
                let length = length.min(PLACE as usize) - at;
                let bytes = Bytes::In {
                    local: number,
                    place,
                    at,
                    length,
                };
                waiting.push_back(Arrived { source, bytes });
            }
        }
        has_changed
    }

    /// Keeps a datagram that came over UDP, unless too many wait.
    pub(super) fn arrive(&mut self, source: SocketAddr, bytes: &[u8]) -> bool {
        let has_room = self.from_udp < WAITING;
        if has_room {
            self.from_udp += 1;
            let bytes = Bytes::Own(bytes.to_vec());
            self.waiting.push_back(Arrived { source, bytes });
        }
        has_room
    }

    /// Copies out the first datagram that waits, as much as there is room for, and forgets it
    /// unless it is only looked at: how many bytes, and from where.
    pub(super) fn take(
        &mut self,
        parts: &mut [&mut [u8]],
        only_looks: bool,
    ) -> Option<(usize, SocketAddr)> {
        let first = self.waiting.front()?;
        let source = first.source;
        let length = match &first.bytes {
            Bytes::Own(bytes) => bytes.len(),
            Bytes::In { length, .. } => *length,
        };
        let mut done = 0;
        for part in parts {
            let count = part.len().min(length - done);
            let into = part.get_mut(..count).unwrap_or_default();
            match &first.bytes {
                Bytes::Own(bytes) => {
                    into.copy_from_slice(bytes.get(done..done + count).unwrap_or_default());
                }
                Bytes::In {
                    local, place, at, ..
                } => {
                    if let Some(local) = self.locals.get(*local) {
                        local.read(*place, at + done, into);
                    }
                }
            }
            done += count;
        }
        if !only_looks {
            self.forget();
        }
        Some((done, source))
    }

    fn forget(&mut self) {
        match self.waiting.pop_front().map(|first| first.bytes) {
            Some(Bytes::Own(_)) => self.from_udp -= 1,
            Some(Bytes::In { local, place, .. }) => {
                if let Some(local) = self.locals.get_mut(local) {
                    local.is_broken |= local.give_back(place).is_err();
                }
            }
            None => {}
        }
    }

    /// The way to a peer's queue pair is known.
    pub(super) fn learn(&mut self, peer: SocketAddr, handle: Handle, qp_num: u32) {
        if let Some(peer) = self.peers.find(peer) {
            let handle = Arc::new(handle);
            peer.way = Some(Way { handle, qp_num });
        }
    }

    pub(super) fn has_arrived(&self) -> bool {
        !self.waiting.is_empty()
    }

    pub(super) fn has_room(&self) -> bool {
        self.locals.iter().all(Local::has_room)
    }

    pub(super) fn is_idle(&self) -> bool {
        self.locals.iter().all(Local::is_idle)
    }

    /// Nothing comes between queue pairs any more: their devices are gone.
    pub(super) fn is_broken(&self) -> bool {
        !self.locals.is_empty() && self.locals.iter().all(|local| local.is_broken)
    }

    /// Asks for events: the descriptors that show them, or -1.
    pub(super) fn arm(&mut self) -> Vec<c_int> {
        let one = |local: &mut Local| {
            local.arm();
            if local.is_broken { -1 } else { local.queues.fd }
        };
        self.locals.iter_mut().map(one).collect()
    }

    pub(super) fn awake(&mut self, events: &[i16]) {
        for (local, events) in self.locals.iter_mut().zip(events) {
            local.awake(*events);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_dropped() {
        let mut state = State::default();
        let from = SocketAddr::from(([10, 0, 0, 1], 9));
        for number in 0..2 * WAITING {
            assert_eq!(state.arrive(from, &[1; 100]), number < WAITING);
        }
        let (mut one, mut other) = ([0; 60], [0; 60]);
        let mut looks = || state.take(&mut [&mut one, &mut other], true);
        assert_eq!(looks(), Some((100, from)));
        assert_eq!(looks(), Some((100, from)));
        assert_eq!((one, other[39], other[40]), ([1; 60], 1, 0));
        for _ in 0..WAITING {
            assert_eq!(state.take(&mut [&mut one], false), Some((60, from)));
        }
        assert_eq!(state.take(&mut [], false), None);
        assert!(state.arrive(from, &[]));
        assert_eq!(state.take(&mut [], false), Some((0, from)));
    }
}
