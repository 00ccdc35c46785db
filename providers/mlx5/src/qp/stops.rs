//! Send queues that drain when a signature was wrong, and requests that are taken back meanwhile
//! (signature pipelining). Layouts: Programmer's Reference Manual, `INIT2INIT_QP`, `QUERY_QP`.

use uverbs_core::types::QpType;
use uverbs_core::{Error, ErrorKind, Op, Result};

use super::QueuePair;
use super::entropy::{CHANGES, MORE_CHANGES, NUMBER, QP_CHANGE, QP_REPLY, REPLY_LEN};
use crate::context::Context;
use crate::prm::{Field, Mailbox, bit, field, opcode};

/// What the device has to be told of a queue pair in INIT, because it forgets it at each reset.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Told {
    /// It makes copies.
    pub(super) copies: bool,
    /// It stops at wrong signatures.
    pub(super) stops: bool,
}

const CHANGES_STOPS: u32 = 1 << 11;
const STOPS: Field = bit(0x1c, 26);
/// The change has the extended part.
const IS_EXTENDED: Field = bit(0x08, 31);
const CHANGES_COPIES: u64 = 1 << 3;
const COPIES: Field = bit(0x110, 29);

// Replies to queries.
const STATE: Field = field(0x18, 31, 28);
const DRAINED: u32 = 5;
const NEXT_BLOCK: Field = field(0xcc, 31, 16);

impl QueuePair {
    /// Prepares a queue pair that was just created for stopping.
    pub(super) fn prepare_stops(&mut self, context: &Context) -> Result<()> {
        let op = Op::CreateQueuePair;
        if self.base.kind != QpType::Rc {
            return Err(Error::new(op, ErrorKind::Unsupported)
                .fact("type", self.base.kind.to_string())
                .hint("only reliable connections stop at wrong signatures"));
        }
        if !context.config().drained_goes_on() {
            return Err(Error::new(op, ErrorKind::Unsupported)
                .fact("kernel_lacks", "the way from a drained send queue to RTS"));
        }
        self.has_to_tell().stops = true;
        Ok(())
    }

    /// What the device has to be told, which is more than nothing.
    pub(super) fn has_to_tell(&mut self) -> &mut Told {
        let rare = self.rare.get_or_insert_default();
        rare.tell = Some(Self::tell);
        &mut rare.told
    }

    /// Tells the device, of a queue pair in INIT.
    fn tell(&self) -> Result<()> {
        let told = self.rare.as_ref().map(|rare| rare.told).unwrap_or_default();
        let mut change = Mailbox::command(opcode::INIT2INIT_QP, 0, QP_CHANGE);
        change.set(NUMBER, self.base.number);
        if told.stops {
            change.set(CHANGES, CHANGES_STOPS);
            change.set(STOPS, 1);
        }
        if told.copies {
            change.set(IS_EXTENDED, 1);
            change.set_wide(MORE_CHANGES, CHANGES_COPIES);
            change.set(COPIES, 1);
        }
        let object = &self.base.object;
        self.firmware()
            .modify_harmless(object, &change, REPLY_LEN)
            .map(drop)
    }

    /// `mlx5dv_qp_cancel_posted_send_wrs`—has the device do nothing for the submitted requests with
    /// this `wr_id` that it has not begun, of a send queue that has drained. They complete as they
    /// were posted to, with their opcodes, as if they had succeeded. Returns how many there are.
    ///
    /// One system call, which waits for the firmware.
    ///
    /// # Errors
    /// [`InvalidState`](ErrorKind::InvalidState): the send queue has not drained.
    /// [`BadReply`](ErrorKind::BadReply): the device has begun what was never submitted. Otherwise
    /// the errno for the firmware's status.
    #[doc(alias = "mlx5dv_qp_cancel_posted_send_wrs")]
    pub fn cancel_sends(&mut self, wr_id: u64) -> Result<u32> {
        let op = Op::DevxQuery;
        let mut query = Mailbox::command(opcode::QUERY_QP, 0, 16);
        query.set(NUMBER, self.base.number);
        let reply = self
            .firmware()
            .query_object(&self.base.object, &query, QP_REPLY)?;
        let state = reply.get(STATE);
        if state != DRAINED {
            return Err(Error::new(op, ErrorKind::InvalidState)
                .fact("state", state)
                .hint("requests are cancelled while the send queue is drained"));
        }
        let next = reply.get(NEXT_BLOCK);
        let Some(ring) = self.send.as_mut() else {
            return Ok(0);
        };
        ring.cancel(next, wr_id).ok_or_else(|| {
            Error::bad_reply(op, "position in the send queue").fact("next_block", next)
        })
    }
}
