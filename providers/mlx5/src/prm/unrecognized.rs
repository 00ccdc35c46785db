//! Numbers of the firmware without a name here.

use std::fmt;
use std::marker::PhantomData;

/// A number without a name in the enum `E`, which came from the device: users cannot construct one.
///
/// Only `E::from_raw` creates it, and never for a number that has a name.
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
