//! The table of commands.
#![allow(clippy::wildcard_imports, reason = "a table of the header's own names")]

use uverbs_core::error::Errno;
use uverbs_core::sys::CmCommand;
use uverbs_uapi::ib_user_verbs::ib_uverbs_qp_attr;
use uverbs_uapi::rdma_user_cm::*;
use zerocopy::{FromBytes, IntoBytes};

use super::{address, handshake, id, multicast, option, ports, qp, query, request};
use crate::fault::ActiveFaults;
use crate::feature::Feature;
use crate::files::FileId;
use crate::state::State;

/// A command other than `GET_EVENT`, which may have to wait.
pub(crate) fn run(
    state: &mut State,
    file: FileId,
    command: &CmCommand<'_>,
    faults: &ActiveFaults,
) -> Result<(), Errno> {
    check(state, command)?;
    let reply = dispatch(state, file, command)?;
    give(&reply, command, faults);
    Ok(())
}

/// What the kernel checks of every command.
///
/// # Errors
/// EACCES after a change of credentials; EINVAL: an unknown number; ENOSYS: a number that no kernel
/// ever had; EFAULT: the request is shorter than its struct; ENOSPC: no room for the reply.
pub(crate) fn check(state: &State, command: &CmCommand<'_>) -> Result<(), Errno> {
    if !state.profile.has_write() {
        return Err(Errno::ACCESS);
    }
    let last = if state.profile.has(Feature::CmEvents) {
        RDMA_USER_CM_CMD_WRITE_CM_EVENT
    } else {
        RDMA_USER_CM_CMD_JOIN_MCAST
    };
    if command.command > last {
        return Err(Errno::INVAL);
    }
    let (request, reply) = sizes(command.command)?;
    if command.request.len() < request {
        return Err(Errno::FAULT);
    }
    if command.reply.len() < reply {
        return Err(Errno::NOSPC);
    }
    Ok(())
}

/// Copies as much of a reply as there is room for.
pub(super) fn give(reply: &[u8], command: &CmCommand<'_>, faults: &ActiveFaults) {
    let mut bytes = reply.to_vec();
    bytes.truncate(command.reply.len());
    let len = faults.alter(0, &mut bytes);
    for (cell, byte) in command.reply.iter().zip(&bytes).take(len) {
        cell.set(*byte);
    }
}

/// Sizes of a command's request and of the least reply.
fn sizes(command: u32) -> Result<(usize, usize), Errno> {
    macro_rules! of {
        ($request:ty) => {
            (size_of::<$request>(), 0)
        };
        ($request:ty, $reply:expr) => {
            (size_of::<$request>(), $reply)
        };
    }
    Ok(match command {
        RDMA_USER_CM_CMD_CREATE_ID => of!(rdma_ucm_create_id, 4),
        RDMA_USER_CM_CMD_DESTROY_ID | RDMA_USER_CM_CMD_LEAVE_MCAST => of!(rdma_ucm_destroy_id, 4),
        RDMA_USER_CM_CMD_BIND_IP => of!(rdma_ucm_bind_ip),
        RDMA_USER_CM_CMD_RESOLVE_IP => of!(rdma_ucm_resolve_ip),
        RDMA_USER_CM_CMD_RESOLVE_ROUTE => of!(rdma_ucm_resolve_route),
        // Up to the index of the device.
        RDMA_USER_CM_CMD_QUERY_ROUTE => of!(rdma_ucm_query, 200),
        RDMA_USER_CM_CMD_CONNECT => of!(rdma_ucm_connect),
        RDMA_USER_CM_CMD_LISTEN => of!(rdma_ucm_listen),
        RDMA_USER_CM_CMD_ACCEPT => of!(rdma_ucm_accept),
        RDMA_USER_CM_CMD_REJECT => of!(rdma_ucm_reject),
        RDMA_USER_CM_CMD_DISCONNECT => of!(rdma_ucm_disconnect),
        RDMA_USER_CM_CMD_INIT_QP_ATTR => {
            of!(rdma_ucm_init_qp_attr, size_of::<ib_uverbs_qp_attr>())
        }
        // Without the vendor's options.
        RDMA_USER_CM_CMD_GET_EVENT => of!(rdma_ucm_get_event, 324),
        RDMA_USER_CM_CMD_SET_OPTION => of!(rdma_ucm_set_option),
        RDMA_USER_CM_CMD_NOTIFY => of!(rdma_ucm_notify),
        RDMA_USER_CM_CMD_JOIN_IP_MCAST => of!(rdma_ucm_join_ip_mcast, 4),
        RDMA_USER_CM_CMD_MIGRATE_ID => of!(rdma_ucm_migrate_id, 4),
        RDMA_USER_CM_CMD_QUERY => of!(rdma_ucm_query, 8),
        RDMA_USER_CM_CMD_BIND => of!(rdma_ucm_bind),
        RDMA_USER_CM_CMD_RESOLVE_ADDR => of!(rdma_ucm_resolve_addr),
        RDMA_USER_CM_CMD_JOIN_MCAST => of!(rdma_ucm_join_mcast, 4),
        RDMA_USER_CM_CMD_RESOLVE_IB_SERVICE => of!(rdma_ucm_resolve_ib_service),
        RDMA_USER_CM_CMD_WRITE_CM_EVENT => of!(rdma_ucm_write_cm_event),
        _ => return Err(Errno::NOSYS),
    })
}

fn parse<T: FromBytes>(command: &CmCommand<'_>) -> Result<T, Errno> {
    T::read_from_prefix(command.request)
        .map(|(request, _)| request)
        .map_err(|_| Errno::FAULT)
}

fn dispatch(state: &mut State, file: FileId, command: &CmCommand<'_>) -> Result<Vec<u8>, Errno> {
    let nothing = |()| Vec::new();
    let number = |number: u32| number.as_bytes().to_vec();
    match command.command {
        RDMA_USER_CM_CMD_CREATE_ID => id::create(state, file, &parse(command)?).map(number),
        RDMA_USER_CM_CMD_DESTROY_ID => id::destroy(state, file, &parse(command)?).map(number),
        RDMA_USER_CM_CMD_MIGRATE_ID => id::migrate(state, file, &parse(command)?).map(number),
        RDMA_USER_CM_CMD_BIND_IP => ports::bind_ip(state, file, &parse(command)?).map(nothing),
        RDMA_USER_CM_CMD_BIND => ports::bind(state, file, &parse(command)?).map(nothing),
        RDMA_USER_CM_CMD_LISTEN => ports::listen(state, file, parse(command)?).map(nothing),
        RDMA_USER_CM_CMD_RESOLVE_IP => {
            address::resolve_ip(state, file, &parse(command)?).map(nothing)
        }
        RDMA_USER_CM_CMD_RESOLVE_ADDR => {
            address::resolve(state, file, &parse(command)?).map(nothing)
        }
        RDMA_USER_CM_CMD_RESOLVE_ROUTE => {
            address::resolve_route(state, file, parse(command)?).map(nothing)
        }
        RDMA_USER_CM_CMD_RESOLVE_IB_SERVICE => {
            address::resolve_service(state, file, &parse(command)?).map(nothing)
        }
        RDMA_USER_CM_CMD_CONNECT => request::connect(state, file, &parse(command)?).map(nothing),
        RDMA_USER_CM_CMD_ACCEPT => handshake::accept(state, file, &parse(command)?).map(nothing),
        RDMA_USER_CM_CMD_REJECT => handshake::reject(state, file, &parse(command)?).map(nothing),
        RDMA_USER_CM_CMD_DISCONNECT => {
            handshake::disconnect(state, file, parse(command)?).map(nothing)
        }
        RDMA_USER_CM_CMD_NOTIFY => handshake::notify(state, file, parse(command)?).map(nothing),
        RDMA_USER_CM_CMD_INIT_QP_ATTR => {
            qp::attributes(state, file, &parse(command)?).map(|attr| attr.as_bytes().to_vec())
        }
        RDMA_USER_CM_CMD_QUERY_ROUTE => query::route(state, file, &parse(command)?),
        RDMA_USER_CM_CMD_QUERY => query::query(state, file, &parse(command)?, command.reply.len()),
        RDMA_USER_CM_CMD_SET_OPTION => {
            option::set(state, file, &parse(command)?, command.value).map(nothing)
        }
        RDMA_USER_CM_CMD_JOIN_IP_MCAST => {
            multicast::join_ip(state, file, &parse(command)?).map(number)
        }
        RDMA_USER_CM_CMD_JOIN_MCAST => multicast::join(state, file, &parse(command)?).map(number),
        RDMA_USER_CM_CMD_LEAVE_MCAST => multicast::leave(state, file, &parse(command)?).map(number),
        RDMA_USER_CM_CMD_WRITE_CM_EVENT => {
            super::event::write(state, file, &parse(command)?).map(nothing)
        }
        _ => Err(Errno::NOSYS),
    }
}
