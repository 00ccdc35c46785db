//! Asynchronous events, and the removal of the device.

use uverbs_uapi::ib_user_verbs::ib_uverbs_async_event_desc;
use zerocopy::IntoBytes;

use crate::cm;
use crate::files::{FileId, Role};
use crate::state::{AfterRemoval, Kind, Owner, State};
use crate::waiting::Event;

/// `IB_EVENT_CQ_ERR`.
pub(super) const CQ_ERR: u32 = 0;
/// `IB_EVENT_SQ_DRAINED`.
pub(super) const SQ_DRAINED: u32 = 5;
/// `IB_EVENT_DEVICE_FATAL`.
const DEVICE_FATAL: u32 = 8;
/// `IB_EVENT_SRQ_LIMIT_REACHED`.
pub(super) const SRQ_LIMIT_REACHED: u32 = 15;
/// `IB_EVENT_QP_LAST_WQE_REACHED`.
pub(super) const QP_LAST_WQE_REACHED: u32 = 16;

fn bytes(element: u64, event_type: u32) -> Vec<u8> {
    ib_uverbs_async_event_desc {
        element,
        event_type,
        reserved: 0,
    }
    .as_bytes()
    .to_vec()
}

/// Reports an event of an object to the event file it was created with.
pub(super) fn raise(state: &mut State, kind: Kind, id: u32, event_type: u32) {
    let target: Option<(Option<FileId>, u64)> = match kind {
        Kind::Cq => state.cqs.get(&id).map(|cq| (cq.events, cq.user_handle())),
        Kind::Qp => state.qps.get(&id).map(|qp| (qp.events, qp.user_handle)),
        Kind::Srq => state.srqs.get(&id).map(|srq| (srq.events, srq.user_handle)),
        _ => None,
    };
    let Some((Some(file), element)) = target else {
        return;
    };
    if let Some(file) = state.files.get_mut(file) {
        file.waiting.push(Event {
            bytes: bytes(element, event_type),
            owner: Some(Owner::Asynchronous(kind, id)),
        });
    }
}

/// Reports an event of the device or of a port to every event file.
pub(super) fn broadcast(state: &mut State, element: u64, event_type: u32) {
    for file in state
        .files
        .iter_mut()
        .filter(|file| matches!(file.role, Role::Events(_)))
    {
        file.waiting.push(Event {
            bytes: bytes(element, event_type),
            owner: None,
        });
    }
}

/// Removes the device: every event file gets a final `DEVICE_FATAL`, and completion channels are
/// closed.
pub(super) fn remove_device(state: &mut State, after: AfterRemoval) {
    broadcast(state, 0, DEVICE_FATAL);
    state.removed = Some(after);
    state.pending.clear();
    cm::remove_device(state);
    for file in state
        .files
        .iter_mut()
        .filter(|file| matches!(file.role, Role::Channel(_)))
    {
        file.waiting.close();
    }
}

/// Counts events that the process read from a descriptor.
pub(super) fn count_all(state: &mut State, read: &[Event]) {
    for owner in read.iter().filter_map(|event| event.owner) {
        count(state, owner);
    }
}

/// Counts an event that the process read.
pub(super) fn count(state: &mut State, owner: Owner) {
    let counter = match owner {
        Owner::Completion(id) => state.cqs.get_mut(&id).map(|cq| &mut cq.counts.completions),
        Owner::Asynchronous(Kind::Cq, id) => {
            state.cqs.get_mut(&id).map(|cq| &mut cq.counts.asynchronous)
        }
        Owner::Asynchronous(Kind::Qp, id) => {
            state.qps.get_mut(&id).map(|qp| &mut qp.counts.asynchronous)
        }
        Owner::Asynchronous(Kind::Srq, id) => state
            .srqs
            .get_mut(&id)
            .map(|srq| &mut srq.counts.asynchronous),
        Owner::Asynchronous(..) | Owner::Id(_) | Owner::Request { .. } | Owner::Join(_) => None,
    };
    if let Some(counter) = counter {
        *counter += 1;
    }
}
