//! Send requests that are described once and posted many times.

use super::{LocalKey, Operation, Payload, Remote, RemoteKey, SendFlags, SendRequest, Sge};

/// A send request whose kind, keys and flags are known before its addresses: it is described once,
/// and posted with a [`Posting`] each time.
///
/// For a queue's typed sender, which prepares it in the form that its device reads.
///
/// ```
/// use uverbs_core::types::{LocalKey, RemoteKey, Template};
///
/// let template = Template::write(LocalKey::from_raw(1), RemoteKey::from_raw(2)).signaled();
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Template {
    pub(crate) kind: Kind,
    key: LocalKey,
    flags: SendFlags,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Send,
    SendImm(u32),
    Write(RemoteKey),
    WriteImm(RemoteKey, u32),
    Read(RemoteKey),
}

/// What is different each time that a [`Template`] is posted.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Posting {
    /// Returned in the completion. Below [`RESERVED_WR_IDS`](super::RESERVED_WR_IDS).
    pub wr_id: u64,
    /// Where the memory of this process is.
    pub address: u64,
    /// Bytes.
    pub length: u32,
    /// Where the peer's memory is. Not used by sends.
    pub remote: u64,
}

impl Template {
    const fn new(kind: Kind, key: LocalKey) -> Self {
        Self {
            kind,
            key,
            flags: SendFlags::empty(),
        }
    }

    /// Sends memory with this key (`IBV_WR_SEND`).
    pub const fn send(key: LocalKey) -> Self {
        Self::new(Kind::Send, key)
    }

    /// Sends memory with this key, and an immediate value (`IBV_WR_SEND_WITH_IMM`).
    pub const fn send_imm(key: LocalKey, immediate: u32) -> Self {
        Self::new(Kind::SendImm(immediate), key)
    }

    /// Writes memory with this key to the peer's (`IBV_WR_RDMA_WRITE`).
    pub const fn write(key: LocalKey, remote: RemoteKey) -> Self {
        Self::new(Kind::Write(remote), key)
    }

    /// Writes memory with this key to the peer's, for which the peer gets a completion with an
    /// immediate value (`IBV_WR_RDMA_WRITE_WITH_IMM`).
    pub const fn write_imm(key: LocalKey, remote: RemoteKey, immediate: u32) -> Self {
        Self::new(Kind::WriteImm(remote, immediate), key)
    }

    /// Reads the peer's memory into memory with this key (`IBV_WR_RDMA_READ`).
    pub const fn read(key: LocalKey, remote: RemoteKey) -> Self {
        Self::new(Kind::Read(remote), key)
    }

    /// Sets flags, in addition to those set before.
    #[must_use]
    pub const fn flags(mut self, flags: SendFlags) -> Self {
        self.flags = self.flags.union(flags);
        self
    }

    /// Asks for a completion on success, too (`IBV_SEND_SIGNALED`).
    #[must_use]
    pub const fn signaled(self) -> Self {
        self.flags(SendFlags::SIGNALED)
    }

    /// Passes the request for a posting to `then`.
    #[inline]
    pub fn with<T>(&self, posting: &Posting, then: impl FnOnce(&SendRequest<'_>) -> T) -> T {
        let piece = [Sge {
            address: posting.address,
            length: posting.length,
            key: self.key,
        }];
        let remote = |key| Remote {
            address: posting.remote,
            key,
        };
        let operation = match self.kind {
            Kind::Send => Operation::Send,
            Kind::SendImm(immediate) => Operation::SendImm(immediate),
            Kind::Write(key) => Operation::Write(remote(key)),
            Kind::WriteImm(key, immediate) => Operation::WriteImm(remote(key), immediate),
            Kind::Read(key) => Operation::Read(remote(key)),
        };
        let request = SendRequest::new(operation, Payload::Gather(&piece));
        then(&SendRequest {
            wr_id: posting.wr_id,
            flags: self.flags,
            ..request
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_posting_completes_its_template() {
        let (key, remote) = (LocalKey::from_raw(1), RemoteKey::from_raw(2));
        let posting = Posting {
            wr_id: 3,
            address: 4,
            length: 5,
            remote: 6,
        };
        let text = |template: Template| {
            template.with(&posting, |request| {
                assert_eq!((request.wr_id, request.destination.is_none()), (3, true));
                assert_eq!(request.flags, SendFlags::SIGNALED | SendFlags::FENCE);
                assert!(
                    matches!(request.payload, Payload::Gather(&[Sge { address: 4, length: 5, key: own }]) if own == key)
                );
                match request.operation {
                    Operation::Send => "send".into(),
                    Operation::SendImm(7) => "send 7".into(),
                    Operation::Write(to) => format!("write {} {}", to.address, to.key.raw()),
                    Operation::WriteImm(to, 7) => format!("imm {} {}", to.address, to.key.raw()),
                    Operation::Read(from) => format!("read {} {}", from.address, from.key.raw()),
                    other => format!("{other:?}"),
                }
            })
        };
        for (template, said) in [
            (Template::send(key), "send"),
            (Template::send_imm(key, 7), "send 7"),
            (Template::write(key, remote), "write 6 2"),
            (Template::write_imm(key, remote, 7), "imm 6 2"),
            (Template::read(key, remote), "read 6 2"),
        ] {
            assert_eq!(text(template.flags(SendFlags::FENCE).signaled()), said);
        }
    }
}
