//! Send requests.

use super::{Line, unhex};
use crate::table::{Numbers, Request, Transport, Verb};

/// One work request as the device fetched it, with the numbers that differ from run to run
/// replaced.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Fetched {
    /// Its index in the queue.
    pub index: u32,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

impl Fetched {
    /// The same with zeros after inline data that ends before its unit does, and for the operand
    /// that fetch-and-add does not have: these bytes are never read, and libmlx5 leaves what was
    /// there before.
    #[must_use]
    pub fn without_padding(&self, transport: Transport, request: &Request) -> Self {
        let mut same = self.clone();
        let route = transport.route_units();
        let behind = route * 16;
        if request.verb == Verb::AtomicFetchAndAdd
            && let Some(operand) = same.bytes.get_mut(behind + 40..behind + 48)
        {
            operand.fill(0);
        }
        let length: u32 = request.sges.iter().map(|(_, length)| length).sum();
        if request.inline && length > 0 {
            let remote = matches!(request.verb, Verb::RdmaWrite | Verb::RdmaWriteWithImm);
            let start = (1 + route + usize::from(remote)) * 16;
            let end = start + 4 + length as usize;
            if let Some(padding) = same.bytes.get_mut(end..) {
                padding.fill(0);
            }
        }
        same
    }

    pub(super) fn new(line: &Line, numbers: &Numbers) -> Self {
        let mut bytes = unhex(&line.bytes);
        // The count of 16-byte units gives the length; the trace leaves out trailing zeros.
        let units = bytes.get(7).map_or(0, |count| usize::from(count & 0x3f));
        bytes.resize(units.max(1) * 16, 0);
        bytes[4..7].fill(0);
        if numbers.xrc && bytes[16..20] == numbers.srq.to_be_bytes() {
            bytes[16..20].copy_from_slice(b"srqn");
        }
        for unit in bytes[16..].chunks_exact_mut(16) {
            // An entry has the local key in its second word; the remote key, and the peer of a
            // datagram, are in the third.
            for (at, number, name) in [
                (4, numbers.lkey, b"lkey"),
                (8, numbers.rkey, b"rkey"),
                (8, numbers.peer | 1 << 31, b"peer"),
            ] {
                if unit[at..at + 4] == number.to_be_bytes() {
                    unit[at..at + 4].copy_from_slice(name);
                }
            }
        }
        Self {
            index: line.index,
            bytes,
        }
    }
}
