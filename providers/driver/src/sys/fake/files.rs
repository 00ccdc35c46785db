//! The descriptors that the fake hands out, and the events that wait on them.
//!
//! Every descriptor is the reading end of a pipe, so that `poll(2)` works on it: one byte lies in
//! the pipe while an event waits, and the writing end is closed when the device is gone. The fake
//! keeps a duplicate of the reading end, knows a descriptor by the pipe behind it, and finds out
//! that the last one was closed by looking at the descriptors of its process.

use std::collections::VecDeque;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use rustix::fs::{OFlags, fcntl_getfl};
use rustix::pipe::{PipeFlags, pipe_with};

use super::state::Owner;
use crate::error::Errno;

/// What identifies a descriptor's file, whatever its number.
pub(super) type FileId = u64;

/// What a descriptor is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Role {
    /// The device, opened: `/dev/infiniband/uverbsN`.
    Device,
    /// Asynchronous events of that context.
    Events(FileId),
    /// A completion channel of that context.
    Channel(FileId),
}

impl Role {
    /// The context it belongs to, when it is not one itself.
    pub(super) fn context(self) -> Option<FileId> {
        match self {
            Self::Device => None,
            Self::Events(context) | Self::Channel(context) => Some(context),
        }
    }
}

/// An event that nobody took yet.
#[derive(Debug)]
pub(super) struct Event {
    pub(super) bytes: Vec<u8>,
    /// Whose event it is, for the counts that destroy reports.
    pub(super) owner: Option<Owner>,
}

/// One open file.
#[derive(Debug)]
pub(super) struct File {
    pub(super) id: FileId,
    pub(super) role: Role,
    raw: RawFd,
    reader: OwnedFd,
    /// `None` once the device is gone.
    writer: Option<OwnedFd>,
    pub(super) queue: VecDeque<Event>,
    signalled: bool,
}

impl File {
    /// Makes a file and the descriptor that goes to the process.
    ///
    /// # Errors
    /// The errno of `pipe2(2)` or `fcntl(2)`.
    pub(super) fn new(role: Role) -> Result<(Self, OwnedFd), Errno> {
        let (process, writer) = pipe_with(PipeFlags::CLOEXEC)?;
        let reader = rustix::io::fcntl_dupfd_cloexec(&process, 0)?;
        let file = Self {
            id: identity(process.as_fd())?,
            role,
            raw: process.as_raw_fd(),
            reader,
            writer: Some(writer),
            queue: VecDeque::new(),
            signalled: false,
        };
        Ok((file, process))
    }

    pub(super) fn push(&mut self, event: Event) {
        if self.writer.is_some() {
            self.queue.push_back(event);
            self.signal();
        }
    }

    pub(super) fn pop(&mut self) -> Option<Event> {
        let event = self.queue.pop_front();
        self.signal();
        event
    }

    /// Forgets the events of `owner` that were not read.
    pub(super) fn forget(&mut self, owner: Owner) {
        self.queue.retain(|event| event.owner != Some(owner));
        self.signal();
    }

    /// Makes the descriptor readable exactly while events wait.
    fn signal(&mut self) {
        let wanted = !self.queue.is_empty();
        if wanted == self.signalled {
            return;
        }
        self.signalled = wanted;
        if !wanted {
            // The byte is there: it was put there when the first event came.
            let _ = rustix::io::read(&self.reader, &mut [0; 1]);
        } else if let Some(writer) = &self.writer {
            let _ = rustix::io::write(writer, &[1]);
        }
    }

    /// Ends the stream: what waits can still be read, then there is only EIO.
    pub(super) fn close(&mut self) {
        self.writer = None;
    }

    pub(super) fn is_closed(&self) -> bool {
        self.writer.is_none()
    }

    /// Descriptors of the file that are the fake's own.
    fn own(&self) -> usize {
        1 + usize::from(self.writer.is_some())
    }
}

/// The open files of one kernel.
#[derive(Debug, Default)]
pub(super) struct Files(Vec<File>);

impl Files {
    /// Opens a file. A number that an older file had means that the older one was closed.
    pub(super) fn open(&mut self, role: Role) -> Result<(FileId, OwnedFd), Errno> {
        let (file, fd) = File::new(role)?;
        let id = file.id;
        self.0.push(file);
        Ok((id, fd))
    }

    pub(super) fn of_fd(&self, fd: BorrowedFd<'_>) -> Result<&File, Errno> {
        let id = identity(fd)?;
        self.0.iter().find(|file| file.id == id).ok_or(Errno::BADF)
    }

    /// A file by the number its descriptor was handed out with.
    pub(super) fn of_number(&self, raw: RawFd) -> Result<&File, Errno> {
        self.0
            .iter()
            .rev()
            .find(|file| file.raw == raw)
            .ok_or(Errno::BADF)
    }

    pub(super) fn get_mut(&mut self, id: FileId) -> Option<&mut File> {
        self.0.iter_mut().find(|file| file.id == id)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &File> {
        self.0.iter()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut File> {
        self.0.iter_mut()
    }

    /// Takes out the files that the process has closed.
    pub(super) fn reap(&mut self) -> Vec<FileId> {
        let open = open_pipes();
        let mut gone = Vec::new();
        self.0.retain(|file| {
            let live = open.iter().filter(|id| **id == file.id).count() > file.own();
            if !live {
                gone.push(file.id);
            }
            live
        });
        gone
    }
}

/// True when reads of `fd` do not wait.
pub(super) fn is_nonblocking(fd: BorrowedFd<'_>) -> bool {
    fcntl_getfl(fd).is_ok_and(|flags| flags.contains(OFlags::NONBLOCK))
}

/// The pipe behind a descriptor: pipes have inode numbers of their own.
#[cfg(not(miri))]
fn identity(fd: BorrowedFd<'_>) -> Result<FileId, Errno> {
    Ok(rustix::fs::fstat(fd)?.st_ino)
}

/// The interpreter has no inodes; there the number must do.
#[cfg(miri)]
fn identity(fd: BorrowedFd<'_>) -> Result<FileId, Errno> {
    u64::try_from(fd.as_raw_fd()).map_err(|_| Errno::BADF)
}

/// The pipe behind every descriptor of this process.
fn open_pipes() -> Vec<FileId> {
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok())
        .filter_map(|link| {
            link.to_str()?
                .strip_prefix("pipe:[")?
                .strip_suffix(']')?
                .parse()
                .ok()
        })
        .collect()
}
