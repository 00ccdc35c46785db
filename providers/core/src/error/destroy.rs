//! Destroys that failed.

use std::fmt;

use super::Error;

/// A destroy that failed. What was to be destroyed can be tried again.
///
/// It prints as its [`error`](Self::error), by `{:?}` too.
pub struct DestroyError<T> {
    /// Why.
    pub error: Error,
    /// What lives on, whole. `None` if it is unknown whether it does
    /// ([`outcome_is_unknown`](Error::outcome_is_unknown)): its number in the kernel may be
    /// another's by now, so it was given up with its memory, and counted (`Context::leaked`).
    pub handle: Option<Box<T>>,
}

impl<T> DestroyError<T> {
    /// The destroy of `handle` failed with `error`. It is kept if it lives on.
    pub fn new(error: Error, handle: T) -> Self {
        let lives_on = !error.outcome_is_unknown();
        Self {
            error,
            handle: lives_on.then(|| Box::new(handle)),
        }
    }

    /// The same of what is made of the handle.
    #[must_use]
    pub fn map<U>(self, make: impl FnOnce(T) -> U) -> DestroyError<U> {
        DestroyError {
            error: self.error,
            handle: self.handle.map(|handle| Box::new(make(*handle))),
        }
    }
}

impl<T> fmt::Display for DestroyError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<T> fmt::Debug for DestroyError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !f.alternate() {
            return fmt::Display::fmt(self, f);
        }
        f.debug_struct("DestroyError")
            .field("error", &self.error)
            .field("handle_lives_on", &self.handle.is_some())
            .finish_non_exhaustive()
    }
}

impl<T> std::error::Error for DestroyError<T> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

impl<T> From<DestroyError<T>> for Error {
    fn from(refused: DestroyError<T>) -> Self {
        refused.error
    }
}

#[cfg(test)]
mod tests {
    use super::{DestroyError, Error};
    use crate::error::{Errno, Op};

    /// What is kept is not printed: a queue has large tables.
    #[test]
    fn debug_output_has_the_reason_but_not_the_object() {
        struct Large;
        let refused = DestroyError::new(
            Error::os(Op::DestroyQueuePair, Errno::BUSY),
            Box::new(Large),
        );
        assert_eq!(format!("{refused:?}"), "destroy_qp: EBUSY");
        let parts = format!("{refused:#?}");
        assert!(parts.contains("handle_lives_on: true"), "{parts}");
    }

    #[test]
    fn what_lives_on_is_kept_and_the_rest_is_not() {
        let op = Op::DestroyQueuePair;
        let refused = DestroyError::new(Error::os(op, Errno::BUSY), 5);
        assert_eq!(refused.to_string(), "destroy_qp: EBUSY");
        let source = std::error::Error::source(&refused).unwrap();
        assert_eq!(source.to_string(), "destroy_qp: EBUSY");
        let mapped = refused.map(|handle| handle + 1);
        assert_eq!(mapped.handle.as_deref(), Some(&6));
        assert_eq!(Error::from(mapped).errno(), Some(Errno::BUSY));
        let unknown = DestroyError::new(Error::os(op, Errno::TIMEDOUT), 5);
        assert!(unknown.handle.is_none());
        assert!(unknown.map(|handle| handle + 1).handle.is_none());
    }
}
