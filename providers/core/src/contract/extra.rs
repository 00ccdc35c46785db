//! Vendor-specific additions to the requests that all providers accept.

use std::any::{Any, type_name};
use std::fmt;
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Op, Result};

/// The vendor-specific part of a request. The vendor's provider uses it; all others refuse it, or
/// (when a device is opened) ignore it.
///
/// Only control-path requests have one, where the cost of a downcast does not matter. It prints as
/// its name: what it holds would be linked into every program, printed or not.
pub trait Extra: Any + Send + Sync {
    /// The name of its type.
    fn type_name(&self) -> &'static str;
}

impl<T: Any + Send + Sync> Extra for T {
    fn type_name(&self) -> &'static str {
        type_name::<T>()
    }
}

impl fmt::Debug for dyn Extra {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.type_name())
    }
}

impl dyn Extra {
    /// Downcasts it to a `T`.
    pub fn get<T: Any>(&self) -> Option<&T> {
        (self as &dyn Any).downcast_ref()
    }
}

/// The options that a device is opened with.
#[derive(Clone, Copy, Debug, Default)]
pub struct OpenInit<'a> {
    /// Vendor-specific options. The device's vendor may be known only once it is opened, so each
    /// provider looks for its own and ignores the rest.
    pub extras: &'a [Arc<dyn Extra>],
}

impl<'a> OpenInit<'a> {
    /// The `T` that was added last.
    pub fn extra<T: Any>(&self) -> Option<&'a T> {
        let mut extras = self.extras.iter().rev();
        extras.find_map(|extra| extra.get())
    }
}

/// The vendor-specific part of a request, for a provider that expects a `T`.
///
/// # Errors
/// [`Unsupported`](ErrorKind::Unsupported) if it is another vendor's.
pub(super) fn downcast<T: Any>(op: Op, extra: Option<&dyn Extra>) -> Result<Option<&T>> {
    match extra {
        None => Ok(None),
        Some(extra) => extra.get().map(Some).ok_or_else(|| refused(op, extra)),
    }
}

/// Refuses any vendor-specific part, for a provider that has none.
///
/// # Errors
/// [`Unsupported`](ErrorKind::Unsupported) if there is one.
pub(super) fn refuse_any(op: Op, extra: Option<&dyn Extra>) -> Result<()> {
    extra.map_or(Ok(()), |extra| Err(refused(op, extra)))
}

#[cold]
fn refused(op: Op, extra: &dyn Extra) -> Error {
    Error::new(op, ErrorKind::Unsupported)
        .fact("extension", extra.type_name())
        .hint("only devices of another vendor support it")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Eq, PartialEq)]
    struct Mine(u8);

    #[derive(Debug)]
    struct Theirs;

    const OP: Op = Op::CreateQueuePair;

    #[test]
    fn a_provider_finds_its_own_and_refuses_the_rest() {
        assert_eq!(downcast::<Mine>(OP, None).ok(), Some(None));
        assert_eq!(downcast(OP, Some(&Mine(3))).ok(), Some(Some(&Mine(3))));
        let error = downcast::<Mine>(OP, Some(&Theirs)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("Theirs"), "{error}");
    }

    #[test]
    fn a_provider_without_any_refuses_all() {
        assert!(refuse_any(OP, None).is_ok());
        let error = refuse_any(OP, Some(&Mine(3))).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
    }

    #[test]
    fn the_last_of_several_extras_of_a_type_counts() {
        let extras: [Arc<dyn Extra>; 3] = [Arc::new(Mine(1)), Arc::new(Mine(2)), Arc::new(Theirs)];
        let init = OpenInit { extras: &extras };
        assert_eq!(init.extra(), Some(&Mine(2)));
        assert!(init.extra::<Theirs>().is_some());
        assert!(OpenInit::default().extra::<Theirs>().is_none());
    }
}
