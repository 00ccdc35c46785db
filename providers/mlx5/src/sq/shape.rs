//! The most frequent operations.

use uverbs_core::types::{Operation, Remote, Sge, WcOpcode};

use crate::wqe::operations::Operations;
use crate::wqe::request::{MAX_SGE_LENGTH, is_atomic};
use crate::wqe::{self, Unit, opcode};

/// What is written for an operation besides its data.
pub(super) struct Shape {
    pub(super) needs: Operations,
    pub(super) opcode: u32,
    /// The peer's memory, by its numbers: a copy of a [`Remote`] would be one of its padding, too.
    pub(super) remote: Option<(u64, u32)>,
    /// Those of an atomic operation.
    pub(super) operands: Option<Unit>,
    pub(super) immediate: u32,
    pub(super) completion: WcOpcode,
}

impl Shape {
    pub(super) const SEND: Self = Self {
        needs: Operations::SEND,
        opcode: opcode::SEND,
        remote: None,
        operands: None,
        immediate: 0,
        completion: WcOpcode::Send,
    };

    const fn atomic(opcode: u32, remote: Remote, operands: Unit, completion: WcOpcode) -> Self {
        Self {
            needs: Operations::ATOMIC,
            opcode,
            remote: Some((remote.address, remote.key.raw())),
            operands: Some(operands),
            immediate: 0,
            completion,
        }
    }

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
                remote: Some((remote.address, remote.key.raw())),
                completion: WcOpcode::RdmaWrite,
                ..Self::SEND
            },
            Operation::WriteImm(remote, immediate) => Self {
                needs: Operations::WRITE,
                opcode: opcode::WRITE_IMM,
                remote: Some((remote.address, remote.key.raw())),
                immediate,
                completion: WcOpcode::RdmaWrite,
                ..Self::SEND
            },
            Operation::Read(remote) => Self {
                needs: Operations::READ,
                opcode: opcode::READ,
                remote: Some((remote.address, remote.key.raw())),
                completion: WcOpcode::RdmaRead,
                ..Self::SEND
            },
            Operation::CompareSwap {
                remote,
                compare,
                swap,
            } => {
                let operands = wqe::atomic(swap, compare);
                Self::atomic(
                    opcode::COMPARE_SWAP,
                    remote,
                    operands,
                    WcOpcode::CompareSwap,
                )
            }
            Operation::FetchAdd { remote, add } => {
                let operands = wqe::atomic(add, 0);
                Self::atomic(opcode::FETCH_ADD, remote, operands, WcOpcode::FetchAdd)
            }
            _ => return None,
        })
    }

    /// Whether the entry can be that of a request written as usual.
    #[expect(clippy::inline_always, reason = "a part of posting")]
    #[inline(always)]
    pub(super) const fn takes(&self, sge: &Sge) -> bool {
        match (self.operands, self.remote) {
            (Some(_), Some((address, _))) => is_atomic(sge, address),
            _ => 1 <= sge.length && sge.length <= MAX_SGE_LENGTH,
        }
    }

    /// The segment with the peer's memory.
    #[expect(clippy::inline_always, reason = "a part of posting")]
    #[inline(always)]
    pub(super) fn remote(&self) -> Option<Unit> {
        self.remote
            .map(|(address, key)| wqe::remote_of(address, key))
    }

    /// The segments between the control segment and the data.
    #[expect(clippy::inline_always, reason = "a part of posting")]
    #[inline(always)]
    pub(super) const fn units_before_data(&self) -> u32 {
        self.remote.is_some() as u32 + self.operands.is_some() as u32
    }
}
