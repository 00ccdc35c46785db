//! From a request to a connection, and its end.

use uverbs_core::error::Errno;
use uverbs_uapi::rdma_user_cm::{
    rdma_ucm_accept, rdma_ucm_disconnect, rdma_ucm_event_resp_param, rdma_ucm_notify,
    rdma_ucm_reject, rdma_ucm_ud_param,
};

use super::event::{kind, param, raise, raise_with};
use super::request::{REJECT, datagram_of, padded};
use super::{Link, Phase, iwarp};
use crate::files::FileId;
use crate::state::State;

/// Private data of a reply, and of the answer of a datagram service.
const REPLY: u8 = 196;
const ANSWER: u8 = 136;
/// `IB_CM_REJ_TIMEOUT`, `IB_CM_REJ_CONSUMER_DEFINED`, `IB_CM_REJ_VENDOR_OPTION_NOT_SUPPORTED`.
const TIMEOUT: i32 = 4;
const CONSUMER: u8 = 28;
const VENDOR_OPTION: u8 = 35;
/// `IB_SIDR_REJECT`.
const SERVICE_REFUSED: i32 = 2;
/// `IB_EVENT_COMM_EST`.
const COMM_EST: u32 = 4;
/// `IB_EVENT_PATH_MIG`.
const PATH_MIG: u32 = 6;

/// # Errors
/// EINVAL, after which the request is rejected: the handshake has not got that far, or there is too
/// much private data. Before, it is EINVAL for an id that does not connect.
pub(super) fn accept(
    state: &mut State,
    file: FileId,
    request: &rdma_ucm_accept,
) -> Result<(), Errno> {
    let is_iwarp = state.cm.is_iwarp;
    let found = state.cm.bound(file, request.id)?;
    if found.phase != Phase::Connect {
        return Err(Errno::INVAL);
    }
    let is_reply = request.conn_param.valid != 0;
    let answer = match (is_reply, found.datagram, found.link) {
        (true, true, Link::RequestReceived) if request.conn_param.private_data_len <= ANSWER => {
            answer_service(state, request)
        }
        (true, false, Link::RequestReceived) if is_iwarp => iwarp::accept(state, request),
        (true, false, Link::RequestReceived) if request.conn_param.private_data_len <= REPLY => {
            reply(state, request)
        }
        (false, false, Link::ReplyReceived) => established(state, request.id),
        _ => Err(Errno::INVAL),
    };
    if answer.is_err() {
        let _ = refuse(state, request.id, CONSUMER, &[]);
    }
    answer
}

pub(super) fn set_link(state: &mut State, id: u32, link: Link) {
    if let Some(found) = state.cm.ids.get_mut(&id) {
        found.link = link;
    }
}

pub(super) fn peer_of(state: &State, id: u32) -> Option<u32> {
    let peer = state.cm.ids.get(&id)?.peer?;
    // The number may belong to another id by now.
    let is_mutual = state.cm.ids.get(&peer)?.peer == Some(id);
    is_mutual.then_some(peer)
}

fn reply(state: &mut State, request: &rdma_ucm_accept) -> Result<(), Errno> {
    let id = request.id;
    let peer = peer_of(state, id).ok_or(Errno::INVAL)?;
    let found = state.cm.ids.get_mut(&id).ok_or(Errno::INVAL)?;
    found.uid = request.uid;
    found.link = Link::ReplySent;
    found.params = request.conn_param;
    found.ece = (request.ece.vendor_id, request.ece.attr_mod);
    let (mut seen, ece) = (found.params, found.ece);
    seen.responder_resources = request.conn_param.initiator_depth;
    seen.initiator_depth = request.conn_param.responder_resources;
    seen.private_data_len = REPLY;
    seen.valid = 0;
    set_link(state, peer, Link::ReplyReceived);
    raise_with(state, peer, kind::CONNECT_RESPONSE, 0, &param(&seen), ece);
    Ok(())
}

fn answer_service(state: &mut State, request: &rdma_ucm_accept) -> Result<(), Errno> {
    let peer = peer_of(state, request.id).ok_or(Errno::INVAL)?;
    let found = state.cm.ids.get_mut(&request.id).ok_or(Errno::INVAL)?;
    found.uid = request.uid;
    found.link = Link::Over;
    set_link(state, peer, Link::Over);
    let seen = param(&datagram_of(&request.conn_param, ANSWER));
    raise(state, peer, kind::ESTABLISHED, 0, &seen);
    Ok(())
}

/// The private data of a service that refuses.
fn answered(data: &[u8]) -> rdma_ucm_event_resp_param {
    let mut raw = rdma_ucm_ud_param {
        private_data_len: ANSWER,
        ..rdma_ucm_ud_param::default()
    };
    let places = raw.private_data.iter_mut().zip(data);
    places.for_each(|(to, from)| *to = *from);
    param(&raw)
}

/// The active side is ready.
fn established(state: &mut State, id: u32) -> Result<(), Errno> {
    let peer = peer_of(state, id).ok_or(Errno::INVAL)?;
    set_link(state, id, Link::Established);
    // Data of the active side may have established it before.
    if state.cm.ids.get(&peer).map(|peer| peer.link) == Some(Link::ReplySent) {
        set_link(state, peer, Link::Established);
        raise(state, peer, kind::ESTABLISHED, 0, &none());
    }
    Ok(())
}

pub(super) fn none() -> rdma_ucm_event_resp_param {
    rdma_ucm_event_resp_param::default()
}

pub(super) fn reject(
    state: &mut State,
    file: FileId,
    request: &rdma_ucm_reject,
) -> Result<(), Errno> {
    let reason = match request.reason {
        0 => CONSUMER,
        reason @ (CONSUMER | VENDOR_OPTION) => reason,
        _ => return Err(Errno::INVAL),
    };
    let is_iwarp = state.cm.is_iwarp;
    let found = state.cm.bound(file, request.id)?;
    let room = match found.datagram {
        true => ANSWER,
        false if is_iwarp => iwarp::ROOM,
        false => REJECT,
    };
    if request.private_data_len > room {
        return Err(Errno::INVAL);
    }
    let len = usize::from(request.private_data_len);
    let data = request.private_data.get(..len).unwrap_or_default();
    refuse(state, request.id, reason, data)
}

/// # Errors
/// EINVAL: there is nothing to refuse.
fn refuse(state: &mut State, id: u32, reason: u8, data: &[u8]) -> Result<(), Errno> {
    let found = state.cm.ids.get(&id).ok_or(Errno::INVAL)?;
    let is_open = match found.link {
        Link::RequestReceived => true,
        Link::RequestSent | Link::ReplySent | Link::ReplyReceived => !found.datagram,
        _ => false,
    };
    if !is_open {
        return Err(Errno::INVAL);
    }
    let datagram = found.datagram;
    let peer = peer_of(state, id);
    set_link(state, id, Link::Over);
    if let Some(peer) = peer {
        set_link(state, peer, Link::Over);
        if datagram {
            let seen = answered(data);
            raise(state, peer, kind::UNREACHABLE, SERVICE_REFUSED, &seen);
        } else if state.cm.is_iwarp {
            iwarp::refuse(state, peer, data);
        } else {
            raise(
                state,
                peer,
                kind::REJECTED,
                reason.into(),
                &padded(data, REJECT),
            );
        }
    }
    Ok(())
}

pub(super) fn disconnect(
    state: &mut State,
    file: FileId,
    request: rdma_ucm_disconnect,
) -> Result<(), Errno> {
    let found = state.cm.bound(file, request.id)?;
    if found.link == Link::None {
        return Err(Errno::INVAL);
    }
    hang_up(state, request.id);
    Ok(())
}

/// Disconnects, or answers the peer's disconnect; in other states nothing can be sent.
pub(super) fn hang_up(state: &mut State, id: u32) {
    let Some(link) = state.cm.ids.get(&id).map(|found| found.link) else {
        return;
    };
    let peer = peer_of(state, id);
    match link {
        Link::Established if state.cm.is_iwarp => iwarp::close(state, id, peer),
        Link::Established => {
            set_link(state, id, Link::DisconnectSent);
            if let Some(peer) = peer {
                set_link(state, peer, Link::DisconnectReceived);
                raise(state, peer, kind::DISCONNECTED, 0, &none());
            }
        }
        Link::DisconnectReceived => {
            set_link(state, id, Link::Over);
            if let Some(peer) = peer {
                set_link(state, peer, Link::Over);
                raise(state, peer, kind::DISCONNECTED, 0, &none());
                raise(state, peer, kind::TIMEWAIT_EXIT, 0, &none());
            }
            raise(state, id, kind::TIMEWAIT_EXIT, 0, &none());
        }
        _ => {}
    }
}

/// The id is being destroyed: its peer is told, however far the handshake has got.
pub(super) fn abandon(state: &mut State, id: u32) {
    let Some(found) = state.cm.ids.get(&id) else {
        return;
    };
    let datagram = found.datagram;
    match found.link {
        Link::Established | Link::DisconnectReceived => hang_up(state, id),
        Link::RequestSent if datagram => {}
        Link::RequestSent if state.cm.is_iwarp => {
            let peer = peer_of(state, id);
            iwarp::close(state, id, peer);
        }
        Link::RequestSent => {
            if let Some(peer) = peer_of(state, id) {
                set_link(state, peer, Link::Over);
                raise(state, peer, kind::REJECTED, TIMEOUT, &padded(&[], REJECT));
            }
        }
        _ => {
            let _ = refuse(state, id, CONSUMER, &[]);
        }
    }
}

pub(super) fn notify(
    state: &mut State,
    file: FileId,
    request: rdma_ucm_notify,
) -> Result<(), Errno> {
    let found = state.cm.bound(file, request.id)?;
    match (request.event, found.link) {
        (COMM_EST, Link::ReplySent) => {
            found.link = Link::Established;
            raise(state, request.id, kind::ESTABLISHED, 0, &none());
            Ok(())
        }
        (COMM_EST, Link::Established) => Err(Errno::ISCONN),
        (PATH_MIG, Link::Established) => Ok(()),
        _ => Err(Errno::INVAL),
    }
}
