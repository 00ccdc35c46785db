//! The descriptors that the fake returns, and the events pending on them.
//!
//! Every descriptor is the read end of a pipe, so that `poll(2)` works on it: the pipe contains one
//! byte while an event is pending, and the write end is closed when the device is gone. The fake
//! keeps only the write end. So when the last copy of a descriptor is closed, in any process, the
//! pipe is in an error state, which an epoll instance over all pipes reports.

use std::collections::VecDeque;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use rustix::event::{Timespec, epoll};
use rustix::fs::{Mode, OFlags, fcntl_getfl};
use rustix::pipe::{PipeFlags, pipe_with};

use crate::state::Owner;
use uverbs_core::error::Errno;

/// Identifies a file by a serial number.
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
    /// The connection manager, opened: `/dev/infiniband/rdma_cm`.
    ConnectionManager,
}

impl Role {
    /// The context it belongs to, if it is not a device itself.
    pub(super) fn context(self) -> Option<FileId> {
        match self {
            Self::Device | Self::ConnectionManager => None,
            Self::Events(context) | Self::Channel(context) => Some(context),
        }
    }
}

/// An event that was not read yet.
#[derive(Debug)]
pub(super) struct Event {
    pub(super) bytes: Vec<u8>,
    /// The event's owner, for the counts that a destroy returns.
    pub(super) owner: Option<Owner>,
}

/// One open file.
#[derive(Debug)]
pub(super) struct File {
    pub(super) id: FileId,
    pub(super) role: Role,
    raw: RawFd,
    pipe: u64,
    /// `None` once the device is gone.
    writer: Option<OwnedFd>,
    pub(super) queue: VecDeque<Event>,
    /// Whether the byte is in the pipe.
    signalled: bool,
}

impl File {
    pub(super) fn push(&mut self, event: Event) {
        if let Some(writer) = &self.writer {
            self.queue.push_back(event);
            if !self.signalled {
                // Fails if the last descriptor was closed meanwhile, which the next reaping finds.
                self.signalled = rustix::io::write(writer, &[1]).is_ok();
            }
        }
    }

    /// Takes an event for a read from `fd`, which is a descriptor of this file.
    pub(super) fn pop(&mut self, fd: BorrowedFd<'_>) -> Option<Event> {
        let event = self.queue.pop_front();
        if self.signalled && self.queue.is_empty() {
            self.signalled = rustix::io::read(fd, &mut [0; 1]).is_err();
        }
        event
    }

    /// Drops the unread events of `owner`.
    pub(super) fn forget(&mut self, owner: Owner) {
        self.queue.retain(|event| event.owner != Some(owner));
        if self.signalled && self.queue.is_empty() {
            self.signalled = self.withdraw().is_err();
        }
    }

    /// Takes the byte out of the pipe without using a descriptor of the process.
    ///
    /// # Errors
    /// The errno of reopening the pipe. The descriptor then stays readable until it is read from.
    fn withdraw(&self) -> Result<(), Errno> {
        // Miri's pipes have no names.
        let writer = self.writer.as_ref().filter(|_| !cfg!(miri));
        let writer = writer.ok_or(Errno::NOTSUP)?;
        let reader = rustix::fs::open(
            format!("/proc/self/fd/{}", writer.as_raw_fd()),
            OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        rustix::io::read(reader, &mut [0; 1]).map(drop)
    }

    /// Takes the unread events that match.
    pub(super) fn take(&mut self, matches: impl Fn(&Event) -> bool) -> Vec<Event> {
        let (taken, left): (VecDeque<_>, _) = self.queue.drain(..).partition(matches);
        self.queue = left;
        if self.signalled && self.queue.is_empty() {
            self.signalled = self.withdraw().is_err();
        }
        Vec::from(taken)
    }

    /// Closes the stream, because its object is gone: pending events can still be read, then reads
    /// fail with EIO.
    pub(super) fn close(&mut self) {
        self.writer = None;
    }

    pub(super) fn is_closed(&self) -> bool {
        self.writer.is_none()
    }
}

/// The files of one kernel: open ones, and those whose object ended before they were closed.
#[derive(Debug, Default)]
pub(super) struct Files {
    list: Vec<File>,
    opened: FileId,
    /// Reports pipes whose last read end was closed.
    closings: Option<OwnedFd>,
}

impl Files {
    /// Opens a file. Returns its id, and the descriptor for the process.
    ///
    /// # Errors
    /// The errno of `pipe2(2)`, `epoll_create1(2)` and `epoll_ctl(2)`.
    pub(super) fn open(&mut self, role: Role) -> Result<(FileId, OwnedFd), Errno> {
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
        let closings = match &mut self.closings {
            Some(closings) => closings,
            none => none.insert(epoll::create(epoll::CreateFlags::CLOEXEC)?),
        };
        let id = self.opened;
        let data = epoll::EventData::new_u64(id);
        // Errors are always reported.
        epoll::add(closings, &writer, data, epoll::EventFlags::ET)?;
        self.opened += 1;
        self.list.push(File {
            id,
            role,
            raw: reader.as_raw_fd(),
            pipe: pipe_of(reader.as_fd())?,
            writer: Some(writer),
            queue: VecDeque::new(),
            signalled: false,
        });
        Ok((id, reader))
    }

    pub(super) fn of_fd(&self, fd: BorrowedFd<'_>) -> Result<&File, Errno> {
        let pipe = pipe_of(fd)?;
        self.newest(|file| file.pipe == pipe)
    }

    /// The file whose descriptor was returned with this number.
    pub(super) fn of_number(&self, raw: RawFd) -> Result<&File, Errno> {
        self.newest(|file| file.raw == raw)
    }

    /// The latest matching file: after a file is closed, its number may identify a later one.
    fn newest(&self, named: impl Fn(&File) -> bool) -> Result<&File, Errno> {
        let mut files = self.list.iter().rev();
        files.find(|file| named(file)).ok_or(Errno::BADF)
    }

    pub(super) fn get_mut(&mut self, id: FileId) -> Option<&mut File> {
        self.list.iter_mut().find(|file| file.id == id)
    }

    /// The open files.
    pub(super) fn iter(&self) -> impl Iterator<Item = &File> {
        self.list.iter().filter(|file| !file.is_closed())
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut File> {
        self.list.iter_mut()
    }

    /// Removes and returns the files that the process has closed.
    pub(super) fn reap(&mut self) -> Vec<FileId> {
        let mut gone = Vec::new();
        let Some(closings) = &self.closings else {
            return gone;
        };
        let mut events = Vec::with_capacity(8);
        loop {
            events.clear();
            let room = rustix::buffer::spare_capacity(&mut events);
            match epoll::wait(closings, room, Some(&Timespec::default())) {
                Ok(0) => break,
                Ok(_) => gone.extend(events.iter().map(|event| event.data.u64())),
                Err(Errno::INTR) => {}
                Err(_) => break,
            }
        }
        self.list.retain(|file| !gone.contains(&file.id));
        gone
    }
}

/// True if `fd` is non-blocking.
pub(super) fn is_nonblocking(fd: BorrowedFd<'_>) -> bool {
    fcntl_getfl(fd).is_ok_and(|flags| flags.contains(OFlags::NONBLOCK))
}

/// The pipe behind a descriptor, identified by its unique inode number.
#[cfg(not(miri))]
fn pipe_of(fd: BorrowedFd<'_>) -> Result<u64, Errno> {
    Ok(rustix::fs::fstat(fd)?.st_ino)
}

/// Miri has no inode numbers; the descriptor's number has to suffice.
#[cfg(miri)]
fn pipe_of(fd: BorrowedFd<'_>) -> Result<u64, Errno> {
    u64::try_from(fd.as_raw_fd()).map_err(|_| Errno::BADF)
}
