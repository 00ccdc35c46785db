//! What one vendor adds to a request that all providers take.

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Op, Result};

/// A vendor's own part of a request. Its provider looks into it; all others refuse it, or (when a
/// device is opened) pass over it.
///
/// Requests are a matter of the control path, where asking for a type costs nothing that counts.
pub trait Extra: Any + Debug + Send + Sync {}

impl<T: Any + Debug + Send + Sync> Extra for T {}

impl dyn Extra {
    /// It, if it is a `T`.
    pub fn get<T: Any>(&self) -> Option<&T> {
        (self as &dyn Any).downcast_ref()
    }
}

/// What a device is opened with.
#[derive(Clone, Copy, Debug, Default)]
pub struct OpenInit<'a> {
    /// What vendors add. Whose device it is may be known only once it is opened, so each provider
    /// looks for its own and passes over the rest.
    pub extras: &'a [Arc<dyn Extra>],
}

impl<'a> OpenInit<'a> {
    /// The `T` that was added last.
    pub fn extra<T: Any>(&self) -> Option<&'a T> {
        let mut extras = self.extras.iter().rev();
        extras.find_map(|extra| extra.get())
    }
}

/// The vendor's own part of a request for a provider whose own is `T`.
///
/// # Errors
/// [`Unsupported`](ErrorKind::Unsupported) for another vendor's.
pub(super) fn own<T: Any>(op: Op, extra: Option<&dyn Extra>) -> Result<Option<&T>> {
    match extra {
        None => Ok(None),
        Some(extra) => extra.get().map(Some).ok_or_else(|| refused(op, extra)),
    }
}

/// For a provider that has nothing of its own to add.
///
/// # Errors
/// [`Unsupported`](ErrorKind::Unsupported) for any.
pub(super) fn none(op: Op, extra: Option<&dyn Extra>) -> Result<()> {
    extra.map_or(Ok(()), |extra| Err(refused(op, extra)))
}

#[cold]
fn refused(op: Op, extra: &dyn Extra) -> Error {
    Error::new(op, ErrorKind::Unsupported)
        .fact("extension", format!("{extra:?}"))
        .hint("only devices of another vendor have it")
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
        assert_eq!(own::<Mine>(OP, None).ok(), Some(None));
        assert_eq!(own(OP, Some(&Mine(3))).ok(), Some(Some(&Mine(3))));
        let error = own::<Mine>(OP, Some(&Theirs)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("Theirs"), "{error}");
    }

    #[test]
    fn a_provider_without_any_refuses_all() {
        assert!(none(OP, None).is_ok());
        let error = none(OP, Some(&Mine(3))).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
    }

    #[test]
    fn of_what_is_set_twice_at_opening_the_last_counts() {
        let extras: [Arc<dyn Extra>; 3] = [Arc::new(Mine(1)), Arc::new(Mine(2)), Arc::new(Theirs)];
        let init = OpenInit { extras: &extras };
        assert_eq!(init.extra(), Some(&Mine(2)));
        assert!(init.extra::<Theirs>().is_some());
        assert!(OpenInit::default().extra::<Theirs>().is_none());
    }
}
