//! Requests for connections and datagram services.

use uverbs_core::error::Errno;
use uverbs_uapi::ib_user_verbs::{ib_uverbs_ah_attr, ib_uverbs_global_route};
use uverbs_uapi::rdma_user_cm::{
    rdma_ucm_conn_param, rdma_ucm_connect, rdma_ucm_event_resp_param, rdma_ucm_ud_param,
};

use super::event::{kind, param, push, raise, record, unread_requests};
use super::ports::PASSIVE;
use super::{Id, Link, Phase, iwarp};
use crate::device::GIDS;
use crate::files::FileId;
use crate::state::{Owner, State};

/// Private data of a request, after the kernel's own header: for connections, for datagrams.
const ROOM: (u8, u8) = (56, 180);
/// Private data of a rejection.
pub(super) const REJECT: u8 = 148;
/// `IB_CM_REJ_INVALID_SERVICE_ID`, `IB_CM_REJ_STALE_CONN`.
const NO_LISTENER: i32 = 8;
const STALE: i32 = 10;
/// `IB_SIDR_UNSUPPORTED`.
const NO_SERVICE: i32 = 1;

/// # Errors
/// EINVAL: not valid, no route yet, or too much private data.
pub(super) fn connect(
    state: &mut State,
    file: FileId,
    request: &rdma_ucm_connect,
) -> Result<(), Errno> {
    if request.conn_param.valid == 0 {
        return Err(Errno::INVAL);
    }
    let is_iwarp = state.cm.is_iwarp;
    let found = state.cm.bound(file, request.id)?;
    let room = match found.datagram {
        true => ROOM.1,
        false if is_iwarp => iwarp::ROOM,
        false => ROOM.0,
    };
    let fits = request.conn_param.private_data_len <= room;
    if found.phase != Phase::RouteResolved || !fits {
        return Err(Errno::INVAL);
    }
    if is_iwarp {
        iwarp::check_queue_pair(state, request.conn_param.qp_num)?;
    }
    let found = state.cm.bound(file, request.id)?;
    found.phase = Phase::Connect;
    found.link = Link::RequestSent;
    found.params = request.conn_param;
    found.ece = (request.ece.vendor_id, request.ece.attr_mod);
    send(state, request.id);
    Ok(())
}

/// Requests that found a full backlog are sent again.
pub(super) fn retry(state: &mut State) {
    for id in std::mem::take(&mut state.cm.late) {
        send(state, id);
    }
}

/// The request arrives.
fn send(state: &mut State, id: u32) {
    let Some(sender) = state.cm.ids.get(&id) else {
        return;
    };
    let Some(listener) = listener_of(state, sender) else {
        if state.cm.is_iwarp {
            over(state, id);
            return iwarp::refuse(state, id, &[]);
        }
        let (event, status, param) = if sender.datagram {
            let none = rdma_ucm_event_resp_param::default();
            (kind::UNREACHABLE, NO_SERVICE, none)
        } else {
            (kind::REJECTED, NO_LISTENER, padded(&[], REJECT))
        };
        over(state, id);
        raise(state, id, event, status, &param);
        return;
    };
    if !sender.datagram
        && !state.cm.is_iwarp
        && let Some(stale) = stale(state, sender.params.qp_num)
    {
        over(state, id);
        raise(state, id, kind::REJECTED, STALE, &padded(&[], REJECT));
        super::handshake::hang_up(state, stale);
        return;
    }
    let backlog = state.cm.ids.get(&listener).map_or(0, |found| found.backlog);
    if unread_requests(state, listener) >= backlog as usize {
        state.cm.late.push_back(id);
        return;
    }
    arrive(state, id, listener);
}

fn over(state: &mut State, id: u32) {
    if let Some(found) = state.cm.ids.get_mut(&id) {
        found.link = Link::Over;
    }
}

/// Parameters with private data only, padded to the length of the message.
pub(super) fn padded(data: &[u8], len: u8) -> rdma_ucm_event_resp_param {
    let mut raw = rdma_ucm_conn_param {
        private_data_len: len,
        ..rdma_ucm_conn_param::default()
    };
    for (to, from) in raw.private_data.iter_mut().zip(data) {
        *to = *from;
    }
    param(&raw)
}

fn listener_of(state: &State, sender: &Id) -> Option<u32> {
    let wanted = sender.destination?;
    let listens = |found: &Id| {
        let Some(at) = found.source else {
            return false;
        };
        let family = at.is_ipv4() == wanted.is_ipv4() || (at.is_ipv6() && !found.family_only);
        found.phase == Phase::Listen
            && found.space == sender.space
            && at.port() == wanted.port()
            && (at.ip() == wanted.ip() || (at.ip().is_unspecified() && family))
    };
    let mut ids = state.cm.ids.iter();
    ids.find(|(_, found)| listens(found)).map(|(id, _)| *id)
}

/// The passive end of a connection with a peer's queue pair of this number.
fn stale(state: &State, qp_num: u32) -> Option<u32> {
    let is_live = |found: &Id| {
        found.backlog == PASSIVE && !found.datagram && !matches!(found.link, Link::Over)
    };
    let mut ids = state.cm.ids.iter();
    let same = |found: &Id| {
        let peer = found.peer.and_then(|peer| state.cm.ids.get(&peer));
        peer.is_some_and(|peer| peer.params.qp_num == qp_num)
    };
    ids.find(|(_, found)| is_live(found) && same(found))
        .map(|(id, _)| *id)
}

/// A request becomes an id of the listener's file, without a number of the user's.
fn arrive(state: &mut State, sender: u32, listener: u32) {
    let (Some(from), Some(to)) = (state.cm.ids.get(&sender), state.cm.ids.get(&listener)) else {
        return;
    };
    let (params, ece, datagram) = (from.params, from.ece, from.datagram);
    let (source, destination, tos) = (from.destination, from.source, from.tos);
    let (file, uid, space) = (to.file, to.uid, to.space);
    let mut child = state.cm.new_id(file, 0, space, datagram);
    child.phase = Phase::Connect;
    child.link = Link::RequestReceived;
    child.peer = Some(sender);
    child.source = source;
    child.destination = destination;
    child.tos = tos;
    child.has_device = true;
    child.backlog = PASSIVE;
    let child = state.cm.insert(child);
    if let Some(from) = state.cm.ids.get_mut(&sender) {
        from.peer = Some(child);
    }
    let param = if datagram {
        param(&datagram_of(&params, ROOM.1))
    } else if state.cm.is_iwarp {
        iwarp::seen(&params)
    } else {
        // As the receiver sees it: how much it may have outstanding, and has to serve.
        let mut seen = params;
        seen.responder_resources = params.initiator_depth;
        seen.initiator_depth = params.responder_resources;
        seen.private_data_len = ROOM.0;
        seen.valid = 0;
        param(&seen)
    };
    let event = record(uid, child, kind::CONNECT_REQUEST, 0, &param, ece);
    push(state, file, Owner::Request { listener, child }, &event);
}

/// A datagram peer on this device.
pub(super) fn datagram_of(params: &rdma_ucm_conn_param, room: u8) -> rdma_ucm_ud_param {
    let qkey = if params.qkey == 0 {
        super::qp::QKEY
    } else {
        params.qkey
    };
    rdma_ucm_ud_param {
        qp_num: params.qp_num,
        qkey,
        ah_attr: way_to(GIDS[1]),
        private_data: params.private_data,
        private_data_len: room,
        reserved: [0; 7],
    }
}

/// The path to a GID.
pub(super) fn way_to(dgid: [u8; 16]) -> ib_uverbs_ah_attr {
    ib_uverbs_ah_attr {
        grh: ib_uverbs_global_route {
            dgid,
            sgid_index: 1,
            hop_limit: 64,
            ..ib_uverbs_global_route::default()
        },
        is_global: 1,
        port_num: 1,
        ..ib_uverbs_ah_attr::default()
    }
}
