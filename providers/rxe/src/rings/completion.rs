//! Completions, which the kernel writes in the format of its poll command.

use uverbs_core::rings::Fields;
use uverbs_core::types::{WcFlags, WcOpcode, WcStatus};
use uverbs_uapi::ib_user_verbs::ib_uverbs_wc;

/// Decodes a completion.
pub(super) fn fields(entry: &ib_uverbs_wc) -> Fields {
    let mut fields = Fields::of(short(WcOpcode::from_raw(entry.opcode).c_name()));
    if fields.is_unknown() {
        fields.hex("opcode", entry.opcode);
    }
    fields.hex("wr_id", entry.wr_id);
    let status = WcStatus::from_raw(entry.status);
    fields.name("status", short(status.c_name()), entry.status);
    fields.hex_if_any("vendor_error", entry.vendor_err);
    fields.number("byte_count", entry.byte_len);
    let flags = WcFlags::from_bits_retain(entry.wc_flags);
    if flags.contains(WcFlags::WITH_IMM) {
        fields.hex("immediate", entry.ex.imm_data().get());
    }
    if flags.contains(WcFlags::WITH_INVALIDATE) {
        fields.key("invalidate", entry.ex.invalidate_rkey());
    }
    fields.hex("qpn", entry.qp_num);
    fields.hex("source_qpn", entry.src_qp);
    fields.flags("flags", entry.wc_flags, &FLAGS);
    fields.number("pkey_index", entry.pkey_index);
    fields.number("port", entry.port_num);
    fields
}

const FLAGS: [(u32, &str); 4] = [
    (WcFlags::GRH.bits(), "grh"),
    (WcFlags::WITH_IMM.bits(), "immediate"),
    (WcFlags::IP_CSUM_OK.bits(), "checksums_right"),
    (WcFlags::WITH_INVALIDATE.bits(), "invalidate"),
];

/// A name without the prefix that all of its kind have.
fn short(name: Option<&'static str>) -> Option<&'static str> {
    name.map(|name| name.strip_prefix("IBV_WC_").unwrap_or(name))
}
