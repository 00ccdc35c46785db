//! Requests that change a memory key: "UMR WQE" of the reference manual.

use uverbs_core::rings::Fields;

use super::reader::Reader;
use super::segments;

/// The segments after the control segment: control of the change, context of the key, translation.
pub(super) fn fields(fields: &mut Fields, reader: &mut Reader<'_>) -> Option<()> {
    change(fields, reader)?;
    context(fields, reader)?;
    while reader.left() != 0 {
        let length = reader.word()?;
        let mut ahead = *reader;
        if length == 0 && ahead.number(4) == Some(0) && ahead.long() == Some(0) {
            // A translation is padded to a block.
            *reader = ahead;
        } else {
            segments::sge(fields, reader, length)?;
        }
    }
    Some(())
}

/// `struct mlx5_wqe_umr_ctrl_seg`.
fn change(fields: &mut Fields, reader: &mut Reader<'_>) -> Option<()> {
    let flags = reader.byte()?.into();
    fields.flags("change", flags, &FLAGS);
    reader.take(3)?;
    fields.number("octowords", reader.half()?);
    fields.hex_if_any("offset", reader.half()?);
    fields.hex("mask", reader.long()?);
    reader.take(32).map(drop)
}

const FLAGS: [(u32, &str); 5] = [
    (1 << 7, "inline"),
    (1 << 6, "check_not_free"),
    (1 << 5, "check_free"),
    (1 << 4, "translation_offset"),
    (1 << 3, "check_qpn"),
];

/// `struct mlx5_mkey_seg`: the fields selected by the mask are changed.
fn context(fields: &mut Fields, reader: &mut Reader<'_>) -> Option<()> {
    fields.hex_if_any("status", reader.byte()?);
    reader.take(1)?;
    fields.flags("access", reader.byte()?.into(), &ACCESS);
    reader.take(1)?;
    let owner = reader.word()?;
    fields.hex("key_qpn", owner >> 8);
    fields.key("variant", owner & 0xff);
    reader.take(8)?;
    fields.hex("start", reader.long()?);
    fields.number("key_length", reader.long()?);
    reader.take(32).map(drop)
}

const ACCESS: [(u32, &str); 5] = [
    (1 << 2, "local_read"),
    (1 << 3, "local_write"),
    (1 << 4, "remote_read"),
    (1 << 5, "remote_write"),
    (1 << 6, "atomic"),
];
