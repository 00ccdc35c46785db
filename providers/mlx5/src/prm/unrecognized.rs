//! Numbers of the firmware that have no name here.

use std::fmt;
use std::marker::PhantomData;

/// A number that has no name in the enum `E`. The device said it: it cannot be made up.
///
/// Only `E::from_raw` makes one, and never of a number that has a name.
#[derive(Clone, Copy, Eq, Hash, PartialEq)]
#[repr(transparent)]
pub struct Unrecognized<E, T> {
    raw: T,
    of: PhantomData<fn() -> E>,
}

impl<E, T: Copy> Unrecognized<E, T> {
    pub(crate) const fn new(raw: T) -> Self {
        Self {
            raw,
            of: PhantomData,
        }
    }

    /// The number.
    pub const fn raw(self) -> T {
        self.raw
    }
}

/// The number alone.
impl<E, T: fmt::Debug> fmt::Debug for Unrecognized<E, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.raw.fmt(f)
    }
}
