//! A kind of kernel object, as data: its names, and how an object of it is destroyed.
//!
//! The description of each kind is beside the other commands of its objects (`cmd::qp::KIND`), a
//! driver's own in the driver's provider. An [`Object`](crate::Object) is destroyed by the
//! description that it was made with.

use std::fmt;

use zerocopy::IntoBytes;

use crate::error::{Op, Result};
use crate::file::UverbsFile;
use crate::sys::{Attr, Uhw, WriteCommand, slice_cells};
use crate::types::EventCounts;

/// A kind of kernel object. Kinds are equal when what they say is.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Kind {
    /// What users call it.
    pub name: &'static str,
    /// The operation that a destroy is, for errors.
    pub op: Op,
    /// Its id: a `UVERBS_OBJECT_*`, or one of a driver's own.
    pub object: u16,
    /// The method that destroys it.
    pub method: u16,
    /// The attribute of that method which takes the handle.
    pub attr: u16,
    /// The events that a destroy counts.
    pub counts: Counts,
    /// The legacy command that destroys it.
    pub legacy: Legacy,
}

/// Which events the kernel counts when it destroys an object. The number is that of the method's
/// attribute for them.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Counts {
    /// None: a destroy has no reply.
    None,
    /// Asynchronous events, in one 32-bit word.
    Asynchronous(u16),
    /// Completion events, and in the word behind them asynchronous ones.
    Both(u16),
}

/// The command of the write interface that destroys an object.
///
/// | command | nothing counted | events counted |
/// |---|---|---|
/// | plain | the handle; no reply | where the reply goes (64 bits), the handle, a reserved word; the counts |
/// | extended | a mask, 0, and the handle; no reply | the same; a mask, a length, the counts |
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Legacy {
    /// Such objects exist on the ioctl interface alone.
    None,
    /// An `IB_USER_VERBS_CMD_*`.
    Plain(u32),
    /// An `IB_USER_VERBS_EX_CMD_*`.
    Extended(u32),
}

/// The longest reply to a destroy: the header of an extended one, and two counts.
const REPLY_WORDS: usize = 4;

impl Counts {
    /// The attribute that tells them, and how many there are.
    const fn told(self) -> Option<(u16, usize)> {
        match self {
            Self::None => None,
            Self::Asynchronous(attr) => Some((attr, 1)),
            Self::Both(attr) => Some((attr, 2)),
        }
    }

    /// What a reply without its header says.
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
    /// Destroys the object `handle` and says how many events it had sent.
    ///
    /// One system call: the method, or the legacy command where there is one and the kernel lacks
    /// the method.
    ///
    /// # Errors
    /// Those that the kind's description names.
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
        match self.counts.told() {
            None => issue(&[handle])?,
            Some((attr, count)) => {
                let told = slice_cells(reply.split_at_mut(count).0);
                issue(&[handle, Attr::output(attr, told)])?;
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
        let length = match self.counts.told() {
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
