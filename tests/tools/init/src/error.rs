//! Errors of process 1.

use std::fmt::Display;

/// Something that process 1 could not do, and why.
#[derive(Debug, thiserror::Error)]
#[error("{doing}: {cause}")]
pub(crate) struct Error {
    doing: String,
    cause: String,
}

impl Error {
    pub(crate) fn new(doing: impl Into<String>, cause: impl Display) -> Self {
        Self {
            doing: doing.into(),
            cause: cause.to_string(),
        }
    }
}

/// Adds to an error what was being done when it occurred.
pub(crate) trait Doing<T> {
    /// Turns the cause into an [`Error`] that says what was being done.
    fn doing(self, what: impl FnOnce() -> String) -> Result<T, Error>;
}

impl<T, C: Display> Doing<T> for Result<T, C> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T, Error> {
        self.map_err(|cause| Error::new(what(), cause))
    }
}
