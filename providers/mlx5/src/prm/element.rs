//! Commands on elements of the scheduling tree: general object 0x26.

use super::field::{Field, Wide, field, word};
use super::mailbox::Mailbox;
use super::opcode;

const OBJECT_TYPE: Field = field(0x04, 15, 0);
const OBJECT_ID: Field = word(0x08);
const SELECT: Wide = Wide(0x10);
const HIERARCHY: Field = field(0x18, 31, 24);
const KIND: Field = field(0x30, 31, 24);
const TSAR: Field = field(0x34, 23, 16);
const PARENT: Field = word(0x38);
const SHARE: Field = word(0x44);
const MAX_BANDWIDTH: Field = word(0x48);
const LEN: usize = 144;

const SELECT_SHARE: u64 = 1;
const SELECT_MAX_BANDWIDTH: u64 = 1 << 1;
/// The hierarchy for what a function's own queues send.
const NIC: u32 = 3;

/// The kind of an element; its number is a bit of
/// [`QosCaps::element_types`](super::QosCaps::element_types).
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[repr(u8)]
pub enum ElementKind {
    /// A transmit scheduling arbiter: a node with elements below it.
    Tsar = 0,
    /// A queue group: a leaf that queues are attached to.
    QueueGroup = 4,
}

/// An arbiter's scheduling; its number is a bit of
/// [`QosCaps::tsar_types`](super::QosCaps::tsar_types).
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[repr(u8)]
pub enum TsarKind {
    /// Deficit weighted round robin.
    Dwrr = 0,
    /// Round robin.
    RoundRobin = 1,
    /// Enhanced transmission selection.
    Ets = 2,
}

/// `mlx5dv_sched_attr`—the parameters of a create, or of a modify, which sets the fields that are
/// present and no others.
///
/// The C structure's `flags` correspond to the fields that are present; its `comp_mask`, which must
/// be 0, has no meaning.
#[doc(alias = "mlx5dv_sched_attr")]
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ElementAttr {
    /// Its weight among its siblings, without a unit; 0 is the device's default.
    pub share: Option<u32>,
    /// The highest average send rate, in Mb/s; 0 is no limit.
    pub max_mbps: Option<u32>,
}

impl ElementAttr {
    /// Nothing set: the device's default weight, no limit.
    pub const fn new() -> Self {
        Self {
            share: None,
            max_mbps: None,
        }
    }

    /// Sets the weight among siblings; 0 is the device's default.
    #[must_use]
    pub const fn share(mut self, share: u32) -> Self {
        self.share = Some(share);
        self
    }

    /// Sets the limit, Mb/s; 0 is none.
    #[must_use]
    pub const fn max_mbps(mut self, max_mbps: u32) -> Self {
        self.max_mbps = Some(max_mbps);
        self
    }

    /// The command that creates such an element under `parent` (0: as a root).
    pub fn create(&self, kind: ElementKind, parent: u32) -> Mailbox {
        let mut command = self.command(opcode::CREATE_GENERAL_OBJECT);
        command.set(KIND, kind as u32);
        if kind == ElementKind::Tsar {
            command.set(TSAR, TsarKind::Dwrr as u32);
        }
        command.set(PARENT, parent);
        command
    }

    /// The command that sets the present fields of element `id` of that kind.
    pub fn modify(&self, kind: ElementKind, id: u32) -> Mailbox {
        let mut command = self.command(opcode::MODIFY_GENERAL_OBJECT);
        command.set(OBJECT_ID, id);
        command.set(KIND, kind as u32);
        command
    }

    fn command(&self, opcode: u16) -> Mailbox {
        let mut command = Mailbox::command(opcode, 0, LEN);
        command.set(OBJECT_TYPE, opcode::SCHEDULING_ELEMENT.into());
        command.set(HIERARCHY, NIC);
        let mut select = 0;
        if let Some(share) = self.share {
            select |= SELECT_SHARE;
            command.set(SHARE, share);
        }
        if let Some(cap) = self.max_mbps {
            select |= SELECT_MAX_BANDWIDTH;
            command.set(MAX_BANDWIDTH, cap);
        }
        command.set_wide(SELECT, select);
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leaf_is_created_with_share_and_cap() {
        let words = ElementAttr {
            share: Some(3),
            max_mbps: Some(4096),
        };
        let command = words.create(ElementKind::QueueGroup, 0x0102_0304);
        let bytes = command.as_bytes();
        assert_eq!(bytes.len(), 144);
        assert_eq!(&bytes[..8], [0x0a, 0, 0, 0, 0, 0, 0, 0x26]);
        assert_eq!(&bytes[0x10..0x19], [0, 0, 0, 0, 0, 0, 0, 3, 3]);
        assert_eq!(bytes[0x30], 4);
        assert_eq!(&bytes[0x38..0x3c], [1, 2, 3, 4]);
        assert_eq!(&bytes[0x44..0x4c], [0, 0, 0, 3, 0, 0, 0x10, 0]);
    }

    #[test]
    fn a_modify_names_its_element_and_no_parent() {
        let words = ElementAttr {
            share: Some(0),
            max_mbps: None,
        };
        let command = words.modify(ElementKind::Tsar, 9);
        let bytes = command.as_bytes();
        assert_eq!(&bytes[..12], [0x0a, 1, 0, 0, 0, 0, 0, 0x26, 0, 0, 0, 9]);
        assert_eq!(bytes[0x17], 1, "0 is a value like any other");
        assert_eq!(&bytes[0x38..0x3c], [0; 4]);
    }
}
