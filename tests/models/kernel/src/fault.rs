//! Injected faults: what goes wrong, and at which call.

use std::fmt;
use std::sync::Arc;

use uverbs_uapi::ib_user_ioctl_cmds::{
    UVERBS_ATTR_WRITE_CMD, UVERBS_METHOD_INVOKE_WRITE, UVERBS_OBJECT_DEVICE,
};

use uverbs_core::error::{Errno, Op};
use uverbs_core::sys::{Call, Command, Value};

use crate::CallKind;

/// Which calls a fault affects.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum When {
    /// Every call.
    Always,
    /// Only the call with this number, counted from 0 since the kernel was created
    /// ([`FakeKernel::calls`](super::FakeKernel::calls)).
    Call(u64),
    /// Every ioctl of this object and method.
    Method(u16, u16),
    /// Every legacy command with this number (including `IB_USER_VERBS_CMD_FLAG_EXTENDED` for
    /// extended ones), by either path.
    Command(u32),
    /// Every command of the connection manager with this number (`RDMA_USER_CM_CMD_*`).
    Cm(u32),
    /// Every call of an operation, in whatever encoding ([`CallKind::operation`]).
    Operation(Op),
    /// Every ioctl.
    Ioctl,
    /// Every `write(2)`.
    Write,
    /// Every `mmap(2)`.
    Map,
    /// Every `read(2)`.
    Read,
}

/// What happens instead of, or after, the correct answer.
#[derive(Clone)]
#[non_exhaustive]
pub enum Effect {
    /// The call fails and does nothing.
    Fail(Errno),
    /// The call succeeds without having been carried out: no output is written.
    Pretend,
    /// Outputs are written, but not marked as written.
    Unmarked,
    /// At most this many bytes of each output are written.
    Truncate(usize),
    /// The bytes of each output, by attribute id, are changed after the correct answer was written.
    /// Outputs of legacy commands have the ids that they have in `INVOKE_WRITE`.
    Rewrite(Rewrite),
    /// New objects get this handle number in the reply.
    Handle(u32),
    /// New descriptors are not returned.
    NoDescriptor,
    /// Mappings have only this many bytes.
    ShortMap(usize),
    /// Mapped memory contains this 32-bit word at this offset when it is mapped.
    Poke(usize, u32),
    /// Reads return at most this many bytes.
    ShortRead(usize),
}

/// Changes the bytes of output `id`.
pub type Rewrite = Arc<dyn Fn(u16, &mut [u8]) + Send + Sync>;

impl fmt::Debug for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fail(errno) => write!(f, "Fail({errno})"),
            Self::Pretend => f.write_str("Pretend"),
            Self::Unmarked => f.write_str("Unmarked"),
            Self::Truncate(len) => write!(f, "Truncate({len})"),
            Self::Rewrite(_) => f.write_str("Rewrite"),
            Self::Handle(handle) => write!(f, "Handle({handle})"),
            Self::NoDescriptor => f.write_str("NoDescriptor"),
            Self::ShortMap(len) => write!(f, "ShortMap({len})"),
            Self::Poke(offset, word) => write!(f, "Poke({offset}, {word:#x})"),
            Self::ShortRead(len) => write!(f, "ShortRead({len})"),
        }
    }
}

/// The active faults.
#[derive(Debug, Default)]
pub(super) struct Script(Vec<(When, Effect)>);

impl Script {
    pub(super) fn add(&mut self, when: When, effect: Effect) {
        self.0.push((when, effect));
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// The faults that affect call number `number`.
    pub(super) fn matching(&self, number: u64, call: &Call<'_>) -> ActiveFaults {
        ActiveFaults(
            self.0
                .iter()
                .filter(|(when, _)| when.matches(number, call))
                .map(|(_, effect)| effect.clone())
                .collect(),
        )
    }
}

impl When {
    fn matches(self, number: u64, call: &Call<'_>) -> bool {
        match (self, call) {
            (Self::Operation(wanted), _) => CallKind::of(call).operation() == Some(wanted),
            (Self::Always, _)
            | (Self::Ioctl, Call::Ioctl(_))
            | (Self::Write, Call::Write(_))
            | (Self::Map, Call::Map { .. })
            | (Self::Read, Call::Read(_)) => true,
            (Self::Call(at), _) => at == number,
            (Self::Method(object, method), Call::Ioctl(command)) => {
                command.object == object && command.method == method
            }
            (Self::Command(wanted), Call::Write(command)) => command.number() == wanted,
            (Self::Cm(wanted), Call::Cm(command)) => command.command == wanted,
            (Self::Command(wanted), Call::Ioctl(command)) => invoked(command) == Some(wanted),
            _ => false,
        }
    }
}

/// The legacy command that an `INVOKE_WRITE` carries.
pub(super) fn invoked(command: &Command<'_>) -> Option<u32> {
    if (command.object, command.method) != (UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INVOKE_WRITE) {
        return None;
    }
    command.attrs.iter().find_map(|attr| match attr.value {
        Value::Constant(number) if attr.id == UVERBS_ATTR_WRITE_CMD => u32::try_from(number).ok(),
        _ => None,
    })
}

/// The faults that affect one call.
#[derive(Debug)]
pub(super) struct ActiveFaults(Vec<Effect>);

impl ActiveFaults {
    pub(super) fn error(&self) -> Option<Errno> {
        self.0.iter().find_map(|effect| match effect {
            Effect::Fail(errno) => Some(*errno),
            _ => None,
        })
    }

    pub(super) fn pretends(&self) -> bool {
        self.0
            .iter()
            .any(|effect| matches!(effect, Effect::Pretend))
    }

    pub(super) fn unmarked(&self) -> bool {
        self.0
            .iter()
            .any(|effect| matches!(effect, Effect::Unmarked))
    }

    pub(super) fn no_descriptor(&self) -> bool {
        self.0
            .iter()
            .any(|effect| matches!(effect, Effect::NoDescriptor))
    }

    pub(super) fn handle(&self) -> Option<u32> {
        self.0.iter().find_map(|effect| match effect {
            Effect::Handle(handle) => Some(*handle),
            _ => None,
        })
    }

    pub(super) fn map_len(&self, len: usize) -> usize {
        self.0.iter().fold(len, |len, effect| match effect {
            Effect::ShortMap(short) => len.min(*short),
            _ => len,
        })
    }

    /// Words that are written to memory before it is mapped.
    pub(super) fn pokes(&self) -> impl Iterator<Item = (usize, u32)> {
        self.0.iter().filter_map(|effect| match effect {
            Effect::Poke(offset, word) => Some((*offset, *word)),
            _ => None,
        })
    }

    pub(super) fn read_len(&self, len: usize) -> usize {
        self.0.iter().fold(len, |len, effect| match effect {
            Effect::ShortRead(short) => len.min(*short),
            _ => len,
        })
    }

    /// Changes the bytes for output `id`, and returns how many of them to write.
    pub(super) fn alter(&self, id: u16, bytes: &mut [u8]) -> usize {
        let mut len = bytes.len();
        for effect in &self.0 {
            match effect {
                Effect::Truncate(short) => len = len.min(*short),
                Effect::Rewrite(rewrite) => rewrite(id, bytes),
                _ => {}
            }
        }
        len
    }
}
