//! A kind of kernel object, as data: its names, and how to destroy such an object.
//!
//! Each kind is described next to the commands of its objects (`cmd::qp::KIND`); driver-specific
//! kinds are described in the driver's provider. An [`Object`](crate::Object) is destroyed as its
//! kind says.

use std::fmt;

use zerocopy::IntoBytes;

use crate::error::{Op, Result};
use crate::file::UverbsFile;
use crate::sys::{Attr, Uhw, WriteCommand, slice_cells};
use crate::types::EventCounts;

/// A kind of kernel object. Kinds compare by value.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Kind {
    /// What users call it.
    pub name: &'static str,
    /// The operation that errors of a destroy name.
    pub op: Op,
    /// Its id: a `UVERBS_OBJECT_*`, or a driver-specific id.
    pub object: u16,
    /// The method that destroys it.
    pub method: u16,
    /// The method's attribute that takes the handle.
    pub attr: u16,
    /// The events that a destroy reports.
    pub counts: Counts,
    /// The legacy command that destroys it.
    pub legacy: Legacy,
}

/// Which event counts the kernel reports when it destroys an object. The number is the id of the
/// method's attribute for them.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Counts {
    /// None: the destroy has no reply.
    None,
    /// Asynchronous events, in one 32-bit word.
    Asynchronous(u16),
    /// Completion events, followed by asynchronous events in the next word.
    Both(u16),
}

/// The legacy command that destroys an object.
///
/// | command | nothing counted | events counted |
/// |---|---|---|
/// | plain | the handle; no reply | where the reply goes (64 bits), the handle, a reserved word; the counts |
/// | extended | a mask, 0, and the handle; no reply | the same; a mask, a length, the counts |
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Legacy {
    /// None: the object exists only on the ioctl interface.
    None,
    /// An `IB_USER_VERBS_CMD_*`.
    Plain(u32),
    /// An `IB_USER_VERBS_EX_CMD_*`.
    Extended(u32),
}

/// The longest reply to a destroy: the header of an extended one, and two counts.
const REPLY_WORDS: usize = 4;

impl Counts {
    /// The attribute that reports the counts, and how many there are.
    const fn attribute(self) -> Option<(u16, usize)> {
        match self {
            Self::None => None,
            Self::Asynchronous(attr) => Some((attr, 1)),
            Self::Both(attr) => Some((attr, 2)),
        }
    }

    /// Reads the counts from a reply without its header.
    fn read(self, words: &[u32]) -> EventCounts {
        let word = |index: usize| words.get(index).copied().unwrap_or(0);
        match self {
            Self::None => EventCounts::default(),
            Self::Asynchronous(_) => EventCounts {
                completions: 0,
                asynchronous: word(0),
            },
            Self::Both(_) => EventCounts {
                completions: word(0),
                asynchronous: word(1),
            },
        }
    }
}

impl Kind {
    /// Destroys the object `handle` and returns how many events it had sent.
    ///
    /// One system call: the method, or the legacy command where there is one and the kernel lacks
    /// the method.
    ///
    /// # Errors
    /// Those listed in the kind's description.
    pub fn destroy(&self, file: &UverbsFile, handle: u32) -> Result<EventCounts> {
        let method = || self.by_method(file, handle);
        let counted = self.counts != Counts::None;
        match self.legacy {
            Legacy::None => file.ioctl_only(self.op, method),
            Legacy::Plain(number) => file.dispatch(self.op, method, || {
                let request: &[u32] = if counted {
                    &[0, 0, handle, 0]
                } else {
                    &[handle]
                };
                self.by_command(file, (number, false), request)
            }),
            Legacy::Extended(number) => file.dispatch(self.op, method, || {
                self.by_command(file, (number, true), &[0, handle])
            }),
        }
    }

    fn by_method(&self, file: &UverbsFile, handle: u32) -> Result<EventCounts> {
        let issue =
            |attrs: &[Attr<'_>]| file.ioctl(self.op, self.object, self.method, attrs, &Uhw::NONE);
        let handle = Attr::object(self.attr, handle);
        let mut reply = [0_u32; REPLY_WORDS];
        match self.counts.attribute() {
            None => issue(&[handle])?,
            Some((attr, count)) => {
                let filled = slice_cells(reply.split_at_mut(count).0);
                issue(&[handle, Attr::output(attr, filled)])?;
            }
        }
        Ok(self.counts.read(&reply))
    }

    fn by_command(
        &self,
        file: &UverbsFile,
        (command, extended): (u32, bool),
        request: &[u32],
    ) -> Result<EventCounts> {
        let mut reply = [0_u32; REPLY_WORDS];
        let length = match self.counts.attribute() {
            None => 0,
            // Replies of extended commands are whole 64-bit words.
            Some(_) if extended => REPLY_WORDS,
            Some((_, count)) => count,
        };
        let command = WriteCommand {
            command,
            extended,
            request: request.as_bytes(),
            reply: slice_cells(reply.split_at_mut(length).0),
            uhw: Uhw::NONE,
        };
        file.legacy(self.op, &command)?;
        let header = if extended { 2 } else { 0 };
        Ok(self.counts.read(reply.split_at(header).1))
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}
