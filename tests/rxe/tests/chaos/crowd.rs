//! A process of peers that connect by address, one after another at a given rate, and then do what
//! they should not.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, raise};
use uverbs::discover::Options;
use uverbs_core::cm::{
    self, CmFile, ConnectionParams, Event, EventKind, PortSpace, PrivateData, RejectReason,
};
use uverbs_core::types::{Ece, QpType};

use crate::ADDRESS;

/// The limit of each step of the kernel's.
const STEP: Duration = Duration::from_secs(2);

/// What a peer does.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Peer {
    /// Connects, and disconnects.
    Behaves,
    /// Connects, and stays until its process is killed.
    Stays,
    /// Destroys its end when it has asked.
    GivesUp,
    /// Refuses what it was answered.
    Refuses,
    /// Asks, and is never heard of again.
    Vanishes,
    /// Connects, and never answers again.
    FallsSilent,
}

/// Peers of one process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Crowd<'a> {
    /// What they do, in turns.
    pub(crate) peers: &'a [Peer],
    /// How many there are.
    pub(crate) count: u32,
    /// When the first one comes; without it the process stops, until it is told to go on. And how
    /// long after each the next one does.
    pub(crate) start: Option<Instant>,
    pub(crate) every: Duration,
    /// Where they connect to.
    pub(crate) port: u16,
    /// The number of the queue pair that the first one says it has. The numbers of all peers on a
    /// device must differ.
    pub(crate) first_number: u32,
}

impl Crowd<'_> {
    /// Plays them all, and goes on until the process is killed.
    pub(crate) fn play(&self) {
        let file = cm::open_nonblocking(&Options::default(), None)
            .unwrap()
            .file;
        let mut ids = Vec::new();
        let start = self.start.unwrap_or_else(|| {
            raise(Signal::SIGSTOP).unwrap();
            Instant::now()
        });
        for number in 0..self.count {
            let turn = start + number * self.every;
            while let Some(left) = turn.checked_duration_since(Instant::now()) {
                self.answer(&file, &ids, Some(left));
            }
            let uid = u64::from(number) + 1;
            let id = cm::create_id(&file, uid, PortSpace::Tcp, QpType::Rc).unwrap();
            ids.push(id);
            let to = SocketAddr::from((ADDRESS, self.port)).into();
            // Nothing is reached while the interface is down.
            let _ = cm::resolve_address(&file, id, None, to, STEP);
        }
        loop {
            self.answer(&file, &ids, None);
        }
    }

    fn answer(&self, file: &CmFile, ids: &[u32], limit: Option<Duration>) {
        if !file.wait_event(limit).unwrap() {
            return;
        }
        let event = cm::get_event(file).unwrap();
        let number = usize::try_from(event.uid - 1).unwrap();
        let peer = self.peers[number % self.peers.len()];
        // What fails now, because the server or the network is gone, ends this peer alone.
        let _ = self.step(file, &event, ids[number], peer);
    }

    fn step(&self, file: &CmFile, event: &Event, id: u32, peer: Peer) -> uverbs::Result<()> {
        match event.kind {
            EventKind::AddressResolved => cm::resolve_route(file, id, STEP),
            EventKind::RouteResolved => {
                let number = self.first_number + u32::try_from(event.uid).unwrap();
                let params = ConnectionParams {
                    qp_num: number,
                    responder_resources: 1,
                    initiator_depth: 1,
                    retry_count: 7,
                    rnr_retry_count: 6,
                    ..ConnectionParams::default()
                };
                cm::connect(file, id, &params, Ece::default())?;
                if peer == Peer::GivesUp {
                    cm::destroy_id(file, id)?;
                }
                Ok(())
            }
            EventKind::ConnectResponse => match peer {
                Peer::Refuses => cm::reject(file, id, RejectReason::Consumer, &PrivateData::EMPTY),
                Peer::Vanishes | Peer::GivesUp => Ok(()),
                Peer::Stays | Peer::FallsSilent => cm::establish(file, id),
                Peer::Behaves => {
                    cm::establish(file, id)?;
                    cm::disconnect(file, id)
                }
            },
            EventKind::Disconnected if peer != Peer::FallsSilent => cm::disconnect(file, id),
            _ => Ok(()),
        }
    }
}
