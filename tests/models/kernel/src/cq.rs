//! Completion queues (`drivers/infiniband/sw/rxe/rxe_cq.c`).

use uverbs_uapi::ib_user_verbs::{
    ib_uverbs_async_event_desc, ib_uverbs_comp_event_desc, ib_uverbs_resize_cq, ib_uverbs_wc,
};
use uverbs_uapi::rdma_user_rxe::mminfo;
use zerocopy::IntoBytes;

use crate::device::{self, MAX_CQE};
use crate::event;
use crate::files::FileId;
use crate::ring::{Ring, Side};
use crate::state::{Counts, Kind, Owner, State};
use crate::waiting::Event;
use uverbs_core::error::Errno;

/// Size of a queue element: the kernel's internal completion, which is longer than the one it
/// contains.
const ELEMENT: usize = 64;

/// `IB_CQ_SOLICITED`.
const SOLICITED: u32 = 1;
/// `IB_CQ_NEXT_COMP`.
const NEXT: u32 = 2;

/// A completion queue.
#[derive(Debug)]
pub(super) struct Cq {
    pub(super) ring: Ring,
    user_handle: u64,
    channel: Option<FileId>,
    pub(super) events: Option<FileId>,
    notify: u32,
    pub(super) counts: Counts,
}

impl Cq {
    pub(super) fn user_handle(&self) -> u64 {
        self.user_handle
    }
}

/// The parameters of a new completion queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Create {
    pub(super) user_handle: u64,
    pub(super) cqe: u32,
    pub(super) vector: u32,
    pub(super) flags: u32,
    pub(super) channel: Option<FileId>,
    pub(super) events: Option<FileId>,
    /// Size of the buffer for the driver's reply.
    pub(super) room: usize,
}

/// `create_cq`: returns handle, entries, and the queue's location.
pub(super) fn create(
    state: &mut State,
    file: FileId,
    create: &Create,
) -> Result<(u32, u32, mminfo), Errno> {
    let default = state.context_with_queues(file)?.events;
    if create.cqe == 0
        || create.cqe > MAX_CQE
        || create.vector >= device::vectors(state)
        || create.room < size_of::<mminfo>()
    {
        return Err(Errno::INVAL);
    }
    if create.flags != 0 {
        return Err(Errno::OPNOTSUPP);
    }
    let ring = Ring::new(create.cqe, ELEMENT, Side::Producer)?;
    let entries = ring.capacity();
    let place = state.announce(file, &ring.memory);
    let id = state.fresh_id(Kind::Cq)?;
    state.cqs.insert(
        id,
        Cq {
            ring,
            user_handle: create.user_handle,
            channel: create.channel,
            events: create.events.or(default),
            notify: 0,
            counts: Counts::default(),
        },
    );
    Ok((state.new_handle(file, Kind::Cq, id), entries, place))
}

/// `resize_cq`: returns entries, and the new queue's location.
pub(super) fn resize(
    state: &mut State,
    file: FileId,
    request: &ib_uverbs_resize_cq,
    room: usize,
) -> Result<(u32, mminfo), Errno> {
    let id = state.lookup(file, Kind::Cq, request.cq_handle)?;
    let cq = state.cqs.get_mut(&id).ok_or(Errno::NOENT)?;
    if room < size_of::<mminfo>()
        || request.cqe == 0
        || request.cqe > MAX_CQE
        || request.cqe < cq.ring.count()
    {
        return Err(Errno::INVAL);
    }
    cq.ring
        .replace(Ring::new(request.cqe, ELEMENT, Side::Producer)?)?;
    let (entries, memory) = (cq.ring.capacity(), cq.ring.memory.clone());
    Ok((entries, state.announce(file, &memory)))
}

/// `req_notify_cq`.
pub(super) fn request_notification(
    state: &mut State,
    file: FileId,
    handle: u32,
    solicited_only: bool,
) -> Result<(), Errno> {
    let id = state.lookup(file, Kind::Cq, handle)?;
    let cq = state.cqs.get_mut(&id).ok_or(Errno::NOENT)?;
    cq.notify |= if solicited_only { SOLICITED } else { NEXT };
    Ok(())
}

/// Adds a completion, and an event if the queue is armed. A full queue loses the completion and
/// reports an error (`IB_EVENT_CQ_ERR`).
pub(super) fn complete(state: &mut State, id: u32, wc: &ib_uverbs_wc, solicited: bool) {
    let frozen = state.frozen;
    let Some(cq) = state.cqs.get_mut(&id).filter(|_| !frozen) else {
        return;
    };
    if !cq.ring.push(wc.as_bytes()) {
        event::raise(state, Kind::Cq, id, event::CQ_ERR);
        return;
    }
    let wanted = cq.notify & NEXT != 0 || (cq.notify & SOLICITED != 0 && solicited);
    if !wanted {
        return;
    }
    cq.notify = 0;
    let bytes = ib_uverbs_comp_event_desc {
        cq_handle: cq.user_handle,
    }
    .as_bytes()
    .to_vec();
    if let Some(file) = cq.channel.and_then(|channel| state.files.get_mut(channel)) {
        file.waiting.push(Event {
            bytes,
            owner: Some(Owner::Completion(id)),
        });
    }
}

const _: () =
    assert!(size_of::<ib_uverbs_async_event_desc>() == 16 && size_of::<ib_uverbs_wc>() <= ELEMENT);
