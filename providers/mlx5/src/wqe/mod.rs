//! The segments of work requests, as 16-byte units in memory order.
//!
//! Pure functions: numbers in, words out. The rings determine the order of segments. Layouts:
//! Programmer's Reference Manual, "Work Request (WQE) Formats"; the kernel's
//! `include/linux/mlx5/qp.h`.

pub(crate) mod encryption;
pub(crate) mod inline;
pub(crate) mod layout;
pub(crate) mod operations;
mod place;
pub(crate) mod request;
pub(crate) mod signature;
pub(crate) mod sizes;
pub(crate) mod umr;

pub use place::Place;
use uverbs_core::types::{LocalKey, Remote, SendFlags, Sge};

/// The unit in which the size of work requests is counted: 16 bytes, as two words in memory order.
pub type Unit = [u64; 2];

/// Bytes of a [`Unit`].
pub(crate) const UNIT: u32 = 16;

/// Units of the block in which the size of send queues is counted.
pub(crate) const BLOCK_UNITS: u32 = 4;

/// The maximum number of units of a send request: the size field has 6 bits.
pub(crate) const MAX_UNITS: u32 = 63;

/// Opcodes of send requests.
pub(crate) mod opcode {
    pub(crate) const SEND_INVALIDATE: u32 = 0x01;
    pub(crate) const WRITE: u32 = 0x08;
    pub(crate) const WRITE_IMM: u32 = 0x09;
    pub(crate) const SEND: u32 = 0x0a;
    pub(crate) const SEND_IMM: u32 = 0x0b;
    pub(crate) const TSO: u32 = 0x0e;
    pub(crate) const READ: u32 = 0x10;
    pub(crate) const COMPARE_SWAP: u32 = 0x11;
    pub(crate) const FETCH_ADD: u32 = 0x12;
    /// An extended operation on 8 bytes: modifier 8, and log₂ of the bytes less 2.
    const EXTENDED: u32 = (8 | (3 - 2)) << 24;
    pub(crate) const MASKED_COMPARE_SWAP: u32 = EXTENDED | 0x14;
    pub(crate) const NOP: u32 = 0x00;
    pub(crate) const MASKED_FETCH_ADD: u32 = EXTENDED | 0x15;
    pub(crate) const SET_PSV: u32 = 0x20;
    pub(crate) const UMR: u32 = 0x25;
    /// A memory-to-memory operation: modifier 1, a copy.
    pub(crate) const COPY: u32 = 1 << 24 | 0x2f;
}

/// Flags of the control segment.
pub(crate) mod control {
    use uverbs_core::types::SendFlags;

    /// Requests a completion on success, too.
    pub(crate) const SIGNALED: u32 = 1 << 3;
    /// The receiver's completion is solicited.
    pub(crate) const SOLICITED: u32 = 1 << 1;
    /// Wait until all reads and atomics before the request are done.
    pub(crate) const FENCE: u32 = 4 << 5;
    /// Wait until the memory key changes before the request are done.
    pub(crate) const SMALL_FENCE: u32 = 1 << 5;

    /// The flags of a request: with a full fence, which includes a small one, and `always`;
    /// otherwise with `usual`.
    #[inline]
    pub(crate) const fn flags(requested: SendFlags, usual: u32, always: u32) -> u32 {
        let flags = TABLE[(requested.bits() & 7) as usize];
        flags | if flags & FENCE == 0 { usual } else { always }
    }

    /// The same of a request of which nothing else is required, as the last word of a control
    /// segment.
    #[inline]
    pub(crate) const fn word(requested: SendFlags) -> u64 {
        WORDS[(requested.bits() & 7) as usize]
    }

    const WORDS: [u64; 8] = {
        let mut words = [0; 8];
        let mut at = 0;
        while at < words.len() {
            words[at] = super::control_tail(TABLE[at], 0);
            at += 1;
        }
        words
    };

    /// Indexed by fence (1), signaled (2) and solicited (4).
    const TABLE: [u32; 8] = {
        let both = SIGNALED | SOLICITED;
        let (one, other) = (SIGNALED | FENCE, SOLICITED | FENCE);
        [
            0,
            FENCE,
            SIGNALED,
            one,
            SOLICITED,
            other,
            both,
            both | FENCE,
        ]
    };
}

/// The key that ends a list of receive segments.
const INVALID_LKEY: u32 = 0x100;

/// Two big-endian words in memory order.
#[inline]
pub(crate) const fn words(high: u32, low: u32) -> u64 {
    ((high as u64) << 32 | low as u64).to_be()
}

/// The number of a queue pair, as encoded in the control segment.
pub(crate) const fn queue_word(qpn: u32) -> u64 {
    (qpn << 8) as u64
}

/// The first 8 bytes of the control segment, which are also the doorbell. `queue` is a
/// [`queue_word`]. The highest byte of `opcode` modifies it.
#[inline]
pub(crate) const fn control_head(opcode: u32, index: u32, queue: u64, units: u32) -> u64 {
    control_head_of(control_known(opcode, units), index, queue)
}

/// The part of it that does not depend on the queue, in host order.
#[inline]
pub(crate) const fn control_known(opcode: u32, units: u32) -> u64 {
    (opcode as u64) << 32 | units as u64
}

/// The whole with that part.
#[inline]
pub(crate) const fn control_head_of(known: u64, index: u32, queue: u64) -> u64 {
    (((index & 0xffff) as u64) << 40 | queue | known).to_be()
}

/// The opcode in the first 8 bytes of a control segment, without what qualifies it.
pub(crate) const fn control_opcode(head: u64) -> u32 {
    (head.to_be() >> 32) as u32 & 0xff
}

/// The number of its first block, modulo 2¹⁶.
pub(crate) const fn control_index(head: u64) -> u32 {
    (head.to_be() >> 40) as u32 & 0xffff
}

/// How many units it says.
pub(crate) const fn control_units(head: u64) -> u32 {
    (head.to_be() & 0x3f) as u32
}

/// The same with another opcode, which nothing qualifies.
pub(crate) const fn with_opcode(head: u64, opcode: u32) -> u64 {
    (head.to_be() & 0x00ff_ff00_ffff_ffff | (opcode as u64) << 32).to_be()
}

/// The number of a stream, next to the flags of the control segment.
#[inline]
pub(crate) const fn stream_bits(stream: u16) -> u32 {
    (stream as u32) << 8
}

/// The last 8 bytes of the control segment: flags of [`control`] with [`stream_bits`], and the
/// immediate value, the key to invalidate or the key to change.
#[inline]
pub(crate) const fn control_tail(flags: u32, immediate: u32) -> u64 {
    words(flags, immediate)
}

/// The same for a request of which nothing is required but its flags.
#[inline]
pub(crate) const fn usual_tail(flags: SendFlags, immediate: u32) -> u64 {
    control::word(flags) | (immediate as u64).to_be()
}

/// An address in the peer's memory.
#[inline]
pub(crate) const fn remote(remote: Remote) -> Unit {
    remote_of(remote.address, remote.key.raw())
}

/// The same by its numbers.
#[inline]
pub(crate) const fn remote_of(address: u64, key: u32) -> Unit {
    [address.to_be(), words(key, 0)]
}

/// The operands of an atomic operation on 8 bytes.
#[inline]
pub(crate) const fn atomic(swap_or_add: u64, compare: u64) -> Unit {
    [swap_or_add.to_be(), compare.to_be()]
}

/// The operands of a masked compare and swap: values, then masks.
#[inline]
pub(crate) const fn masked_compare_swap(
    swap: u64,
    compare: u64,
    swap_mask: u64,
    compare_mask: u64,
) -> [Unit; 2] {
    [
        atomic(swap, compare),
        [swap_mask.to_be(), compare_mask.to_be()],
    ]
}

/// The operands of a masked fetch and add. A set bit of `boundary` stops the carry out of it.
#[inline]
pub(crate) const fn masked_fetch_add(add: u64, boundary: u64) -> Unit {
    [add.to_be(), boundary.to_be()]
}

/// A scatter/gather entry.
#[inline]
pub(crate) const fn data(sge: &Sge) -> Unit {
    [words(sge.length, sge.key.raw()), sge.address.to_be()]
}

/// Where a memory-to-memory operation writes what it has to say.
pub(crate) const fn scratch(key: LocalKey, address: u64) -> Unit {
    [words(0, key.raw()), address.to_be()]
}

/// The end mark of a receive request with fewer scatter/gather entries than it could have.
pub(crate) const END: Unit = [words(0, INVALID_LKEY), 0];

/// The first 4 bytes of inline data: its length.
#[inline]
pub(crate) const fn inline_head(length: u32) -> u32 {
    (1 << 31 | length).to_be()
}

/// The shared receive queue that an extended reliable connection sends to.
#[inline]
pub(crate) const fn xrc(srq: u32) -> Unit {
    [words(srq, 0), 0]
}

/// The link of a shared receive queue's entry: the index of the next one.
#[inline]
pub(crate) const fn srq_next(index: u32) -> Unit {
    [words(index & 0xffff, 0), 0]
}

/// The long form of an address vector is used.
const EXTENDED_AV: u32 = 1 << 31;

/// A datagram's destination: the 48 bytes that the address handle holds in `vector`, with `key`
/// (the queue key and 4 zero bytes, or a DC access key) and the number filled in.
#[inline]
pub(crate) fn datagram(vector: &[u8; 88], key: u64, qpn: u32) -> [Unit; 3] {
    let (eights, _) = vector.as_chunks::<8>();
    let [_, start, rest @ ..] = eights else {
        return [[0; 2]; 3]; // A vector has 11 words.
    };
    let [second, third, ..] = rest.as_chunks::<2>().0 else {
        return [[0; 2]; 3];
    };
    let number = u64::from(qpn | EXTENDED_AV) << 32;
    let path = u64::from_be_bytes(*start) & 0xffff_ffff;
    [
        [key.to_be(), (number | path).to_be()],
        second.map(u64::from_ne_bytes),
        third.map(u64::from_ne_bytes),
    ]
}

/// The key of a UD destination in the form that [`datagram`] takes.
#[inline]
pub(crate) const fn ud_key(qkey: u32) -> u64 {
    (qkey as u64) << 32
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use uverbs_core::types::{LocalKey, RemoteKey};

    use super::*;

    fn bytes(units: &[Unit]) -> Vec<u8> {
        units
            .iter()
            .flatten()
            .flat_map(|word| word.to_ne_bytes())
            .collect()
    }

    fn hex(text: &str) -> Vec<u8> {
        let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
        digits
            .chunks(2)
            .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
            .collect()
    }

    #[test]
    fn control() {
        let head = control_head(opcode::WRITE, 0x1_2345, queue_word(0x00ab_cdef), 3);
        let tail = control_tail(control::SIGNALED | control::FENCE, 0xfeed_beef);
        assert_eq!(
            bytes(&[[head, tail]]),
            hex("00 2345 08  abcdef 03  00 00 00 88  feedbeef")
        );
        let tail = control_tail(control::SOLICITED | control::SMALL_FENCE, 0);
        assert_eq!(tail.to_ne_bytes().to_vec(), hex("00000022 00000000"));
    }

    #[test]
    fn remote_and_atomic() {
        let to = Remote {
            address: 0x1122_3344_5566_7788,
            key: RemoteKey::from_raw(0x99aa_bbcc),
        };
        assert_eq!(
            bytes(&[remote(to)]),
            hex("1122334455667788 99aabbcc 00000000")
        );
        assert_eq!(
            bytes(&[atomic(1, 0x0203)]),
            hex("0000000000000001 0000000000000203")
        );
        assert_eq!(
            bytes(&masked_compare_swap(1, 2, 3, 4)),
            hex("0000000000000001 0000000000000002 0000000000000003 0000000000000004")
        );
        assert_eq!(
            bytes(&[masked_fetch_add(5, 1 << 63)]),
            hex("0000000000000005 8000000000000000")
        );
    }

    #[test]
    fn data_and_ends() {
        let sge = Sge {
            address: 0xdead_beef_0000_1000,
            length: 0x40,
            key: LocalKey::from_raw(0x1234),
        };
        assert_eq!(
            bytes(&[data(&sge), END]),
            hex("00000040 00001234 deadbeef00001000  00000000 00000100 0000000000000000")
        );
        assert_eq!(inline_head(32).to_ne_bytes().to_vec(), hex("80000020"));
        assert_eq!(
            bytes(&[xrc(0x12_3456)]),
            hex("00123456 000000000000000000000000")
        );
        assert_eq!(
            bytes(&[srq_next(0x1_0203)]),
            hex("0000 0203 000000000000000000000000")
        );
    }

    #[test]
    fn a_datagram_keeps_its_path_and_gets_its_number() {
        let mut vector = [0; 88];
        for (byte, at) in vector.iter_mut().zip(0..) {
            *byte = at;
        }
        let expected = hex("11111111 00000000 80654321 0c0d0e0f
            101112131415161718191a1b1c1d1e1f 202122232425262728292a2b2c2d2e2f");
        assert_eq!(
            bytes(&datagram(&vector, ud_key(0x1111_1111), 0x65_4321)),
            expected
        );
        let dc = datagram(&vector, 0x0102_0304_0506_0708, 1);
        assert_eq!(bytes(&dc)[..8], hex("0102030405060708"));
    }
}
