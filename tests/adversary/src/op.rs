//! What a program does, step by step; four bytes each.

use std::fmt;

/// Bytes of a step.
pub const BYTES: usize = 4;

/// What kind of step.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum What {
    /// A completion queue.
    MakeCq,
    /// A shared receive queue.
    MakeSrq,
    /// Owned queue pairs, one connected to itself or two to each other.
    MakePair,
    /// Queue pairs that nobody owns yet, connected or not.
    MakeRaw,
    /// A queue pair becomes an owned one.
    Own,
    /// Buffers.
    Allocate,
    /// Memory that peers access.
    Expose,
    /// Posts a send.
    Send,
    /// Posts a receive.
    Receive,
    /// Posts a receive that is shared.
    ReceiveShared,
    /// Posts a read, a write or an atomic.
    OneSided,
    /// Posts bytes that are copied.
    Inline,
    /// Posts a receive without memory.
    ReceiveEmpty,
    /// Posts what is refused, many times.
    Refused,
    /// Posts on a queue pair that nobody owns, under any id.
    RawPost,
    /// Takes completions and offers them around.
    Poll,
    /// Takes completions and forgets them.
    PollInto,
    /// Takes a completion and holds it while the next steps are made.
    Hold,
    /// Offers a completion that is held.
    Offer,
    /// Changes attributes or the state of a queue pair.
    Modify,
    /// Takes a queue pair from RESET to RTS.
    Connect,
    /// Discards what is posted.
    Reset,
    /// Destroys an object.
    Destroy,
    /// Drops an object.
    Drop,
    /// Never drops an object.
    Forget,
    /// Exchanges two values.
    Swap,
    /// Another size of a completion queue.
    ResizeCq,
    /// Another size of a shared receive queue.
    ModifySrq,
    /// Makes and drops queue pairs, many times.
    Churn,
    /// The device stops working.
    Freeze,
    /// The device works.
    Run,
    /// Whoever hears of the next calls panics.
    Panic,
    /// The next step is made by another thread.
    Thread,
    /// A call of the kernel will fail, or panic.
    Fault,
    /// The program writes to memory in its hands.
    Touch,
    /// Asks a shared queue for requests that have no completion any more.
    Unpolled,
}

/// How often each kind comes, of 256.
const WEIGHTS: [(What, usize); 36] = [
    (What::MakeCq, 4),
    (What::MakeSrq, 4),
    (What::MakePair, 8),
    (What::MakeRaw, 8),
    (What::Own, 8),
    (What::Allocate, 8),
    (What::Expose, 3),
    (What::Send, 16),
    (What::Receive, 18),
    (What::ReceiveShared, 10),
    (What::OneSided, 14),
    (What::Inline, 3),
    (What::ReceiveEmpty, 3),
    (What::Refused, 8),
    (What::RawPost, 14),
    (What::Poll, 36),
    (What::PollInto, 1),
    (What::Hold, 12),
    (What::Offer, 14),
    (What::Modify, 9),
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
];

impl What {
    /// Every kind of step.
    pub fn all() -> impl Iterator<Item = Self> {
        WEIGHTS.iter().map(|(what, _)| *what)
    }
}

/// Which kind a byte stands for.
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

/// One step. What its numbers mean depends on its kind, and on what there is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Op {
    /// What kind of step.
    pub what: What,
    /// Mostly which object.
    pub a: u8,
    /// Mostly with which other.
    pub b: u8,
    /// Mostly how.
    pub c: u8,
}

impl Op {
    /// A step by its bytes.
    pub fn read(bytes: [u8; BYTES]) -> Self {
        let [kind, a, b, c] = bytes;
        Self {
            what: KINDS[usize::from(kind)],
            a,
            b,
            c,
        }
    }

    /// The bytes that read as this step.
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

/// The steps that these bytes stand for; what is left over stands for none.
pub fn program(bytes: &[u8]) -> Vec<Op> {
    bytes
        .as_chunks::<BYTES>()
        .0
        .iter()
        .map(|step| Op::read(*step))
        .collect()
}

/// The bytes of a program.
pub fn bytes(program: &[Op]) -> Vec<u8> {
    program.iter().flat_map(Op::bytes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_its_bytes() {
        for kind in 0..=255 {
            let op = Op::read([kind, 1, 2, 3]);
            assert_eq!(Op::read(op.bytes()), op);
        }
    }
}
