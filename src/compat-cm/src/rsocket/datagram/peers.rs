//! The peers of a socket, of which it remembers so many: the one that was used longest ago is
//! forgotten for a new one.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use super::queues::Handle;

/// The most peers that are remembered.
const MOST: usize = 4096;

/// The way to a peer's queue pair.
#[derive(Clone, Debug)]
pub(super) struct Way {
    pub(super) handle: Arc<Handle>,
    pub(super) qp_num: u32,
}

#[derive(Debug)]
pub(super) struct Peer {
    /// Which of the socket's queue pairs sends to it.
    pub(super) local: usize,
    /// None until it is known.
    pub(super) way: Option<Way>,
    used: u64,
}

#[derive(Debug, Default)]
pub(super) struct Peers {
    all: HashMap<SocketAddr, Peer>,
    uses: u64,
}

impl Peers {
    /// One that is known, and used now.
    pub(super) fn find(&mut self, address: SocketAddr) -> Option<&mut Peer> {
        let peer = self.all.get_mut(&address)?;
        self.uses += 1;
        peer.used = self.uses;
        Some(peer)
    }

    /// Remembers a new one.
    pub(super) fn add(&mut self, address: SocketAddr, local: usize) {
        if self.all.len() >= MOST {
            let oldest = self.all.iter().min_by_key(|(_, peer)| peer.used);
            if let Some(oldest) = oldest.map(|(address, _)| *address) {
                self.all.remove(&oldest);
            }
        }
        self.uses += 1;
        let peer = Peer {
            local,
            way: None,
            used: self.uses,
        };
        self.all.insert(address, peer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(number: usize) -> SocketAddr {
        let [.., high, low] = number.to_be_bytes();
        SocketAddr::from(([10, 0, high, low], 1))
    }

    #[test]
    fn strangers_do_not_fill_memory() {
        let mut peers = Peers::default();
        let friend = address(0);
        peers.add(friend, 7);
        for number in 1..3 * MOST {
            peers.add(address(number), 0);
            assert_eq!(peers.find(friend).unwrap().local, 7);
            assert!(peers.all.len() <= MOST);
        }
        assert!(peers.find(address(1)).is_none());
        assert!(peers.find(address(3 * MOST - 1)).is_some());
    }
}
