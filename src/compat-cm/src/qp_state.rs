//! Moving an id's queue pair through its states, with the attributes of the handshake.
//!
//! # Safety
//!
//! Exports names of the library that this one stands for.
#![allow(unsafe_code, reason = "exports names")]

use std::ffi::c_int;

use uverbs_compat_base::abi::{ibv_ece, ibv_qp, ibv_qp_attr};
use uverbs_core::cm;
use uverbs_core::types::{Ece, QpState};

use crate::abi::AS_MUCH_AS_POSSIBLE;
use crate::answer::{Answer, minus_one};
use crate::errno::Code;
use crate::id::Id;
use crate::pointer::{Handle, In, Out};
use crate::verbs;

/// `IBV_QP_STATE`.
const STATE: c_int = 1 << 0;
/// `IBV_QP_SQ_PSN`.
const SQ_PSN: c_int = 1 << 16;
/// Bits that old kernels set for RoCE only, and that InfiniBand's drivers do not know.
const ETHERNET_BITS: c_int = 0xe0_0000;

/// The attributes for a state, and which of them count.
fn attributes(id: &Id, state: QpState) -> Answer<(ibv_qp_attr, c_int)> {
    let raw = cm::init_qp_attr_raw(&id.channel()?.file, id.number(), state)?;
    // Not every libibverbs takes the state over.
    let mut attr = state_only(state);
    verbs::qp_attr(&raw, &mut attr);
    Ok((attr, raw.qp_attr_mask.cast_signed()))
}

fn state_only(state: QpState) -> ibv_qp_attr {
    ibv_qp_attr {
        qp_state: u32::from(state.raw()),
        ..ibv_qp_attr::default()
    }
}

/// A new queue pair of a connection to INIT.
pub(crate) fn initialize(id: &Id, qp: *mut ibv_qp) -> Answer<()> {
    let (mut attr, mask) = attributes(id, QpState::Init)?;
    verbs::modify_qp(qp, &mut attr, mask)
}

/// A new queue pair for datagrams to RTS.
pub(crate) fn make_ready(id: &Id, qp: *mut ibv_qp) -> Answer<()> {
    initialize(id, qp)?;
    verbs::modify_qp(qp, &mut state_only(QpState::ReadyToReceive), STATE)?;
    verbs::modify_qp(qp, &mut state_only(QpState::ReadyToSend), STATE | SQ_PSN)
}

/// To RTR and RTS, serving and starting as many reads at a time. Nothing to do for an id without a
/// queue pair.
pub(crate) fn to_ready(id: &Id, responder_resources: u8, initiator_depth: u8) -> Answer<()> {
    let qp = id.c.qp.get();
    if qp.is_null() {
        return Ok(());
    }
    // Since the handshake began there are access rights.
    initialize(id, qp)?;
    let (mut attr, mut mask) = attributes(id, QpState::ReadyToReceive)?;
    if id.device()?.is_infiniband(id.c.port_num.get()) {
        mask &= !ETHERNET_BITS;
    }
    if responder_resources != AS_MUCH_AS_POSSIBLE {
        attr.max_dest_rd_atomic = responder_resources;
    }
    verbs::modify_qp(qp, &mut attr, mask)?;
    let (mut attr, mask) = attributes(id, QpState::ReadyToSend)?;
    if initiator_depth != AS_MUCH_AS_POSSIBLE {
        attr.max_rd_atomic = initiator_depth;
    }
    verbs::modify_qp(qp, &mut attr, mask)
}

/// To the error state, if there is one.
pub(crate) fn to_error(id: &Id) -> Answer<()> {
    stop(id, QpState::Error)
}

/// To a state in which it sends nothing more, if there is one.
pub(crate) fn stop(id: &Id, state: QpState) -> Answer<()> {
    let qp = id.c.qp.get();
    if qp.is_null() {
        return Ok(());
    }
    verbs::modify_qp(qp, &mut state_only(state), STATE)
}

/// The peer has answered: has the queue pair ready, and tells the peer.
pub(crate) fn answered(id: &Id, remote: Ece) -> Answer<()> {
    let done = agree(id, remote)
        .and_then(|()| establish(id))
        .and_then(|()| {
            let agreed = query_ece(id.c.qp.get())?;
            id.state().local_ece.options = agreed.options;
            Ok(())
        });
    if done.is_err() {
        let _ = to_error(id);
    }
    done
}

/// Has the queue pair ready, if there is one, and tells the peer.
pub(crate) fn establish(id: &Id) -> Answer<()> {
    let done = to_ready(id, AS_MUCH_AS_POSSIBLE, AS_MUCH_AS_POSSIBLE)
        .and_then(|()| Ok(cm::establish(&id.channel()?.file, id.number())?));
    if done.is_err() {
        let _ = to_error(id);
    }
    done
}

/// Gives the queue pair of the active side the options that the peer has agreed to.
fn agree(id: &Id, remote: Ece) -> Answer<()> {
    let mut state = id.state();
    let local = state.local_ece.vendor_id;
    let options = match remote.vendor_id {
        // The peer, or its kernel, has none.
        0 => 0,
        vendor if vendor == local => remote.options,
        // No peer answers with another vendor's.
        _ => return Err(Code::INVALID),
    };
    state.remote_ece.vendor_id = remote.vendor_id;
    drop(state);
    set_ece(id.c.qp.get(), local, options)
}

/// The options of a queue pair; none if the device has none.
pub(crate) fn query_ece(qp: *mut ibv_qp) -> Answer<Ece> {
    let mut ece = ibv_ece {
        vendor_id: 0,
        options: 0,
        comp_mask: 0,
    };
    match verbs::query_ece(qp, &mut ece) {
        Ok(()) => Ok(Ece {
            vendor_id: ece.vendor_id,
            options: ece.options,
            comp_mask: 0,
        }),
        Err(Code::UNSUPPORTED) => Ok(Ece::default()),
        Err(code) => Err(code),
    }
}

/// Sets them; without effect if the device has none.
pub(crate) fn set_ece(qp: *mut ibv_qp, vendor_id: u32, options: u32) -> Answer<()> {
    let mut ece = ibv_ece {
        vendor_id,
        options,
        comp_mask: 0,
    };
    match verbs::set_ece(qp, &mut ece) {
        Err(Code::UNSUPPORTED) => Ok(()),
        done => done,
    }
}

/// For programs that move their queue pairs themselves.
#[unsafe(no_mangle)]
extern "C" fn rdma_init_qp_attr(id: Handle<Id>, attr: Out<ibv_qp_attr>, mask: Out<c_int>) -> c_int {
    minus_one(|| {
        let place = attr.get()?;
        mask.get()?;
        let state = u8::try_from(place.qp_state).map_err(|_| Code::INVALID)?;
        let raw = {
            let id = id.get()?;
            let state = QpState::from_raw(state);
            cm::init_qp_attr_raw(&id.channel()?.file, id.number(), state)?
        };
        verbs::qp_attr(&raw, place);
        mask.put(raw.qp_attr_mask.cast_signed())?;
        Ok(0)
    })
}

#[unsafe(no_mangle)]
extern "C" fn rdma_set_local_ece(id: Handle<Id>, ece: In<ibv_ece>) -> c_int {
    minus_one(|| {
        let (id, ece) = (id.get()?, ece.get()?);
        if !id.c.qp.get().is_null() || ece.vendor_id == 0 || ece.comp_mask != 0 {
            return Err(Code::INVALID);
        }
        let local = &mut id.state().local_ece;
        local.vendor_id = ece.vendor_id;
        local.options = ece.options;
        Ok(0)
    })
}

#[unsafe(no_mangle)]
extern "C" fn rdma_get_remote_ece(id: Handle<Id>, ece: Out<ibv_ece>) -> c_int {
    minus_one(|| {
        let id = id.get()?;
        if !id.c.qp.get().is_null() {
            return Err(Code::INVALID);
        }
        let remote = id.state().remote_ece;
        ece.put(ibv_ece {
            vendor_id: remote.vendor_id,
            options: remote.options,
            comp_mask: 0,
        })?;
        Ok(0)
    })
}
