//! The kernel log, forwarded line by line.

use crate::channel::Outgoing;
use crate::error::{Doing as _, Error};
use guest_init::{Event, LogLine};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::sync::{Arc, Mutex, PoisonError};

const DEVICE: &str = "/dev/kmsg";

/// Our own line, which is not forwarded.
const MARK: &str = "testbed: a command ended";

/// The longest record that the kernel returns.
const RECORD: usize = 8192;

/// The reader of `/dev/kmsg`.
#[derive(Debug)]
pub(crate) struct KernelLog {
    device: Mutex<File>,
    outgoing: Outgoing,
}

impl KernelLog {
    pub(crate) fn open(outgoing: Outgoing) -> Result<Self, Error> {
        let device = OpenOptions::new()
            .read(true)
            .custom_flags(nix::fcntl::OFlag::O_NONBLOCK.bits())
            .open(DEVICE)
            .doing(|| format!("opening {DEVICE}"))?;
        Ok(Self {
            device: Mutex::new(device),
            outgoing,
        })
    }

    /// Forwards existing and new lines, from a thread of its own.
    pub(crate) fn forward(self: &Arc<Self>) {
        let log = Arc::clone(self);
        std::thread::spawn(move || {
            let Ok(waiting) = log.lock().try_clone() else {
                return;
            };
            loop {
                log.drain();
                let mut ready = [PollFd::new(waiting.as_fd(), PollFlags::POLLIN)];
                let _ = poll(&mut ready, PollTimeout::NONE);
            }
        });
    }

    /// Forwards every line that the kernel has begun so far.
    ///
    /// The kernel returns a line that is not terminated yet (some drivers forget the newline) only
    /// when another one begins, so a line of our own is written after it.
    pub(crate) fn drain_whole(&self) {
        if let Err(error) = std::fs::write(DEVICE, format!("<7>{MARK}\n")) {
            eprintln!("testbed: writing {DEVICE}: {error}");
        }
        self.drain();
    }

    /// Forwards every complete line that the kernel has written so far.
    pub(crate) fn drain(&self) {
        let mut device = self.lock();
        let mut record = [0; RECORD];
        loop {
            match device.read(&mut record) {
                Ok(length) if length > 0 => {
                    let text = String::from_utf8_lossy(record.get(..length).unwrap_or_default());
                    if let Some(line) = parse(&text).filter(|line| line.text != MARK) {
                        self.outgoing.send(&Event::Kernel(line));
                    }
                }
                // EPIPE: the kernel overwrote lines before they were read; the next read returns
                // the oldest one left.
                Err(error)
                    if matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::Interrupted) => {}
                Ok(_) | Err(_) => return,
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, File> {
        self.device.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Microseconds since the kernel started.
pub(crate) fn uptime_us() -> u64 {
    let text = std::fs::read_to_string("/proc/uptime").unwrap_or_default();
    let mut parts = text
        .split_whitespace()
        .next()
        .unwrap_or_default()
        .split('.');
    let mut number = || {
        parts
            .next()
            .and_then(|part| part.parse::<u64>().ok())
            .unwrap_or_default()
    };
    // The kernel prints hundredths of a second.
    number() * 1_000_000 + number() * 10_000
}

/// Parses a record of `/dev/kmsg`: `priority,sequence,time,flags;text`, followed by lines of
/// further properties.
fn parse(record: &str) -> Option<LogLine> {
    let (head, text) = record.split_once(';')?;
    let mut head = head.split(',');
    let priority: u32 = head.next()?.parse().ok()?;
    let time_us = head.nth(1)?.parse().ok()?;
    let text = text.lines().next().unwrap_or_default().to_owned();
    Some(LogLine {
        level: (priority & 7) as u8,
        time_us,
        text,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::parse;

    #[test]
    fn a_record_is_taken_apart() {
        let line = parse("4,1234,5678901,-;WARNING: CPU: 0; at x\n SUBSYSTEM=net\n").unwrap();
        assert_eq!(
            (line.level, line.time_us, line.text.as_str()),
            (4, 5_678_901, "WARNING: CPU: 0; at x")
        );
        assert_eq!(parse("14,7,1,-;from user space\n").unwrap().level, 6);
        assert_eq!(parse("garbage"), None);
    }
}
