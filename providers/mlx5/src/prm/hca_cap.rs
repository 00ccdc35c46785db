//! `QUERY_HCA_CAP`: the device's capabilities that this provider needs.

use super::field::{Field, Wide, bit, field, word};
use super::mailbox::Mailbox;
use super::opcode;

/// The start of the capabilities in the reply.
const CAPS: usize = 0x10;
/// The reply: 16 bytes and the longest group.
pub(crate) const REPLY_LEN: usize = CAPS + 0x1000;
const GENERAL: u16 = 0x00;
const QOS: u16 = 0x0c;
/// Current capabilities, as opposed to the maximum.
const CURRENT: u16 = 1;

/// The query for a group of current capabilities (`enum mlx5_cap_type`).
pub fn query_hca_cap(group: u16) -> Mailbox {
    Mailbox::command(opcode::QUERY_HCA_CAP, group << 1 | CURRENT, 16)
}

/// General capabilities (`cmd_hca_cap`) that DEVX, scheduling and bonds depend on.
#[expect(
    clippy::struct_excessive_bools,
    reason = "the device's capabilities are single bits"
)]
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct GeneralCaps {
    /// The device has [`QosCaps`].
    pub qos: bool,
    /// Modify commands of queue pairs may carry the extended part (`qpc_extension`).
    pub qpc_extension: bool,
    /// Events are subscribed to by a table of types instead of the former fixed ones.
    pub event_cap: bool,
    /// log₂ of the number of user contexts; 0: no DEVX.
    pub log_max_uctx: u8,
    /// log₂ of the number of registered memories for DEVX.
    pub log_max_umem: u8,
    /// The number of ports that can be bonded.
    pub lag_ports: u8,
    /// Queues can be bound to a port also where there is no bond.
    pub lag_tx_port_affinity: bool,
    /// Queue pairs that are ready to send can be moved to another port of the bond.
    pub rts2rts_lag_port: bool,
    /// Connections that are ready to send can get another source port of UDP.
    pub rts2rts_udp_source_port: bool,
    /// Send queues copy local memory (`dma_mmo_sq`).
    pub copies_by_send_queues: bool,
    /// Queue pairs copy local memory once they are allowed to (`dma_mmo_qp`).
    pub copies_by_queue_pairs: bool,
    /// log₂ of the bytes of a copy; 0: 2 GiB.
    pub log_max_copy: u8,
    /// Kinds of general objects, one bit each.
    pub general_objects: u64,
}

/// Quality of service (`qos_cap`).
#[expect(
    clippy::struct_excessive_bools,
    reason = "the device's capabilities are single bits"
)]
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct QosCaps {
    /// Send rates can be limited.
    pub packet_pacing: bool,
    /// Bursts can be limited.
    pub burst_bound: bool,
    /// The typical size of packets can be set.
    pub typical_size: bool,
    /// Rates can belong to a user context ([`PacingEntry`](crate::pacing::PacingEntry)).
    pub packet_pacing_uid: bool,
    /// The lowest rate, kb/s.
    pub min_rate_kbps: u32,
    /// The highest rate, kb/s.
    pub max_rate_kbps: u32,
    /// The number of different rates.
    pub rates: u16,
    /// Raw send queues can be attached to leaves.
    pub nic_sq_scheduling: bool,
    /// Queue pairs can be attached to leaves.
    pub nic_qp_scheduling: bool,
    /// Elements have shares.
    pub nic_bw_share: bool,
    /// Elements have rate limits.
    pub nic_rate_limit: bool,
    /// The largest share; 0 if the device does not report it.
    pub max_share: u32,
    /// log₂ of the number of leaves; 0 if the device does not report it.
    pub log_max_leaves: u8,
    /// Supported kinds of elements, one bit each ([`ElementKind`](super::ElementKind)).
    pub element_types: u16,
    /// Supported kinds of arbiters, one bit each ([`TsarKind`](super::TsarKind)).
    pub tsar_types: u16,
}

const fn cap(field: Field) -> Field {
    field.at(CAPS)
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "each field is as wide as what it is read into, or narrower"
)]
impl GeneralCaps {
    /// The query whose reply [`parse`](Self::parse) decodes.
    pub fn query() -> Mailbox {
        query_hca_cap(GENERAL)
    }

    /// Decodes a reply.
    pub fn parse(reply: &Mailbox) -> Self {
        let flag = |byte, at| reply.get(cap(bit(byte, at))) != 0;
        Self {
            qos: flag(0x40, 4),
            qpc_extension: flag(0x24, 29),
            event_cap: flag(0x10, 15),
            log_max_uctx: reply.get(cap(field(0x8c, 28, 24))) as u8,
            log_max_umem: reply.get(cap(field(0x8c, 20, 16))) as u8,
            lag_ports: reply.get(cap(field(0x4c, 3, 0))) as u8,
            lag_tx_port_affinity: flag(0x4c, 7),
            rts2rts_lag_port: flag(0x28, 13),
            rts2rts_udp_source_port: flag(0x28, 14),
            copies_by_send_queues: flag(0x28, 12),
            copies_by_queue_pairs: flag(0xe8, 23),
            log_max_copy: reply.get(cap(field(0x0c, 20, 16))) as u8,
            general_objects: reply.get_wide(Wide(CAPS + 0x80)),
        }
    }
}

impl GeneralCaps {
    /// The most bytes that one request copies from local memory to local memory; 0 if the device
    /// does not.
    pub fn max_copy(&self) -> u32 {
        match self.log_max_copy {
            _ if !self.copies_by_send_queues && !self.copies_by_queue_pairs => 0,
            0 => 1 << 31,
            log => 1 << log.min(31),
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "each field is as wide as what it is read into, or narrower"
)]
impl QosCaps {
    /// The query whose reply [`parse`](Self::parse) decodes.
    pub fn query() -> Mailbox {
        query_hca_cap(QOS)
    }

    /// Decodes a reply.
    pub fn parse(reply: &Mailbox) -> Self {
        let flag = |byte, at| reply.get(cap(bit(byte, at))) != 0;
        Self {
            packet_pacing: flag(0x00, 31),
            burst_bound: flag(0x00, 26),
            typical_size: flag(0x00, 25),
            packet_pacing_uid: flag(0x00, 20),
            min_rate_kbps: reply.get(cap(word(0x0c))),
            max_rate_kbps: reply.get(cap(word(0x08))),
            rates: reply.get(cap(field(0x10, 15, 0))) as u16,
            nic_sq_scheduling: flag(0x00, 23),
            nic_qp_scheduling: flag(0x04, 30),
            nic_bw_share: flag(0x00, 22),
            nic_rate_limit: flag(0x00, 21),
            max_share: reply.get(cap(word(0x1c))),
            log_max_leaves: reply.get(cap(field(0x04, 20, 16))) as u8,
            element_types: reply.get(cap(field(0x20, 31, 16))) as u16,
            tsar_types: reply.get(cap(field(0x20, 15, 0))) as u16,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_queries_name_their_groups() {
        assert_eq!(
            GeneralCaps::query().as_bytes(),
            [1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]
        );
        assert_eq!(QosCaps::query().as_bytes()[7], 0x19);
    }

    #[test]
    fn bits_are_where_the_manual_has_them() {
        let mut reply = Mailbox::new(REPLY_LEN);
        // Bit numbers by the manual's numbering, from the start of the capabilities.
        for at in [8, 9, 10, 33] {
            reply.as_mut_bytes()[CAPS + at / 8] |= 0x80 >> (at % 8);
        }
        reply.as_mut_bytes()[CAPS + 0x21] = 0x11;
        let caps = QosCaps::parse(&reply);
        assert!(caps.nic_sq_scheduling && caps.nic_bw_share && caps.nic_rate_limit);
        assert!(caps.nic_qp_scheduling && !caps.packet_pacing);
        assert_eq!(caps.element_types, 0x11);

        let mut reply = Mailbox::new(REPLY_LEN);
        for at in [0x21b, 0x122] {
            reply.as_mut_bytes()[CAPS + at / 8] |= 0x80 >> (at % 8);
        }
        let caps = GeneralCaps::parse(&reply);
        assert!(caps.qos && caps.qpc_extension && !caps.event_cap);
        assert_eq!(GeneralCaps::parse(&Mailbox::new(0)), GeneralCaps::default());
    }

    /// Bits of a word of the capabilities, and what they say.
    type Capability<C> = (usize, u32, fn(&mut C));

    /// A reply in which only these bits of a word of the capabilities are set.
    fn only(byte: usize, bits: u32) -> Mailbox {
        let mut reply = Mailbox::new(REPLY_LEN);
        reply.set(cap(word(byte)), bits);
        reply
    }

    #[test]
    fn each_general_capability_has_its_own_bits() {
        let each: [Capability<GeneralCaps>; 14] = [
            (0x10, 1 << 15, |caps| caps.event_cap = true),
            (0x24, 1 << 29, |caps| caps.qpc_extension = true),
            (0x40, 1 << 4, |caps| caps.qos = true),
            (0x8c, 0x1f << 24, |caps| caps.log_max_uctx = 31),
            (0x8c, 0x1f << 16, |caps| caps.log_max_umem = 31),
            (0x4c, 0xf, |caps| caps.lag_ports = 15),
            (0x4c, 1 << 7, |caps| caps.lag_tx_port_affinity = true),
            (0x28, 1 << 13, |caps| caps.rts2rts_lag_port = true),
            (0x28, 1 << 14, |caps| caps.rts2rts_udp_source_port = true),
            (0x28, 1 << 12, |caps| caps.copies_by_send_queues = true),
            (0xe8, 1 << 23, |caps| caps.copies_by_queue_pairs = true),
            (0x0c, 0x1f << 16, |caps| caps.log_max_copy = 31),
            (0x80, 1, |caps| caps.general_objects = 1 << 32),
            (0x84, 1, |caps| caps.general_objects = 1),
        ];
        for (byte, bits, expected) in each {
            let mut caps = GeneralCaps::default();
            expected(&mut caps);
            assert_eq!(
                GeneralCaps::parse(&only(byte, bits)),
                caps,
                "{byte:#x} {bits:#x}"
            );
        }
        let others = [(0x10, !(1 << 15)), (0x24, !(1 << 29)), (0x40, !(1 << 4))];
        for (byte, bits) in others.into_iter().chain([(0x8c, !0x1f1f_0000)]) {
            let caps = GeneralCaps::parse(&only(byte, bits));
            assert_eq!(caps, GeneralCaps::default(), "{byte:#x}");
        }
    }

    #[test]
    fn each_capability_for_quality_of_service_has_its_own_bits() {
        let each: [Capability<QosCaps>; 15] = [
            (0x00, 1 << 31, |caps| caps.packet_pacing = true),
            (0x00, 1 << 26, |caps| caps.burst_bound = true),
            (0x00, 1 << 25, |caps| caps.typical_size = true),
            (0x00, 1 << 23, |caps| caps.nic_sq_scheduling = true),
            (0x00, 1 << 22, |caps| caps.nic_bw_share = true),
            (0x00, 1 << 21, |caps| caps.nic_rate_limit = true),
            (0x00, 1 << 20, |caps| caps.packet_pacing_uid = true),
            (0x04, 1 << 30, |caps| caps.nic_qp_scheduling = true),
            (0x04, 0x1f << 16, |caps| caps.log_max_leaves = 31),
            (0x08, 0x0102_0304, |caps| caps.max_rate_kbps = 0x0102_0304),
            (0x0c, 0x0102_0304, |caps| caps.min_rate_kbps = 0x0102_0304),
            (0x10, 0xffff, |caps| caps.rates = 0xffff),
            (0x1c, 0x0102_0304, |caps| caps.max_share = 0x0102_0304),
            (0x20, 0x0102_0000, |caps| caps.element_types = 0x0102),
            (0x20, 0x0304, |caps| caps.tsar_types = 0x0304),
        ];
        for (byte, bits, expected) in each {
            let mut caps = QosCaps::default();
            expected(&mut caps);
            assert_eq!(
                QosCaps::parse(&only(byte, bits)),
                caps,
                "{byte:#x} {bits:#x}"
            );
        }
    }
}
