//! Signals as something to wait for, so that a terminal can be restored before the program ends.

use std::io::{self, Read as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGWINCH};
use signal_hook::flag;
use signal_hook::low_level::{emulate_default_handler, pipe};

/// Those that end programs.
const ENDING: [i32; 4] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM];

/// What came.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Signal {
    /// By its number.
    Ends(i32),
    /// The window has another size.
    Resized,
}

/// A descriptor that is readable after a signal. Signals stay caught until the program ends.
pub(super) struct Signals {
    readable: UnixStream,
    /// The number of the last signal that ends programs; 0 before any.
    ending: Arc<AtomicUsize>,
}

impl Signals {
    pub(super) fn catch() -> io::Result<Self> {
        let (readable, writable) = UnixStream::pair()?;
        readable.set_nonblocking(true)?;
        let ending = Arc::new(AtomicUsize::new(0));
        for signal in ENDING {
            let number = usize::try_from(signal).map_err(io::Error::other)?;
            // Handlers run in this order: whoever is woken finds the number.
            flag::register_usize(signal, Arc::clone(&ending), number)?;
            pipe::register(signal, writable.try_clone()?)?;
        }
        pipe::register(SIGWINCH, writable)?;
        Ok(Self { readable, ending })
    }

    /// The signal that came since the last call. One that ends programs goes before others.
    pub(super) fn taken(&self) -> Option<Signal> {
        let mut bytes = [0; 64];
        // Nothing to read is an error here: no signal.
        let count = (&self.readable).read(&mut bytes).unwrap_or(0);
        match i32::try_from(self.ending.swap(0, Ordering::SeqCst)) {
            Ok(number) if number != 0 => Some(Signal::Ends(number)),
            _ => (count > 0).then_some(Signal::Resized),
        }
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.readable.as_fd()
    }
}

/// Ends the program as the signal would have, so that a shell sees how it ended.
pub(super) fn end_by(signal: i32) -> io::Result<()> {
    emulate_default_handler(signal)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;
    use signal_hook::low_level::raise;

    #[test]
    fn signals_are_taken_once_and_those_that_end_go_first() {
        let signals = Signals::catch().unwrap();
        assert_eq!(signals.taken(), None);
        raise(SIGWINCH).unwrap();
        assert_eq!(signals.taken(), Some(Signal::Resized));
        raise(SIGWINCH).unwrap();
        raise(SIGTERM).unwrap();
        assert_eq!(signals.taken(), Some(Signal::Ends(SIGTERM)));
        assert_eq!(signals.taken(), None);
    }
}
