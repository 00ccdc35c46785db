//! A kernel whose every answer comes from the fuzzer.
//!
//! # Safety
//!
//! Descriptors are the one thing it is honest about: those it returns, as objects or by number, are
//! open and owned by nobody else. It neither reads nor writes the memory that commands name by
//! address.
#![allow(unsafe_code, reason = "is a kernel")]

use std::cell::Cell;
use std::fs::File;
use std::os::fd::{BorrowedFd, IntoRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use uverbs_core::sys::recorder::{Collector, Recorder};
use uverbs_core::sys::{Attr, Call, Command, Kernel, Mapping, Reply, Value};
use uverbs_core::{CommandPath, Errno, UverbsFile};
use uverbs_uapi::ib_user_ioctl_cmds::{
    UVERBS_ATTR_CORE_OUT, UVERBS_ATTR_WRITE_CMD, UVERBS_METHOD_INVOKE_WRITE, UVERBS_OBJECT_DEVICE,
};
use uverbs_uapi::ib_user_verbs::{
    IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL, IB_USER_VERBS_CMD_GET_CONTEXT,
};

use crate::tape::Tape;

/// Errnos that change what the library does next, and some that do not.
const ERRNOS: [Errno; 14] = [
    Errno::INVAL,
    Errno::IO,
    Errno::NOTTY,
    Errno::PROTONOSUPPORT,
    Errno::OPNOTSUPP,
    Errno::NOSYS,
    Errno::ACCESS,
    Errno::PERM,
    Errno::INTR,
    Errno::AGAIN,
    Errno::NOMEM,
    Errno::REMOTEIO,
    Errno::BUSY,
    Errno::MFILE,
];

/// No mapping is longer than this.
const MAX_MAP: usize = 1 << 22;

/// The kernel. Clones are the same one.
#[derive(Clone, Debug)]
pub(crate) struct Liar(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    tape: Arc<Tape>,
    honest: AtomicBool,
    handles: AtomicU32,
    /// The last command succeeded without a mandatory output having been written.
    unanswered: AtomicBool,
}

impl Liar {
    /// A kernel whose answers come from `tape`.
    pub(crate) fn new(tape: &Arc<Tape>) -> Self {
        Self(Arc::new(Inner {
            tape: Arc::clone(tape),
            honest: AtomicBool::new(false),
            handles: AtomicU32::new(1),
            unanswered: AtomicBool::new(false),
        }))
    }

    /// Makes it carry out everything from now on, so that nothing created before is leaked.
    pub(crate) fn settle(&self) {
        self.0.honest.store(true, Ordering::Relaxed);
    }

    /// True if the last command succeeded without writing a mandatory output.
    pub(crate) fn left_unanswered(&self) -> bool {
        self.0.unanswered.load(Ordering::Relaxed)
    }

    /// A device on it, with a recorder in between that also reads all answers.
    pub(crate) fn file(&self, driver: u32) -> Option<(Arc<UverbsFile>, Arc<Collector>)> {
        const PATHS: [CommandPath; 4] = [
            CommandPath::Auto,
            CommandPath::Ioctl,
            CommandPath::InvokeWrite,
            CommandPath::Write,
        ];
        let path = self.0.tape.one_of(&PATHS);
        let records = Arc::new(Collector::new());
        let kernel = Recorder::new(self.clone(), records.clone());
        let fd = descriptor().ok()?;
        // SAFETY: (1) it takes calls on every descriptor; (2, 3) and neither reads nor writes
        // memory that commands name.
        let file = unsafe { UverbsFile::new(Arc::new(kernel), fd, driver, path) };
        Some((Arc::new(file), records))
    }

    fn fill(&self, cells: &[Cell<u8>]) -> bool {
        let tape = &self.0.tape;
        let (bytes, written) = match tape.byte() % 8 {
            0 => return false,
            // Most replies hold small numbers.
            1 | 2 => {
                let mut bytes = tape.take(1);
                bytes.resize(cells.len(), 0);
                (bytes, true)
            }
            3 => (vec![0xff; cells.len()], true),
            // The caller's own bytes count as written.
            4 => (Vec::new(), true),
            5 => {
                let len = usize::from(tape.byte()).min(cells.len());
                (tape.take(len), true)
            }
            _ => {
                let mut bytes = tape.take(cells.len());
                bytes.resize(cells.len(), 0);
                (bytes, true)
            }
        };
        cells
            .iter()
            .zip(bytes)
            .for_each(|(cell, byte)| cell.set(byte));
        written
    }

    fn answer(&self, attr: &Attr<'_>) -> Result<(), Errno> {
        match &attr.value {
            Value::Out(cells, written) => {
                if self.is_honest() || self.fill(cells) {
                    written.set(true);
                } else if attr.mandatory {
                    self.0.unanswered.store(true, Ordering::Relaxed);
                }
            }
            Value::In(_, Some(pointer)) => {
                self.fill(pointer.buffer);
            }
            Value::NewObject(handle) => {
                // A handle that is not returned is one more lie.
                if self.is_honest() || self.0.tape.byte() % 16 != 1 {
                    handle.set(self.0.handles.fetch_add(1, Ordering::Relaxed));
                }
            }
            Value::NewFd(fd) => {
                if self.is_honest() || self.0.tape.byte() % 16 != 1 {
                    fd.set(Some(descriptor()?));
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn is_honest(&self) -> bool {
        self.0.honest.load(Ordering::Relaxed)
    }

    fn ioctl(&self, command: &Command<'_>) -> Result<(), Errno> {
        for attr in command.attrs.iter().chain(command.uhw.attrs) {
            self.answer(attr)?;
        }
        if let Some(pointer) = &command.uhw.pointer {
            self.fill(pointer.buffer);
        }
        self.fill(command.uhw.output);
        if let Some(number) = invoked(command) {
            let reply = command.attrs.iter().find_map(|attr| match &attr.value {
                Value::Out(cells, written) if attr.id == UVERBS_ATTR_CORE_OUT => {
                    written.get().then_some(*cells)
                }
                _ => None,
            });
            if hand_out(number, reply.unwrap_or(&[]))? {
                // Whether there is a descriptor shows in its number.
                self.0.unanswered.store(false, Ordering::Relaxed);
            }
        }
        Ok(())
    }
}

// SAFETY: descriptors in attributes and in replies are new ones, given away here; see the top.
unsafe impl Kernel for Liar {
    unsafe fn call(&self, _: BorrowedFd<'_>, call: Call<'_>) -> Result<Reply, Errno> {
        let tape = &self.0.tape;
        self.0.unanswered.store(false, Ordering::Relaxed);
        if !self.is_honest() && tape.byte().is_multiple_of(8) {
            return Err(tape.one_of(&ERRNOS));
        }
        match call {
            Call::Ioctl(command) => self.ioctl(command).map(|()| Reply::Done),
            Call::Write(command) => {
                self.fill(command.reply);
                self.fill(command.uhw.output);
                if let Some(pointer) = &command.uhw.pointer {
                    self.fill(pointer.buffer);
                }
                hand_out(command.number(), command.reply)?;
                Ok(Reply::Done)
            }
            Call::Read(buffer) => {
                let len = usize::from(tape.byte()).min(buffer.len());
                let bytes = tape.take(len);
                let len = bytes.len();
                buffer
                    .iter()
                    .zip(bytes)
                    .for_each(|(cell, byte)| cell.set(byte));
                Ok(Reply::Read(len))
            }
            Call::Map { len, .. } if len <= MAX_MAP => Mapping::anonymous(len).map(Reply::Mapped),
            Call::Map { .. } | Call::Cm(_) => Err(Errno::NOSYS),
        }
    }
}

/// A newly opened descriptor that is always readable.
pub(crate) fn descriptor() -> Result<OwnedFd, Errno> {
    File::open("/dev/null")
        .map(OwnedFd::from)
        .map_err(|_| Errno::MFILE)
}

/// The legacy command that an `INVOKE_WRITE` carries.
pub(crate) fn invoked(command: &Command<'_>) -> Option<u32> {
    if (command.object, command.method) != (UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INVOKE_WRITE) {
        return None;
    }
    command.attrs.iter().find_map(|attr| match attr.value {
        Value::Constant(number) if attr.id == UVERBS_ATTR_WRITE_CMD => u32::try_from(number).ok(),
        _ => None,
    })
}

/// Puts the number of a new descriptor where the reply of `number` has one, in its first word, and
/// returns whether it is such a reply.
pub(crate) fn hand_out(number: u32, reply: &[Cell<u8>]) -> Result<bool, Errno> {
    let has_one = matches!(
        number,
        IB_USER_VERBS_CMD_GET_CONTEXT | IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL
    );
    if !has_one || reply.len() < 4 {
        return Ok(has_one);
    }
    // The reply's other words come from the tape; this one has to be valid.
    let fd = descriptor()?.into_raw_fd().to_ne_bytes();
    reply.iter().zip(fd).for_each(|(cell, byte)| cell.set(byte));
    Ok(true)
}
