//! A queue pair that is connected to itself, with all that it uses.
#![allow(clippy::expect_used, reason = "a test fails by panicking")]

use std::ptr::null_mut;
use std::sync::atomic::AtomicU64;

use uverbs_compat_base::abi::{
    RequestPart, ibv_comp_channel, ibv_context, ibv_cq, ibv_cq_init_attr_ex, ibv_gid, ibv_mr,
    ibv_mw_bind_info, ibv_pd, ibv_qp, ibv_qp_attr, ibv_qp_cap, ibv_qp_init_attr,
    ibv_qp_init_attr_ex, ibv_recv_wr, ibv_rx_hash_conf, ibv_send_wr, ibv_sge, ibv_wr_bind_mw,
};

use crate::bench::Kind;
use crate::calls::{self, At};

/// `IBV_QPT_RC`
const RC: u32 = 2;
/// `IBV_WR_SEND`, `IBV_SEND_SIGNALED`
const SEND: u32 = 2;
const SIGNALED: u32 = 2;
/// `IBV_QP_INIT_ATTR_PD`, `IBV_QP_INIT_ATTR_SEND_OPS_FLAGS`, `IBV_QP_EX_WITH_SEND`
const WITH_PD: u32 = 1;
const WITH_OPERATIONS: u32 = 1 << 6;
const SENDS: u64 = 1 << 2;

/// Which functions it is used by.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Shape {
    /// `ibv_post_send` and `ibv_poll_cq`.
    Plain,
    /// `ibv_wr_start` and `ibv_start_poll`.
    Extended,
}

/// A queue pair of this device, connected to itself.
#[derive(Debug)]
pub struct Pair {
    /// The device.
    pub context: At<ibv_context>,
    /// Its domain.
    pub pd: At<ibv_pd>,
    /// The queue of all its completions.
    pub cq: At<ibv_cq>,
    /// Itself.
    pub qp: At<ibv_qp>,
    /// Its memory's region.
    pub mr: At<ibv_mr>,
    memory: Box<[AtomicU64]>,
}

fn capabilities(depth: u32) -> ibv_qp_cap {
    ibv_qp_cap {
        max_send_wr: depth,
        max_recv_wr: depth,
        max_send_sge: 1,
        max_recv_sge: 1,
        max_inline_data: 8,
    }
}

impl Pair {
    /// One with rings of `depth` requests, memory for `words`, and room for as many completions.
    ///
    /// # Panics
    /// If something of it is refused.
    pub fn new(
        device: (Kind, At<ibv_context>),
        shape: Shape,
        depth: u32,
        words: usize,
        channel: Option<At<ibv_comp_channel>>,
    ) -> Self {
        Self::with(device, shape, depth, words, (1, channel))
    }

    /// A small one whose events carry this number.
    ///
    /// # Panics
    /// If something of it is refused.
    pub fn marked(
        device: (Kind, At<ibv_context>),
        mark: usize,
        channel: At<ibv_comp_channel>,
    ) -> Self {
        Self::with(device, Shape::Plain, 4, 2, (mark, Some(channel)))
    }

    fn with(
        (kind, context): (Kind, At<ibv_context>),
        shape: Shape,
        depth: u32,
        words: usize,
        (mark, channel): (usize, Option<At<ibv_comp_channel>>),
    ) -> Self {
        let pd = calls::alloc_pd(context).expect("a domain");
        // rxe takes requests out of its rings before their completions are polled.
        let entries = u32::try_from(words).map_or(2 * depth, |words| words.max(2 * depth));
        let cq = match shape {
            Shape::Plain => calls::create_cq(context, entries.cast_signed(), mark, channel),
            Shape::Extended => {
                let mut attr = ibv_cq_init_attr_ex {
                    cqe: entries,
                    cq_context: null_mut(),
                    channel: channel.map_or(null_mut(), At::raw),
                    comp_vector: 0,
                    wc_flags: 0,
                    comp_mask: 0,
                    flags: 0,
                    parent_domain: null_mut(),
                };
                calls::create_cq_ex(context, &mut attr).map(At::cast)
            }
        };
        let cq = cq.expect("a completion queue");
        let plain = ibv_qp_init_attr {
            qp_context: null_mut(),
            send_cq: cq.raw(),
            recv_cq: cq.raw(),
            srq: null_mut(),
            cap: capabilities(depth),
            qp_type: RC,
            sq_sig_all: 0,
        };
        let qp = match shape {
            Shape::Plain => calls::create_qp(pd, plain),
            Shape::Extended => calls::create_qp_ex(context, &mut with_operations(&plain, pd)),
        };
        let qp = qp.expect("a queue pair");
        connect((kind, context), qp);
        let memory: Box<[AtomicU64]> = (0..words).map(|_| AtomicU64::new(0)).collect();
        let start = memory.as_ptr().cast_mut().cast();
        let start = At::new(start).expect("an address");
        let mr = calls::reg_mr(pd, start, 8 * words).expect("a region");
        Self {
            context,
            pd,
            cq,
            qp,
            mr,
            memory,
        }
    }

    /// Where a word of its memory is: key, address and length.
    pub fn word(&self, at: usize) -> (u32, u64, u32) {
        let place = self.memory[at].as_ptr();
        (calls::lkey(self.mr), place.expose_provenance() as u64, 8)
    }

    /// A word of its memory.
    pub fn value(&self, at: usize) -> &AtomicU64 {
        &self.memory[at]
    }

    /// Posts a send of one word.
    pub fn send(&self, wr_id: u64, at: usize) -> i32 {
        let mut entry = entry(self.word(at));
        let mut request = ibv_send_wr {
            wr_id,
            next: null_mut(),
            sg_list: &raw mut entry,
            num_sge: 1,
            opcode: SEND,
            send_flags: SIGNALED,
            imm_data: 0,
            wr: RequestPart {
                first: 0,
                second: [0; 2],
                swap: 0,
                rkey: 0,
            },
            qp_type: 0,
            bind_mw: ibv_wr_bind_mw {
                mw: null_mut(),
                rkey: 0,
                bind_info: ibv_mw_bind_info {
                    mr: null_mut(),
                    addr: 0,
                    length: 0,
                    mw_access_flags: 0,
                },
            },
        };
        calls::post_send(self.qp, &mut request)
    }

    /// Posts a receive of one word.
    pub fn receive(&self, wr_id: u64, at: usize) -> i32 {
        let mut entry = entry(self.word(at));
        let mut request = ibv_recv_wr {
            wr_id,
            next: null_mut(),
            sg_list: &raw mut entry,
            num_sge: 1,
        };
        calls::post_recv(self.qp, &mut request)
    }

    /// Destroys everything.
    ///
    /// # Panics
    /// If something of it is refused.
    pub fn end(self) {
        assert_eq!(calls::destroy_qp(self.qp), 0);
        assert_eq!(calls::destroy_cq(self.cq), 0);
        assert_eq!(calls::dereg_mr(self.mr), 0);
        assert_eq!(calls::dealloc_pd(self.pd), 0);
    }
}

fn entry((lkey, addr, length): (u32, u64, u32)) -> ibv_sge {
    ibv_sge { addr, length, lkey }
}

fn with_operations(plain: &ibv_qp_init_attr, pd: At<ibv_pd>) -> ibv_qp_init_attr_ex {
    ibv_qp_init_attr_ex {
        qp_context: plain.qp_context,
        send_cq: plain.send_cq,
        recv_cq: plain.recv_cq,
        srq: plain.srq,
        cap: plain.cap,
        qp_type: plain.qp_type,
        sq_sig_all: plain.sq_sig_all,
        comp_mask: WITH_PD | WITH_OPERATIONS,
        pd: pd.raw(),
        xrcd: null_mut(),
        create_flags: 0,
        max_tso_header: 0,
        rwq_ind_tbl: null_mut(),
        rx_hash_conf: ibv_rx_hash_conf {
            rx_hash_function: 0,
            rx_hash_key_len: 0,
            rx_hash_key: null_mut(),
            rx_hash_fields_mask: 0,
        },
        source_qpn: 0,
        send_ops_flags: SENDS,
    }
}

/// Bits of the mask of `ibv_modify_qp`.
const STATE: i32 = 1;
const ACCESS: i32 = 1 << 3;
const PKEY: i32 = 1 << 4;
const PORT: i32 = 1 << 5;
const AV: i32 = 1 << 7;
const MTU: i32 = 1 << 8;
const TIMEOUT: i32 = 1 << 9;
const RETRY: i32 = 1 << 10;
const RNR_RETRY: i32 = 1 << 11;
const RQ_PSN: i32 = 1 << 12;
const READS: i32 = 1 << 13;
const RNR_TIMER: i32 = 1 << 15;
const SQ_PSN: i32 = 1 << 16;
const READS_OF_PEER: i32 = 1 << 17;
const PEER: i32 = 1 << 20;

/// Moves a queue pair to the state in which it sends to itself.
fn connect((kind, context): (Kind, At<ibv_context>), qp: At<ibv_qp>) {
    let port = calls::query_port(context).expect("a port");
    let mut attr = ibv_qp_attr {
        qp_state: 1,
        port_num: 1,
        ..ibv_qp_attr::default()
    };
    let mask = STATE | PKEY | PORT | ACCESS;
    assert_eq!(calls::modify_qp(qp, &mut attr, mask), 0);
    let mut gid = ibv_gid::default();
    if kind == Kind::Rxe {
        assert_eq!(calls::query_gid(context, 1, &mut gid), 0);
    }
    attr.qp_state = 2;
    // `IBV_MTU_1024`
    attr.path_mtu = 3;
    attr.dest_qp_num = calls::number(qp);
    attr.min_rnr_timer = 12;
    attr.max_dest_rd_atomic = 1;
    attr.ah_attr.port_num = 1;
    attr.ah_attr.dlid = port.lid;
    attr.ah_attr.is_global = u8::from(kind == Kind::Rxe);
    attr.ah_attr.grh.dgid = gid;
    attr.ah_attr.grh.sgid_index = 1;
    attr.ah_attr.grh.hop_limit = 64;
    let mask = STATE | AV | MTU | PEER | RQ_PSN | READS_OF_PEER | RNR_TIMER;
    assert_eq!(calls::modify_qp(qp, &mut attr, mask), 0);
    attr.qp_state = 3;
    attr.timeout = 14;
    attr.retry_cnt = 7;
    attr.rnr_retry = 7;
    attr.max_rd_atomic = 1;
    let mask = STATE | TIMEOUT | RETRY | RNR_RETRY | SQ_PSN | READS;
    assert_eq!(calls::modify_qp(qp, &mut attr, mask), 0);
}
