//! Numbers of the firmware that have no name here.

use std::fmt;

/// A number that has no name in this version. The device said it: it cannot be made up.
///
/// Only `from_raw` of an enum makes one, and never of a number that has a name.
#[derive(Clone, Copy, Eq, Hash, PartialEq)]
#[repr(transparent)]
pub struct Unrecognized<T>(T);

impl<T: Copy> Unrecognized<T> {
    pub(crate) const fn new(raw: T) -> Self {
        Self(raw)
    }

    /// The number.
    pub const fn raw(self) -> T {
        self.0
    }
}

/// The number alone.
impl<T: fmt::Debug> fmt::Debug for Unrecognized<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
