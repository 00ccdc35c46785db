//! Doorbells.

use super::Line;

/// Distance between the doorbells of a page that are used in turn.
const TURN: u64 = 0x100;

/// A doorbell, and the records that the device found then.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Rung {
    /// Which of a doorbell's two buffers; the offset of other doorbells is always the same.
    pub place: u64,
    /// The value written, with the queue's number removed.
    pub value: u64,
    /// For a send queue: receive and send record of its queue pair, consumer indexes of its
    /// completion queues. For a completion queue: its consumer index, and how it was armed.
    pub records: Vec<Option<u32>>,
    /// Whether the request was copied with it.
    pub copied: bool,
}

impl Rung {
    /// A send queue's: the number is above the count of units.
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
