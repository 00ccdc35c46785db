//! Looking for ways to peers: from an address to an address handle, one step after the other, each
//! ended by an event, so that a peer that does not answer keeps no other one waiting.

use std::net::SocketAddr;
use std::os::fd::RawFd;

use uverbs_compat_base::abi::{
    ibv_ah_attr, ibv_gid, ibv_gid_entry, ibv_global_route, ibv_sa_path_rec,
};
use uverbs_core::cm::{CmAddress, EventKind};

use super::super::link::Link;
use crate::answer::Answer;
use crate::errno::Code;
use crate::id::Id;
use crate::{peer, resolve, verbs};

/// The time for each step in milliseconds.
const PATIENCE: i32 = 2000;
/// More GIDs than the ports of a device have.
const GIDS: usize = 2048;
/// The kind of a GID for RoCE v1.
const ROCE_V1: u32 = 1;
/// What packets of RoCE have left, if the path does not say.
const HOPS: u8 = 64;

/// A search.
pub(super) struct Search {
    pub(super) peer: SocketAddr,
    /// The peer's queue pair, as it says.
    pub(super) qp_num: u32,
    link: Link,
}

impl Search {
    pub(super) fn begin(peer: SocketAddr, qp_num: u32, local: SocketAddr) -> Answer<Self> {
        let link = Link::for_datagrams()?;
        // Another port: that of the socket has its queue pair's id.
        let source = SocketAddr::new(local.ip(), 0);
        let source = match (local, source) {
            (SocketAddr::V6(local), SocketAddr::V6(mut source)) => {
                source.set_scope_id(local.scope_id());
                source.into()
            }
            (_, source) => source,
        };
        let [from, to] = [source, peer].map(|at| peer::store(Some(CmAddress::from(at))));
        let (from, to) = ((&raw const from).cast(), (&raw const to).cast());
        resolve::address(link.id()?, from, to, PATIENCE)?;
        Ok(Self { peer, qp_num, link })
    }

    pub(super) fn fd(&self) -> RawFd {
        self.link.fd
    }

    /// Goes on if something has happened: whether the path is known.
    pub(super) fn advance(&self) -> Answer<bool> {
        while let Some(event) = self.link.next()? {
            event.outcome()?;
            match event.kind()? {
                EventKind::AddressResolved => resolve::route(self.link.id()?, PATIENCE)?,
                EventKind::RouteResolved => return Ok(true),
                _ => return Err(Code::new(libc::EHOSTUNREACH)),
            }
        }
        Ok(false)
    }

    /// What an address handle needs, once the path is known. This may ask for each GID of the port:
    /// nobody should wait for it.
    pub(super) fn attributes(&self) -> Answer<ibv_ah_attr> {
        let id = self.link.id()?;
        let path = {
            let state = id.state();
            let paths = state.paths.last().and_then(|paths| paths.first());
            paths.ok_or(Code::NO_DATA)?.get()
        };
        attributes(id, &path)
    }
}

fn attributes(id: &Id, path: &ibv_sa_path_rec) -> Answer<ibv_ah_attr> {
    let port_num = id.c.port_num.get();
    let is_infiniband = id.device()?.is_infiniband(port_num);
    let port = verbs::query_port(id.c.verbs.get(), port_num)?;
    let bits = (1_u16 << port.lmc.min(7)) - 1;
    let mut attr = ibv_ah_attr {
        dlid: u16::from_be(path.dlid),
        sl: path.sl,
        src_path_bits: (u16::from_be(path.slid) & bits).to_le_bytes()[0],
        static_rate: path.rate,
        port_num,
        ..ibv_ah_attr::default()
    };
    if !is_infiniband || path.hop_limit > 1 {
        attr.is_global = 1;
        attr.grh = ibv_global_route {
            dgid: path.dgid,
            flow_label: u32::from_be(path.flow_label),
            sgid_index: gid_index(id, path)?,
            hop_limit: if path.hop_limit > 1 {
                path.hop_limit
            } else {
                HOPS
            },
            traffic_class: path.traffic_class,
        };
    }
    Ok(attr)
}

/// Where the port has the path's GID.
fn gid_index(id: &Id, path: &ibv_sa_path_rec) -> Answer<u8> {
    let entries = verbs::query_gids(id.c.verbs.get(), GIDS)?;
    place(&entries, id.c.port_num.get(), path.sgid).ok_or(Code::NO_DATA)
}

/// The place of a port's GID in the table of a device, of RoCE v2 rather than of v1, if address
/// handles can name it.
fn place(entries: &[ibv_gid_entry], port: u8, gid: ibv_gid) -> Option<u8> {
    let ours = entries.iter().filter_map(|entry| {
        let is_it = entry.port_num == port.into() && entry.gid == gid;
        let at = u8::try_from(entry.gid_index).ok().filter(|_| is_it)?;
        Some((entry.gid_type == ROCE_V1, at))
    });
    ours.min().map(|(_, at)| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gid_of_the_newer_roce_is_taken_where_a_handle_can_name_it() {
        let [ours, other] = [[7; 16], [8; 16]].map(|raw| ibv_gid { raw });
        let entry = |gid_index, port_num, gid_type, gid| ibv_gid_entry {
            gid,
            gid_index,
            port_num,
            gid_type,
            ndev_ifindex: 0,
        };
        let table = [
            entry(256, 1, 2, ours),
            entry(3, 2, 2, ours),
            entry(2, 1, 2, other),
            entry(0, 1, ROCE_V1, ours),
            entry(255, 1, 2, ours),
        ];
        assert_eq!(place(&table, 1, ours), Some(255));
        assert_eq!(place(&table[..4], 1, ours), Some(0));
        assert_eq!(place(&table[..3], 1, ours), None);
    }
}
