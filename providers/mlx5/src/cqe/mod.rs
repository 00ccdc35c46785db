//! Completion entries: the format that the device writes, and its meaning (`struct mlx5_cqe64` and
//! `mlx5_err_cqe` of the kernel's `include/linux/mlx5/device.h`).
#![expect(
    clippy::cast_possible_truncation,
    reason = "fields are cut out of wider words"
)]

mod compressed;
pub(crate) mod ring;
mod shared;
#[cfg(test)]
mod tests;

use uverbs_core::contract::Success;
use uverbs_core::types::{RemoteKey, WcFlags, WcOpcode, WcStatus, WorkCompletion};

use uverbs_uapi::mlx5_abi::{
    MLX5_IB_CQE_RES_FORMAT_CSUM, MLX5_IB_CQE_RES_FORMAT_CSUM_STRIDX, MLX5_IB_CQE_RES_FORMAT_HASH,
};

use crate::sync::Block;
pub(crate) use shared::CqShared;

/// The opcode of an entry (`MLX5_CQE_*`).
pub(crate) mod opcode {
    pub(crate) const REQUEST: u32 = 0;
    pub(crate) const RECEIVE_WRITE_IMM: u32 = 1;
    pub(crate) const RECEIVE: u32 = 2;
    pub(crate) const RECEIVE_IMM: u32 = 3;
    pub(crate) const RECEIVE_INVALIDATE: u32 = 4;
    pub(crate) const RESIZE: u32 = 5;
    pub(crate) const SIGNATURE_ERROR: u32 = 12;
    pub(crate) const REQUEST_ERROR: u32 = 13;
    pub(crate) const RECEIVE_ERROR: u32 = 14;
    /// Not written yet.
    pub(crate) const INVALID: u32 = 15;
}

/// Bits 2 and 3 of the last byte: the format of the rest of the entry.
pub(crate) mod format {
    /// An ordinary entry.
    pub(crate) const PLAIN: u32 = 0;
    /// Its first 32 bytes are the message (`MLX5_INLINE_SCATTER_32`).
    pub(crate) const DATA_32: u32 = 1;
    /// The 64 bytes before it are the message (`MLX5_INLINE_SCATTER_64`): entries of 128 bytes.
    pub(crate) const DATA_64: u32 = 2;
    /// A compressed entry, which represents several.
    pub(crate) const COMPRESSED: u32 = 3;
}

/// `MLX5DV_CQE_RES_FORMAT_*`—the field that compressed completions of messages keep besides their
/// lengths.
///
/// Compressed completions of send requests lose nothing with any of them.
#[doc(alias = "mlx5dv_cqe_comp_res_format")]
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Results {
    /// The hash of the packet's fields.
    Hash,
    /// The checksum of the packet.
    Checksum,
    /// The checksum of the packet, and the number of its stride: for receive queues whose requests
    /// hold several packets (`MLX5DV_CQE_RES_FORMAT_CSUM_STRIDX`).
    ChecksumAndStride,
}

impl Results {
    /// The kernel's value.
    pub(crate) const fn format(self) -> u32 {
        match self {
            Self::Hash => MLX5_IB_CQE_RES_FORMAT_HASH,
            Self::Checksum => MLX5_IB_CQE_RES_FORMAT_CSUM,
            Self::ChecksumAndStride => MLX5_IB_CQE_RES_FORMAT_CSUM_STRIDX,
        }
    }
}

/// The last word of an entry, which shows whether the entry has been written: in host order, queue
/// pair (with the request's opcode) << 32 | request counter << 16 | signature << 8 | opcode and
/// owner.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tail(pub(crate) u64);

impl Tail {
    #[inline]
    pub(crate) const fn opcode(self) -> u32 {
        (self.0 >> 4 & 0xf) as u32
    }

    #[inline]
    pub(crate) const fn format(self) -> u32 {
        (self.0 >> 2 & 3) as u32
    }

    #[inline]
    pub(crate) const fn counter(self) -> u16 {
        (self.0 >> 16) as u16
    }

    #[inline]
    pub(crate) const fn qpn(self) -> u32 {
        (self.0 >> 32) as u32 & 0xff_ffff
    }

    /// Whether it is the completion of a receive request.
    pub(crate) const fn is_receive(self) -> bool {
        matches!(
            self.opcode(),
            opcode::RECEIVE_WRITE_IMM
                | opcode::RECEIVE
                | opcode::RECEIVE_IMM
                | opcode::RECEIVE_INVALIDATE
                | opcode::RECEIVE_ERROR
        )
    }
}

/// A completed request.
pub(crate) const SENT: WorkCompletion = WorkCompletion {
    wr_id: 0,
    status: WcStatus::Success,
    opcode: WcOpcode::Send,
    vendor_err: 0,
    byte_len: 0,
    imm: None,
    invalidated: None,
    qp_num: 0,
    src_qp: 0,
    flags: WcFlags::empty(),
    pkey_index: 0,
    slid: 0,
    sl: 0,
    dlid_path_bits: 0,
};

/// The syndrome of a receive of a shared queue that met a page fault, and the vendor syndrome
/// beside it (`MLX5_CQE_SYNDROME_REMOTE_ABORTED_ERR`, `MLX5_CQE_VENDOR_SYNDROME_ODP_PFAULT`).
const PAGE_FAULT: u64 = 0x9322;

/// The value of an entry's checksum bits if both checksums were found correct.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Checksums(u32);

impl Checksums {
    /// The bits for layer 3, for layer 4, and for the kind of packet.
    const BITS: u32 = 0x06 << 24 | 3 << 18;

    /// The number that stands for it.
    #[inline]
    pub(crate) const fn raw(self) -> u32 {
        self.0
    }

    /// That which a number stands for.
    pub(crate) const fn of(raw: u32) -> Self {
        Self(raw)
    }

    /// The bits have no meaning: the queue's packets are InfiniBand packets, or have no checksums.
    pub(crate) const MEANINGLESS: Self = Self(u32::MAX);
    /// Both are correct, and the packet is IPv4: libmlx5's rule.
    pub(crate) const CHECKED: Self = Self(0x06 << 24 | 2 << 18);

    /// `headers` are bytes 28 to 31.
    #[inline]
    const fn are_right(self, headers: u32) -> bool {
        headers & Self::BITS == self.0
    }
}

/// A wrong signature, as the device reports it of a key.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct KeyReport {
    /// Which part of it is wrong.
    pub(crate) syndrome: u16,
    /// 0: of a block.
    pub(crate) of: u8,
    /// 0: on the wire; 1: in memory.
    pub(crate) side: u8,
    /// The whole signature that came, and the one that was computed.
    pub(crate) expected: u64,
    pub(crate) actual: u64,
    /// Where its block begins.
    pub(crate) offset: u64,
}

/// The bits of the number of a queue.
const OWNER: u32 = 0xff_ffff;

/// A user index that no entry carries.
pub(crate) const NO_INDEX: u32 = u32::MAX;

/// The first 4 bytes of a word, in memory order.
#[inline]
const fn first_half(word: u64) -> u32 {
    let [a, b, c, d, ..] = word.to_ne_bytes();
    u32::from_ne_bytes([a, b, c, d])
}

/// An entry that the device has written. No field of it is read twice.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry<'r> {
    block: Block<'r>,
    pub(crate) tail: Tail,
    /// The number that the queue was created with, in memory order, with unrelated bits above it.
    owner: u32,
}

impl<'r> Entry<'r> {
    /// The entry in `block`, whose last word has already been read.
    #[inline]
    pub(crate) fn new(block: Block<'r>, tail: Tail) -> Self {
        Self {
            block,
            tail,
            owner: first_half(block.word(4)),
        }
    }

    /// The number that the queue was created with.
    #[inline]
    pub(crate) const fn user_index(&self) -> u32 {
        u32::from_be(self.owner) & OWNER
    }

    /// The same as the entry carries it; never [`NO_INDEX`].
    #[inline]
    pub(crate) const fn raw_index(&self) -> u32 {
        self.owner & OWNER.to_be()
    }

    /// Bytes 44 to 47.
    #[inline]
    pub(crate) fn byte_count(&self) -> u32 {
        byte_count(self.counts())
    }

    /// Bytes 40 to 47, in memory order.
    #[inline]
    pub(crate) fn counts(&self) -> u64 {
        self.block.word(5)
    }

    /// The words that describe a message.
    #[inline]
    pub(crate) fn message(&self) -> Message {
        Message {
            path: self.block.word(2),
            headers: self.block.word(3),
            immediate: self.block.word(4),
            counts: self.counts(),
        }
    }

    /// The results of a received message. `kind` is one of the receive opcodes.
    #[expect(
        clippy::inline_always,
        reason = "a completion is built where its user wants it"
    )]
    #[inline(always)]
    pub(crate) fn received(
        &self,
        kind: u32,
        wr_id: u64,
        qp_num: u32,
        checksums: Checksums,
    ) -> WorkCompletion {
        self.message().received(kind, wr_id, qp_num, checksums)
    }

    /// The results of a message whose bytes are where an entry otherwise has the packet's path,
    /// which connected queue pairs know anyway.
    #[cold]
    pub(crate) fn received_over_path(&self, kind: u32, wr_id: u64, qp_num: u32) -> WorkCompletion {
        let done = self.received(kind, wr_id, qp_num, Checksums::MEANINGLESS);
        WorkCompletion {
            src_qp: 0,
            slid: 0,
            sl: 0,
            dlid_path_bits: 0,
            flags: done.flags.difference(WcFlags::GRH),
            ..done
        }
    }

    /// Bytes 48 to 55: the syndrome is the last one, the vendor's syndrome is before it.
    fn syndromes(&self) -> u64 {
        u64::from_be(self.block.word(6))
    }

    /// The key that an entry is about, and what it reports (`struct mlx5_sigerr_cqe` of rdma-core's
    /// `providers/mlx5/cq.c`).
    #[cold]
    pub(crate) fn key_report(&self) -> (u32, KeyReport) {
        let word = |at| u64::from_be(self.block.word(at));
        let (high, low, about) = (word(2), word(3), word(4));
        let report = KeyReport {
            syndrome: (about >> 48) as u16,
            of: (about >> 40) as u8 & 7,
            side: (about >> 32) as u8 & 7,
            expected: high & !0xffff_ffff | low >> 32,
            actual: high << 32 | low & 0xffff_ffff,
            offset: word(5),
        };
        (about as u32, report)
    }

    /// Whether a failed receive met a page fault.
    #[cold]
    pub(crate) fn is_page_fault(&self) -> bool {
        self.syndromes() & 0xffff == PAGE_FAULT
    }

    /// The error.
    #[cold]
    pub(crate) fn failed(&self, wr_id: u64, opcode: WcOpcode, qp_num: u32) -> WorkCompletion {
        let syndromes = self.syndromes();
        WorkCompletion {
            wr_id,
            status: status((syndromes & 0xff) as u8),
            vendor_err: (syndromes >> 8 & 0xff) as u32,
            opcode,
            qp_num,
            ..WorkCompletion::default()
        }
    }
}

/// Bytes 44 to 47 of an entry: how many bytes arrived.
#[inline]
pub(crate) const fn byte_count(counts: u64) -> u32 {
    u64::from_be(counts) as u32
}

/// How many bytes a completed request brought; 0 for those that bring none.
#[inline]
pub(crate) const fn sent_bytes(opcode: WcOpcode, counts: u64) -> u32 {
    match opcode {
        WcOpcode::RdmaRead => byte_count(counts),
        WcOpcode::CompareSwap | WcOpcode::FetchAdd => 8,
        _ => 0,
    }
}

/// The words of an entry that describe a received message, in memory order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message {
    /// Bytes 16 to 23.
    path: u64,
    /// Bytes 24 to 31.
    headers: u64,
    /// Bytes 32 to 39.
    immediate: u64,
    /// Bytes 40 to 47.
    counts: u64,
}

impl Message {
    /// The words, to be kept.
    #[inline]
    pub(crate) const fn words(&self) -> [u64; 4] {
        [self.path, self.headers, self.immediate, self.counts]
    }

    /// From the words.
    pub(crate) const fn of([path, headers, immediate, counts]: [u64; 4]) -> Self {
        Self {
            path,
            headers,
            immediate,
            counts,
        }
    }

    /// Its length.
    #[inline]
    pub(crate) const fn byte_count(&self) -> u32 {
        byte_count(self.counts)
    }

    /// Bytes 36 to 39.
    #[inline]
    const fn immediate(&self) -> u32 {
        u64::from_be(self.immediate) as u32
    }

    /// The completion of the message. `kind` is one of the receive opcodes.
    #[expect(
        clippy::inline_always,
        reason = "a completion is built where its user wants it"
    )]
    #[inline(always)]
    pub(crate) fn received(
        &self,
        kind: u32,
        wr_id: u64,
        qp_num: u32,
        checksums: Checksums,
    ) -> WorkCompletion {
        let mut done = WorkCompletion::from(self.arrived(wr_id, qp_num, checksums));
        match kind {
            opcode::RECEIVE => return done,
            opcode::RECEIVE_INVALIDATE => {
                done.invalidated = Some(RemoteKey::from_raw(self.immediate()));
                done.flags |= WcFlags::WITH_INVALIDATE;
            }
            kind => {
                done.imm = Some(self.immediate());
                done.flags |= WcFlags::WITH_IMM;
                if kind == opcode::RECEIVE_WRITE_IMM {
                    done.opcode = WcOpcode::RecvRdmaWithImm;
                }
            }
        }
        done.pkey_index = 0;
        done
    }

    /// The same for a message without an immediate value.
    #[expect(
        clippy::inline_always,
        reason = "a completion is built where its user wants it"
    )]
    #[inline(always)]
    pub(crate) fn arrived(&self, wr_id: u64, qp_num: u32, checksums: Checksums) -> Success {
        let path = u64::from_be(self.path);
        let headers = u64::from_be(self.headers);
        let from = (headers >> 32) as u32;
        let mut flags = WcFlags::empty();
        flags.set(WcFlags::GRH, from >> 28 & 3 != 0);
        flags.set(WcFlags::IP_CSUM_OK, checksums.are_right(headers as u32));
        Success {
            wr_id,
            opcode: WcOpcode::Recv.raw(),
            byte_len: self.byte_count(),
            qp_num,
            src_qp: from & 0xff_ffff,
            flags,
            pkey_index: self.immediate() as u16,
            // Bytes 22 and 23, and 17.
            slid: path as u16,
            sl: (from >> 24 & 0xf) as u8,
            dlid_path_bits: (path >> 48) as u8 & 0x7f,
        }
    }
}

/// The status for a syndrome (`MLX5_CQE_SYNDROME_*`).
pub(crate) const fn status(syndrome: u8) -> WcStatus {
    match syndrome {
        0x01 => WcStatus::LocalLength,
        0x02 => WcStatus::LocalQpOperation,
        0x04 => WcStatus::LocalProtection,
        0x05 => WcStatus::Flushed,
        0x06 => WcStatus::MwBind,
        0x10 => WcStatus::BadResponse,
        0x11 => WcStatus::LocalAccess,
        0x12 => WcStatus::RemoteInvalidRequest,
        0x13 => WcStatus::RemoteAccess,
        0x14 => WcStatus::RemoteOperation,
        0x15 => WcStatus::RetryExceeded,
        0x16 => WcStatus::RnrRetryExceeded,
        0x22 => WcStatus::RemoteAborted,
        _ => WcStatus::General,
    }
}
