//! What was found: its state, what that means, and what to type.

use std::fmt;

use clap::builder::styling::{AnsiColor, Style};
use serde::Serialize;

#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Status {
    Ok,
    Warn,
    Fail,
}

#[derive(Debug, Serialize)]
pub(super) struct Finding {
    pub(super) check: &'static str,
    /// The device or file it is about.
    pub(super) subject: Option<String>,
    pub(super) status: Status,
    pub(super) message: String,
    /// What to type, or to change.
    pub(super) fix: Option<String>,
}

impl Finding {
    pub(super) fn ok(check: &'static str, message: impl fmt::Display) -> Self {
        Self::new(check, Status::Ok, message)
    }

    pub(super) fn warn(check: &'static str, message: impl fmt::Display) -> Self {
        Self::new(check, Status::Warn, message)
    }

    pub(super) fn fail(check: &'static str, message: impl fmt::Display) -> Self {
        Self::new(check, Status::Fail, message)
    }

    fn new(check: &'static str, status: Status, message: impl fmt::Display) -> Self {
        Self {
            check,
            subject: None,
            status,
            message: message.to_string(),
            fix: None,
        }
    }

    pub(super) fn about(mut self, subject: impl fmt::Display) -> Self {
        self.subject = Some(subject.to_string());
        self
    }

    pub(super) fn fix(mut self, fix: impl fmt::Display) -> Self {
        self.fix = Some(fix.to_string());
        self
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (word, style): (_, Style) = match self.status {
            Status::Ok => ("ok  ", AnsiColor::Green.on_default()),
            Status::Warn => ("warn", AnsiColor::Yellow.on_default()),
            Status::Fail => ("fail", AnsiColor::Red.on_default().bold()),
        };
        write!(f, "{style}{word}{style:#}  {}", self.check)?;
        if let Some(subject) = &self.subject {
            write!(f, " {subject}")?;
        }
        write!(f, ": {}", self.message)?;
        match &self.fix {
            Some(fix) => write!(f, "\n      → {fix}"),
            None => Ok(()),
        }
    }
}
