//! Decodes the entries of the rings for observers. Accepts any bytes: what is invalid is shown raw.

mod completion;
mod receive;
mod send;

use std::ops::Range;

use uverbs_core::hw::SharedRing;
use uverbs_core::rings::{Fields, Watched};
use uverbs_uapi::ib_user_verbs::ib_uverbs_wc;
use uverbs_uapi::rdma_user_rxe::rxe_sge;
use zerocopy::{FromBytes, IntoBytes};

/// An upper bound for a request's size: a header, and rxe's maximum of inline data or
/// scatter/gather entries (`RXE_MAX_INLINE_DATA`, `RXE_MAX_SGE`).
const MAX_REQUEST: usize = 1024;

/// Reports the send requests in these slots. The end of the range may be past the end of the ring.
#[cold]
pub(crate) fn sends(queue: &Watched, ring: &SharedRing, slots: Range<u32>, datagrams: bool) {
    for_each_slot(ring, slots, |index, bytes| {
        queue.report(index, bytes, |bytes| send::fields(bytes, datagrams));
    });
}

/// Reports the receive requests in these slots.
#[cold]
pub(crate) fn receives(queue: &Watched, ring: &SharedRing, slots: Range<u32>) {
    for_each_slot(ring, slots, |index, bytes| {
        queue.report(index, bytes, receive::fields);
    });
}

/// Reports a completion that was taken from slot `index`.
#[cold]
pub(crate) fn completion(queue: &Watched, index: u32, entry: &ib_uverbs_wc) {
    queue.report(index, entry.as_bytes().to_vec(), |_| {
        completion::fields(entry)
    });
}

/// Calls `each` for every slot from the first to the last, with wrap-around.
fn for_each_slot(ring: &SharedRing, slots: Range<u32>, mut each: impl FnMut(u32, Vec<u8>)) {
    let Range { start, end } = slots;
    let mut index = start & ring.mask();
    while index != end & ring.mask() {
        each(index, ring.bytes(index, MAX_REQUEST));
        index = ring.next(index);
    }
}

/// Adds `count` scatter/gather entries, as far as `bytes` contains them.
fn add_sges(fields: &mut Fields, mut bytes: &[u8], count: u32) {
    for _ in 0..count {
        let Ok((sge, rest)) = rxe_sge::read_from_prefix(bytes) else {
            return;
        };
        fields.number("length", sge.length);
        fields.key("lkey", sge.lkey);
        fields.hex("address", sge.addr);
        bytes = rest;
    }
}

#[cfg(test)]
mod tests;
