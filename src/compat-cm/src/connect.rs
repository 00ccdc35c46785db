//! The handshake, and the end of a connection.
//!
//! # Safety
//!
//! Exports names of the library that this one stands for.
#![allow(unsafe_code, reason = "exports names")]

use std::ffi::{c_int, c_void};

use uverbs_core::Op;
use uverbs_core::cm::{self, ConnectionParams, EventKind, PrivateData, RejectReason};
use uverbs_core::types::{AsyncEventType, Ece, QpState};

use crate::abi::{AS_MUCH_AS_POSSIBLE, port_space, rdma_conn_param};
use crate::answer::{Answer, minus_one};
use crate::device::Limits;
use crate::errno::Code;
use crate::id::Id;
use crate::pointer::{Handle, In, items};
use crate::{qp_state, wait};

/// How often to retry, if the program does not say.
const RETRIES: u8 = 7;

/// Whether a connection may have these parameters on its device.
fn check(id: &Id, asked: Option<&rdma_conn_param>, limits: Limits) -> Answer<()> {
    if id.c.ps != port_space::TCP {
        return Ok(());
    }
    let Some(asked) = asked else {
        // Without a queue pair its number has to come from somewhere.
        return if id.c.qp.get().is_null() {
            Err(Code::INVALID)
        } else {
            Ok(())
        };
    };
    let fits = |number: u8, most: u8| number == AS_MUCH_AS_POSSIBLE || number <= most;
    if fits(asked.responder_resources, limits.responder_resources)
        && fits(asked.initiator_depth, limits.initiator_depth)
    {
        Ok(())
    } else {
        Err(Code::INVALID)
    }
}

/// What a program asks for; `otherwise` where it leaves that to the library.
fn number(asked: Option<u8>, otherwise: u8) -> u8 {
    match asked {
        None | Some(AS_MUCH_AS_POSSIBLE) => otherwise,
        Some(number) => number,
    }
}

/// The queue pair's number, and whether it has a shared receive queue.
fn queue_pair(id: &Id, asked: Option<&rdma_conn_param>) -> Answer<(u32, bool)> {
    if let Ok(qp) = In::of(id.c.qp.get()).get() {
        return Ok((qp.qp_num.get(), !qp.srq.is_null()));
    }
    let asked = asked.ok_or(Code::INVALID)?;
    Ok((asked.qp_num, asked.srq != 0))
}

fn private_data(op: Op, header: &[u8], asked: Option<&rdma_conn_param>) -> Answer<PrivateData> {
    let mut bytes = header.to_vec();
    if let Some(asked) = asked
        && !asked.private_data.is_null()
    {
        let given = items(
            asked.private_data.cast::<u8>(),
            asked.private_data_len.into(),
        )?;
        bytes.extend_from_slice(given);
    }
    Ok(PrivateData::new(op, &bytes, PrivateData::MOST)?)
}

fn parameters(op: Op, id: &Id, asked: Option<&rdma_conn_param>) -> Answer<ConnectionParams> {
    let (qp_num, srq) = queue_pair(id, asked)?;
    let state = id.state();
    Ok(ConnectionParams {
        qp_num,
        qkey: 0,
        private_data: private_data(op, &state.connect_header, asked)?,
        srq,
        responder_resources: state.responder_resources,
        initiator_depth: state.initiator_depth,
        flow_control: asked.is_some_and(|asked| asked.flow_control != 0),
        retry_count: asked.map_or(RETRIES, |asked| asked.retry_count),
        rnr_retry_count: asked.map_or(RETRIES, |asked| asked.rnr_retry_count),
    })
}

pub(crate) fn connect(id: &Id, asked: Option<&rdma_conn_param>) -> Answer<()> {
    let limits = id.device()?.limits;
    check(id, asked, limits)?;
    {
        let mut state = id.state();
        let depth = asked.map(|asked| asked.initiator_depth);
        state.initiator_depth = number(depth, limits.initiator_depth);
        let resources = asked.map(|asked| asked.responder_resources);
        state.responder_resources = number(resources, limits.responder_resources);
    }
    // A datagram service needs no queue pair to be asked for.
    let none = rdma_conn_param {
        private_data: std::ptr::null(),
        private_data_len: 0,
        responder_resources: 0,
        initiator_depth: 0,
        flow_control: 0,
        retry_count: RETRIES,
        rnr_retry_count: RETRIES,
        srq: 0,
        qp_num: 0,
    };
    let params = parameters(Op::CmConnect, id, asked.or(Some(&none)))?;
    let ece = id.state().local_ece;
    cm::connect(&id.channel()?.file, id.number(), &params, ece)?;
    id.state().connect_header.clear();
    Ok(())
}

pub(crate) fn accept(id: &Id, asked: Option<&rdma_conn_param>) -> Answer<()> {
    let limits = id.device()?.limits;
    check(id, asked, limits)?;
    queue_pair(id, asked)?;
    let (resources, depth) = {
        let mut state = id.state();
        let depth = asked.map(|asked| asked.initiator_depth);
        let most = state.initiator_depth.min(limits.initiator_depth);
        state.initiator_depth = number(depth, most);
        let resources = asked.map(|asked| asked.responder_resources);
        let most = state.responder_resources.min(limits.responder_resources);
        state.responder_resources = number(resources, most);
        (state.responder_resources, state.initiator_depth)
    };
    if !id.is_datagram() {
        qp_state::to_ready(id, resources, depth)?;
    }
    let params = parameters(Op::CmAccept, id, asked)?;
    let ece = {
        let state = id.state();
        Ece {
            // The peer's, as a sign that it was understood.
            vendor_id: state.remote_ece.vendor_id,
            options: state.local_ece.options,
            comp_mask: 0,
        }
    };
    let file = &id.channel()?.file;
    cm::accept(file, id.number(), id.uid.number(), &params, ece).map_err(|error| {
        let _ = qp_state::to_error(id);
        error.into()
    })
}

pub(crate) fn reject(
    id: &Id,
    data: *const c_void,
    length: u8,
    reason: RejectReason,
) -> Answer<c_int> {
    let given = if data.is_null() {
        &[]
    } else {
        items(data.cast::<u8>(), length.into())?
    };
    let data = PrivateData::new(Op::CmReject, given, PrivateData::MOST)?;
    cm::reject(&id.channel()?.file, id.number(), reason, &data)?;
    Ok(0)
}

/// `ibv_transport_type`: the queue pairs of InfiniBand and Ethernet, and those of iWARP.
const INFINIBAND: c_int = 0;
pub(crate) const IWARP: c_int = 1;

pub(crate) fn disconnect(id: &Id) -> Answer<()> {
    let context = In::of(id.c.verbs.get()).get()?;
    let device = In::of(context.device).get()?;
    let state = match device.transport_type {
        INFINIBAND => QpState::Error,
        IWARP => QpState::SendQueueDrained,
        _ => return Err(Code::INVALID),
    };
    qp_state::stop(id, state)?;
    Ok(cm::disconnect(&id.channel()?.file, id.number())?)
}

#[unsafe(no_mangle)]
extern "C" fn rdma_connect(id: Handle<Id>, param: In<rdma_conn_param>) -> c_int {
    wait::command(id, |id| connect(id, param.get().ok()))
}

/// Waits for the peer's last message if the id is synchronous; a datagram service gets none.
#[unsafe(no_mangle)]
extern "C" fn rdma_accept(id: Handle<Id>, param: In<rdma_conn_param>) -> c_int {
    if is_datagram(id) {
        return answer(id, param);
    }
    wait::command(id, |id| accept(id, param.get().ok()))
}

#[inline(never)]
extern "C" fn is_datagram(id: Handle<Id>) -> bool {
    id.get().is_ok_and(Id::is_datagram)
}

#[inline(never)]
extern "C" fn answer(id: Handle<Id>, param: In<rdma_conn_param>) -> c_int {
    minus_one(|| {
        let id = id.get()?;
        accept(id, param.get().ok())?;
        if id.state().is_synchronous {
            id.drop_event();
        }
        Ok(0)
    })
}

/// For programs that move their queue pairs themselves, after the event with the peer's answer.
#[unsafe(no_mangle)]
extern "C" fn rdma_establish(id: Handle<Id>) -> c_int {
    minus_one(|| {
        let id = id.get()?;
        if !id.c.qp.get().is_null() {
            return Err(Code::INVALID);
        }
        qp_state::establish(id).map(|()| 0)
    })
}

#[unsafe(no_mangle)]
extern "C" fn rdma_reject(id: Handle<Id>, data: *const c_void, length: u8) -> c_int {
    minus_one(|| reject(id.get()?, data, length, RejectReason::Consumer))
}

#[unsafe(no_mangle)]
extern "C" fn rdma_reject_ece(id: Handle<Id>, data: *const c_void, length: u8) -> c_int {
    minus_one(|| reject(id.get()?, data, length, RejectReason::VendorOption))
}

#[unsafe(no_mangle)]
extern "C" fn rdma_disconnect(id: Handle<Id>) -> c_int {
    wait::command(id, disconnect)
}

#[unsafe(no_mangle)]
extern "C" fn rdma_notify(id: Handle<Id>, event: u32) -> c_int {
    minus_one(|| {
        let id = id.get()?;
        let event = AsyncEventType::from_raw(event);
        cm::notify(&id.channel()?.file, id.number(), event)?;
        Ok(0)
    })
}

/// Only kernels newer than 6.12 take events of programs.
#[unsafe(no_mangle)]
extern "C" fn rdma_write_cm_event(id: Handle<Id>, event: u32, status: c_int, arg: u64) -> c_int {
    minus_one(|| {
        let id = id.get()?;
        let kind = EventKind::from_raw(event);
        cm::write_event(&id.channel()?.file, id.number(), kind, status, arg)?;
        Ok(0)
    })
}
