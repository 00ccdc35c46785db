//! Events that were not read yet.
//!
//! They are in the pipe of their file, too, whole and in order, as a kernel has them in its file: a
//! program may read them from the descriptor itself (`read(2)`) instead of through the library.
//! What it took so is noticed by what is left in the pipe.

use std::collections::VecDeque;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags};

use crate::state::Owner;
use uverbs_core::error::Errno;

/// An event that was not read yet.
#[derive(Debug)]
pub(super) struct Event {
    pub(super) bytes: Vec<u8>,
    /// The event's owner, for the counts that a destroy returns.
    pub(super) owner: Option<Owner>,
}

/// What a removal of events found.
#[derive(Debug, Default)]
pub(super) struct Removed {
    /// Events that the program had read from the descriptor.
    pub(super) read: Vec<Event>,
    /// Those that were removed.
    pub(super) removed: Vec<Event>,
}

/// The events of one file.
#[derive(Debug)]
pub(super) struct Waiting {
    /// `None` once the device is gone.
    writer: Option<OwnedFd>,
    queue: VecDeque<Event>,
    /// How many of them, from the first on, are in the pipe; the others did not fit.
    written: usize,
    /// Bytes in the pipe, unless the program has read some since.
    bytes: usize,
    /// One byte stands for an event that only a command fetches.
    by_command: bool,
}

impl Waiting {
    /// None, for the pipe with this end.
    pub(super) fn new(writer: OwnedFd, by_command: bool) -> Self {
        Self {
            writer: Some(writer),
            queue: VecDeque::new(),
            written: 0,
            bytes: 0,
            by_command,
        }
    }

    /// The next one.
    pub(super) fn front(&self) -> Option<&Event> {
        self.queue.front()
    }

    /// All of them.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Event> {
        self.queue.iter()
    }

    /// Adds one, unless the device is gone.
    pub(super) fn push(&mut self, event: Event) {
        if self.writer.is_some() {
            self.queue.push_back(event);
            self.write();
        }
    }

    /// Closes the stream: pending events can still be read, then there is no writer.
    pub(super) fn close(&mut self) {
        self.writer = None;
    }

    pub(super) fn is_closed(&self) -> bool {
        self.writer.is_none()
    }

    /// How many bytes an event has in the pipe.
    fn size(&self, event: &Event) -> usize {
        if self.by_command {
            1
        } else {
            event.bytes.len()
        }
    }

    /// Writes what fits into the pipe.
    fn write(&mut self) {
        let Some(writer) = &self.writer else { return };
        while let Some(event) = self.queue.get(self.written) {
            let bytes = if self.by_command { &[1] } else { &*event.bytes };
            // It does not fit, or the last descriptor was closed, which the next reaping finds.
            let Ok(written) = rustix::io::write(writer, bytes) else {
                break;
            };
            self.written += 1;
            self.bytes += written;
        }
    }

    /// Takes the events that the program has read from the descriptor meanwhile.
    pub(super) fn settle(&mut self) -> Vec<Event> {
        // Miri's pipes do not tell.
        let writer = self.writer.as_ref().filter(|_| !cfg!(miri));
        let (Some(writer), true) = (writer, self.written > 0) else {
            return Vec::new();
        };
        match rustix::io::ioctl_fionread(writer).map(usize::try_from) {
            Ok(Ok(left)) => self.settle_with(left),
            _ => Vec::new(),
        }
    }

    /// The same, with this many bytes left in the pipe.
    fn settle_with(&mut self, left: usize) -> Vec<Event> {
        let mut read = Vec::new();
        while self.bytes > left && self.written > 0 {
            let Some(event) = self.queue.pop_front() else {
                break;
            };
            self.bytes = self.bytes.saturating_sub(self.size(&event));
            self.written -= 1;
            read.push(event);
        }
        self.write();
        read
    }

    /// Takes an event for a read from `fd`, which is a descriptor of this file.
    pub(super) fn pop(&mut self, fd: BorrowedFd<'_>) -> Option<Event> {
        let event = self.queue.pop_front();
        if let Some(event) = &event
            && self.written > 0
        {
            self.written -= 1;
            self.skip(fd, self.size(event));
        }
        if self.queue.is_empty() {
            // Of events that could not be withdrawn.
            self.skip(fd, self.bytes);
        }
        self.write();
        event
    }

    /// Reads bytes that the pipe has, without looking at them.
    fn skip(&mut self, fd: BorrowedFd<'_>, bytes: usize) {
        if bytes > 0
            && let Ok(read) = rustix::io::read(fd, vec![0; bytes].as_mut_slice())
        {
            self.bytes -= read;
        }
    }

    /// Removes the events that match.
    pub(super) fn remove(&mut self, matches: impl Fn(&Event) -> bool) -> Removed {
        let mut read = Vec::new();
        if !self.queue.iter().any(&matches) {
            return Removed::default();
        }
        if self.written > 0
            && let Ok(left) = self.withdraw()
        {
            read = self.settle_drained(left);
        }
        let mut removed = Vec::new();
        let mut written = 0;
        for (at, event) in std::mem::take(&mut self.queue).into_iter().enumerate() {
            if matches(&event) {
                removed.push(event);
            } else {
                written += usize::from(at < self.written);
                self.queue.push_back(event);
            }
        }
        self.written = written;
        self.write();
        Removed { read, removed }
    }

    /// Forgets what was read before the pipe was emptied of its last `left` bytes.
    fn settle_drained(&mut self, left: usize) -> Vec<Event> {
        let mut before = self.bytes.saturating_sub(left);
        let mut read = Vec::new();
        while before > 0
            && let Some(event) = self.queue.pop_front()
        {
            before = before.saturating_sub(self.size(&event));
            read.push(event);
        }
        (self.written, self.bytes) = (0, 0);
        read
    }

    /// Empties the pipe without using a descriptor of the process. How many bytes it had.
    ///
    /// # Errors
    /// The errno of reopening the pipe. The descriptor then stays readable until it is read from.
    fn withdraw(&self) -> Result<usize, Errno> {
        // Miri's pipes have no names.
        let writer = self.writer.as_ref().filter(|_| !cfg!(miri));
        let writer = writer.ok_or(Errno::NOTSUP)?;
        let reader = rustix::fs::open(
            format!("/proc/self/fd/{}", writer.as_raw_fd()),
            OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        let mut room = vec![0; self.bytes];
        match rustix::io::read(reader, room.as_mut_slice()) {
            Err(Errno::AGAIN) => Ok(0),
            done => done,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use rustix::pipe::{PipeFlags, pipe_with};
    use std::os::fd::AsFd as _;

    use super::*;
    use crate::state::Kind;

    fn owner(id: u32) -> Owner {
        Owner::Asynchronous(Kind::Cq, id)
    }

    fn event(id: u32) -> Event {
        Event {
            bytes: vec![id.to_le_bytes()[0]; 8],
            owner: Some(owner(id)),
        }
    }

    fn pipe() -> (OwnedFd, Waiting) {
        let (reader, writer) = pipe_with(PipeFlags::NONBLOCK | PipeFlags::CLOEXEC).unwrap();
        (reader, Waiting::new(writer, false))
    }

    fn owners(events: &[Event]) -> Vec<Owner> {
        events.iter().filter_map(|event| event.owner).collect()
    }

    #[test]
    #[cfg_attr(
        miri,
        ignore = "Miri's pipes have no names, and do not tell what they have"
    )]
    fn what_a_program_reads_itself_is_noticed() {
        let (reader, mut waiting) = pipe();
        for id in 1..5 {
            waiting.push(event(id));
        }
        let mut bytes = [0; 8];
        assert_eq!(rustix::io::read(&reader, &mut bytes).unwrap(), 8);
        assert_eq!(bytes, [1; 8]);
        assert_eq!(owners(&waiting.settle()), [owner(1)]);
        assert!(waiting.settle().is_empty());
        // Read between the last look and the removal.
        assert_eq!(rustix::io::read(&reader, &mut bytes).unwrap(), 8);
        let found = waiting.remove(|event| event.owner == Some(owner(3)));
        assert_eq!(owners(&found.read), [owner(2)]);
        assert_eq!(owners(&found.removed), [owner(3)]);
        assert_eq!(rustix::io::read(&reader, &mut bytes).unwrap(), 8);
        assert_eq!(bytes, [4; 8]);
        assert_eq!(owners(&waiting.settle()), [owner(4)]);
        assert_eq!(
            rustix::io::read(&reader, &mut bytes),
            Err(Errno::AGAIN),
            "nothing is left"
        );
    }

    #[test]
    #[cfg_attr(miri, ignore = "thousands of events")]
    fn what_does_not_fit_into_the_pipe_waits() {
        let (reader, mut waiting) = pipe();
        rustix::fs::fcntl_setfl(waiting.writer.as_ref().unwrap(), OFlags::NONBLOCK).unwrap();
        for _ in 0..20_000 {
            waiting.push(event(1));
        }
        assert!(waiting.written < 20_000);
        let mut count = 0;
        while waiting.pop(reader.as_fd()).is_some() {
            count += 1;
        }
        assert_eq!((count, waiting.bytes, waiting.written), (20_000, 0, 0));
    }
}
