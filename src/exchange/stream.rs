//! Streams with time limits.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use super::ExchangeError;

/// A stream whose reads and writes can be limited in time.
pub trait Timed: Read + Write {
    /// Lets no later read or write block for longer than `limit`, which is not zero; `None` lifts
    /// the limit. One that took longer fails with `WouldBlock` or `TimedOut`.
    ///
    /// # Errors
    /// Those of the stream.
    fn set_time_limit(&mut self, limit: Option<Duration>) -> io::Result<()>;
}

impl Timed for TcpStream {
    fn set_time_limit(&mut self, limit: Option<Duration>) -> io::Result<()> {
        self.set_read_timeout(limit)?;
        self.set_write_timeout(limit)
    }
}

impl Timed for UnixStream {
    fn set_time_limit(&mut self, limit: Option<Duration>) -> io::Result<()> {
        self.set_read_timeout(limit)?;
        self.set_write_timeout(limit)
    }
}

impl<S: Timed + ?Sized> Timed for &mut S {
    fn set_time_limit(&mut self, limit: Option<Duration>) -> io::Result<()> {
        (**self).set_time_limit(limit)
    }
}

/// A stream that cannot be limited, or that the program limits itself.
///
/// The exchange still ends when its time is over, but only once the read or write under way
/// returns.
#[derive(Clone, Copy, Debug)]
pub struct Untimed<S>(pub S);

impl<S: Read> Read for Untimed<S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl<S: Write> Write for Untimed<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl<S: Read + Write> Timed for Untimed<S> {
    fn set_time_limit(&mut self, _limit: Option<Duration>) -> io::Result<()> {
        Ok(())
    }
}

/// When a step must have ended.
pub(super) struct Deadline {
    /// `None`: beyond what the clock can count.
    pub(super) at: Option<Instant>,
    pub(super) limit: Duration,
}

impl Deadline {
    /// Reads exactly `buffer`.
    pub(super) fn read(
        &self,
        stream: &mut impl Timed,
        buffer: &mut [u8],
    ) -> Result<(), ExchangeError> {
        let mut done = 0;
        while let Some(rest) = buffer.get_mut(done..).filter(|rest| !rest.is_empty()) {
            self.arm(stream)?;
            done += self.progress(stream.read(rest))?;
        }
        Ok(())
    }

    /// Writes all of `bytes`.
    pub(super) fn write(&self, stream: &mut impl Timed, bytes: &[u8]) -> Result<(), ExchangeError> {
        let mut done = 0;
        while let Some(rest) = bytes.get(done..).filter(|rest| !rest.is_empty()) {
            self.arm(stream)?;
            done += self.progress(stream.write(rest))?;
        }
        stream.flush().map_err(|error| self.failed(error))
    }

    /// Gives the stream what is left of the time.
    fn arm(&self, stream: &mut impl Timed) -> Result<(), ExchangeError> {
        let Some(at) = self.at else {
            return stream.set_time_limit(None).map_err(ExchangeError::Io);
        };
        let left = at.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ExchangeError::TimedOut { limit: self.limit });
        }
        stream.set_time_limit(Some(left)).map_err(ExchangeError::Io)
    }

    /// How many bytes were moved.
    fn progress(&self, outcome: io::Result<usize>) -> Result<usize, ExchangeError> {
        match outcome {
            Ok(0) => Err(ExchangeError::Ended),
            Ok(count) => Ok(count),
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(0),
            Err(error) => Err(self.failed(error)),
        }
    }

    fn failed(&self, error: io::Error) -> ExchangeError {
        match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => {
                ExchangeError::TimedOut { limit: self.limit }
            }
            ErrorKind::UnexpectedEof
            | ErrorKind::ConnectionReset
            | ErrorKind::ConnectionAborted
            | ErrorKind::BrokenPipe => ExchangeError::Ended,
            _ => ExchangeError::Io(error),
        }
    }
}
