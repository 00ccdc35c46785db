//! Requests carry only known values.
//!
//! A kernel or a device may report a value that has no name here; such values are kept. A request
//! with an unnamed value is refused before it is sent: the number could mean anything to the
//! kernel, and a second spelling of a named value would slip past every comparison on the way.

use std::fmt;
use std::marker::PhantomData;

use bitflags::{Bits, Flag, Flags};

use crate::error::{Error, Op, Result};

/// A number that has no name in the enum `E`. Users cannot construct one.
///
/// Only `E::from_raw` creates one, and never from a number that has a name. So two values of an
/// enum are equal exactly when their numbers are.
///
/// ```compile_fail
/// use uverbs_core::types::QpState;
///
/// // A second spelling of `QpState::Reset`.
/// let reset = QpState::Unknown(0);
/// ```
///
/// A number without a name in one enum may have one in another:
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

/// Prints only the number.
impl<E, T: fmt::Debug> fmt::Debug for Unrecognized<E, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.raw.fmt(f)
    }
}

/// Returns the bits of `flags` for a request; errors call the field `what`.
///
/// # Errors
/// [`InvalidInput`](crate::ErrorKind::InvalidInput), with the unnamed bits.
pub fn checked_flags<F>(op: Op, what: &'static str, flags: F) -> Result<F::Bits>
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

/// All named bits.
fn named<F: Flags>() -> F::Bits {
    F::FLAGS
        .iter()
        .filter(|flag| flag.is_named())
        .map(|flag: &Flag<F>| flag.value().bits())
        .fold(F::Bits::EMPTY, |all, bits| all | bits)
}

/// The error for an unnamed number.
#[cold]
pub(crate) fn unnamed(op: Op, what: &'static str, raw: u64) -> Error {
    Error::invalid(op, what).fact("unknown", raw)
}
