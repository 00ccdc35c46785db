//! Requests carry known values.
//!
//! What a kernel or a device says may have no name here; it is kept. What they are asked for has
//! one, or is refused before they are asked: a number without a name could mean anything to them,
//! and a second spelling of a named one would pass every comparison in between.

use std::fmt;
use std::marker::PhantomData;

use bitflags::{Bits, Flag, Flags};

use crate::error::{Error, Op, Result};

/// A number that has no name in the enum `E`. Somebody said it: it cannot be made up.
///
/// Only `E::from_raw` makes one, and never of a number that has a name. So two values of an enum
/// are equal exactly if their numbers are.
///
/// ```compile_fail
/// use uverbs_core::types::QpState;
///
/// // A second spelling of `QpState::Reset`.
/// let reset = QpState::Unknown(0);
/// ```
///
/// What has no name in one enum may have one in another:
///
/// ```compile_fail
/// use uverbs_core::types::{MwType, QpState};
///
/// let MwType::Unknown(nothing) = MwType::from_raw(0) else { return };
/// let reset = QpState::Unknown(nothing);
/// ```
#[derive(Clone, Copy, Eq, Hash, Ord, PartialEq, PartialOrd)]
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

/// The bits of `flags` for a request, whose `what` they are.
///
/// # Errors
/// [`InvalidInput`](crate::ErrorKind::InvalidInput), with the bits that have no name.
pub fn asked_flags<F>(op: Op, what: &'static str, flags: F) -> Result<F::Bits>
where
    F: Flags + Copy,
    F::Bits: Into<u64>,
{
    let bits = flags.bits();
    let unnamed: u64 = (bits & !named::<F>()).into();
    if unnamed == 0 {
        Ok(bits)
    } else {
        Err(Error::invalid(op, what).fact("unnamed_bits", format!("{unnamed:#x}")))
    }
}

/// The bits that have a name.
fn named<F: Flags>() -> F::Bits {
    F::FLAGS
        .iter()
        .filter(|flag| flag.is_named())
        .map(|flag: &Flag<F>| flag.value().bits())
        .fold(F::Bits::EMPTY, |all, bits| all | bits)
}

/// The refusal of a number that has no name.
#[cold]
pub(crate) fn unnamed(op: Op, what: &'static str, raw: u64) -> Error {
    Error::invalid(op, what).fact("unknown", raw)
}
