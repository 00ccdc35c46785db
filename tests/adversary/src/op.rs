//! What a program does, step by step, in four bytes each.

use std::fmt;

/// Length of a step in bytes.
pub const BYTES: usize = 4;

/// The kind of a step.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum What {
    /// Creates a completion queue.
    MakeCq,
    /// Creates a shared receive queue.
    MakeSrq,
    /// Creates owned queue pairs: one connected to itself, or two connected to each other.
    MakePair,
    /// Creates queue pairs that are not owned yet, connected or not.
    MakeRaw,
    /// Turns a queue pair into an owned one.
    Own,
    /// Allocates buffers.
    Allocate,
    /// Registers memory that peers access.
    Expose,
    /// Posts a send.
    Send,
    /// Posts a receive.
    Receive,
    /// Posts a receive to a shared queue.
    ReceiveShared,
    /// Posts a read, a write or an atomic.
    OneSided,
    /// Posts bytes that are copied into the queue.
    Inline,
    /// Posts a receive without memory.
    ReceiveEmpty,
    /// Posts requests that are refused, many times.
    Refused,
    /// Posts with an arbitrary id on a queue pair that is not owned.
    RawPost,
    /// Polls completions and offers them to every owner.
    Poll,
    /// Polls completions and discards them.
    PollInto,
    /// Polls a completion and holds it during the next steps.
    Hold,
    /// Offers a held completion.
    Offer,
    /// Modifies attributes or the state of a queue pair.
    Modify,
    /// Brings a queue pair from RESET to RTS.
    Connect,
    /// Discards what is posted.
    Reset,
    /// Destroys an object.
    Destroy,
    /// Drops an object.
    Drop,
    /// Never drops an object.
    Forget,
    /// Swaps two values.
    Swap,
    /// Resizes a completion queue.
    ResizeCq,
    /// Resizes a shared receive queue.
    ModifySrq,
    /// Creates and drops queue pairs, many times.
    Churn,
    /// The device stops working.
    Freeze,
    /// The device works again.
    Run,
    /// A sink that is notified of the next calls panics.
    Panic,
    /// The next step is made in another thread.
    Thread,
    /// A call of the kernel will fail, or panic.
    Fault,
    /// The program writes to memory that it owns.
    Touch,
    /// Asks a shared queue for requests that will not get a completion any more.
    Unpolled,
    /// Posts several sends with one doorbell, or begins to.
    Batch,
    /// Takes back memory of requests without a completion of their own.
    Released,
    /// Does something with a hub, its connections or what they await.
    Hub,
    /// Registers memory of the program, splits it, or takes it back.
    Lend,
    /// Posts what only one vendor's queues have.
    Special,
}

/// The weight of each kind, out of 256.
const WEIGHTS: [(What, usize); 41] = [
    (What::MakeCq, 4),
    (What::MakeSrq, 4),
    (What::MakePair, 8),
    (What::MakeRaw, 8),
    (What::Own, 7),
    (What::Allocate, 8),
    (What::Expose, 3),
    (What::Send, 14),
    (What::Receive, 15),
    (What::ReceiveShared, 10),
    (What::OneSided, 12),
    (What::Inline, 3),
    (What::ReceiveEmpty, 3),
    (What::Refused, 5),
    (What::RawPost, 12),
    (What::Poll, 26),
    (What::PollInto, 1),
    (What::Hold, 10),
    (What::Offer, 12),
    (What::Modify, 8),
    (What::Connect, 7),
    (What::Reset, 5),
    (What::Destroy, 5),
    (What::Drop, 5),
    (What::Forget, 2),
    (What::Swap, 3),
    (What::ResizeCq, 3),
    (What::ModifySrq, 2),
    (What::Churn, 1),
    (What::Freeze, 8),
    (What::Run, 8),
    (What::Panic, 1),
    (What::Thread, 1),
    (What::Fault, 1),
    (What::Touch, 2),
    (What::Unpolled, 1),
    (What::Batch, 4),
    (What::Released, 2),
    (What::Hub, 12),
    (What::Lend, 7),
    (What::Special, 3),
];

impl What {
    /// Every kind of step.
    pub fn all() -> impl Iterator<Item = Self> {
        WEIGHTS.iter().map(|(what, _)| *what)
    }
}

/// The kind for each byte value.
const KINDS: [What; 256] = kinds();

const fn kinds() -> [What; 256] {
    let mut kinds = [What::Touch; 256];
    let (mut at, mut row) = (0, 0);
    while row < WEIGHTS.len() {
        let (what, weight) = WEIGHTS[row];
        let mut count = 0;
        while count < weight {
            kinds[at] = what;
            at += 1;
            count += 1;
        }
        row += 1;
    }
    assert!(at == 256, "weights are of 256");
    kinds
}

/// One step. The meaning of its numbers depends on its kind, and on what exists.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Op {
    /// The kind of step.
    pub what: What,
    /// Usually selects an object.
    pub a: u8,
    /// Usually selects another object that goes with it.
    pub b: u8,
    /// Usually selects a variant.
    pub c: u8,
}

impl Op {
    /// Decodes a step.
    pub fn read(bytes: [u8; BYTES]) -> Self {
        let [kind, a, b, c] = bytes;
        Self {
            what: KINDS[usize::from(kind)],
            a,
            b,
            c,
        }
    }

    /// The encoding of this step.
    pub fn bytes(&self) -> [u8; BYTES] {
        let kind = KINDS.iter().position(|what| *what == self.what);
        let kind = u8::try_from(kind.unwrap_or(0)).unwrap_or(0);
        [kind, self.a, self.b, self.c]
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}({}, {}, {})", self.what, self.a, self.b, self.c)
    }
}

/// Decodes a program; an incomplete step at the end is ignored.
pub fn program(bytes: &[u8]) -> Vec<Op> {
    bytes
        .as_chunks::<BYTES>()
        .0
        .iter()
        .map(|step| Op::read(*step))
        .collect()
}

/// The encoding of a program.
pub fn bytes(program: &[Op]) -> Vec<u8> {
    program.iter().flat_map(Op::bytes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_survive_a_round_trip_through_bytes() {
        for kind in 0..=255 {
            let op = Op::read([kind, 1, 2, 3]);
            assert_eq!(Op::read(op.bytes()), op);
        }
    }
}
