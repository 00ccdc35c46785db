//! The fake kernel as the library calls it: which part of it answers a call.

use std::cell::Cell;
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError};

use uverbs_core::error::{Errno, Error, Op, Result};
use uverbs_core::sys::{Call, CharDevice, CmCommand, Kernel, Protection, Reply};
use uverbs_core::types::DriverId;
use uverbs_uapi::rdma_user_cm::RDMA_USER_CM_CMD_GET_EVENT;

use crate::fake::FakeKernel;
use crate::fault::ActiveFaults;
use crate::files::{FileId, Role, is_nonblocking};
use crate::seen::{CallKind, Seen};
use crate::state::State;
use crate::waiting::Event;
use crate::{cm, engine, event, ioctl, legacy};

impl FakeKernel {
    /// Waits for an event and copies it out, as `read(2)` does.
    fn read(
        &self,
        fd: BorrowedFd<'_>,
        buffer: &[Cell<u8>],
        faults: &ActiveFaults,
    ) -> Result<usize, Errno> {
        let mut state = self.lock();
        let id = state.files.of_fd(fd)?.id;
        loop {
            let file = state.files.get_mut(id).ok_or(Errno::BADF)?;
            if matches!(file.role, Role::Device | Role::ConnectionManager) {
                return Err(Errno::INVAL);
            }
            let read = file.waiting.settle();
            event::count_all(&mut state, &read);
            let file = state.files.get_mut(id).ok_or(Errno::BADF)?;
            if let Some(event) = file.waiting.front()
                && event.bytes.len() > buffer.len()
            {
                return Err(Errno::INVAL);
            }
            if let Some(event) = file.waiting.pop(fd) {
                return Ok(deliver_event(&mut state, event, buffer, faults));
            }
            if file.waiting.is_closed() {
                return Err(Errno::IO);
            }
            if is_nonblocking(fd) {
                return Err(Errno::AGAIN);
            }
            state = self.wait(state);
        }
    }

    /// Waits until something changes.
    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.shared.waiting.fetch_add(1, Ordering::Relaxed);
        let woken = self.shared.changed.wait(state);
        self.shared.waiting.fetch_sub(1, Ordering::Relaxed);
        woken.unwrap_or_else(PoisonError::into_inner)
    }
}

fn deliver_event(
    state: &mut State,
    event: Event,
    buffer: &[Cell<u8>],
    faults: &ActiveFaults,
) -> usize {
    let mut bytes = event.bytes;
    faults.alter(0, &mut bytes);
    let len = faults.read_len(bytes.len());
    for (cell, byte) in buffer.iter().zip(&bytes).take(len) {
        cell.set(*byte);
    }
    if let Some(owner) = event.owner {
        event::count(state, owner);
    }
    len
}

/// `mmap(2)`: each announced queue can be mapped once, through the file to which it was announced.
fn map(
    state: &mut State,
    file: FileId,
    offset: u64,
    len: usize,
    faults: &ActiveFaults,
) -> Result<Reply, Errno> {
    if state.removed.is_some() {
        return Err(Errno::IO);
    }
    state.context(file)?;
    let at = state
        .pending
        .iter()
        .position(|pending| pending.file == file && pending.offset == offset)
        .filter(|_| len != 0)
        .ok_or(Errno::INVAL)?;
    if len
        > state
            .pending
            .get(at)
            .map_or(0, |pending| pending.size as usize)
    {
        return Err(Errno::INVAL);
    }
    let pending = state.pending.swap_remove(at);
    for (offset, word) in faults.pokes() {
        pending.memory.store(offset, word);
    }
    Ok(Reply::Mapped(pending.memory.map(faults.map_len(len))))
}

#[expect(unsafe_code, reason = "promises fresh descriptors")]
// SAFETY: every descriptor that it returns was just created, and its ownership is passed on.
unsafe impl Kernel for FakeKernel {
    unsafe fn call(&self, fd: BorrowedFd<'_>, call: Call<'_>) -> Result<Reply, Errno> {
        let (faults, number) = {
            let mut state = self.lock();
            let number = state.calls;
            state.calls += 1;
            state.seen.push(Seen {
                call: CallKind::of(&call),
                answer: Ok(()),
            });
            (state.script.matching(number, &call), number)
        };
        let answer = self.answer(fd, call, &faults);
        if let (Err(errno), Ok(number)) = (&answer, usize::try_from(number))
            && let Some(seen) = self.lock_without_reaping().seen.get_mut(number)
        {
            seen.answer = Err(*errno);
        }
        answer
    }

    fn check_device(
        &self,
        fd: BorrowedFd<'_>,
        _: Option<CharDevice>,
        driver: Option<DriverId>,
    ) -> Result<()> {
        let op = Op::OpenDevice;
        let state = self.lock();
        let file = state.files.of_fd(fd).map(|file| file.role);
        if file != Ok(Role::Device) {
            return Err(Error::invalid(op, "the file").fact("expected", "a device of this kernel"));
        }
        match driver {
            Some(driver) if driver != state.driver() => {
                Err(Error::os(op, Errno::INVAL).fact("driver", driver.to_string()))
            }
            _ => Ok(()),
        }
    }

    fn check_connection_manager(&self, fd: BorrowedFd<'_>, _: Option<CharDevice>) -> Result<()> {
        let file = self.lock().files.of_fd(fd).map(|file| file.role);
        if file == Ok(Role::ConnectionManager) {
            return Ok(());
        }
        Err(Error::invalid(Op::OpenConnectionManager, "the file")
            .fact("expected", "a connection manager of this kernel"))
    }
}

impl FakeKernel {
    fn answer(
        &self,
        fd: BorrowedFd<'_>,
        call: Call<'_>,
        faults: &ActiveFaults,
    ) -> Result<Reply, Errno> {
        if let Some(errno) = faults.error() {
            return Err(errno);
        }
        if faults.pretends() {
            return Ok(match call {
                Call::Read(buffer) => Reply::Read(faults.read_len(buffer.len())),
                _ => Reply::Done,
            });
        }
        if let Call::Read(buffer) = call {
            return self.read(fd, buffer, faults).map(Reply::Read);
        }
        if let Call::Cm(command) = call {
            return self.manage(fd, command, faults).map(|()| Reply::Done);
        }
        let mut state = self.lock_without_reaping();
        let file = state.files.of_fd(fd)?;
        // The connection manager understands no other call, whatever its bytes.
        if file.role == Role::ConnectionManager {
            return Err(Errno::INVAL);
        }
        // Event files have no ioctl, write or mmap.
        let id = match file.role.context() {
            None => file.id,
            Some(_) => return Err(Errno::INVAL),
        };
        let answer = match call {
            Call::Ioctl(command) => {
                ioctl::run(&mut state, id, command, faults).map(|()| Reply::Done)
            }
            Call::Write(command) => {
                legacy::write(&mut state, id, command, faults).map(|()| Reply::Done)
            }
            Call::Map {
                protection: Protection::Write,
                ..
            } => Err(Errno::PERM),
            Call::Map { offset, len, .. } => map(&mut state, id, offset, len, faults),
            Call::Read(_) | Call::Cm(_) => Err(Errno::INVAL),
        };
        engine::progress(&mut state);
        self.wake();
        answer
    }
}

impl FakeKernel {
    /// A command of the connection manager.
    fn manage(
        &self,
        fd: BorrowedFd<'_>,
        command: &CmCommand<'_>,
        faults: &ActiveFaults,
    ) -> Result<(), Errno> {
        let mut state = self.lock();
        let file = state.files.of_fd(fd)?;
        if file.role != Role::ConnectionManager {
            return Err(Errno::INVAL);
        }
        let id = file.id;
        if command.command != RDMA_USER_CM_CMD_GET_EVENT {
            let answer = cm::run(&mut state, id, command, faults);
            self.wake();
            return answer;
        }
        cm::check(&state, command)?;
        loop {
            let file = state.files.get_mut(id).ok_or(Errno::BADF)?;
            if let Some(event) = file.waiting.pop(fd) {
                cm::deliver(&mut state, &event, command, faults);
                return Ok(());
            }
            if is_nonblocking(fd) {
                return Err(Errno::AGAIN);
            }
            state = self.wait(state);
        }
    }
}
