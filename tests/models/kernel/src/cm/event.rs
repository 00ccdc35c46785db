//! Queues of events.

use uverbs_core::error::Errno;
use uverbs_core::sys::CmCommand;
use uverbs_uapi::rdma_user_cm::{
    rdma_ucm_ece, rdma_ucm_event_resp, rdma_ucm_event_resp_param, rdma_ucm_write_cm_event,
};
use zerocopy::{Immutable, IntoBytes};

use super::command::give;
use super::{Phase, request};
use crate::fault::ActiveFaults;
use crate::files::FileId;
use crate::state::{Owner, State};
use crate::waiting::Event;

/// `enum rdma_cm_event_type`.
pub(super) mod kind {
    pub(crate) const ADDR_RESOLVED: u32 = 0;
    pub(crate) const ADDR_ERROR: u32 = 1;
    pub(crate) const ROUTE_RESOLVED: u32 = 2;
    pub(crate) const CONNECT_REQUEST: u32 = 4;
    pub(crate) const CONNECT_RESPONSE: u32 = 5;
    pub(crate) const UNREACHABLE: u32 = 7;
    pub(crate) const REJECTED: u32 = 8;
    pub(crate) const ESTABLISHED: u32 = 9;
    pub(crate) const DISCONNECTED: u32 = 10;
    pub(crate) const DEVICE_REMOVAL: u32 = 11;
    pub(crate) const MULTICAST_JOIN: u32 = 12;
    pub(crate) const TIMEWAIT_EXIT: u32 = 15;
    pub(crate) const USER: u32 = 18;
    pub(crate) const INTERNAL: u32 = 19;
}

/// What an event carries, of whatever type.
pub(super) fn param<T: IntoBytes + Immutable>(value: &T) -> rdma_ucm_event_resp_param {
    let mut param = rdma_ucm_event_resp_param::default();
    for (to, from) in param.as_mut_bytes().iter_mut().zip(value.as_bytes()) {
        *to = *from;
    }
    param
}

/// Reports an event of an id, if it has a number of the user's.
pub(super) fn raise(
    state: &mut State,
    id: u32,
    event: u32,
    status: i32,
    param: &rdma_ucm_event_resp_param,
) {
    raise_with(state, id, event, status, param, (0, 0));
}

/// The same with the vendor's options.
pub(super) fn raise_with(
    state: &mut State,
    id: u32,
    event: u32,
    status: i32,
    param: &rdma_ucm_event_resp_param,
    ece: (u32, u32),
) {
    let Some(found) = state.cm.ids.get(&id) else {
        return;
    };
    if found.uid == 0 {
        return;
    }
    let (file, uid) = (found.file, found.uid);
    push(
        state,
        file,
        Owner::Id(id),
        &record(uid, id, event, status, param, ece),
    );
}

pub(super) fn record(
    uid: u64,
    id: u32,
    event: u32,
    status: i32,
    param: &rdma_ucm_event_resp_param,
    ece: (u32, u32),
) -> rdma_ucm_event_resp {
    rdma_ucm_event_resp {
        uid,
        id,
        event,
        status: status.cast_unsigned(),
        param: *param,
        reserved: 0,
        ece: rdma_ucm_ece {
            vendor_id: ece.0,
            attr_mod: ece.1,
        },
    }
}

pub(super) fn push(state: &mut State, file: FileId, owner: Owner, record: &rdma_ucm_event_resp) {
    if let Some(file) = state.files.get_mut(file) {
        file.waiting.push(Event {
            bytes: record.as_bytes().to_vec(),
            owner: Some(owner),
        });
    }
}

/// `GET_EVENT`, once there is one.
pub(crate) fn deliver(
    state: &mut State,
    event: &Event,
    command: &CmCommand<'_>,
    faults: &ActiveFaults,
) {
    give(&event.bytes, command, faults);
    match event.owner {
        Some(Owner::Id(id) | Owner::Request { listener: id, .. }) => {
            if let Some(id) = state.cm.ids.get_mut(&id) {
                id.reported += 1;
            }
        }
        Some(Owner::Join(join)) => {
            if let Some(join) = state.cm.joins.get_mut(&join) {
                join.reported += 1;
            }
        }
        _ => {}
    }
    if matches!(event.owner, Some(Owner::Request { .. })) {
        request::retry(state);
    }
}

/// How many requests of a listener are unread.
pub(super) fn unread_requests(state: &mut State, wanted: u32) -> usize {
    let of_listener = |event: &&Event| matches!(event.owner, Some(Owner::Request { listener, .. }) if listener == wanted);
    let files = state.files.iter_mut();
    files
        .map(|file| file.waiting.iter().filter(of_listener).count())
        .sum()
}

/// Drops the unread events of an id, and of its joins; returns the ids of its unread requests.
pub(super) fn forget(state: &mut State, id: u32) -> Vec<u32> {
    let joins: Vec<u32> = state
        .cm
        .joins
        .iter()
        .filter(|(_, join)| join.id == id)
        .map(|(number, _)| *number)
        .collect();
    let is_its = |event: &Event| match event.owner {
        Some(Owner::Id(other)) => other == id,
        Some(Owner::Request { listener, .. }) => listener == id,
        Some(Owner::Join(join)) => joins.contains(&join),
        _ => false,
    };
    let dropped: Vec<Event> = state
        .files
        .iter_mut()
        .flat_map(|file| file.waiting.remove(is_its).removed)
        .collect();
    let child = |event: &Event| match event.owner {
        Some(Owner::Request { child, .. }) => Some(child),
        _ => None,
    };
    dropped.iter().filter_map(child).collect()
}

/// `WRITE_CM_EVENT`.
pub(super) fn write(
    state: &mut State,
    file: FileId,
    request: &rdma_ucm_write_cm_event,
) -> Result<(), Errno> {
    if !matches!(request.event, kind::USER | kind::INTERNAL) || request.reserved != 0 {
        return Err(Errno::INVAL);
    }
    let found = state.cm.id(file, request.id)?;
    if found.uid == 0 {
        return Err(Errno::INVAL);
    }
    let status = request.status.cast_signed();
    raise(
        state,
        request.id,
        request.event,
        status,
        &param(&request.param),
    );
    Ok(())
}

/// The device is gone: every id that was bound to it is told, and can only be destroyed.
pub(crate) fn remove_device(state: &mut State) {
    let bound = |(id, found): (&u32, &super::Id)| found.has_device.then_some(*id);
    let ids: Vec<u32> = state.cm.ids.iter().filter_map(bound).collect();
    for id in ids {
        let none = rdma_ucm_event_resp_param::default();
        raise(state, id, kind::DEVICE_REMOVAL, 0, &none);
        if let Some(found) = state.cm.ids.get_mut(&id) {
            found.is_gone = true;
            found.phase = Phase::Idle;
        }
    }
}
