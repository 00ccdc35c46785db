//! Errors: operation, errno, facts, and a hint.
//!
//! Control-path calls return [`Error`]. The data path returns the small `Copy` types
//! [`PostError`] and [`PollError`], which allocate nothing.

mod data_path;
mod destroy;
mod kind;
mod op;

use std::fmt;

pub use data_path::{PollError, PostError};
pub use destroy::DestroyError;
pub use kind::ErrorKind;
pub(crate) use kind::errno_name;
pub use kind::errno_of;
pub use op::Op;
pub use rustix::io::Errno;

/// The result of a control-path call.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a control-path call failed.
///
/// It prints as one line: the operation, the errno by name, the known facts (such as the requested
/// value and the limit), and a hint where there is one. So does `{:?}`, which is what `main` prints
/// for an error that it returns; `{:#?}` shows the parts.
///
/// ```
/// use uverbs_core::error::{Errno, Error, ErrorKind, Op};
///
/// let error = Error::os(Op::CreateQueuePair, Errno::INVAL).fact("max_send_sge", 40_u32).fact("limit", 30_u32);
/// assert_eq!(error.kind(), ErrorKind::InvalidInput);
/// assert_eq!(error.to_string(), "create_qp: EINVAL (max_send_sge 40, limit 30)");
/// ```
#[derive(Clone)]
pub struct Error {
    // Boxed so that `Result<u32, Error>` stays two words.
    inner: Box<Inner>,
}

#[derive(Clone)]
struct Inner {
    op: Op,
    kind: ErrorKind,
    errno: Option<Errno>,
    facts: Vec<(&'static str, Fact)>,
    hint: Option<&'static str>,
}

/// The value of a fact about an error.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Fact {
    /// A count, a size or an index.
    Number(u64),
    /// A name or a state.
    Text(String),
}

impl Error {
    /// The kernel failed `op` with `errno`.
    #[cold]
    pub fn os(op: Op, errno: Errno) -> Self {
        Self::build(op, ErrorKind::from_errno(errno), Some(errno))
    }

    /// This library refused `op` before asking the kernel.
    #[cold]
    pub fn new(op: Op, kind: ErrorKind) -> Self {
        Self::build(op, kind, None)
    }

    /// `what` was requested outside the possible range.
    #[cold]
    pub fn limit(op: Op, what: &'static str, requested: u64, max: u64) -> Self {
        Self::new(op, ErrorKind::LimitExceeded)
            .fact(what, requested)
            .fact("max", max)
    }

    /// Checks that `requested`, the value requested for `what`, is at most `max`.
    ///
    /// # Errors
    /// [`ErrorKind::LimitExceeded`], as [`limit`](Self::limit).
    #[inline]
    pub fn at_most(
        op: Op,
        what: &'static str,
        requested: impl Into<u64>,
        max: impl Into<u64>,
    ) -> Result<()> {
        let (requested, max) = (requested.into(), max.into());
        if requested > max {
            return Err(Self::limit(op, what, requested, max));
        }
        Ok(())
    }

    /// The argument `what` is invalid.
    #[cold]
    pub fn invalid(op: Op, what: &'static str) -> Self {
        Self::new(op, ErrorKind::InvalidInput).fact("argument", what)
    }

    /// The kernel's reply to `op` cannot be used: `what` describes the problem.
    #[cold]
    pub fn bad_reply(op: Op, what: &'static str) -> Self {
        Self::new(op, ErrorKind::BadReply).fact("reply", what)
    }

    fn build(op: Op, kind: ErrorKind, errno: Option<Errno>) -> Self {
        Self {
            inner: Box::new(Inner {
                op,
                kind,
                errno,
                facts: Vec::new(),
                hint: None,
            }),
        }
    }

    /// Adds a fact about the failure.
    #[must_use]
    pub fn fact(mut self, name: &'static str, value: impl Into<Fact>) -> Self {
        self.inner.facts.push((name, value.into()));
        self
    }

    /// Adds a hint: what the user can do about the failure.
    #[must_use]
    pub fn hint(mut self, hint: &'static str) -> Self {
        self.inner.hint = Some(hint);
        self
    }

    /// Replaces the operation, for a failure in a part of another operation.
    #[must_use]
    pub fn with_op(mut self, op: Op) -> Self {
        self.inner.op = op;
        self
    }

    /// Replaces the class derived from the errno, where the operation knows better.
    #[must_use]
    pub fn with_kind(mut self, kind: ErrorKind) -> Self {
        self.inner.kind = kind;
        self
    }

    /// The operation that failed.
    pub fn op(&self) -> Op {
        self.inner.op
    }

    /// The class of failure, for `match`.
    pub fn kind(&self) -> ErrorKind {
        self.inner.kind
    }

    /// The kernel's errno, or `None` if this library refused before asking the kernel.
    pub fn errno(&self) -> Option<Errno> {
        self.inner.errno
    }

    /// The facts about the failure, in the order they were added.
    pub fn facts(&self) -> impl Iterator<Item = (&'static str, &Fact)> {
        self.inner.facts.iter().map(|(name, fact)| (*name, fact))
    }

    /// What the user can do about the failure, where that is known.
    pub fn known_hint(&self) -> Option<&'static str> {
        self.inner.hint
    }

    /// True if the kernel may have carried out the command, or a part of it, although it failed.
    ///
    /// | error | why |
    /// |---|---|
    /// | [`BadReply`](ErrorKind::BadReply) | the command succeeded, but its reply cannot be used |
    /// | [`TimedOut`](ErrorKind::TimedOut) | the device did not answer the kernel in time, and may still carry it out |
    /// | [`Panicked`](ErrorKind::Panicked) | the `Kernel` implementation panicked at an unknown point |
    ///
    /// After any other error nothing was done. Memory named in a command of unknown outcome is
    /// leaked.
    pub fn outcome_is_unknown(&self) -> bool {
        matches!(
            self.inner.kind,
            ErrorKind::BadReply | ErrorKind::TimedOut | ErrorKind::Panicked
        )
    }

    /// True if the device or the kernel does not support the operation.
    pub fn is_unsupported(&self) -> bool {
        self.inner.kind == ErrorKind::Unsupported
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.inner.op)?;
        match self.inner.errno {
            Some(errno) => write!(f, "{}", errno_name(errno))?,
            None => write!(f, "{}", self.inner.kind)?,
        }
        for (at, (name, fact)) in self.inner.facts.iter().enumerate() {
            write!(f, "{}{name} {fact}", if at == 0 { " (" } else { ", " })?;
        }
        if !self.inner.facts.is_empty() {
            f.write_str(")")?;
        }
        match self.inner.hint {
            Some(hint) => write!(f, "; {hint}"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !f.alternate() {
            return fmt::Display::fmt(self, f);
        }
        f.debug_struct("Error")
            .field("op", &self.inner.op)
            .field("kind", &self.inner.kind)
            .field("errno", &self.inner.errno)
            .field("facts", &self.inner.facts)
            .field("hint", &self.inner.hint)
            .finish()
    }
}

impl std::error::Error for Error {}

impl From<Error> for std::io::Error {
    fn from(error: Error) -> Self {
        Self::new(error.kind().io_kind(), error)
    }
}

impl fmt::Display for Fact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Text(text) => f.write_str(text),
        }
    }
}

macro_rules! fact_from_number {
    ($($t:ty),*) => {$(
        impl From<$t> for Fact {
            fn from(number: $t) -> Self {
                Self::Number(number.into())
            }
        }
    )*};
}
fact_from_number!(u8, u16, u32, u64, bool);

impl From<usize> for Fact {
    fn from(number: usize) -> Self {
        Self::Number(number as u64)
    }
}

impl From<&str> for Fact {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Fact {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_without_errno_says_its_class() {
        let error = Error::limit(Op::CreateCompletionQueue, "entries", 70_000, 65_535);
        assert_eq!(
            error.to_string(),
            "create_cq: limit exceeded (entries 70000, max 65535)"
        );
        assert_eq!(error.errno(), None);
    }

    #[test]
    fn a_hint_ends_the_line() {
        let error = Error::os(Op::RegisterMemory, Errno::NOMEM).hint("raise RLIMIT_MEMLOCK");
        assert_eq!(error.to_string(), "reg_mr: ENOMEM; raise RLIMIT_MEMLOCK");
        assert_eq!(error.kind(), ErrorKind::OutOfResources);
    }

    #[test]
    fn debug_is_the_line_for_people_and_its_alternate_form_the_parts() {
        let error = Error::os(Op::OpenDevice, Errno::NOENT)
            .fact("device", "rxe0")
            .hint("is the module loaded?");
        assert_eq!(
            format!("{error:?}"),
            "open_device: ENOENT (device rxe0); is the module loaded?"
        );
        let parts = format!("{error:#?}");
        assert!(parts.starts_with("Error {\n    op: OpenDevice,"), "{parts}");
        assert!(parts.contains("kind: NotFound"), "{parts}");
    }

    #[test]
    fn io_errors_keep_the_class() {
        let io = std::io::Error::from(Error::os(Op::OpenDevice, Errno::ACCESS));
        assert_eq!(io.kind(), std::io::ErrorKind::PermissionDenied);
    }

    #[test]
    fn results_stay_small() {
        assert!(size_of::<Result<u32>>() <= 2 * size_of::<usize>());
    }
}
