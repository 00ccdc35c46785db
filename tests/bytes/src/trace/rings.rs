//! Doorbells.

use super::Line;

/// Doorbells of a page that take turns are so far from each other.
const TURN: u64 = 0x100;

/// A doorbell, and the records that the device found then.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Rung {
    /// Which of a doorbell's two buffers; the place of others is the same everywhere.
    pub place: u64,
    /// What was written, with the queue's number taken out.
    pub value: u64,
    /// Of a send queue: receive and send record of its queue pair, consumer indexes of its
    /// completion queues. Of a completion queue: its consumer index, and how it was armed.
    pub records: Vec<Option<u32>>,
    /// Whether the request came with it.
    pub copied: bool,
}

impl Rung {
    /// A send queue's: the number stands above the count of units.
    pub(super) fn send(line: &Line) -> Self {
        Self::new(line, u64::from(line.queue) << 8, line.place & TURN)
    }

    /// A completion queue's.
    pub(super) fn arm(line: &Line) -> Self {
        Self::new(line, line.queue.into(), line.place)
    }

    fn new(line: &Line, number: u64, place: u64) -> Self {
        let value = u64::from_str_radix(&line.value, 16).unwrap_or_default();
        Self {
            place,
            value: value ^ number,
            records: line.records.clone(),
            copied: line.copied,
        }
    }
}
