//! The connection to a guest: frames out, frames in, and what has been received so far.

use super::Output;
use crate::Error;
use crate::qemu::Paths;
use guest_init::{Ending, Event, LogLine, Request, Stream};
use std::collections::HashMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Child;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How much longer than a command's own time limit the host waits for the guest to report its end.
const PATIENCE: Duration = Duration::from_secs(20);

/// Number of console lines of a dead machine that an error shows.
const CONSOLE_LINES: usize = 60;

/// The connection to one guest.
#[derive(Debug)]
pub(super) struct Link {
    control: PathBuf,
    console: PathBuf,
    errors: PathBuf,
    writer: Mutex<Option<UnixStream>>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    ready: Option<Ready>,
    commands: HashMap<u32, Progress>,
    log: Vec<LogLine>,
    /// Why nothing more arrives.
    gone: Option<String>,
}

/// What the guest reported about itself when it was ready.
#[derive(Clone, Debug, Default)]
pub(super) struct Ready {
    pub(super) release: String,
    pub(super) separate_namespaces: bool,
}

#[derive(Debug)]
struct Progress {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    echo: bool,
    log_start: usize,
    ended: Option<(Ending, Duration)>,
}

impl Link {
    pub(super) fn new(paths: &Paths) -> Self {
        Self {
            control: paths.control.clone(),
            console: paths.console.clone(),
            errors: paths.errors.clone(),
            writer: Mutex::default(),
            state: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    /// Connects to the machine's control socket, which QEMU creates soon after its start.
    pub(super) fn connect(
        self: &Arc<Self>,
        machine: &mut Child,
        deadline: Instant,
    ) -> Result<(), Error> {
        let socket = loop {
            if let Ok(socket) = UnixStream::connect(&self.control) {
                break socket;
            }
            if matches!(machine.try_wait(), Ok(Some(_))) {
                return Err(self.broken("was not started by QEMU"));
            }
            if Instant::now() > deadline {
                return Err(self.broken("has no control socket"));
            }
            thread::sleep(Duration::from_millis(5));
        };
        let reader = socket
            .try_clone()
            .map_err(Error::file("connecting to", &self.control))?;
        *self.writer.lock().unwrap_or_else(PoisonError::into_inner) = Some(socket);
        let link = Arc::clone(self);
        thread::spawn(move || link.read(BufReader::new(reader)));
        Ok(())
    }

    pub(super) fn wait_until_ready(&self, deadline: Instant) -> Result<(), Error> {
        self.wait(Some(deadline), |state| state.ready.clone().map(drop))?
            .ok_or_else(|| self.broken("did not come up in time"))
    }

    pub(super) fn ready<T>(&self, get: impl FnOnce(&Ready) -> T) -> T {
        get(self.state().ready.as_ref().unwrap_or(&Ready::default()))
    }

    pub(super) fn send(&self, request: &Request) -> Result<(), Error> {
        let mut frame = serde_json::to_vec(request)
            .map_err(|error| Error::packages("writing a request", error))?;
        frame.push(b'\n');
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        match writer.as_mut().map(|socket| socket.write_all(&frame)) {
            Some(Ok(())) => Ok(()),
            _ => Err(self.broken("is gone")),
        }
    }

    /// Prepares to receive the output of a command.
    pub(super) fn expect(&self, id: u32, echo: bool) {
        let mut state = self.state();
        let log_start = state.log.len();
        let progress = Progress {
            stdout: Vec::new(),
            stderr: Vec::new(),
            echo,
            log_start,
            ended: None,
        };
        state.commands.insert(id, progress);
    }

    pub(super) fn wait_for_end(
        &self,
        id: u32,
        command: &str,
        time_limit: Option<Duration>,
    ) -> Result<Output, Error> {
        let deadline = time_limit.map(|limit| Instant::now() + limit + PATIENCE);
        let output = self.wait(deadline, |state| {
            let ended = state.commands.get_mut(&id)?.ended.take();
            let (ending, elapsed) = ended?;
            let progress = state.commands.remove(&id)?;
            let kernel = state
                .log
                .get(progress.log_start..)
                .unwrap_or_default()
                .to_vec();
            Some(Output {
                command: String::new(),
                ending,
                stdout: progress.stdout,
                stderr: progress.stderr,
                elapsed,
                kernel,
            })
        })?;
        output
            .map(|output| Output {
                command: command.to_owned(),
                ..output
            })
            .ok_or_else(|| self.broken("does not answer any more"))
    }

    pub(super) fn wait_for_text(
        &self,
        id: u32,
        text: &str,
        timeout: Duration,
    ) -> Result<(), Error> {
        let deadline = Instant::now() + timeout;
        let found = self.wait(Some(deadline), |state| {
            let progress = state.commands.get(&id)?;
            let found = contains(&progress.stdout, text) || contains(&progress.stderr, text);
            (found || progress.ended.is_some()).then_some(found)
        })?;
        if found == Some(true) {
            return Ok(());
        }
        let state = self.state();
        let output = state.commands.get(&id).map(|progress| {
            String::from_utf8_lossy(&progress.stdout).into_owned()
                + &String::from_utf8_lossy(&progress.stderr)
        });
        let what = format!("the text {text:?}");
        Err(Error::Silence {
            what,
            seconds: timeout.as_secs_f32(),
            output: output.unwrap_or_default(),
        })
    }

    pub(super) fn has_ended(&self, id: u32) -> bool {
        self.state()
            .commands
            .get(&id)
            .is_none_or(|progress| progress.ended.is_some())
    }

    pub(super) fn log_since(&self, start: usize) -> Vec<LogLine> {
        self.state().log.get(start..).unwrap_or_default().to_vec()
    }

    /// The end of the console, from the cause of the kernel's death if it died, and QEMU's own
    /// error messages.
    pub(super) fn console_tail(&self) -> String {
        let read = |path: &PathBuf| {
            String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
        };
        last_lines(&(read(&self.errors) + &read(&self.console)))
    }

    pub(super) fn broken(&self, what: &str) -> Error {
        Error::Machine {
            what: what.into(),
            console: self.console_tail(),
        }
    }

    /// Waits until `look` finds what it looks for; `None` at the deadline, an error if the machine
    /// is gone.
    fn wait<T>(
        &self,
        deadline: Option<Instant>,
        mut look: impl FnMut(&mut State) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        let mut state = self.state();
        loop {
            if let Some(found) = look(&mut state) {
                return Ok(Some(found));
            }
            if let Some(why) = &state.gone {
                let why = why.clone();
                drop(state);
                // The console is written by another process; its last output is worth a short wait.
                thread::sleep(Duration::from_millis(200));
                return Err(self.broken(&why));
            }
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            state = match left {
                Some(Duration::ZERO) => return Ok(None),
                Some(left) => {
                    self.changed
                        .wait_timeout(state, left)
                        .unwrap_or_else(PoisonError::into_inner)
                        .0
                }
                None => self
                    .changed
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    fn read(&self, mut reader: BufReader<UnixStream>) {
        let mut frame = Vec::new();
        while matches!(reader.read_until(b'\n', &mut frame), Ok(length) if length > 0) {
            if let Ok(event) = serde_json::from_slice(&frame) {
                self.note(event);
            }
            frame.clear();
        }
        let mut state = self.state();
        state.gone.get_or_insert_with(|| "stopped".into());
        drop(state);
        self.changed.notify_all();
    }

    fn note(&self, event: Event) {
        let mut state = self.state();
        match event {
            Event::Ready {
                release,
                separate_namespaces,
                ..
            } => {
                state.ready = Some(Ready {
                    release,
                    separate_namespaces,
                });
            }
            Event::Failed { why } => state.gone = Some(format!("could not be set up: {why}")),
            Event::Output { id, stream, data } => {
                if let Some(progress) = state.commands.get_mut(&id) {
                    progress.take(stream, &data.0);
                }
            }
            Event::Ended {
                id,
                ending,
                elapsed_us,
            } => {
                if let Some(progress) = state.commands.get_mut(&id) {
                    progress.ended = Some((ending, Duration::from_micros(elapsed_us)));
                }
            }
            Event::Kernel(line) => state.log.push(line),
        }
        drop(state);
        self.changed.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Progress {
    fn take(&mut self, stream: Stream, data: &[u8]) {
        let kept = match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        };
        kept.extend_from_slice(data);
        if self.echo {
            // Nobody can be informed if our own output is closed.
            let _ = match stream {
                Stream::Stdout => std::io::stdout()
                    .write_all(data)
                    .and_then(|()| std::io::stdout().flush()),
                Stream::Stderr => std::io::stderr().write_all(data),
            };
        }
    }
}

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes
        .windows(text.len().max(1))
        .any(|window| window == text.as_bytes())
}

/// The last lines of a console. A kernel that died prints why some lines before the end: from there
/// on, if that is more.
fn last_lines(text: &str) -> String {
    let lines: Vec<_> = text.lines().map(str::trim_end).collect();
    let end = lines.len().saturating_sub(CONSOLE_LINES);
    let cause = lines
        .iter()
        .position(|line| ["Oops: ", "BUG: "].iter().any(|word| line.contains(word)));
    let start = cause.map_or(end, |at| at.min(end));
    lines.get(start..).unwrap_or_default().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_lines_begin_with_the_cause() {
        let many = "line\n".repeat(100);
        assert_eq!(last_lines(&many).lines().count(), CONSOLE_LINES);
        let died = format!("{many}[ 3.3] Oops: int3: 0000 [#1] SMP\r\n{many}end");
        let lines = last_lines(&died);
        assert!(lines.starts_with("[ 3.3] Oops: int3: 0000"), "{lines}");
        assert!(lines.ends_with("\nend"));
        let near = format!("{many}BUG: bad\nend");
        assert_eq!(last_lines(&near).lines().count(), CONSOLE_LINES);
        assert_eq!(last_lines(""), "");
    }
}
