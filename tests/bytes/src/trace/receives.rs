//! Receive requests.

use super::{Line, unhex};
use crate::table::Numbers;

const UNIT: usize = 16;
/// The key of the entry that ends a list.
const END: u32 = 0x100;

/// One receive request as the device took it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Received {
    /// Its index in the queue.
    pub index: u32,
    /// The producer index in the record at that time.
    pub record: u32,
    /// In a shared queue, the index of the next one.
    pub next: Option<u32>,
    /// Its whole room, or in a shared queue what is read of it, with the local key replaced. Slots
    /// there are reused in another order, so that what is left after the end differs.
    pub bytes: Vec<u8>,
    /// What is left after the end.
    pub left: Vec<u8>,
}

impl Received {
    pub(super) fn new(line: &Line, numbers: &Numbers) -> Self {
        let mut bytes = unhex(&line.bytes);
        let stride = (numbers.receives[1] as usize + usize::from(numbers.srq != 0)) * UNIT;
        bytes.resize(stride.next_power_of_two().max(bytes.len()), 0);
        let (mut next, mut left) = (None, Vec::new());
        if numbers.srq != 0 {
            let first: Vec<u8> = bytes.drain(..UNIT).collect();
            next = Some(u32::from(first[2]) << 8 | u32::from(first[3]));
            // Nothing else is there.
            bytes.extend(first.into_iter().enumerate().map(|(at, byte)| match at {
                2 | 3 => 0,
                _ => byte,
            }));
            let end = bytes
                .chunks_exact(UNIT)
                .position(|unit| unit[4..8] == END.to_be_bytes());
            if let Some(end) = end {
                let sges = bytes.len() - UNIT;
                left = bytes.drain((end + 1) * UNIT..sges).collect();
            }
        }
        for unit in bytes.chunks_exact_mut(UNIT) {
            if unit[4..8] == numbers.lkey.to_be_bytes() {
                unit[4..8].copy_from_slice(b"lkey");
            }
        }
        Self {
            index: line.index,
            record: line.record,
            next,
            bytes,
            left,
        }
    }
}
