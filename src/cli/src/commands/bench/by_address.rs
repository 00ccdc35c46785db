//! Connects the queue pairs of a test by IP address (rdma_cm): `--cm`.

use std::net::SocketAddr;
use std::time::Duration;

use uverbs::cm::{self, AcceptData, ConnectData, Connection, Listener};
use uverbs::memory::RemoteKey;
use uverbs::{Context, Remote};

use super::post::Lane;
use super::rig::{Parts, Rig};
use super::spec::Spec;
use super::wire::out_of_turn;
use crate::commands::cm::open;
use crate::failure::{Failure, Result};
use crate::session::Session;

/// How long each connection may take, as every other answer of the peer.
const PATIENCE: Duration = Duration::from_secs(30);

/// Bytes of what the sides tell each other about a queue pair: its place among the others, and the
/// memory that belongs to it. In network order.
const LEN: usize = 16;

/// A queue pair's place among the others, and the memory that belongs to it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Slot {
    at: u32,
    memory: Remote,
}

impl Slot {
    fn to_bytes(self) -> [u8; LEN] {
        let mut bytes = [0; LEN];
        let (at, rest) = bytes.split_at_mut(4);
        let (address, key) = rest.split_at_mut(8);
        at.copy_from_slice(&self.at.to_be_bytes());
        address.copy_from_slice(&self.memory.address.to_be_bytes());
        key.copy_from_slice(&self.memory.key.raw().to_be_bytes());
        bytes
    }

    /// Of the bytes that arrived, which the kernel padded.
    fn of(bytes: &[u8]) -> Option<Self> {
        let (at, rest) = bytes.split_first_chunk()?;
        let (address, rest) = rest.split_first_chunk()?;
        let (key, _) = rest.split_first_chunk()?;
        Some(Self {
            at: u32::from_be_bytes(*at),
            memory: Remote {
                address: u64::from_be_bytes(*address),
                key: RemoteKey::from_raw(u32::from_be_bytes(*key)),
            },
        })
    }

    /// The memory, if it is that of this place.
    fn expect(bytes: &[u8], at: u32) -> Result<Remote> {
        Self::of(bytes)
            .filter(|slot| slot.at == at)
            .map(|slot| slot.memory)
            .ok_or_else(out_of_turn)
    }
}

/// Where a server waits for the connections of one client.
pub(super) struct Door {
    listener: Listener,
}

impl Door {
    /// Listens at an address that the client has just reached, at a port that is free.
    pub(super) fn open(address: SocketAddr, spec: &Spec, session: &Session) -> Result<Self> {
        let listener = cm::listen(any_port(address))
            .backlog(spec.queue_pairs)
            .channel(&open(session)?)
            .build()?;
        Ok(Self { listener })
    }

    pub(super) fn port(&self) -> u16 {
        self.listener.local_addr().port()
    }

    /// Accepts all of them, on the device through which the first one comes.
    pub(super) fn accept(self, spec: &Spec, session: &Session) -> Result<Rig> {
        let mut side = None;
        for at in 0..spec.queue_pairs {
            let request = self.listener.accept_timeout(PATIENCE)?;
            let request = request.ok_or_else(|| {
                Failure::new(format_args!(
                    "{at} of {} connections came",
                    spec.queue_pairs
                ))
            })?;
            let side = match &mut side {
                Some(side) => side,
                none => none.insert(Side::make(spec, request.device().index, session)?),
            };
            let remote = Slot::expect(request.peer_data(), at)?;
            let parts = &side.parts;
            let builder = request.queue_pair(&parts.pd, &parts.send_cq, &parts.recv_cq);
            let prepared = parts.settings(builder, spec)?.build()?;
            let own = side.slot(spec, at)?.to_bytes();
            let request = request.private_data(AcceptData::new(&own)?);
            side.add(request.timeout(PATIENCE).accept(prepared)?, remote)?;
        }
        side.ok_or_else(out_of_turn)?.connected(spec)
    }
}

/// The address with a port that the kernel chooses. rdma_cm does not know IPv4 addresses in the
/// form of IPv6 ones.
fn any_port(mut address: SocketAddr) -> SocketAddr {
    address.set_ip(address.ip().to_canonical());
    address.set_port(0);
    address
}

/// Makes all connections of a client. Returns its side, and what it is connected through.
pub(super) fn connect(
    spec: &Spec,
    server: SocketAddr,
    session: &Session,
) -> Result<(Rig, Context, u32)> {
    let channel = open(session)?;
    let mut side = None;
    for at in 0..spec.queue_pairs {
        let connector = cm::connect(server).timeout(PATIENCE);
        let resolved = connector.channel(&channel).resolve()?;
        let side = match &mut side {
            Some(side) => side,
            none => none.insert(Side::make(spec, resolved.device().index, session)?),
        };
        let parts = &side.parts;
        let builder = resolved.queue_pair(&parts.pd, &parts.send_cq, &parts.recv_cq);
        let prepared = parts.settings(builder, spec)?.build()?;
        let own = side.slot(spec, at)?.to_bytes();
        let resolved = resolved.private_data(ConnectData::new(&own)?);
        let connection = resolved.connect(prepared)?;
        let remote = Slot::expect(connection.private_data(), at)?;
        side.add(connection, remote)?;
    }
    let side = side.ok_or_else(out_of_turn)?;
    let (context, mtu) = (side.parts.context.clone(), side.mtu);
    Ok((side.connected(spec)?, context, mtu))
}

/// What has been connected so far.
struct Side {
    parts: Parts,
    lanes: Vec<Lane>,
    links: Vec<cm::Link>,
    /// The largest packets, in bytes.
    mtu: u32,
}

impl Side {
    fn make(spec: &Spec, device: u32, session: &Session) -> Result<Self> {
        Ok(Self {
            parts: Parts::make(spec, &session.open_index(device)?)?,
            lanes: Vec::new(),
            links: Vec::new(),
            mtu: 0,
        })
    }

    fn slot(&self, spec: &Spec, at: u32) -> Result<Slot> {
        let memory = self.parts.remote(spec, at as usize)?;
        Ok(Slot { at, memory })
    }

    fn add(&mut self, connection: Connection, remote: Remote) -> Result<()> {
        let (queue, link) = connection.into_parts();
        let mut qp = queue
            .untyped()
            .into_raw()
            .map_err(|_| Failure::new("a new connection has requests of its own"))?;
        self.mtu = qp.query()?.path_mtu.bytes().unwrap_or(0);
        let lane = self.parts.lane(self.lanes.len(), qp, remote, None);
        self.lanes.push(lane);
        self.links.push(link);
        Ok(())
    }

    fn connected(self, spec: &Spec) -> Result<Rig> {
        self.parts.rig(spec, self.lanes, self.links)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn private_data_is_read_back_with_padding() {
        let slot = Slot {
            at: 7,
            memory: Remote {
                address: 0x1122_3344_5566_7788,
                key: RemoteKey::from_raw(0x99aa_bbcc),
            },
        };
        let mut bytes = slot.to_bytes().to_vec();
        assert_eq!(bytes[..4], [0, 0, 0, 7]);
        assert_eq!(bytes[4..6], [0x11, 0x22]);
        assert_eq!(Slot::of(&bytes), Some(slot));
        bytes.resize(56, 0);
        assert_eq!(Slot::expect(&bytes, 7).unwrap(), slot.memory);
        assert!(Slot::expect(&bytes, 8).is_err());
        assert_eq!(Slot::of(&bytes[..LEN - 1]), None);
    }
}
