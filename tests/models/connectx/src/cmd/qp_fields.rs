//! Which fields of the queue pair context each transition takes from its command.

use crate::layout::Field;
use crate::layout::command::op;
use crate::layout::qp::{self, path};
use crate::objects::{QpState, Service};
use crate::status::{Outcome, Rule};

/// Bits of the optional parameter mask.
pub(super) mod optional {
    pub(super) const ALTERNATE_PATH: u32 = 1 << 0;
    pub(super) const READ_ENABLE: u32 = 1 << 1;
    pub(super) const ATOMIC_ENABLE: u32 = 1 << 2;
    pub(super) const WRITE_ENABLE: u32 = 1 << 3;
    pub(super) const PKEY_INDEX: u32 = 1 << 4;
    pub(super) const QKEY: u32 = 1 << 5;
    pub(super) const RNR_TIMEOUT: u32 = 1 << 6;
    pub(super) const PRIMARY_PATH: u32 = 1 << 7;
    pub(super) const SRA_MAX: u32 = 1 << 8;
    pub(super) const RRA_MAX: u32 = 1 << 9;
    pub(super) const PATH_MIGRATION: u32 = 1 << 10;
    /// In INIT; later, the next path migration.
    pub(in crate::cmd) const DRAINS: u32 = 1 << 11;
    pub(super) const RETRY_COUNT: u32 = 1 << 12;
    pub(super) const RNR_RETRY: u32 = 1 << 13;
    pub(super) const ACK_TIMEOUT: u32 = 1 << 14;
    pub(super) const PORT: u32 = 1 << 16;
    pub(in crate::cmd) const PACING_INDEX: u32 = 1 << 22;
    pub(super) const COUNTER_SET: u32 = 1 << 25;
}

const PRIMARY_PKEY: Field = path::PKEY_INDEX.at(qp::PRIMARY);
const PRIMARY_PORT: Field = path::PORT.at(qp::PRIMARY);
pub(super) const SOURCE_PORT: Field = path::UDP_SOURCE_PORT.at(qp::PRIMARY);
const PRIMARY_ACK: Field = path::ACK_TIMEOUT.at(qp::PRIMARY);

/// Fields taken when their mask bit is set, in every transition that has a mask.
const OPTIONAL: &[(u32, Field)] = &[
    (optional::READ_ENABLE, qp::READ_ENABLE),
    (optional::ATOMIC_ENABLE, qp::ATOMIC_ENABLE),
    (optional::ATOMIC_ENABLE, qp::ATOMIC_MODE),
    (optional::WRITE_ENABLE, qp::WRITE_ENABLE),
    (optional::PKEY_INDEX, PRIMARY_PKEY),
    (optional::QKEY, qp::QKEY),
    (optional::RNR_TIMEOUT, qp::MIN_RNR_NAK),
    (optional::SRA_MAX, qp::LOG_SRA_MAX),
    (optional::RRA_MAX, qp::LOG_RRA_MAX),
    (optional::PATH_MIGRATION, qp::PATH_MIGRATION),
    (optional::RETRY_COUNT, qp::RETRY_COUNT),
    (optional::RNR_RETRY, qp::RNR_RETRY),
    (optional::ACK_TIMEOUT, PRIMARY_ACK),
    (optional::PORT, PRIMARY_PORT),
    (optional::PACING_INDEX, qp::PACING_INDEX),
    (optional::COUNTER_SET, qp::COUNTER_SET),
];

const TO_INIT: &[Field] = &[
    qp::PATH_MIGRATION,
    qp::READ_ENABLE,
    qp::WRITE_ENABLE,
    qp::ATOMIC_ENABLE,
    qp::ATOMIC_MODE,
    qp::QKEY,
    qp::COUNTER_SET,
    PRIMARY_PKEY,
    PRIMARY_PORT,
];

const TO_RTR: &[Field] = &[
    qp::MTU,
    qp::LOG_MSG_MAX,
    qp::REMOTE_QPN,
    qp::LOG_RRA_MAX,
    qp::MIN_RNR_NAK,
    qp::RECV_PSN,
];

const TO_RTS: &[Field] = &[
    qp::SEND_PSN,
    qp::RETRY_COUNT,
    qp::RNR_RETRY,
    qp::LOG_SRA_MAX,
    qp::LOG_ACK_FREQ,
    PRIMARY_ACK,
];

/// The state that `opcode` leads to from `state`.
pub(super) fn next(opcode: u16, state: QpState) -> Outcome<QpState> {
    use QpState::{Error, Init, ReadyToReceive, ReadyToSend, Reset, SendDrained, SendError};
    Ok(match (opcode, state) {
        (op::RST2INIT_QP, Reset) | (op::INIT2INIT_QP, Init) => Init,
        (op::INIT2RTR_QP, Init) => ReadyToReceive,
        (op::RTR2RTS_QP, ReadyToReceive)
        | (op::RTS2RTS_QP, ReadyToSend)
        | (op::SQERR2RTS_QP, SendError)
        | (op::SQD_RTS_QP, SendDrained) => ReadyToSend,
        (op::TO_ERR_QP, _) => Error,
        (op::TO_RST_QP, _) => Reset,
        _ => return Err(Rule::Transition.refuse()),
    })
}

/// Copies what `opcode` changes from the command's context to that of the queue pair.
pub(super) fn apply(opcode: u16, service: Service, mask: u32, from: &[u8], to: &mut [u8]) {
    let required = match opcode {
        op::RST2INIT_QP => TO_INIT,
        op::INIT2RTR_QP => TO_RTR,
        op::RTR2RTS_QP => TO_RTS,
        _ => &[],
    };
    for field in required {
        field.copy(from, to);
    }
    if opcode == op::INIT2RTR_QP && !service.is_datagram() || mask & optional::PRIMARY_PATH != 0 {
        let (pkey, port) = (PRIMARY_PKEY.get(to), PRIMARY_PORT.get(to));
        copy_path(qp::PRIMARY, from, to);
        PRIMARY_PKEY.set(to, pkey);
        if PRIMARY_PORT.get(to) == 0 {
            PRIMARY_PORT.set(to, port);
        }
    }
    if mask & optional::ALTERNATE_PATH != 0 {
        copy_path(qp::SECONDARY, from, to);
    }
    if opcode == op::INIT2INIT_QP && mask & optional::DRAINS != 0 {
        qp::DRAINS.copy(from, to);
    }
    for (bit, field) in OPTIONAL {
        if mask & bit != 0 {
            field.copy(from, to);
        }
    }
}

fn copy_path(at: usize, from: &[u8], to: &mut [u8]) {
    if let (Some(from), Some(to)) = (from.get(at..at + path::LEN), to.get_mut(at..at + path::LEN)) {
        to.copy_from_slice(from);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_transitions_of_the_standard_are_taken() {
        assert_eq!(
            next(op::INIT2RTR_QP, QpState::Init),
            Ok(QpState::ReadyToReceive)
        );
        assert_eq!(
            next(op::RTR2RTS_QP, QpState::Init),
            Err(Rule::Transition.refuse())
        );
        assert_eq!(
            next(op::TO_ERR_QP, QpState::ReadyToSend),
            Ok(QpState::Error)
        );
        assert_eq!(
            next(op::SQD_RTS_QP, QpState::SendDrained),
            Ok(QpState::ReadyToSend)
        );
        assert_eq!(
            next(op::SQD_RTS_QP, QpState::SendDraining),
            Err(Rule::Transition.refuse())
        );
    }

    #[test]
    fn optional_fields_need_their_bit() {
        let mut from = vec![0; qp::LEN];
        let mut to = vec![0; qp::LEN];
        qp::QKEY.set(&mut from, 7);
        apply(op::RTS2RTS_QP, Service::Ud, 0, &from, &mut to);
        assert_eq!(qp::QKEY.get(&to), 0);
        apply(op::RTS2RTS_QP, Service::Ud, optional::QKEY, &from, &mut to);
        assert_eq!(qp::QKEY.get(&to), 7);
    }
}
