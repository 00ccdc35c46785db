//! The send queue of a queue pair.

use uverbs_core::types::QpType;

use crate::sq::SendRing;

/// The send queue of a queue pair, by what a request needs in addition to itself.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "the usual one is in place; a queue pair is created rarely"
)]
pub(super) enum Sends {
    /// Nothing: RC and UC.
    Plain(SendRing),
    /// A destination, or what only this type of queue pair knows. In a box, so that one comparison
    /// tells a plain one from all others.
    Other(Box<SendRing>),
    /// The receiving side of XRC, and a size of 0.
    None,
}

impl Sends {
    pub(super) fn new(kind: QpType, ring: Option<SendRing>) -> Self {
        match (ring, kind) {
            (Some(ring), QpType::Rc | QpType::Uc) => Self::Plain(ring),
            (Some(ring), _) => Self::Other(Box::new(ring)),
            (None, _) => Self::None,
        }
    }

    #[inline]
    pub(super) fn as_ref(&self) -> Option<&SendRing> {
        match self {
            Self::Plain(ring) => Some(ring),
            Self::Other(ring) => Some(ring),
            Self::None => None,
        }
    }

    #[inline]
    pub(super) fn as_mut(&mut self) -> Option<&mut SendRing> {
        match self {
            Self::Plain(ring) => Some(ring),
            Self::Other(ring) => Some(ring),
            Self::None => None,
        }
    }
}
