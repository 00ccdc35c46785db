//! iWARP: a connection is one of TCP, whose driver moves the queue pairs (`iwcm.c`).

use uverbs_core::error::Errno;
use uverbs_uapi::ib_user_verbs::ib_uverbs_qp_attr;
use uverbs_uapi::rdma_user_cm::{rdma_ucm_accept, rdma_ucm_conn_param, rdma_ucm_event_resp_param};

use super::Link;
use super::event::{kind, param, raise};
use super::handshake::{none, peer_of, set_link};
use super::request::padded;
use crate::device::GIDS;
use crate::engine;
use crate::qp::qps;
use crate::state::State;

/// Private data of any message, which arrives with its length.
pub(super) const ROOM: u8 = u8::MAX;
/// `-ECONNREFUSED`.
const REFUSED: i32 = -111;

/// STATE, ACCESS_FLAGS, PORT.
const OF_INIT: u32 = 0x29;
/// PORT.
const OF_RTS: u32 = 0x20;
/// Remote write and read.
const ACCESS: u32 = 2 | 4;
/// Receivers that are not ready are waited for.
const FOR_EVER: u8 = 7;

/// # Errors
/// EINVAL: there is no such queue pair.
pub(super) fn check_queue_pair(state: &State, number: u32) -> Result<(), Errno> {
    if state.qps.contains_key(&number) {
        Ok(())
    } else {
        Err(Errno::INVAL)
    }
}

/// The attributes of a queue pair; none of them moves it to RTS.
///
/// # Errors
/// EINVAL: another state, or the connection is over.
pub(super) fn attributes(link: Link, qp_state: u32) -> Result<ib_uverbs_qp_attr, Errno> {
    let (mask, access) = match (link, u8::try_from(qp_state).unwrap_or(u8::MAX)) {
        (Link::None, _) => (OF_INIT, 0),
        (Link::Over, _) => return Err(Errno::INVAL),
        (_, qps::INIT | qps::RTR) => (OF_INIT, ACCESS),
        (_, qps::RTS) => (OF_RTS, 0),
        _ => return Err(Errno::INVAL),
    };
    Ok(ib_uverbs_qp_attr {
        qp_state,
        qp_attr_mask: mask,
        qp_access_flags: access,
        port_num: 1,
        ..ib_uverbs_qp_attr::default()
    })
}

/// What a message says about its sender; not the number of its queue pair.
pub(super) fn seen(params: &rdma_ucm_conn_param) -> rdma_ucm_event_resp_param {
    let mut seen = rdma_ucm_conn_param {
        responder_resources: params.initiator_depth,
        initiator_depth: params.responder_resources,
        private_data_len: params.private_data_len,
        ..rdma_ucm_conn_param::default()
    };
    let len = usize::from(params.private_data_len);
    let data = params.private_data.iter().take(len);
    let places = seen.private_data.iter_mut().zip(data);
    places.for_each(|(to, from)| *to = *from);
    param(&seen)
}

/// The connection is there, on both sides at once.
///
/// # Errors
/// EINVAL: there is no such queue pair, or no peer any more.
pub(super) fn accept(state: &mut State, request: &rdma_ucm_accept) -> Result<(), Errno> {
    let (id, params) = (request.id, request.conn_param);
    check_queue_pair(state, params.qp_num)?;
    let peer = peer_of(state, id).ok_or(Errno::INVAL)?;
    let found = state.cm.ids.get_mut(&id).ok_or(Errno::INVAL)?;
    found.uid = request.uid;
    found.params = params;
    let asked = state.cm.ids.get(&peer).ok_or(Errno::INVAL)?.params;
    connect(state, &params, asked.qp_num);
    connect(state, &asked, params.qp_num);
    for end in [id, peer] {
        set_link(state, end, Link::Established);
    }
    raise(state, peer, kind::ESTABLISHED, 0, &seen(&params));
    raise(state, id, kind::ESTABLISHED, 0, &none());
    Ok(())
}

/// Moves a queue pair, as the driver does.
fn connect(state: &mut State, params: &rdma_ucm_conn_param, peer: u32) {
    let Some(qp) = state.qps.get_mut(&params.qp_num) else {
        return;
    };
    let attr = &mut qp.attr;
    attr.qp_state = qps::RTS;
    attr.dest_qp_num = peer;
    attr.dest.dgid = GIDS[1];
    attr.dest.is_global = 1;
    attr.dest.port_num = 1;
    attr.max_rd_atomic = params.initiator_depth;
    attr.max_dest_rd_atomic = params.responder_resources;
    attr.rnr_retry = FOR_EVER;
}

/// The peer refuses, or nobody listens.
pub(super) fn refuse(state: &mut State, peer: u32, data: &[u8]) {
    let len = u8::try_from(data.len()).unwrap_or(ROOM);
    raise(state, peer, kind::REJECTED, REFUSED, &padded(data, len));
}

/// The connection of TCP ends, for both sides and at once.
pub(super) fn close(state: &mut State, id: u32, peer: Option<u32>) {
    for end in [Some(id), peer].into_iter().flatten() {
        let number = state.cm.ids.get(&end).map(|found| found.params.qp_num);
        set_link(state, end, Link::Over);
        if let Some(number) = number {
            engine::flush(state, number);
        }
        raise(state, end, kind::DISCONNECTED, 0, &none());
    }
}
