//! A command after the kernel's generic checks, and the answer to it.

use std::cell::Cell;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use uverbs_uapi::ib_user_ioctl_cmds::UVERBS_ATTR_UHW_OUT;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::fault::ActiveFaults;
use crate::schema::{Kind, Spec};
use uverbs_core::error::Errno;
use uverbs_core::sys::{Attr, Command, Uhw, Value};

/// The attributes of a checked command.
pub(super) struct Args<'a> {
    command: &'a Command<'a>,
}

impl<'a> Args<'a> {
    /// Checks `command` against the method's table, like `uverbs_set_attr` and its callers.
    ///
    /// # Errors
    /// EPROTONOSUPPORT for an unknown mandatory attribute; EINVAL for a missing or duplicate one,
    /// or one of the wrong kind or length; EOPNOTSUPP for a longer struct with a non-zero tail.
    pub(super) fn check(command: &'a Command<'a>, schema: &[Spec]) -> Result<Self, Errno> {
        let args = Self { command };
        let mut seen = Vec::new();
        for attr in args.sent() {
            let Some(spec) = schema.iter().find(|spec| spec.id == attr.id) else {
                if attr.mandatory {
                    return Err(Errno::PROTONOSUPPORT);
                }
                continue;
            };
            if seen.contains(&attr.id) {
                return Err(Errno::INVAL);
            }
            seen.push(attr.id);
            check(attr, spec.kind)?;
        }
        // Driver data is passed in optional attributes: a method without driver data ignores it.
        if schema
            .iter()
            .any(|spec| spec.mandatory && !seen.contains(&spec.id))
        {
            return Err(Errno::INVAL);
        }
        Ok(args)
    }

    fn sent(&self) -> impl Iterator<Item = &'a Attr<'a>> {
        let command = self.command;
        command
            .attrs
            .iter()
            .chain(command.uhw.attrs)
            .filter(|attr| !matches!(attr.value, Value::Absent))
    }

    fn value(&self, id: u16) -> Option<&'a Value<'a>> {
        self.sent()
            .find(|attr| attr.id == id)
            .map(|attr| &attr.value)
    }

    /// An attribute of up to 64 bits.
    pub(super) fn number(&self, id: u16) -> Option<u64> {
        self.value(id)?.number()
    }

    /// A 32-bit attribute.
    ///
    /// # Errors
    /// EINVAL if it is absent or larger.
    pub(super) fn number32(&self, id: u16) -> Result<u32, Errno> {
        self.number(id)
            .and_then(|value| u32::try_from(value).ok())
            .ok_or(Errno::INVAL)
    }

    /// The bytes of an input.
    pub(super) fn bytes(&self, id: u16) -> &'a [u8] {
        match self.value(id) {
            Some(Value::In(bytes, _)) => bytes,
            _ => &[],
        }
    }

    /// A handle.
    pub(super) fn object(&self, id: u16) -> Option<u32> {
        match self.value(id)? {
            Value::Object(handle) => Some(*handle),
            _ => None,
        }
    }

    /// A descriptor.
    pub(super) fn fd(&self, id: u16) -> Option<RawFd> {
        match self.value(id)? {
            Value::Fd(fd) => Some(fd.as_raw_fd()),
            _ => None,
        }
    }

    /// Size of an output buffer.
    pub(super) fn room(&self, id: u16) -> Option<usize> {
        match self.value(id)? {
            Value::Out(cells, _) => Some(cells.len()),
            _ => None,
        }
    }

    /// The driver data.
    pub(super) fn uhw(&self) -> &'a Uhw<'a> {
        &self.command.uhw
    }

    /// Copies `answer` to the command's outputs, after applying the faults.
    pub(super) fn deliver(&self, answer: Answer, faults: &ActiveFaults) {
        let Answer {
            mut outputs,
            handle,
            mut fd,
        } = answer;
        for attr in self.sent() {
            match &attr.value {
                Value::Out(cells, written) => {
                    if let Some(bytes) = take(&mut outputs, attr.id) {
                        copy(attr.id, &bytes, cells, faults);
                        written.set(!faults.unmarked());
                    }
                }
                Value::NewObject(slot) => {
                    if let Some(handle) = handle {
                        slot.set(faults.handle().unwrap_or(handle));
                    }
                }
                Value::NewFd(slot) => slot.set(fd.take().filter(|_| !faults.no_descriptor())),
                _ => {}
            }
        }
        if let Some(bytes) = take(&mut outputs, UVERBS_ATTR_UHW_OUT) {
            copy(UVERBS_ATTR_UHW_OUT, &bytes, self.command.uhw.output, faults);
        }
    }
}

fn take(outputs: &mut Vec<(u16, Vec<u8>)>, id: u16) -> Option<Vec<u8>> {
    let at = outputs.iter().position(|(other, _)| *other == id)?;
    Some(outputs.swap_remove(at).1)
}

/// Copies what fits, and zeroes the rest of a longer buffer, like `uverbs_copy_to_struct_or_zero`.
pub(super) fn copy(id: u16, bytes: &[u8], cells: &[Cell<u8>], faults: &ActiveFaults) {
    let mut whole = bytes.to_vec();
    whole.resize(cells.len(), 0);
    let len = faults.alter(id, &mut whole);
    for (cell, byte) in cells.iter().zip(&whole).take(len) {
        cell.set(*byte);
    }
}

fn check(attr: &Attr<'_>, kind: Kind) -> Result<(), Errno> {
    let fits = match (kind, &attr.value) {
        (Kind::In(min, max), Value::In(bytes, _)) => {
            if bytes
                .get(max..)
                .is_some_and(|tail| tail.iter().any(|byte| *byte != 0))
            {
                return Err(Errno::OPNOTSUPP);
            }
            bytes.len() >= min
        }
        (Kind::InExact(len), Value::In(bytes, _)) => bytes.len() == len,
        (Kind::Const, Value::In(bytes, _)) => bytes.len() == 8,
        (Kind::Flags, Value::In(bytes, _)) => matches!(bytes.len(), 4 | 8),
        (Kind::Out(min), Value::Out(cells, _)) => cells.len() >= min,
        (Kind::OutExact(len), Value::Out(cells, _)) => cells.len() == len,
        (Kind::InExact(8) | Kind::Const | Kind::Flags, Value::Constant(_))
        | (Kind::Object, Value::Object(_))
        | (Kind::New, Value::NewObject(_))
        | (Kind::Fd, Value::Fd(_))
        | (Kind::NewFd, Value::NewFd(_)) => true,
        _ => false,
    };
    if fits { Ok(()) } else { Err(Errno::INVAL) }
}

/// The outputs of a command.
#[derive(Debug, Default)]
pub(super) struct Answer {
    outputs: Vec<(u16, Vec<u8>)>,
    handle: Option<u32>,
    fd: Option<OwnedFd>,
}

impl Answer {
    pub(super) fn with<T: IntoBytes + Immutable + ?Sized>(mut self, id: u16, value: &T) -> Self {
        self.outputs.push((id, value.as_bytes().to_vec()));
        self
    }

    pub(super) fn with_handle(mut self, handle: u32) -> Self {
        self.handle = Some(handle);
        self
    }

    pub(super) fn with_fd(mut self, fd: OwnedFd) -> Self {
        self.fd = Some(fd);
        self
    }

    /// Removes and returns the bytes of an output.
    pub(super) fn take(&mut self, id: u16) -> Vec<u8> {
        take(&mut self.outputs, id).unwrap_or_default()
    }
}

/// Parses a request; further bytes are ignored.
///
/// # Errors
/// ENOSPC if it is too short.
pub(super) fn request<T: FromBytes>(bytes: &[u8]) -> Result<T, Errno> {
    T::read_from_prefix(bytes)
        .map(|(value, _)| value)
        .map_err(|_| Errno::NOSPC)
}
