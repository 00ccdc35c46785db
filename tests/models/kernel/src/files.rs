//! The descriptors that the fake returns, and the events pending on them.
//!
//! Every descriptor is the read end of a pipe, so that `poll(2)` and `read(2)` work on it: the pipe
//! contains the pending events, and the write end is closed when the device is gone. The fake keeps
//! only the write end. So when the last copy of a descriptor is closed, in any process, the
//! pipe is in an error state, which an epoll instance over all pipes reports.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use rustix::event::{Timespec, epoll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::pipe::{PipeFlags, pipe_with};

use crate::waiting::Waiting;
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

/// One open file.
#[derive(Debug)]
pub(super) struct File {
    pub(super) id: FileId,
    pub(super) role: Role,
    raw: RawFd,
    pipe: u64,
    pub(super) waiting: Waiting,
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
        // What does not fit waits here, and not the fake.
        if !cfg!(miri) {
            fcntl_setfl(&writer, OFlags::NONBLOCK)?;
        }
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
            waiting: Waiting::new(writer, role == Role::ConnectionManager),
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
        self.list.iter().filter(|file| !file.waiting.is_closed())
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
