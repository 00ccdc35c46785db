//! Ids and their end.

use std::os::fd::RawFd;

use uverbs_core::error::Errno;
use uverbs_uapi::ib_user_ioctl_verbs::{IB_UVERBS_QPT_RC, IB_UVERBS_QPT_UD};
use uverbs_uapi::rdma_user_cm::{
    RDMA_PS_IB, RDMA_PS_IPOIB, RDMA_PS_TCP, RDMA_PS_UDP, rdma_ucm_conn_param, rdma_ucm_create_id,
    rdma_ucm_destroy_id, rdma_ucm_migrate_id,
};

use super::{Id, Link, Manager, Phase, event, handshake};
use crate::files::{FileId, Role};
use crate::state::{Owner, State};

impl Manager {
    /// The id of a file.
    ///
    /// # Errors
    /// ENOENT: no such id; EINVAL: another file's; ENXIO: its device is gone.
    pub(super) fn id(&mut self, file: FileId, id: u32) -> Result<&mut Id, Errno> {
        let found = self.ids.get_mut(&id).ok_or(Errno::NOENT)?;
        match found {
            found if found.file != file => Err(Errno::INVAL),
            found if found.is_gone => Err(Errno::NXIO),
            found => Ok(found),
        }
    }

    /// The same for commands that need a device.
    ///
    /// # Errors
    /// As [`id`](Self::id); EINVAL: it has no device.
    pub(super) fn bound(&mut self, file: FileId, id: u32) -> Result<&mut Id, Errno> {
        let found = self.id(file, id)?;
        if found.has_device {
            Ok(found)
        } else {
            Err(Errno::INVAL)
        }
    }

    /// The lowest free number, as the kernel assigns them.
    pub(super) fn insert(&mut self, id: Id) -> u32 {
        let number = (0..u32::MAX).find(|number| !self.ids.contains_key(number));
        let number = number.unwrap_or(u32::MAX);
        self.ids.insert(number, id);
        number
    }

    pub(super) fn new_id(&mut self, file: FileId, uid: u64, space: u16, datagram: bool) -> Id {
        self.next_psn += 0x0001_0001;
        Id {
            file,
            uid,
            space,
            datagram,
            phase: Phase::Idle,
            link: Link::None,
            peer: None,
            source: None,
            destination: None,
            has_device: false,
            is_gone: false,
            backlog: 0,
            reuse: false,
            family_only: false,
            tos: 0,
            ack_timeout: None,
            params: rdma_ucm_conn_param::default(),
            ece: (0, 0),
            psn: self.next_psn & 0x00ff_ffff,
            reported: 0,
        }
    }
}

pub(super) fn create(
    state: &mut State,
    file: FileId,
    request: &rdma_ucm_create_id,
) -> Result<u32, Errno> {
    let qp_type = u32::from(request.qp_type);
    let datagram = match u32::from(request.ps) {
        RDMA_PS_TCP => false,
        RDMA_PS_UDP | RDMA_PS_IPOIB => true,
        RDMA_PS_IB if qp_type == IB_UVERBS_QPT_RC => false,
        RDMA_PS_IB if qp_type == IB_UVERBS_QPT_UD => true,
        _ => return Err(Errno::INVAL),
    };
    let id = state.cm.new_id(file, request.uid, request.ps, datagram);
    Ok(state.cm.insert(id))
}

pub(super) fn destroy(
    state: &mut State,
    file: FileId,
    request: &rdma_ucm_destroy_id,
) -> Result<u32, Errno> {
    let found = state.cm.ids.get(&request.id).ok_or(Errno::NOENT)?;
    if found.file != file {
        return Err(Errno::INVAL);
    }
    let reported = found.reported;
    end(state, request.id);
    Ok(reported)
}

/// Ends an id: its events vanish, its peer is told, its unread requests are refused.
pub(super) fn end(state: &mut State, id: u32) {
    let children = event::forget(state, id);
    for child in children {
        end(state, child);
    }
    state.cm.late.retain(|waiting| *waiting != id);
    state.cm.joins.retain(|_, join| join.id != id);
    handshake::abandon(state, id);
    state.cm.ids.remove(&id);
}

/// Ends all ids of a file that was closed.
pub(crate) fn close_file(state: &mut State, file: FileId) {
    let of_file = |(id, found): (&u32, &Id)| (found.file == file).then_some(*id);
    let ids: Vec<u32> = state.cm.ids.iter().filter_map(of_file).collect();
    for id in ids {
        // Ending a listener may have ended it already.
        if state.cm.ids.contains_key(&id) {
            end(state, id);
        }
    }
}

pub(super) fn migrate(
    state: &mut State,
    file: FileId,
    request: &rdma_ucm_migrate_id,
) -> Result<u32, Errno> {
    let raw = RawFd::try_from(request.fd).map_err(|_| Errno::NOENT)?;
    let old = match state.files.of_number(raw) {
        Ok(old) if old.role == Role::ConnectionManager => old.id,
        Ok(_) => return Err(Errno::INVAL),
        Err(_) => return Err(Errno::NOENT),
    };
    let id = state.cm.id(old, request.id)?;
    id.file = file;
    let reported = id.reported;
    let is_its = |owner: Option<Owner>| match owner {
        Some(Owner::Id(id) | Owner::Request { listener: id, .. }) => id == request.id,
        _ => false,
    };
    let moved = state
        .files
        .get_mut(old)
        .map(|file| file.waiting.remove(|event| is_its(event.owner)).removed)
        .unwrap_or_default();
    if let Some(file) = state.files.get_mut(file) {
        for event in moved {
            file.waiting.push(event);
        }
    }
    Ok(reported)
}
