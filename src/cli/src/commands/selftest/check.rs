//! One check of the device: a small function that returns what it found, or why that is not as it
//! should be.

use std::borrow::Cow;
use std::fmt;

use uverbs::error::{HandshakeError, OutOfRange};
use uverbs::owned::{ReceiveRefused, Refused};
use uverbs::{Error, PollError, PostError};

use super::subject::Subject;

/// What a successful check found.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) value: String,
    /// More than fits on one line.
    pub(super) detail: Option<String>,
    /// It worked, but took too long.
    pub(super) slow: bool,
}

/// Why a check did not succeed.
#[derive(Debug)]
pub(super) enum Trouble {
    /// It is not as it should be.
    Failed(String),
    /// The device, the driver or the machine does not have it.
    Unsupported(String),
}

pub(super) type Outcome<T = Found> = Result<T, Trouble>;

/// The function of a check.
type Look = Box<dyn FnOnce(&Subject) -> Outcome + Send>;

/// A check, before it is run.
pub(super) struct Check {
    pub(super) name: Cow<'static, str>,
    /// The expected result, in a few words.
    pub(super) expected: &'static str,
    /// Not every device supports it.
    pub(super) optional: bool,
    pub(super) look: Look,
}

impl Check {
    /// A check of something that every device supports: if it is unsupported, that is a failure,
    /// too.
    pub(super) fn new(
        name: impl Into<Cow<'static, str>>,
        expected: &'static str,
        look: impl FnOnce(&Subject) -> Outcome + Send + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            expected,
            optional: false,
            look: Box::new(look),
        }
    }

    /// A check of something that some devices do not support, and say so.
    pub(super) fn optional(
        name: impl Into<Cow<'static, str>>,
        expected: &'static str,
        look: impl FnOnce(&Subject) -> Outcome + Send + 'static,
    ) -> Self {
        Self {
            optional: true,
            ..Self::new(name, expected, look)
        }
    }
}

impl Found {
    pub(super) fn new(value: impl fmt::Display) -> Self {
        Self {
            value: value.to_string(),
            detail: None,
            slow: false,
        }
    }

    pub(super) fn detail(mut self, detail: impl fmt::Display) -> Self {
        self.detail = Some(detail.to_string());
        self
    }

    pub(super) fn slow_if(mut self, slow: bool) -> Self {
        self.slow = slow;
        self
    }
}

impl Trouble {
    pub(super) fn failed(why: impl fmt::Display) -> Self {
        Self::Failed(why.to_string())
    }

    pub(super) fn unsupported(why: impl fmt::Display) -> Self {
        Self::Unsupported(why.to_string())
    }

    pub(super) fn text(&self) -> &str {
        match self {
            Self::Failed(why) | Self::Unsupported(why) => why,
        }
    }

    /// Adds in which case it happened.
    pub(super) fn with(self, what: impl fmt::Display) -> Self {
        match self {
            Self::Failed(why) => Self::Failed(format!("{what}: {why}")),
            Self::Unsupported(why) => Self::Unsupported(format!("{what}: {why}")),
        }
    }
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        if error.is_unsupported() {
            Self::unsupported(error)
        } else {
            Self::failed(error)
        }
    }
}

impl From<OutOfRange> for Trouble {
    fn from(error: OutOfRange) -> Self {
        Error::from(error).into()
    }
}

impl From<HandshakeError> for Trouble {
    fn from(error: HandshakeError) -> Self {
        error.error.into()
    }
}

impl From<PostError> for Trouble {
    fn from(error: PostError) -> Self {
        let why = format_args!("not posted: {error}").to_string();
        match error {
            PostError::UnsupportedOperation => Self::Unsupported(why),
            _ => Self::Failed(why),
        }
    }
}

impl From<PollError> for Trouble {
    fn from(error: PollError) -> Self {
        Self::failed(format_args!("polling: {error}"))
    }
}

impl From<Box<Refused>> for Trouble {
    fn from(refused: Box<Refused>) -> Self {
        refused.error.into()
    }
}

impl From<ReceiveRefused> for Trouble {
    fn from(refused: ReceiveRefused) -> Self {
        refused.error.into()
    }
}

/// Fails unless `so` is true.
pub(super) fn ensure(so: bool, otherwise: impl FnOnce() -> String) -> Outcome<()> {
    if so {
        Ok(())
    } else {
        Err(Trouble::Failed(otherwise()))
    }
}
