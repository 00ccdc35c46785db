//! What happens when destroying an object fails.

use uverbs_core::{EventCounts, Object, Result};

pub use uverbs_core::DestroyError;

/// What becomes of an object whose destroy fails.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Failing {
    /// It is kept as it was, for another try.
    Left,
    /// It is leaked, and counted.
    GivenUp,
}

impl Failing {
    /// Destroys `object` in place.
    pub(crate) fn destroy(self, object: &mut Object) -> Result<EventCounts> {
        match self {
            Self::Left => object.try_destroy(),
            Self::GivenUp => object.end(),
        }
    }
}
