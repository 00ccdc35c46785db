//! What must not happen.

use std::fmt;

/// A promise that was broken.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Rule {
    /// Memory in the program's hands changed.
    Changed,
    /// Something is left, and not counted as given up.
    Leaked,
    /// Something was given back that was not out, or to another place.
    NotOut,
    /// A request did not end in exactly one result.
    Lost,
    /// A completion finished a request that is not its own.
    Foreign,
    /// A message came that nobody sent.
    Garbled,
    /// The library panicked.
    Panicked,
}

/// Which, and how it was seen.
#[derive(Clone, Debug)]
pub struct Finding {
    /// Which promise.
    pub rule: Rule,
    /// What was seen.
    pub detail: String,
}

impl Finding {
    pub(crate) fn new(rule: Rule, detail: impl Into<String>) -> Self {
        Self {
            rule,
            detail: detail.into(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.rule, self.detail)
    }
}
