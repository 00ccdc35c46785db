//! Completions, which users of this crate read by methods.
#![allow(non_camel_case_types, reason = "the name of the header")]

use crate::{ibv_wc_flags, ibv_wc_opcode, ibv_wc_status};

/// `ibv_wc`—one completion, as `ibv_poll_cq` writes it.
///
/// If it failed, only its number, status, queue pair and vendor's error are valid.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ibv_wc {
    wr_id: u64,
    status: ibv_wc_status::Type,
    opcode: ibv_wc_opcode::Type,
    vendor_err: u32,
    byte_len: u32,
    /// Immediate data in network byte order, or the key that the peer invalidated: `wc_flags` says
    /// which.
    pub imm_data: u32,
    /// The number of the queue pair on this side.
    pub qp_num: u32,
    /// The number of the sender's queue pair: of messages that a UD queue pair received.
    pub src_qp: u32,
    /// What else is valid.
    pub wc_flags: ibv_wc_flags,
    /// The index of the partition key: of queue pair 1.
    pub pkey_index: u16,
    /// The sender's LID: of messages that a UD queue pair received.
    pub slid: u16,
    /// The service level: of messages that a UD queue pair received.
    pub sl: u8,
    /// The low bits of the LID that the message was sent to: of messages that a UD queue pair
    /// received.
    pub dlid_path_bits: u8,
}

impl ibv_wc {
    /// The number that the program gave the request.
    pub fn wr_id(&self) -> u64 {
        self.wr_id
    }

    /// Bytes that were received, or read from the peer. For a UD queue pair they include 40 for the
    /// global routing header.
    #[expect(
        clippy::len_without_is_empty,
        reason = "the name that users of this crate call"
    )]
    pub fn len(&self) -> usize {
        self.byte_len as usize
    }

    /// Whether the request succeeded.
    pub fn is_valid(&self) -> bool {
        self.status == ibv_wc_status::IBV_WC_SUCCESS
    }

    /// The status and the vendor's own number of an error, if there was one.
    pub fn error(&self) -> Option<(ibv_wc_status::Type, u32)> {
        (!self.is_valid()).then_some((self.status, self.vendor_err))
    }

    /// What the request was.
    pub fn opcode(&self) -> ibv_wc_opcode::Type {
        self.opcode
    }

    /// Immediate data, if the message carried any.
    pub fn imm_data(&self) -> Option<u32> {
        let carried = (self.wc_flags & ibv_wc_flags::IBV_WC_WITH_IMM).0 != 0;
        (self.is_valid() && carried).then_some(self.imm_data)
    }
}

/// A failed one, so that a place which was never polled into does not look like a success.
impl Default for ibv_wc {
    fn default() -> Self {
        Self {
            wr_id: 0,
            status: ibv_wc_status::IBV_WC_GENERAL_ERR,
            opcode: ibv_wc_opcode::IBV_WC_LOCAL_INV,
            vendor_err: 0,
            byte_len: 0,
            imm_data: 0,
            qp_num: 0,
            src_qp: 0,
            wc_flags: ibv_wc_flags(0),
            pkey_index: 0,
            slid: 0,
            sl: 0,
            dlid_path_bits: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_layout_is_that_of_the_library() {
        let known = uverbs_compat::layouts().find(|layout| layout.name == "ibv_wc");
        let known = known.expect("the library has this struct");
        assert_eq!(size_of::<ibv_wc>(), known.size);
        macro_rules! offsets {
            ($($field:ident)*) => {
                [$((stringify!($field), std::mem::offset_of!(ibv_wc, $field))),*]
            };
        }
        let ours = offsets! {
            wr_id status opcode vendor_err byte_len imm_data qp_num src_qp wc_flags pkey_index slid
            sl dlid_path_bits
        };
        assert_eq!(ours, *known.fields);
    }

    #[test]
    fn a_place_that_was_never_written_is_an_error() {
        let wc = ibv_wc::default();
        assert_eq!(wc.error(), Some((ibv_wc_status::IBV_WC_GENERAL_ERR, 0)));
        assert!(!wc.is_valid());
    }

    #[test]
    fn immediate_data_is_that_of_a_success_which_carries_some() {
        let mut wc = ibv_wc {
            status: ibv_wc_status::IBV_WC_SUCCESS,
            imm_data: 7,
            ..ibv_wc::default()
        };
        assert_eq!((wc.imm_data(), wc.error()), (None, None));
        wc.wc_flags = ibv_wc_flags::IBV_WC_WITH_IMM;
        assert_eq!(wc.imm_data(), Some(7));
        wc.status = ibv_wc_status::IBV_WC_WR_FLUSH_ERR;
        assert_eq!(wc.imm_data(), None);
    }
}
