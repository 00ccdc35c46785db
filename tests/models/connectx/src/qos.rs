//! Rate limits and the tree of scheduling elements.

use std::collections::BTreeMap;

use crate::profile::limit;
use crate::status::{Outcome, Rule, require};
use crate::table::Table;

/// One rate of the packet pacing table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rate {
    /// Kilobits per second.
    pub(crate) kilobits: u32,
    /// Largest burst in bytes; 0 leaves the choice to the device.
    pub(crate) burst: u32,
    /// Typical packet size in bytes; 0 leaves the choice to the device.
    pub(crate) packet: u16,
}

/// The packet pacing table.
#[derive(Debug, Default)]
pub(crate) struct PacingTable(BTreeMap<u16, Rate>);

impl PacingTable {
    /// Sets an index or, with an all-zero rate, frees it.
    pub(crate) fn set(&mut self, index: u16, rate: Rate) -> Outcome {
        require(
            (1..limit::RATES).contains(&u32::from(index)),
            Rule::OutOfRange,
        )?;
        if rate == Rate::default() {
            self.0.remove(&index);
        } else {
            self.0.insert(index, rate);
        }
        Ok(())
    }

    /// The rate at an index that is in use.
    pub(crate) fn get(&self, index: u16) -> Option<Rate> {
        self.0.get(&index).copied()
    }

    /// Number of rates.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

/// What a scheduling element is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ElementKind {
    /// An arbiter over its children.
    Tsar,
    /// A leaf that queues attach to.
    QueueGroup,
}

impl ElementKind {
    /// Decodes the element type.
    pub(crate) fn parse(raw: u32) -> Outcome<Self> {
        match raw {
            0 => Ok(Self::Tsar),
            4 => Ok(Self::QueueGroup),
            _ => Err(Rule::ElementType.refuse()),
        }
    }
}

/// One scheduling element.
#[derive(Clone, Debug)]
pub(crate) struct Element {
    pub(crate) kind: ElementKind,
    pub(crate) hierarchy: u8,
    /// The parent element; 0 is the root of the hierarchy.
    pub(crate) parent: u32,
    pub(crate) context: Vec<u8>,
    pub(crate) share: u32,
    /// Megabits per second; 0 means no cap.
    pub(crate) max_bandwidth: u32,
    /// Number of queues attached to a leaf.
    pub(crate) users: u32,
}

/// The scheduling elements of one function.
#[derive(Debug)]
pub(crate) struct Scheduler(Table<Element>);

/// The largest depth of a tree.
const MAX_DEPTH: usize = 8;

impl Default for Scheduler {
    fn default() -> Self {
        Self(Table::new(1, 1 << 10))
    }
}

impl Scheduler {
    /// Adds an element under its parent.
    pub(crate) fn add(&mut self, uid: u16, element: Element) -> Outcome<u32> {
        self.check(uid, &element)?;
        self.0.add(uid, element)
    }

    fn check(&self, uid: u16, element: &Element) -> Outcome {
        require(element.share <= limit::MAX_SHARE, Rule::Share)?;
        let mut parent = element.parent;
        for _ in 0..MAX_DEPTH {
            if parent == 0 {
                return Ok(());
            }
            let above = self.0.of(parent, uid)?;
            require(
                above.kind == ElementKind::Tsar && above.hierarchy == element.hierarchy,
                Rule::Parent,
            )?;
            parent = above.parent;
        }
        Err(Rule::Depth.refuse())
    }

    /// Changes the share or cap of an element; its place in the tree is fixed.
    pub(crate) fn modify(
        &mut self,
        uid: u16,
        id: u32,
        share: Option<u32>,
        cap: Option<u32>,
    ) -> Outcome {
        require(
            share.is_none_or(|share| share <= limit::MAX_SHARE),
            Rule::Share,
        )?;
        let element = self.0.of_mut(id, uid)?;
        if let Some(share) = share {
            element.share = share;
        }
        if let Some(cap) = cap {
            element.max_bandwidth = cap;
        }
        Ok(())
    }

    /// Removes an element that has neither children nor queues.
    pub(crate) fn remove(&mut self, uid: u16, id: u32) -> Outcome {
        let element = self.0.of(id, uid)?;
        require(
            element.users == 0 && !self.0.iter().any(|(_, other)| other.parent == id),
            Rule::InUse,
        )?;
        self.0.take(id, uid).map(|_| ())
    }

    /// The element for a command of `uid`.
    pub(crate) fn of(&self, uid: u16, id: u32) -> Outcome<&Element> {
        self.0.of(id, uid)
    }

    /// Moves one queue from leaf `old` to leaf `new`; 0 means no leaf.
    pub(crate) fn attach(&mut self, uid: u16, old: u32, new: u32) -> Outcome {
        if new != 0 {
            let leaf = self.0.of_mut(new, uid)?;
            require(leaf.kind == ElementKind::QueueGroup, Rule::ElementType)?;
            leaf.users += 1;
        }
        if let Some(leaf) = self.0.get_mut(old) {
            leaf.users = leaf.users.saturating_sub(1);
        }
        Ok(())
    }

    /// Detaches one queue from a leaf.
    pub(crate) fn detach(&mut self, old: u32) {
        if let Some(leaf) = self.0.get_mut(old) {
            leaf.users = leaf.users.saturating_sub(1);
        }
    }

    /// The path from a leaf to the root, leaf first.
    pub(crate) fn path(&self, leaf: u32) -> Vec<(u32, u32, u32)> {
        let mut path = Vec::new();
        let mut at = leaf;
        while let Some(element) = self.0.get(at).filter(|_| path.len() <= MAX_DEPTH) {
            path.push((at, element.share.max(1), element.max_bandwidth));
            at = element.parent;
        }
        path
    }

    /// The elements that `uid` owns, youngest first, so that children go before their parents.
    pub(crate) fn owned_by(&self, uid: u16) -> Vec<u32> {
        let mut ids = self.0.owned_by(uid);
        ids.reverse();
        ids
    }

    /// Number of elements.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::status::Status;

    fn element(kind: ElementKind, parent: u32) -> Element {
        Element {
            kind,
            hierarchy: 3,
            parent,
            context: Vec::new(),
            share: 1,
            max_bandwidth: 0,
            users: 0,
        }
    }

    #[test]
    fn elements_with_wrong_parents_or_users_are_refused() {
        let mut tree = Scheduler::default();
        let root = tree.add(1, element(ElementKind::Tsar, 0)).unwrap();
        let leaf = tree.add(1, element(ElementKind::QueueGroup, root)).unwrap();
        assert_eq!(
            tree.add(1, element(ElementKind::Tsar, leaf))
                .unwrap_err()
                .syndrome,
            Rule::Parent as u32
        );
        assert_eq!(
            tree.add(2, element(ElementKind::Tsar, root))
                .unwrap_err()
                .syndrome,
            Rule::ForeignObject as u32
        );
        assert_eq!(
            tree.remove(1, root).unwrap_err().status,
            Status::BadResourceState
        );
        tree.attach(1, 0, leaf).unwrap();
        assert!(tree.attach(1, 0, root).is_err());
        assert_eq!(
            tree.remove(1, leaf).unwrap_err().syndrome,
            Rule::InUse as u32
        );
        tree.attach(1, leaf, 0).unwrap();
        tree.remove(1, leaf).unwrap();
        tree.remove(1, root).unwrap();
        assert_eq!(tree.len(), 0);
    }

    #[test]
    fn shares_have_a_range() {
        let mut tree = Scheduler::default();
        let mut tsar = element(ElementKind::Tsar, 0);
        tsar.share = limit::MAX_SHARE + 1;
        assert_eq!(tree.add(0, tsar).unwrap_err().syndrome, Rule::Share as u32);
    }

    #[test]
    fn rates_have_a_range() {
        let mut table = PacingTable::default();
        let rate = Rate {
            kilobits: 1000,
            burst: 0,
            packet: 0,
        };
        assert!(table.set(0, rate).is_err());
        assert!(table.set(limit::RATES as u16, rate).is_err());
        table.set(1, rate).unwrap();
        assert_eq!(table.get(1), Some(rate));
        table.set(1, Rate::default()).unwrap();
        assert_eq!(table.get(1), None);
    }
}
