//! The terminal: keys as they are pressed, and a screen that is redrawn in place.

use std::io::{self, Read as _, Write as _};
use std::panic;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{OptionalActions, Termios, isatty, tcgetattr, tcgetwinsize, tcsetattr};

use super::signals::{Signal, Signals};
use crate::failure::{Failure, Result};

/// Lines and columns where the terminal does not say how large it is.
const USUAL: (usize, usize) = (24, 80);

/// What was pressed, or came as a signal.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Key {
    Char(char),
    Up,
    Down,
    PageUp,
    PageDown,
    Quit,
    /// The window has another size.
    Resized,
    /// A signal that ends programs, by its number.
    Ended(i32),
}

/// A terminal in raw mode with its second screen. Dropping it restores both; so does a panic,
/// before its message.
pub(super) struct Terminal {
    before: Termios,
    signals: Signals,
}

impl Terminal {
    /// `None` unless input and output both are terminals.
    pub(super) fn open() -> Result<Option<Self>> {
        if !isatty(io::stdin()) || !isatty(io::stdout()) {
            return Ok(None);
        }
        let failed = |error| Failure::new(format_args!("setting up the terminal: {error}"));
        let before = tcgetattr(io::stdin()).map_err(failed)?;
        // From here on, signals end the program by way of `key`.
        let signals = Signals::catch()
            .map_err(|error| Failure::new(format_args!("catching signals: {error}")))?;
        restore_in_panics(before.clone());
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(io::stdin(), OptionalActions::Flush, &raw).map_err(failed)?;
        let terminal = Self { before, signals };
        // The second screen, without a cursor.
        write("\x1b[?1049h\x1b[?25l")?;
        Ok(Some(terminal))
    }

    #[expect(clippy::unused_self, reason = "proof that the terminal is set up")]
    /// Shows the lines from `from` on, cut to the size of the terminal, and `keys` below them.
    pub(super) fn show(&self, lines: &[String], from: usize, keys: &str) -> Result<()> {
        write(&page(lines, from, keys, size()))
    }

    /// Waits for a key or a signal until `deadline`.
    pub(super) fn key(&self, deadline: Instant) -> Result<Option<Key>> {
        let failed = |error: io::Error| Failure::new(format_args!("reading keys: {error}"));
        let left = deadline.saturating_duration_since(Instant::now());
        let readable = self.readable(left).map_err(failed)?;
        match self.signals.taken() {
            Some(Signal::Ends(number)) => return Ok(Some(Key::Ended(number))),
            Some(Signal::Resized) => return Ok(Some(Key::Resized)),
            None if !readable => return Ok(None),
            None => {}
        }
        let mut bytes = [0; 8];
        let count = io::stdin().read(&mut bytes).map_err(failed)?;
        // No bytes: the terminal is gone.
        Ok(match bytes.get(..count) {
            None | Some([]) => Some(Key::Quit),
            Some(pressed) => key_of(pressed),
        })
    }

    /// Whether there is a key; `false` also if a signal came, or the time is over.
    fn readable(&self, limit: Duration) -> io::Result<bool> {
        let stdin = io::stdin();
        let mut fds = [
            PollFd::new(&stdin, PollFlags::IN),
            PollFd::new(&self.signals, PollFlags::IN),
        ];
        let limit = Timespec::try_from(limit).map_err(io::Error::other)?;
        match poll(&mut fds, Some(&limit)) {
            Ok(_) => Ok(!fds[0].revents().is_empty()),
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

fn write(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .map_err(|error| crate::failure::of_stdout(&error))
}

impl Drop for Terminal {
    fn drop(&mut self) {
        restore(&self.before);
    }
}

/// A terminal that is gone needs no restoring.
fn restore(before: &Termios) {
    let _ = write("\x1b[?25h\x1b[?1049l");
    let _ = tcsetattr(io::stdin(), OptionalActions::Flush, before);
}

/// Otherwise the message of a panic would be printed to the second screen, and be gone with it.
fn restore_in_panics(before: Termios) {
    let usual = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        restore(&before);
        usual(info);
    }));
}

/// Lines and columns.
pub(super) fn size() -> (usize, usize) {
    match tcgetwinsize(io::stdout()) {
        Ok(size) if size.ws_row > 0 && size.ws_col > 0 => (size.ws_row.into(), size.ws_col.into()),
        _ => USUAL,
    }
}

fn key_of(bytes: &[u8]) -> Option<Key> {
    match bytes {
        b"\x03" | b"q" | b"Q" | b"\x1b" => Some(Key::Quit),
        b"\x1b[A" | b"\x1bOA" | b"k" => Some(Key::Up),
        b"\x1b[B" | b"\x1bOB" | b"j" => Some(Key::Down),
        b"\x1b[5~" => Some(Key::PageUp),
        b"\x1b[6~" | b" " => Some(Key::PageDown),
        [letter, ..] if letter.is_ascii_graphic() => Some(Key::Char((*letter).into())),
        _ => None,
    }
}

/// The screen: the first line stays, the others scroll, headings are bold, the last line has the
/// keys.
fn page(lines: &[String], from: usize, keys: &str, (height, width): (usize, usize)) -> String {
    let mut text = "\x1b[H".to_owned();
    let cut = |line: &str| line.chars().take(width).collect::<String>();
    let room = height.saturating_sub(2);
    let body = lines.iter().skip(1).skip(from).take(room);
    for (at, line) in lines.iter().take(1).chain(body).enumerate() {
        let line = cut(line);
        let heading = at == 0 || is_heading(&line);
        let (on, off) = if heading {
            ("\x1b[1m", "\x1b[0m")
        } else {
            ("", "")
        };
        text.extend([on, &line, off, "\x1b[K\r\n"]);
    }
    let keys = cut(keys);
    text + &format!("\x1b[J\x1b[{height};1H\x1b[7m{keys}\x1b[0m")
}

fn is_heading(line: &str) -> bool {
    ["PORT ", "DEVICE ", "COUNTER OF "]
        .iter()
        .any(|heading| line.starts_with(heading))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_their_sequences() {
        for (bytes, key) in [
            (&b"q"[..], Some(Key::Quit)),
            (b"\x03", Some(Key::Quit)),
            (b"\x1b[A", Some(Key::Up)),
            (b"j", Some(Key::Down)),
            (b"\x1b[6~", Some(Key::PageDown)),
            (b"s", Some(Key::Char('s'))),
            (b"\x1b[999~", None),
            (b"\xff", None),
        ] {
            assert_eq!(key_of(bytes), key, "{bytes:?}");
        }
    }

    #[test]
    fn a_page_has_the_size_of_the_terminal() {
        let lines: Vec<String> = (0..50).map(|at| format!("line {at} of many")).collect();
        let text = page(&lines, 5, "q quit", (10, 8));
        let shown = anstream::adapter::strip_str(&text).to_string();
        let shown: Vec<&str> = shown.lines().collect();
        assert_eq!(shown.first(), Some(&"line 0 o"));
        assert_eq!(
            shown.get(1),
            Some(&"line 6 o"),
            "scrolled by 5 below the first"
        );
        assert_eq!(shown.len(), 10, "{shown:?}");
        assert_eq!(shown.last(), Some(&"q quit"));
        assert!(
            page(&[], 3, "q", (1, 1)).contains('q'),
            "any size can be drawn"
        );
    }
}
