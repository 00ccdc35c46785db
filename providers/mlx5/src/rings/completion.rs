//! Completion entries (`struct mlx5_cqe64` and `mlx5_err_cqe` of the kernel's
//! `include/linux/mlx5/device.h`, `mlx5_ifc_cqe_error_syndrome_bits` of `mlx5_ifc.h`).

use uverbs_core::rings::Fields;

use super::reader::Reader;
use super::send;
use crate::cqe::{format, opcode};

/// Bytes of the part of an entry that is not a message.
pub(super) const ENTRY: usize = 64;
/// Bytes of one element of an array of compressed completions.
pub(super) const MINI: usize = 8;

/// Decodes an entry. `entry` is its 64 bytes, `message` the 64 bytes before it, where it has them,
/// and `minis` the elements of a compressed entry's array.
pub(super) fn fields(message: &[u8], entry: &[u8; ENTRY], minis: &[[u8; MINI]]) -> Fields {
    let [.., last] = *entry;
    let (kind, layout) = (u32::from(last >> 4), u32::from(last >> 2 & 3));
    let mut fields = Fields::of(name(kind));
    if name(kind).is_none() {
        fields.hex("opcode", kind);
    }
    let words = Words(entry);
    match kind {
        _ if layout == format::COMPRESSED => title(&mut fields, words, minis),
        opcode::REQUEST => request(&mut fields, words),
        opcode::RECEIVE_WRITE_IMM..=opcode::RECEIVE_INVALIDATE => {
            received(&mut fields, words, kind, layout);
            data(&mut fields, words, message, layout);
        }
        opcode::REQUEST_ERROR | opcode::RECEIVE_ERROR => failed(&mut fields, words, kind),
        opcode::RESIZE => {}
        _ => fields.rest(entry),
    }
    tail(&mut fields, words);
    fields
}

const fn name(kind: u32) -> Option<&'static str> {
    Some(match kind {
        opcode::REQUEST => "REQ",
        opcode::RECEIVE_WRITE_IMM => "RESP_WR_IMM",
        opcode::RECEIVE => "RESP_SEND",
        opcode::RECEIVE_IMM => "RESP_SEND_IMM",
        opcode::RECEIVE_INVALIDATE => "RESP_SEND_INV",
        opcode::RESIZE => "RESIZE_CQ",
        opcode::SIGNATURE_ERROR => "SIG_ERR",
        opcode::REQUEST_ERROR => "REQ_ERR",
        opcode::RECEIVE_ERROR => "RESP_ERR",
        opcode::INVALID => "INVALID",
        _ => return None,
    })
}

/// Numbers at their offsets in an entry.
#[derive(Clone, Copy)]
struct Words<'b>(&'b [u8; ENTRY]);

impl Words<'_> {
    /// The big-endian number of `bytes` bytes at byte `at`.
    fn number(self, at: usize, bytes: usize) -> u64 {
        let mut reader = Reader::new(self.0.get(at..).unwrap_or_default());
        reader.number(bytes).unwrap_or_default()
    }
}

/// The fields at the end of all entries.
fn tail(fields: &mut Fields, words: Words<'_>) {
    fields.hex("qpn", words.number(57, 3));
    fields.number("counter", words.number(60, 2));
    fields.hex("user_index", words.number(33, 3));
    fields.hex("signature", words.number(62, 1));
    let last = words.number(63, 1);
    fields.hex_if_any("solicited", last >> 1 & 1);
    fields.number("owner", last & 1);
}

/// A successful request.
fn request(fields: &mut Fields, words: Words<'_>) {
    operation(fields, words);
    fields.number("byte_count", words.number(44, 4));
    fields.hex("timestamp", words.number(48, 8));
}

/// The opcode of the request.
fn operation(fields: &mut Fields, words: Words<'_>) {
    let raw = words.number(56, 1);
    let name = u32::try_from(raw).ok().and_then(send::name);
    fields.name("request", name, raw);
}

/// A received message.
fn received(fields: &mut Fields, words: Words<'_>, kind: u32, layout: u32) {
    fields.number("byte_count", words.number(44, 4));
    match kind {
        opcode::RECEIVE => fields.number("pkey_index", words.number(38, 2)),
        opcode::RECEIVE_INVALIDATE => fields.key("invalidate", words.number(36, 4)),
        _ => fields.hex("immediate", words.number(36, 4)),
    }
    // With a message in its place there is no path.
    if layout != format::DATA_32 {
        path(fields, words);
    }
    fields.hex("timestamp", words.number(48, 8));
}

/// The path of the message, and what was found in its headers.
fn path(fields: &mut Fields, words: Words<'_>) {
    fields.hex_if_any("hash", words.number(12, 4));
    fields.hex_if_any("hash_type", words.number(16, 1));
    fields.hex_if_any("path_bits", words.number(17, 1));
    fields.hex_if_any("checksum", words.number(20, 2));
    fields.hex_if_any("slid", words.number(22, 2));
    let from = words.number(24, 4);
    fields.hex("source_qpn", from & 0xff_ffff);
    fields.hex_if_any("sl", from >> 24 & 0xf);
    fields.hex_if_any("route", from >> 28 & 3);
    fields.hex_if_any("checked", words.number(28, 1));
    fields.hex_if_any("headers", words.number(29, 1));
    fields.hex_if_any("vlan", words.number(30, 2));
}

/// The message, if the entry contains it.
fn data(fields: &mut Fields, words: Words<'_>, message: &[u8], layout: u32) {
    let bytes = match layout {
        format::DATA_32 => words.0.get(..32).unwrap_or_default(),
        format::DATA_64 => message,
        _ => return,
    };
    let count = usize::try_from(words.number(44, 4)).unwrap_or(usize::MAX);
    fields.bytes("data", bytes.get(..count).unwrap_or(bytes));
}

/// An error.
fn failed(fields: &mut Fields, words: Words<'_>, kind: u32) {
    let raw = words.number(55, 1);
    fields.name("syndrome", syndrome(raw), raw);
    fields.hex("vendor_syndrome", words.number(54, 1));
    fields.hex("hardware_syndrome", words.number(52, 1));
    fields.hex("hardware_syndrome_type", words.number(53, 1) >> 4);
    if kind == opcode::REQUEST_ERROR {
        operation(fields, words);
    }
}

/// `MLX5_CQE_SYNDROME_*`, without the final `ERR`.
pub(super) const fn syndrome(raw: u64) -> Option<&'static str> {
    Some(match raw {
        0x01 => "LOCAL_LENGTH",
        0x02 => "LOCAL_QP_OP",
        0x04 => "LOCAL_PROT",
        0x05 => "WR_FLUSH",
        0x06 => "MW_BIND",
        0x10 => "BAD_RESP",
        0x11 => "LOCAL_ACCESS",
        0x12 => "REMOTE_INVAL_REQ",
        0x13 => "REMOTE_ACCESS",
        0x14 => "REMOTE_OP",
        0x15 => "TRANSPORT_RETRY_EXC",
        0x16 => "RNR_RETRY_EXC",
        0x22 => "REMOTE_ABORTED",
        _ => return None,
    })
}

/// A compressed entry: how many completions, and the words of each.
fn title(fields: &mut Fields, words: Words<'_>, minis: &[[u8; MINI]]) {
    fields.number("stands_for", words.number(44, 4));
    fields.hex("timestamp", words.number(48, 8));
    for mini in minis {
        fields.bytes("mini", mini);
    }
}
