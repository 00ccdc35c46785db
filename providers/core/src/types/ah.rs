//! Address vectors: the path to a peer.

use std::fmt;

use super::{Gid, Grh, OutOfRange, Rate, WorkCompletion, time::field};
use crate::error::{Error, Op, Result};

/// The destination queue pair number of multicast messages.
#[doc(alias = "IB_MULTICAST_QPN")]
pub const MULTICAST_QPN: u32 = 0x00ff_ffff;

/// First multicast LID of InfiniBand.
#[doc(alias = "IB_MULTICAST_LID_BASE")]
pub const MULTICAST_LID_BASE: u16 = 0xc000;

field! {
    /// Flow label, 20 bits: packets with the same label stay in order. Default: 0, "none".
    #[derive(Default)]
    pub struct FlowLabel: u32, 20 bits, "flow label", by new;
}

field! {
    /// Service level, 4 bits: which virtual lane InfiniBand packets take; the priority on Ethernet.
    /// Default: 0.
    #[derive(Default)]
    pub struct ServiceLevel: u8, 4 bits, "service level", by new;
}

field! {
    /// Low bits of the source LID, 7 bits: a port has up to 128 LIDs. Default: 0. 0 on Ethernet.
    #[derive(Default)]
    pub struct PathBits: u8, 7 bits, "source path bits", by new;
}

impl FlowLabel {
    /// `ibv_flow_label_to_udp_sport`—the source port RoCE v2 packets with this label have, 0xC000
    /// to 0xFFFF.
    #[doc(alias = "ibv_flow_label_to_udp_sport")]
    #[doc(alias = "rdma_flow_label_to_udp_sport")]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "14 bits, and the two above them"
    )]
    pub const fn udp_source_port(self) -> u16 {
        let label = self.raw();
        ((label & 0x3fff) ^ (label >> 14)) as u16 | 0xc000
    }

    /// `rdma_calc_flow_label`—the label both ends of a connection derive from their queue pair
    /// numbers, in either order.
    #[doc(alias = "rdma_calc_flow_label")]
    #[expect(clippy::cast_possible_truncation, reason = "20 bits are kept")]
    pub const fn for_qps(one: u32, other: u32) -> Self {
        let product = one as u64 * other as u64;
        let folded = product ^ (product >> 20);
        Self::from_raw((folded ^ (folded >> 40)) as u32)
    }
}

impl fmt::Display for FlowLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#07x}", self.raw())
    }
}

/// `ibv_global_route`—the part of an address that crosses subnets; on RoCE the whole address.
#[doc(alias = "ibv_global_route")]
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct GlobalRoute {
    /// The peer's GID, or a multicast GID.
    pub dgid: Gid,
    /// Flow label.
    pub flow_label: FlowLabel,
    /// Index of the source GID in the local port's GID table.
    pub sgid_index: u8,
    /// Hop limit, time to live on RoCE v2 over IPv4. Default: 64.
    pub hop_limit: u8,
    /// Traffic class, type of service on RoCE v2 over IPv4.
    pub traffic_class: u8,
}

impl GlobalRoute {
    /// A route to `dgid` from the GID at `sgid_index`; all other fields have their defaults.
    pub const fn new(dgid: Gid, sgid_index: u8) -> Self {
        Self {
            dgid,
            flow_label: FlowLabel::from_raw(0),
            sgid_index,
            hop_limit: 64,
            traffic_class: 0,
        }
    }
}

impl Default for GlobalRoute {
    fn default() -> Self {
        Self::new(Gid::ZERO, 0)
    }
}

/// `ibv_ah_attr`—how to reach a peer.
#[doc(alias = "ibv_ah_attr")]
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct AddressVector {
    /// Destination LID; 0 on Ethernet.
    pub dlid: u16,
    /// Service level, 0 to 15; priority on Ethernet.
    pub sl: u8,
    /// Low bits of the source LID, 0 to 127.
    pub src_path_bits: u8,
    /// Maximum rate to send at. Default: the port's rate.
    pub static_rate: Rate,
    /// The local port, from 1. Default: 1.
    pub port: u8,
    /// Global route: required on Ethernet and across subnets.
    pub grh: Option<GlobalRoute>,
}

impl AddressVector {
    /// To a LID in the local subnet.
    pub const fn local(port: u8, dlid: u16) -> Self {
        Self {
            dlid,
            sl: 0,
            src_path_bits: 0,
            static_rate: Rate::Max,
            port,
            grh: None,
        }
    }

    /// To a GID, as RoCE needs it.
    pub const fn global(port: u8, grh: GlobalRoute) -> Self {
        Self {
            dlid: 0,
            sl: 0,
            src_path_bits: 0,
            static_rate: Rate::Max,
            port,
            grh: Some(grh),
        }
    }

    /// Checks what does not depend on the device: the rate has a name, and the service level (4
    /// bits) and the path bits (7 bits) fit their fields.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for a rate without a name;
    /// [`LimitExceeded`](crate::ErrorKind::LimitExceeded) for a number that is too wide.
    pub fn check(&self, op: Op) -> Result<()> {
        self.static_rate.checked(op, "static_rate")?;
        for (what, requested, max) in [
            ("sl", self.sl, ServiceLevel::MAX.raw()),
            ("src_path_bits", self.src_path_bits, PathBits::MAX.raw()),
        ] {
            if requested > max {
                return Err(Error::limit(op, what, requested.into(), max.into()));
            }
        }
        Ok(())
    }

    /// `ibv_init_ah_from_wc`—back to the sender of a UD message.
    ///
    /// `grh` is the header before the message, used only if the completion says that there is one.
    /// On InfiniBand a message from the same subnet has none as a rule: the answer then goes to the
    /// sender's LID. `sgid_index` is the index of the header's destination GID in the local table.
    /// The hop limit is 255.
    #[doc(alias = "ibv_init_ah_from_wc")]
    pub fn reply_to(port: u8, wc: &WorkCompletion, grh: Option<&Grh>, sgid_index: u8) -> Self {
        let route = grh.filter(|_| wc.has_grh()).map(|grh| GlobalRoute {
            dgid: grh.sgid(),
            flow_label: grh.flow_label(),
            sgid_index,
            hop_limit: 255,
            traffic_class: grh.traffic_class(),
        });
        Self {
            dlid: wc.slid,
            sl: wc.sl,
            src_path_bits: wc.dlid_path_bits,
            static_rate: Rate::Max,
            port,
            grh: route,
        }
    }
}

impl Default for AddressVector {
    fn default() -> Self {
        Self::local(1, 0)
    }
}
