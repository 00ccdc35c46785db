//! The attributes of a queue pair.

use uverbs_core::error::Errno;
use uverbs_uapi::ib_user_verbs::ib_uverbs_qp_attr;
use uverbs_uapi::rdma_user_cm::rdma_ucm_init_qp_attr;

use super::request::way_to;
use super::{Id, Link, iwarp};
use crate::device::GIDS;
use crate::files::FileId;
use crate::state::State;

/// `RDMA_UDP_QKEY`.
pub(super) const QKEY: u32 = 0x0123_4567;

/// `enum ib_qp_state`.
const INIT: u32 = 1;
const RTR: u32 = 2;
const RTS: u32 = 3;
const ERR: u32 = 6;

/// STATE, ACCESS_FLAGS or QKEY, PKEY_INDEX, PORT.
const OF_INIT: u32 = 0x39;
const OF_INIT_DATAGRAM: u32 = 0x71;
/// STATE, AV, PATH_MTU, DEST_QPN, RQ_PSN, MAX_DEST_RD_ATOMIC, MIN_RNR_TIMER.
const OF_RTR: u32 = 0x0012_9181;
/// STATE, SQ_PSN, RETRY_CNT, RNR_RETRY, MAX_QP_RD_ATOMIC, TIMEOUT.
const OF_RTS: u32 = 0x0001_2e01;
/// Remote write, and remote read and atomics if the peer may have any outstanding.
const WRITE: u32 = 2;
const READ_AND_ATOMIC: u32 = 4 | 8;
/// 4096 bytes, as the number of the specification.
const MTU: u32 = 5;
/// 4.096 µs · 2^18.
const TIMEOUT: u8 = 18;

/// # Errors
/// EINVAL: a state that does not exist, or the handshake has not got that far.
pub(super) fn attributes(
    state: &mut State,
    file: FileId,
    request: &rdma_ucm_init_qp_attr,
) -> Result<ib_uverbs_qp_attr, Errno> {
    if request.qp_state > ERR {
        return Err(Errno::INVAL);
    }
    let is_iwarp = state.cm.is_iwarp;
    let found = state.cm.bound(file, request.id)?;
    if is_iwarp {
        return iwarp::attributes(found.link, request.qp_state);
    }
    if found.link == Link::None || found.datagram {
        return Ok(before(found, request.qp_state));
    }
    if found.link == Link::Over {
        return Err(Errno::INVAL);
    }
    let (ours, peer) = (found.params, found.peer);
    let (psn, ack_timeout) = (found.psn, found.ack_timeout);
    let link = found.link;
    let peer = peer.and_then(|peer| state.cm.ids.get(&peer));
    let mut attr = ib_uverbs_qp_attr {
        qp_state: request.qp_state,
        ..ib_uverbs_qp_attr::default()
    };
    match request.qp_state {
        INIT => {
            attr.qp_attr_mask = OF_INIT;
            attr.port_num = 1;
            let resources = match link {
                Link::RequestReceived => peer.map_or(0, |peer| peer.params.initiator_depth),
                _ => ours.responder_resources,
            };
            attr.qp_access_flags = match resources {
                0 => WRITE,
                _ => WRITE | READ_AND_ATOMIC,
            };
        }
        RTR | RTS if link == Link::RequestSent => return Err(Errno::INVAL),
        RTR => {
            let peer = peer.ok_or(Errno::INVAL)?;
            attr.qp_attr_mask = OF_RTR;
            attr.ah_attr = way_to(GIDS[1]);
            attr.path_mtu = MTU;
            attr.dest_qp_num = peer.params.qp_num;
            attr.rq_psn = peer.psn;
            attr.max_dest_rd_atomic = peer.params.initiator_depth;
        }
        RTS => {
            let peer = peer.ok_or(Errno::INVAL)?;
            attr.qp_attr_mask = OF_RTS;
            attr.sq_psn = psn;
            attr.retry_cnt = ours.retry_count.min(7);
            attr.rnr_retry = peer.params.rnr_retry_count.min(7);
            attr.max_rd_atomic = peer.params.responder_resources;
            attr.timeout = ack_timeout.unwrap_or(TIMEOUT);
        }
        _ => return Err(Errno::INVAL),
    }
    Ok(attr)
}

/// Before there is a handshake the answer is that of INIT, whatever was asked.
fn before(id: &Id, qp_state: u32) -> ib_uverbs_qp_attr {
    let mut attr = ib_uverbs_qp_attr {
        qp_state,
        port_num: 1,
        qp_attr_mask: OF_INIT,
        ..ib_uverbs_qp_attr::default()
    };
    if id.datagram {
        attr.qp_attr_mask = OF_INIT_DATAGRAM;
        attr.qkey = QKEY;
    }
    attr
}
