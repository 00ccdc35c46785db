//! The user's terminal, connected to a guest.

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use testbed::WindowSize;

/// The terminal in raw mode; it is restored on drop.
#[derive(Debug)]
pub(crate) struct Raw(Termios);

impl Raw {
    pub(crate) fn new() -> rustix::io::Result<Self> {
        let before = tcgetattr(rustix::stdio::stdin())?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(rustix::stdio::stdin(), OptionalActions::Now, &raw)?;
        Ok(Self(before))
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        // An error could only be reported on this same terminal.
        let _ = tcsetattr(rustix::stdio::stdin(), OptionalActions::Now, &self.0);
    }
}

/// The terminal's size, or that of the earliest terminals.
pub(crate) fn size() -> WindowSize {
    let size = tcgetwinsize(rustix::stdio::stdout())
        .ok()
        .filter(|size| size.ws_row > 0 && size.ws_col > 0);
    size.map_or(
        WindowSize {
            rows: 24,
            columns: 80,
        },
        |size| WindowSize {
            rows: size.ws_row,
            columns: size.ws_col,
        },
    )
}
