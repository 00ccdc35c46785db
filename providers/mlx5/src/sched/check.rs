//! The limits of a device for a tree, checked before anything is sent.

use std::collections::HashSet;
use std::fmt;

use uverbs_core::{Error, ErrorKind, Op, Result};

use super::tree::{Element, Kind, Tree};
use crate::prm::{ElementAttr, ElementKind, GeneralCaps, QosCaps, TsarKind};

/// The limits of a device for a tree.
///
/// Devices do not report how deep a tree may be; one that is too deep is refused while it is
/// applied, and nothing of it remains.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Limits {
    /// The device has nodes that schedule by weight, and leaves.
    pub nodes: bool,
    /// Elements have shares.
    pub shares: bool,
    /// Elements have caps.
    pub caps: bool,
    /// The largest share. `None`: unknown.
    pub max_share: Option<u32>,
    /// The largest number of leaves. `None`: unknown.
    pub max_leaves: Option<u32>,
    /// The largest number of levels below the root. `None`: unknown.
    pub max_depth: Option<u32>,
}

/// A property of a tree that is allowed, but probably not intended.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Note {
    /// An element's cap is above that of an element above it, so that it never has an effect.
    CapAbove {
        /// The element.
        name: String,
        /// Its cap, Mb/s.
        cap: u32,
        /// The element above it.
        above: String,
        /// The cap of `above`, Mb/s.
        limit: u32,
    },
    /// A node with nothing below it.
    Empty {
        /// The node; `None` is the root.
        name: Option<String>,
    },
    /// Some children of a node have shares and some the device's default, whose weight is unknown.
    MixedShares {
        /// The node; `None` is the root.
        name: Option<String>,
    },
}

impl Limits {
    /// The limits given by the capabilities.
    pub fn of(general: &GeneralCaps, qos: &QosCaps) -> Self {
        let element = |kind: ElementKind| qos.element_types & 1 << kind as u8 != 0;
        let dwrr = qos.tsar_types & 1 << TsarKind::Dwrr as u8 != 0;
        Self {
            nodes: general.qos
                && dwrr
                && element(ElementKind::Tsar)
                && element(ElementKind::QueueGroup),
            shares: qos.nic_bw_share,
            caps: qos.nic_rate_limit,
            max_share: (qos.max_share != 0).then_some(qos.max_share),
            max_leaves: (qos.log_max_leaves != 0)
                .then(|| 1_u32.checked_shl(qos.log_max_leaves.into()))
                .flatten(),
            max_depth: None,
        }
    }

    /// The limits of a device that allows every tree.
    pub const fn none() -> Self {
        Self {
            nodes: true,
            shares: true,
            caps: true,
            max_share: None,
            max_leaves: None,
            max_depth: None,
        }
    }

    pub(super) fn check_nodes(&self) -> Result<()> {
        if self.nodes {
            return Ok(());
        }
        Err(Error::new(Op::CreateSchedElement, ErrorKind::Unsupported)
            .fact("device_lacks", "scheduling of its own queues"))
    }

    pub(super) fn check_attr(&self, op: Op, attr: &ElementAttr) -> Result<()> {
        let lacks = |what: &'static str| {
            Err(Error::new(op, ErrorKind::Unsupported).fact("device_lacks", what))
        };
        if attr.share.is_some() && !self.shares {
            return lacks("shares");
        }
        if attr.max_mbps.is_some() && !self.caps {
            return lacks("caps");
        }
        match (attr.share, self.max_share) {
            (Some(share), Some(max)) if share > max => {
                Err(Error::limit(op, "share", share.into(), max.into()))
            }
            _ => Ok(()),
        }
    }

    /// Checks a whole tree: names, depth, number of leaves, and the attributes of each element.
    ///
    /// # Errors
    /// [`InvalidInput`](ErrorKind::InvalidInput), [`LimitExceeded`](ErrorKind::LimitExceeded) or
    /// [`Unsupported`](ErrorKind::Unsupported), with the element's name.
    pub fn check(&self, tree: &Tree) -> Result<()> {
        let op = Op::CreateSchedElement;
        self.check_nodes()?;
        let mut names = HashSet::new();
        let mut leaves = 0_u32;
        for (element, place) in tree.walk() {
            let name = || element.name.clone();
            if element.name.is_empty() {
                return Err(Error::invalid(op, "name of nothing")
                    .fact("parent", place.parent.map_or("root", |parent| &parent.name)));
            }
            if !names.insert(&element.name) {
                return Err(Error::invalid(op, "name used twice").fact("name", name()));
            }
            if let Some(max) = self.max_depth.filter(|max| place.depth > *max) {
                return Err(
                    Error::limit(op, "depth", place.depth.into(), max.into()).fact("name", name())
                );
            }
            self.check_attr(op, &element.attr)
                .map_err(|error| error.fact("name", name()))?;
            leaves += u32::from(matches!(element.kind, Kind::Leaf));
        }
        match self.max_leaves {
            Some(max) if leaves > max => Err(Error::limit(op, "leaves", leaves.into(), max.into())),
            _ => Ok(()),
        }
    }
}

/// The properties of a tree that are allowed, but probably not intended.
pub(super) fn notes(tree: &Tree) -> Vec<Note> {
    let mut notes = Vec::new();
    look(None, &tree.children, None, &mut notes);
    notes
}

fn look<'a>(
    name: Option<&'a str>,
    children: &'a [Element],
    cap: Option<(&'a str, u32)>,
    notes: &mut Vec<Note>,
) {
    let owned = || name.map(str::to_owned);
    if children.is_empty() {
        notes.push(Note::Empty { name: owned() });
    }
    let shares = children
        .iter()
        .filter(|child| child.attr.share.unwrap_or(0) != 0)
        .count();
    if shares != 0 && shares != children.len() {
        notes.push(Note::MixedShares { name: owned() });
    }
    for child in children {
        let own = child.attr.max_mbps.filter(|cap| *cap != 0);
        if let (Some(own), Some((above, limit))) = (own, cap)
            && own > limit
        {
            notes.push(Note::CapAbove {
                name: child.name.clone(),
                cap: own,
                above: above.to_owned(),
                limit,
            });
        }
        if let Kind::Node(below) = &child.kind {
            let limit = own.map(|own| (child.name.as_str(), own));
            let tighter = match (limit, cap) {
                (Some(own), Some(above)) if own.1 > above.1 => Some(above),
                (own, above) => own.or(above),
            };
            look(Some(&child.name), below, tighter, notes);
        }
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = |name: &Option<String>| name.clone().unwrap_or_else(|| "root".to_owned());
        match self {
            Self::CapAbove {
                name,
                cap,
                above,
                limit,
            } => write!(
                f,
                "{name} may send {cap} Mb/s, but {above} above it only {limit}"
            ),
            Self::Empty { name } => write!(f, "{} has nothing below it", of(name)),
            Self::MixedShares { name } => write!(
                f,
                "below {} some have shares and some the device's default weight",
                of(name)
            ),
        }
    }
}
