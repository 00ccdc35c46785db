//! Which address of a port a queue pair uses.

use std::fmt;
use std::net::IpAddr;
use std::num::NonZeroU32;

use uverbs_core::sys::source_towards;
use uverbs_core::types::{Gid, GidEntry, GidType};
use uverbs_core::{Errno, Error, ErrorKind, Op, Result};

use crate::Context;

/// The GID that a queue pair uses ([`PreparedQueuePair::gid`](crate::PreparedQueuePair::gid)).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct GidChoice {
    /// The entry of the port's GID table.
    pub entry: GidEntry,
    /// Why this one.
    pub reason: GidReason,
}

/// A choice as a queue pair keeps it, which has its GID and its port elsewhere.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) index: u32,
    gid_type: GidType,
    netdev: Option<NonZeroU32>,
    /// `None`: it is the preferred one.
    reason: Option<Box<GidReason>>,
}

impl Kept {
    #[inline(never)]
    pub(super) fn of(choice: &GidChoice) -> Self {
        let GidChoice { entry, reason } = choice;
        Self {
            index: entry.index,
            gid_type: entry.gid_type,
            netdev: entry.netdev,
            reason: match reason {
                GidReason::Preferred => None,
                other => Some(Box::new(*other)),
            },
        }
    }

    pub(super) fn with(&self, port: u8, gid: Gid) -> GidChoice {
        GidChoice {
            entry: GidEntry {
                gid,
                index: self.index,
                port: port.into(),
                gid_type: self.gid_type,
                netdev: self.netdev,
            },
            reason: self
                .reason
                .as_deref()
                .copied()
                .unwrap_or(GidReason::Preferred),
        }
    }
}

/// Why a queue pair uses its GID.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum GidReason {
    /// [`gid_index`](crate::QueuePairBuilder::gid_index) named it.
    Index,
    /// Packets to the [peer](crate::QueuePairBuilder::peer) come from this address.
    Route {
        /// The peer.
        peer: IpAddr,
    },
    /// No peer was named: RoCE v2 is preferred, and an address that is not link-local.
    Preferred,
    /// As [`Preferred`](Self::Preferred), because the port has no GID for the route to the peer.
    OffRoute {
        /// The peer.
        peer: IpAddr,
        /// The address that packets to the peer would come from; `None`: there is no route.
        source: Option<IpAddr>,
    },
}

/// How the GID is to be chosen.
#[derive(Clone, Copy, Debug)]
pub(super) enum Wanted {
    Best,
    At(u8),
    Towards(IpAddr),
}

/// The GID of `port`; `needed` says whether there must be one where none is named.
pub(super) fn find(
    context: &Context,
    port: u8,
    wanted: Wanted,
    needed: bool,
) -> Result<Option<GidChoice>> {
    let op = Op::CreateQueuePair;
    let peer = match wanted {
        Wanted::At(index) => {
            let entry = context.gid(port, index.into())?.ok_or_else(|| {
                Error::invalid(op, "gid_index")
                    .fact("gid_index", index)
                    .hint("that entry of the GID table is empty")
            })?;
            let reason = GidReason::Index;
            return Ok(Some(GidChoice { entry, reason }));
        }
        _ if !needed => return Ok(None),
        Wanted::Best => None,
        Wanted::Towards(peer) => Some((peer, source_towards(peer, GidType::ROCE_V2_UDP_PORT))),
    };
    let source = peer.and_then(|(_, source)| source);
    let chooser = Chooser::through(context, port, source.map(Gid::from))?;
    chooser.choice(peer).map(Some).ok_or_else(|| {
        missing(op, port)
            .hint("the port has no GID: give its network interface an address and bring it up")
    })
}

/// The entry of the port's table that has this GID, RoCE v2 preferred.
pub(super) fn entry_of(context: &Context, port: u8, gid: Gid) -> Result<GidEntry> {
    let found = Chooser::through(context, port, Some(gid))?.matching;
    found.ok_or_else(|| {
        missing(Op::Handshake, port).hint("the port does not have its address any more")
    })
}

fn missing(op: Op, port: u8) -> Error {
    Error::os(op, Errno::ADDRNOTAVAIL)
        .with_kind(ErrorKind::NotFound)
        .fact("port", port)
}

/// Goes through a GID table.
struct Chooser {
    wanted: Option<Gid>,
    best: Option<GidEntry>,
    /// The best of those with the wanted GID.
    matching: Option<GidEntry>,
}

impl Chooser {
    fn new(wanted: Option<Gid>) -> Self {
        Self {
            wanted,
            best: None,
            matching: None,
        }
    }

    /// Goes through the table of a port. Once in a program, however many call it: it is a kilobyte.
    #[inline(never)]
    fn through(context: &Context, port: u8, wanted: Option<Gid>) -> Result<Self> {
        let mut chooser = Self::new(wanted);
        context.each_gid(|entry| {
            if entry.port == u32::from(port) {
                chooser.consider(entry);
            }
        })?;
        Ok(chooser)
    }

    fn consider(&mut self, entry: GidEntry) {
        self.best = better(self.best, entry);
        if self.wanted == Some(entry.gid) {
            self.matching = better(self.matching, entry);
        }
    }

    /// `peer` is the one that was named, and where packets to it come from: the wanted GID.
    fn choice(self, peer: Option<(IpAddr, Option<IpAddr>)>) -> Option<GidChoice> {
        let reason = match (peer, self.matching) {
            (None, _) => GidReason::Preferred,
            (Some((peer, _)), Some(entry)) => {
                let reason = GidReason::Route { peer };
                return Some(GidChoice { entry, reason });
            }
            (Some((peer, source)), None) => GidReason::OffRoute { peer, source },
        };
        self.best.map(|entry| GidChoice { entry, reason })
    }
}

/// RoCE v2 before v1, and an address that others can reach before a link-local one.
fn better(best: Option<GidEntry>, entry: GidEntry) -> Option<GidEntry> {
    // Work requests and paths carry 8 bits of index.
    if entry.index > 0xff || entry.gid.is_zero() {
        return best;
    }
    best.into_iter().chain([entry]).min_by_key(|entry| {
        (
            entry.gid_type != GidType::RoceV2,
            entry.gid.is_link_local(),
            entry.index,
        )
    })
}

impl fmt::Display for GidReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Index => f.write_str("named by its index"),
            Self::Route { peer } => write!(f, "packets to {peer} come from it"),
            Self::Preferred => f.write_str("the preferred one of the port"),
            Self::OffRoute {
                peer,
                source: Some(source),
            } => write!(
                f,
                "the preferred one of the port; packets to {peer} would come from {source}, which is no GID of it"
            ),
            Self::OffRoute { peer, source: None } => write!(
                f,
                "the preferred one of the port; there is no route to {peer}"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    fn entry(index: u32, gid: &str, gid_type: GidType) -> GidEntry {
        GidEntry {
            gid: gid.parse().unwrap(),
            index,
            port: 1,
            gid_type,
            netdev: None,
        }
    }

    fn choose(peer: Option<(IpAddr, Option<IpAddr>)>) -> GidChoice {
        let source = peer.and_then(|(_, source)| source);
        let mut chooser = Chooser::new(source.map(Gid::from));
        for entry in [
            entry(0, "fe80::1", GidType::RoceV1),
            entry(1, "fe80::1", GidType::RoceV2),
            entry(2, "::ffff:10.0.0.1", GidType::RoceV1),
            entry(3, "::ffff:10.0.0.1", GidType::RoceV2),
            entry(4, "::ffff:10.1.0.1", GidType::RoceV1),
            entry(5, "::ffff:10.1.0.1", GidType::RoceV2),
            entry(256, "::ffff:10.2.0.1", GidType::RoceV2),
        ] {
            chooser.consider(entry);
        }
        chooser.choice(peer).unwrap()
    }

    #[test]
    fn the_address_that_packets_to_the_peer_come_from_is_chosen() {
        let peer: IpAddr = "10.1.0.9".parse().unwrap();
        let choice = choose(Some((peer, "10.1.0.1".parse().ok())));
        assert_eq!(choice.entry.index, 5);
        assert_eq!(choice.reason, GidReason::Route { peer });
        assert_eq!(
            choice.reason.to_string(),
            "packets to 10.1.0.9 come from it"
        );
    }

    #[test]
    fn without_a_peer_or_off_its_route_the_preferred_one_is_chosen() {
        let choice = choose(None);
        assert_eq!(
            (choice.entry.index, choice.reason),
            (3, GidReason::Preferred)
        );
        let peer: IpAddr = "10.2.0.9".parse().unwrap();
        for source in [None, "192.0.2.1".parse().ok(), "10.2.0.1".parse().ok()] {
            let choice = choose(Some((peer, source)));
            assert_eq!(choice.entry.index, 3);
            assert_eq!(choice.reason, GidReason::OffRoute { peer, source });
        }
    }

    #[test]
    fn a_routable_roce_v2_address_is_preferred() {
        let table = [
            entry(0, "fe80::1", GidType::RoceV1),
            entry(1, "fe80::1", GidType::RoceV2),
            entry(2, "::ffff:10.0.0.1", GidType::RoceV1),
            entry(3, "::ffff:10.0.0.1", GidType::RoceV2),
            entry(4, "2001:db8::1", GidType::RoceV2),
        ];
        let best = |table: &[GidEntry]| {
            let best = table.iter().copied().fold(None, better);
            best.map(|entry| entry.index)
        };
        assert_eq!(best(&table), Some(3));
        assert_eq!(
            best(&table[..3]),
            Some(1),
            "link-local v2 before routable v1"
        );
        assert_eq!(best(&table[..1]), Some(0));
        assert_eq!(best(&[]), None);
        let far = [entry(300, "::1", GidType::RoceV2)];
        assert_eq!(best(&far), None, "beyond what a path can name");
    }

    #[test]
    #[cfg_attr(miri, ignore = "asks the routing table of this host")]
    fn this_host_reaches_itself_from_itself() {
        let own = IpAddr::from([127, 0, 0, 1]);
        assert_eq!(source_towards(own, GidType::ROCE_V2_UDP_PORT), Some(own));
    }
}
