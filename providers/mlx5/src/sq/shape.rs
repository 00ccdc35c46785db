//! The most frequent operations.

use uverbs_core::types::{Operation, Remote, WcOpcode};

use crate::wqe::opcode;
use crate::wqe::operations::Operations;

/// What is written for an operation besides its data.
pub(super) struct Shape {
    pub(super) needs: Operations,
    pub(super) opcode: u32,
    pub(super) remote: Option<Remote>,
    pub(super) immediate: u32,
    pub(super) completion: WcOpcode,
}

impl Shape {
    pub(super) const SEND: Self = Self {
        needs: Operations::SEND,
        opcode: opcode::SEND,
        remote: None,
        immediate: 0,
        completion: WcOpcode::Send,
    };

    /// The shape of one of the most frequent operations; `None` for others.
    #[expect(clippy::inline_always, reason = "a part of posting")]
    #[inline(always)]
    pub(super) const fn of(operation: &Operation<'_>) -> Option<Self> {
        Some(match *operation {
            Operation::Send => Self::SEND,
            Operation::SendImm(immediate) => Self {
                needs: Operations::SEND_IMM,
                opcode: opcode::SEND_IMM,
                immediate,
                ..Self::SEND
            },
            Operation::Write(remote) => Self {
                needs: Operations::WRITE,
                opcode: opcode::WRITE,
                remote: Some(remote),
                immediate: 0,
                completion: WcOpcode::RdmaWrite,
            },
            Operation::WriteImm(remote, immediate) => Self {
                needs: Operations::WRITE,
                opcode: opcode::WRITE_IMM,
                remote: Some(remote),
                immediate,
                completion: WcOpcode::RdmaWrite,
            },
            Operation::Read(remote) => Self {
                needs: Operations::READ,
                opcode: opcode::READ,
                remote: Some(remote),
                immediate: 0,
                completion: WcOpcode::RdmaRead,
            },
            _ => return None,
        })
    }
}
