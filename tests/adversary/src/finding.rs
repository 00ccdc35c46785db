//! What must not happen.

use std::fmt;

/// A guarantee that was broken.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Rule {
    /// Memory that the program owns changed.
    Changed,
    /// Something is left that was not counted as leaked.
    Leaked,
    /// Something was returned that was not lent, or to another queue.
    NotOut,
    /// A request did not end in exactly one result.
    Lost,
    /// A completion finished a request that is not its own.
    Foreign,
    /// A message arrived that was never sent.
    Garbled,
    /// The library panicked.
    Panicked,
}

/// The guarantee, and how the violation was detected.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The broken guarantee.
    pub rule: Rule,
    /// What was observed.
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
