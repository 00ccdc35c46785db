//! What stands in the rings, by name, for whoever watches them. Any bytes can be read: what makes
//! no sense is shown as it is.

mod completion;
mod receive;
mod send;

use std::ops::Range;

use uverbs_core::hw::SharedRing;
use uverbs_core::rings::{Fields, Watched};
use uverbs_uapi::ib_user_verbs::ib_uverbs_wc;
use uverbs_uapi::rdma_user_rxe::rxe_sge;
use zerocopy::{FromBytes, IntoBytes};

/// The longest request: a header, and inline data or pieces as rxe has at most
/// (`RXE_MAX_INLINE_DATA`, `RXE_MAX_SGE`).
const MOST: usize = 1024;

/// Tells of the send requests in these slots. The end of the range may be behind the end of the
/// ring.
#[cold]
pub(crate) fn sends(queue: &Watched, ring: &SharedRing, slots: Range<u32>, datagrams: bool) {
    each(ring, slots, |index, bytes| {
        queue.tell(index, bytes, |bytes| send::fields(bytes, datagrams));
    });
}

/// Tells of the receive requests in these slots.
#[cold]
pub(crate) fn receives(queue: &Watched, ring: &SharedRing, slots: Range<u32>) {
    each(ring, slots, |index, bytes| {
        queue.tell(index, bytes, receive::fields);
    });
}

/// Tells of a completion that was taken from slot `index`.
#[cold]
pub(crate) fn completion(queue: &Watched, index: u32, entry: &ib_uverbs_wc) {
    queue.tell(index, entry.as_bytes().to_vec(), |_| {
        completion::fields(entry)
    });
}

/// Goes around the ring from the first slot to the last.
fn each(ring: &SharedRing, slots: Range<u32>, mut tell: impl FnMut(u32, Vec<u8>)) {
    let Range { start, end } = slots;
    let mut index = start & ring.mask();
    while index != end & ring.mask() {
        tell(index, ring.bytes(index, MOST));
        index = ring.next(index);
    }
}

/// Adds so many pieces, as far as there are bytes of them.
fn pieces(fields: &mut Fields, mut bytes: &[u8], count: u32) {
    for _ in 0..count {
        let Ok((piece, rest)) = rxe_sge::read_from_prefix(bytes) else {
            return;
        };
        fields.number("length", piece.length);
        fields.key("lkey", piece.lkey);
        fields.hex("address", piece.addr);
        bytes = rest;
    }
}

#[cfg(test)]
mod tests;
