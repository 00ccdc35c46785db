//! Valid requests and completions, and arbitrary bytes.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;

use proptest::prelude::*;
use uverbs_core::rings::{Collector, Entry, QueueKind, Watch};
use uverbs_uapi::byte_order::__be32;
use uverbs_uapi::ib_user_verbs::{
    IB_UVERBS_WR_ATOMIC_CMP_AND_SWP, IB_UVERBS_WR_RDMA_WRITE, IB_UVERBS_WR_SEND,
    IB_UVERBS_WR_SEND_WITH_IMM,
};
use uverbs_uapi::rdma_user_rxe::{
    rxe_dma_info, rxe_recv_wqe, rxe_send_wqe, rxe_send_wr, rxe_send_wr_atomic, rxe_send_wr_ex,
    rxe_send_wr_rdma, rxe_send_wr_ud, rxe_send_wr_wr,
};

use super::*;

/// The line of an entry, keys included, without the queue's name in front.
fn line(fields: Fields) -> String {
    let collector = Arc::new(Collector::new());
    let watch = Arc::new(Watch::new(collector.clone()));
    watch
        .queue(QueueKind::Send, 0)
        .report(0, Vec::new(), |_| fields);
    let [entry]: [Entry; 1] = collector.take().try_into().unwrap();
    let line = entry.with_keys().to_string();
    line.strip_prefix("sq 0x0[0] ").unwrap().to_owned()
}

const SGE: rxe_sge = rxe_sge {
    addr: 0x7f00_0000_2000,
    length: 64,
    lkey: 0x5678,
};
const SGE_LINE: &str = "length=64 lkey=0x5678 address=0x7f0000002000";

fn dma(length: u32, num_sge: u32) -> rxe_dma_info {
    rxe_dma_info {
        length,
        num_sge,
        ..rxe_dma_info::default()
    }
}

fn request(wr: rxe_send_wr, dma: rxe_dma_info, rest: &[u8], datagrams: bool) -> String {
    let request = rxe_send_wqe {
        wr,
        dma,
        ..rxe_send_wqe::default()
    };
    line(send::fields(
        &[request.as_bytes(), rest].concat(),
        datagrams,
    ))
}

fn wr(opcode: u32, send_flags: u32, wr: impl Into<rxe_send_wr_wr>) -> rxe_send_wr {
    rxe_send_wr {
        wr_id: 0x99,
        opcode,
        send_flags,
        wr: wr.into(),
        ..rxe_send_wr::default()
    }
}

#[test]
fn requests_are_read_by_their_operation() {
    let rdma = rxe_send_wr_rdma {
        remote_addr: 0x1000,
        rkey: 0x1234,
        reserved: 0,
    };
    assert_eq!(
        request(
            wr(IB_UVERBS_WR_RDMA_WRITE, 3, rdma),
            dma(64, 1),
            SGE.as_bytes(),
            false
        ),
        format!(
            "RDMA_WRITE wr_id=0x99 flags=fence|signaled remote_address=0x1000 rkey=0x1234 total=64 {SGE_LINE}"
        )
    );
    let atomic = rxe_send_wr_atomic {
        remote_addr: 0x1000,
        compare_add: 1,
        swap: 2,
        rkey: 0x1234,
        reserved: 0,
    };
    assert_eq!(
        request(
            wr(IB_UVERBS_WR_ATOMIC_CMP_AND_SWP, 2, atomic),
            dma(8, 1),
            SGE.as_bytes(),
            false
        ),
        format!(
            "ATOMIC_CMP_AND_SWP wr_id=0x99 flags=signaled remote_address=0x1000 rkey=0x1234 compare=0x1 swap=0x2 \
             total=8 {SGE_LINE}"
        )
    );
}

#[test]
fn datagrams_say_where_they_go() {
    let to = rxe_send_wr_ud {
        remote_qpn: 0x42,
        remote_qkey: 0x11,
        ah_num: 3,
        ..rxe_send_wr_ud::default()
    };
    let send = wr(IB_UVERBS_WR_SEND, 2, to);
    assert_eq!(
        request(send, dma(64, 1), SGE.as_bytes(), true),
        format!(
            "SEND wr_id=0x99 flags=signaled remote_qpn=0x42 qkey=0x11 pkey_index=0 address_handle=3 total=64 {SGE_LINE}"
        )
    );
    assert_eq!(
        request(send, dma(64, 1), SGE.as_bytes(), false),
        format!("SEND wr_id=0x99 flags=signaled total=64 {SGE_LINE}")
    );
}

#[test]
fn inline_data_ends_where_its_length_says() {
    let send = rxe_send_wr {
        ex: rxe_send_wr_ex::from(__be32::new(0xabcd)),
        ..wr(IB_UVERBS_WR_SEND_WITH_IMM, 10, rxe_send_wr_rdma::default())
    };
    assert_eq!(
        request(send, dma(5, 0), b"hello\0\0\0", false),
        "SEND_WITH_IMM wr_id=0x99 flags=signaled|inline immediate=0xabcd total=5 inline=68656c6c6f"
    );
}

#[test]
fn what_has_no_name_is_shown_with_its_number() {
    let unknown = wr(0x77, 0x100, rxe_send_wr_rdma::default());
    assert_eq!(
        request(unknown, dma(0, 0), &[], false),
        "unknown opcode=0x77 wr_id=0x99 flags=none other_flags=0x100 total=0"
    );
    assert_eq!(line(send::fields(&[1, 2], false)), "unknown rest=0102");
    assert_eq!(line(receive::fields(&[1, 2])), "RECEIVE rest=0102");
}

#[test]
fn receives_list_their_sges() {
    let request = rxe_recv_wqe {
        wr_id: 0x99,
        dma: dma(128, 2),
        ..rxe_recv_wqe::default()
    };
    let bytes = [request.as_bytes(), SGE.as_bytes(), SGE.as_bytes()].concat();
    assert_eq!(
        line(receive::fields(&bytes)),
        format!("RECEIVE wr_id=0x99 total=128 sges=2 {SGE_LINE} {SGE_LINE}")
    );
}

#[test]
fn completions_have_the_names_of_the_verbs() {
    let done = ib_uverbs_wc {
        wr_id: 0x99,
        status: 10,
        opcode: 1,
        vendor_err: 0x88,
        qp_num: 0x118,
        port_num: 1,
        ..ib_uverbs_wc::default()
    };
    assert_eq!(
        line(completion::fields(&done)),
        "RDMA_WRITE wr_id=0x99 status=REM_ACCESS_ERR vendor_error=0x88 byte_count=0 qpn=0x118 source_qpn=0x0 flags=none \
         pkey_index=0 port=1"
    );
    let unknown = ib_uverbs_wc {
        opcode: 0x50,
        status: 0x60,
        ..done
    };
    assert!(
        line(completion::fields(&unknown))
            .starts_with("unknown opcode=0x50 wr_id=0x99 status=0x60 ")
    );
}

proptest! {
    #[test]
    fn any_bytes_can_be_read(
        bytes in proptest::collection::vec(any::<u8>(), 0..400),
        opcode in 0_u32..20,
        inline: bool,
        datagrams: bool,
        wc: [[u8; 24]; 2],
    ) {
        prop_assert!(!line(send::fields(&bytes, datagrams)).is_empty());
        prop_assert!(!line(receive::fields(&bytes)).is_empty());
        let mut bytes = bytes;
        if let Some(word) = bytes.get_mut(12..16) {
            word.copy_from_slice(&opcode.to_ne_bytes());
        }
        if let Some(word) = bytes.get_mut(16..20) {
            word.copy_from_slice(&(u32::from(inline) << 3).to_ne_bytes());
        }
        prop_assert!(!line(send::fields(&bytes, datagrams)).is_empty());
        let entry = ib_uverbs_wc::read_from_bytes(wc.as_flattened()).unwrap();
        prop_assert!(!line(completion::fields(&entry)).is_empty());
    }
}
