//! Completions in a form of their user's, such as C's struct: built where they are found, with no
//! completion of ours in between.

use crate::types::{WcFlags, WcOpcode, WcStatus, WorkCompletion};

/// A place for a completion. What was in it before is replaced.
pub trait CompletionSlot {
    /// The completion of a request that was carried out.
    fn found(&mut self, done: &impl Found);

    /// Any completion.
    fn any(&mut self, done: &WorkCompletion);
}

/// The completion of a request that was carried out, without an immediate value: as a provider
/// found it, and not decoded yet.
pub trait Found {
    /// The request's number.
    fn wr_id(&self) -> u64;

    /// All of it.
    fn success(&self) -> Success;

    /// The rest of it as it was found, for those who seldom ask for it.
    fn raw(&self) -> RawCompletion;
}

/// The completion of a request that was carried out, without an immediate value.
///
/// Fields are those of [`WorkCompletion`]; `opcode` is its number.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[expect(missing_docs, reason = "see above")]
pub struct Success {
    pub wr_id: u64,
    pub opcode: u32,
    pub byte_len: u32,
    pub qp_num: u32,
    pub src_qp: u32,
    pub flags: WcFlags,
    pub pkey_index: u16,
    pub slid: u16,
    pub sl: u8,
    pub dlid_path_bits: u8,
}

/// A completion in the form of its queue, which [reads](super::Cq::read) those that are not whole.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "their meaning is the provider's")]
pub enum RawCompletion {
    /// Of a send request.
    Sent { opcode: u32, qp_num: u32, word: u64 },
    /// Of a message.
    Received {
        /// The number of the queue pair is its lower half.
        queue: u64,
        words: [u64; 4],
    },
    /// One that was decoded when it was found.
    Whole(WorkCompletion),
}

/// What came of a look for a usual completion.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Usual {
    /// It was taken.
    Taken,
    /// There is none.
    None,
    /// Something else, which [`poll`](super::Cq::poll) has to find out: nothing has changed.
    Other,
}

impl From<Success> for WorkCompletion {
    #[inline]
    fn from(done: Success) -> Self {
        Self {
            wr_id: done.wr_id,
            status: WcStatus::Success,
            opcode: WcOpcode::from_raw(done.opcode),
            vendor_err: 0,
            byte_len: done.byte_len,
            imm: None,
            invalidated: None,
            qp_num: done.qp_num,
            src_qp: done.src_qp,
            flags: done.flags,
            pkey_index: done.pkey_index,
            slid: done.slid,
            sl: done.sl,
            dlid_path_bits: done.dlid_path_bits,
        }
    }
}
