//! Commands that attach queues to leaves of the scheduling tree.

use super::field::{Field, Wide, bit, field, word};
use super::mailbox::Mailbox;
use super::opcode;

const QPC_EXTENSION: Field = bit(0x08, 31);
const QPN: Field = field(0x08, 23, 0);
const OPT_PARAM_MASK_95_32: Wide = Wide(0x108);
const REQUESTOR_GROUP: Field = word(0x114);
const RESPONDER_GROUP: Field = word(0x118);
const QP_LEN: usize = 464;
const OPT_PARAM_GROUPS: u64 = 1 << 1;

const SQ_STATE: Field = field(0x08, 31, 28);
const SQN: Field = field(0x08, 23, 0);
const SQ_BITMASK: Wide = Wide(0x10);
const SQ_CTX_STATE: Field = field(0x20, 23, 20);
const SQ_GROUP: Field = field(0x40, 15, 0);
const SQ_LEN: usize = 272;
const SQ_BITMASK_GROUP: u64 = 1 << 2;
const SQ_READY: u32 = 1;

/// The leaves of a queue pair; 0 is none.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Groups {
    /// For the requests that it sends.
    pub requestor: u32,
    /// For the responses that it sends to its peer.
    pub responder: u32,
}

/// `INIT2INIT_QP` or `RTS2RTS_QP` that sets only the leaves.
pub fn attach_queue(opcode: u16, qpn: u32, groups: Groups) -> Mailbox {
    let mut command = Mailbox::command(opcode, 0, QP_LEN);
    command.set(QPC_EXTENSION, 1);
    command.set(QPN, qpn);
    command.set_wide(OPT_PARAM_MASK_95_32, OPT_PARAM_GROUPS);
    command.set(REQUESTOR_GROUP, groups.requestor);
    command.set(RESPONDER_GROUP, groups.responder);
    command
}

/// `MODIFY_SQ` that sets only the leaf of a raw send queue in its ready state.
///
/// The field has 16 bits; `None` for a leaf whose id has more.
pub fn attach_send_queue(sqn: u32, group: u32) -> Option<Mailbox> {
    let group = u16::try_from(group).ok()?;
    let mut command = Mailbox::command(opcode::MODIFY_SQ, 0, SQ_LEN);
    command.set(SQ_STATE, SQ_READY);
    command.set(SQN, sqn);
    command.set_wide(SQ_BITMASK, SQ_BITMASK_GROUP);
    command.set(SQ_CTX_STATE, SQ_READY);
    command.set(SQ_GROUP, group.into());
    Some(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_pair_gets_its_leaves_by_the_extended_part() {
        let groups = Groups {
            requestor: 5,
            responder: 6,
        };
        let command = attach_queue(opcode::RTS2RTS_QP, 0x0012_3456, groups);
        let bytes = command.as_bytes();
        assert_eq!(bytes.len(), 464);
        assert_eq!(&bytes[..2], [0x05, 0x05]);
        assert_eq!(&bytes[8..12], [0x80, 0x12, 0x34, 0x56]);
        assert_eq!(&bytes[0x108..0x110], [0, 0, 0, 0, 0, 0, 0, 2]);
        assert_eq!(&bytes[0x114..0x11c], [0, 0, 0, 5, 0, 0, 0, 6]);
    }

    #[test]
    fn a_raw_send_queue_stays_ready() {
        let command = attach_send_queue(0x77, 9).unwrap();
        let bytes = command.as_bytes();
        assert_eq!(bytes.len(), 272);
        assert_eq!(&bytes[8..12], [0x10, 0, 0, 0x77]);
        assert_eq!(bytes[0x17], 4);
        assert_eq!(bytes[0x21], 0x10);
        assert_eq!(&bytes[0x40..0x44], [0, 0, 0, 9]);
        assert_eq!(attach_send_queue(1, 0x1_0000), None);
    }
}
