//! Why the program ends early, what it then prints, and its exit codes.

use std::fmt;
use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::builder::styling::{AnsiColor, Style};
use uverbs::error::{HandshakeError, OutOfRange};
use uverbs::{Error, ErrorKind, PollError, PostError};

/// Something failed.
pub(crate) const FAILED: u8 = 1;
/// The command line is invalid.
pub(crate) const USAGE: u8 = 2;
/// There is no such device, or none at all.
pub(crate) const NO_DEVICE: u8 = 3;
/// This user may not do that.
pub(crate) const NOT_ALLOWED: u8 = 4;
/// The device or the kernel cannot do that.
pub(crate) const UNSUPPORTED: u8 = 5;

/// The end of an unsuccessful run.
#[derive(Debug)]
pub(crate) enum Failure {
    /// To be printed to stderr.
    Said {
        /// The exit code.
        code: u8,
        /// What went wrong, in one line.
        message: String,
        /// What to do about it.
        hint: Option<String>,
        /// The library's error behind it.
        cause: Option<Error>,
    },
    /// Already reported as part of the output.
    Reported(u8),
    /// The reader of stdout is gone.
    Closed,
}

/// The result of everything that can end a run.
pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;

impl Failure {
    pub(crate) fn new(message: impl fmt::Display) -> Self {
        Self::with_code(FAILED, message)
    }

    pub(crate) fn usage(message: impl fmt::Display) -> Self {
        Self::with_code(USAGE, message)
    }

    pub(crate) fn with_code(code: u8, message: impl fmt::Display) -> Self {
        Self::Said {
            code,
            message: message.to_string(),
            hint: None,
            cause: None,
        }
    }

    /// Adds what to do about it, unless a better hint is already known.
    #[must_use]
    pub(crate) fn hint(mut self, text: impl fmt::Display) -> Self {
        if let Self::Said {
            hint: hint @ None, ..
        } = &mut self
        {
            *hint = Some(text.to_string());
        }
        self
    }

    /// Adds what was being done.
    #[must_use]
    pub(crate) fn while_doing(mut self, what: impl fmt::Display) -> Self {
        if let Self::Said { message, .. } = &mut self {
            *message = format!("{what}: {message}");
        }
        self
    }

    /// The exit code. That the reader went away is no failure.
    pub(crate) fn code(&self) -> u8 {
        match self {
            Self::Said { code, .. } | Self::Reported(code) => *code,
            Self::Closed => 0,
        }
    }

    /// Writes it to stderr and returns the exit code.
    pub(crate) fn report(&self) -> ExitCode {
        if matches!(self, Self::Said { .. }) {
            let mut stderr = anstream::stderr().lock();
            let _ = writeln!(stderr, "{self}");
        }
        ExitCode::from(self.code())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const ERROR: Style = AnsiColor::Red.on_default().bold();
        const HINT: Style = AnsiColor::Cyan.on_default().bold();
        let Self::Said { message, hint, .. } = self else {
            return Ok(());
        };
        write!(f, "{ERROR}error:{ERROR:#} {message}")?;
        match hint {
            Some(hint) => write!(f, "\n{HINT}hint:{HINT:#} {hint}"),
            None => Ok(()),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let code = match error.kind() {
            ErrorKind::NotFound => NO_DEVICE,
            ErrorKind::PermissionDenied => NOT_ALLOWED,
            ErrorKind::Unsupported => UNSUPPORTED,
            _ => FAILED,
        };
        let text = error.to_string();
        let hint = error.known_hint();
        let message = hint
            .and_then(|hint| text.strip_suffix(hint))
            .and_then(|text| text.strip_suffix("; "))
            .unwrap_or(&text);
        Self::Said {
            code,
            message: message.to_owned(),
            hint: hint.map(str::to_owned),
            cause: Some(error),
        }
    }
}

impl From<OutOfRange> for Failure {
    fn from(error: OutOfRange) -> Self {
        Error::from(error).into()
    }
}

impl From<HandshakeError> for Failure {
    fn from(refused: HandshakeError) -> Self {
        refused.error.into()
    }
}

impl From<PostError> for Failure {
    fn from(error: PostError) -> Self {
        Self::new(format_args!("posting a request: {error}"))
    }
}

impl From<PollError> for Failure {
    fn from(error: PollError) -> Self {
        Self::new(format_args!("polling for completions: {error}"))
    }
}

/// The failure of writing to stdout; other I/O errors are mapped where they occur, with the name of
/// the file.
pub(crate) fn of_stdout(error: &io::Error) -> Failure {
    if error.kind() == io::ErrorKind::BrokenPipe {
        Failure::Closed
    } else {
        Failure::new(format_args!("writing to standard output: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uverbs::error::{Errno, Op};

    #[test]
    fn a_hint_of_the_library_gets_its_own_line_once() {
        let error = Error::os(Op::RegisterMemory, Errno::NOMEM)
            .fact("length", 4096_u32)
            .hint("raise RLIMIT_MEMLOCK");
        let text = anstream::adapter::strip_str(&Failure::from(error).to_string()).to_string();
        assert_eq!(
            text,
            "error: reg_mr: ENOMEM (length 4096)\nhint: raise RLIMIT_MEMLOCK"
        );
    }

    #[test]
    fn exit_codes_follow_the_kind() {
        for (errno, code) in [
            (Errno::NODEV, NO_DEVICE),
            (Errno::ACCESS, NOT_ALLOWED),
            (Errno::OPNOTSUPP, UNSUPPORTED),
            (Errno::IO, FAILED),
        ] {
            let failure = Failure::from(Error::os(Op::OpenDevice, errno));
            assert!(
                matches!(failure, Failure::Said { code: found, .. } if found == code),
                "{failure:?}"
            );
        }
    }

    #[test]
    fn the_first_hint_stays() {
        let failure = Failure::new("x").hint("a").hint("b");
        assert!(failure.to_string().ends_with('a'), "{failure}");
    }
}
