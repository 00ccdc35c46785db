//! The queue pairs of ids.
//!
//! # Safety
//!
//! Exports names of the library that this one stands for.
#![allow(unsafe_code, reason = "exports names")]

use std::ffi::c_int;

use uverbs_compat_base::abi::{
    ibv_cq, ibv_pd, ibv_qp, ibv_qp_init_attr, ibv_qp_init_attr_ex, ibv_rx_hash_conf,
};

use crate::abi::qp_type;
use crate::answer::{Answer, minus_one, or};
use crate::cqs;
use crate::errno::Code;
use crate::failure::NO_DEVICE;
use crate::id::Id;
use crate::pointer::{Handle, In, Out};
use crate::qp_state;
use crate::verbs::{self, QP_PD, QP_XRCD};

/// Creates the queue pair of an id, in its first state.
///
/// `attr` gets the objects that the library chose.
fn create_extended(id: &Id, attr: &mut ibv_qp_init_attr_ex) -> Answer<()> {
    if !id.c.qp.get().is_null() {
        return Err(Code::INVALID);
    }
    if id.c.verbs.get().is_null() {
        return Err(NO_DEVICE);
    }
    if attr.comp_mask & QP_PD == 0 || attr.pd.is_null() {
        attr.comp_mask |= QP_PD;
        attr.pd = id.c.pd.get();
    } else if In::of(attr.pd).get()?.context != id.c.verbs.get() {
        return Err(Code::INVALID);
    }
    let differs =
        |own: *mut ibv_cq, given: *mut ibv_cq| !own.is_null() && !given.is_null() && own != given;
    if differs(id.c.recv_cq.get(), attr.recv_cq) || differs(id.c.send_cq.get(), attr.send_cq) {
        return Err(Code::INVALID);
    }
    let has_domain = attr.comp_mask & QP_XRCD != 0 && !attr.xrcd.is_null();
    if id.c.qp_type == qp_type::XRC_RECV && !has_domain {
        attr.xrcd = id.device()?.xrcd()?;
        attr.comp_mask |= QP_XRCD;
    }
    let entries = |own: *mut ibv_cq, given: *mut ibv_cq, wanted: u32| {
        if given.is_null() && own.is_null() {
            wanted
        } else {
            0
        }
    };
    let sends = entries(id.c.send_cq.get(), attr.send_cq, attr.cap.max_send_wr);
    let receives = entries(id.c.recv_cq.get(), attr.recv_cq, attr.cap.max_recv_wr);
    cqs::create(id, sends, receives)?;
    if attr.send_cq.is_null() {
        attr.send_cq = id.c.send_cq.get();
    }
    if attr.recv_cq.is_null() {
        attr.recv_cq = id.c.recv_cq.get();
    }
    if attr.srq.is_null() {
        attr.srq = id.c.srq.get();
    }
    match prepared(id, attr) {
        Ok(qp) => {
            // The receiving end of an XRC connection has none.
            let pd = In::of(qp).get()?.pd;
            if !pd.is_null() {
                id.c.pd.set(pd);
            }
            id.c.qp.set(qp);
            Ok(())
        }
        Err(code) => {
            cqs::destroy(id);
            Err(code)
        }
    }
}

/// A queue pair that has the options of the handshake, and is in the first state that it needs.
fn prepared(id: &Id, attr: &mut ibv_qp_init_attr_ex) -> Answer<*mut ibv_qp> {
    let qp = verbs::create_qp(id.c.verbs.get(), attr)?;
    let done = offer(id, qp)
        .and_then(|()| {
            if id.is_datagram() {
                qp_state::make_ready(id, qp)
            } else {
                qp_state::initialize(id, qp)
            }
        })
        .and_then(|()| offered(id, qp));
    if let Err(code) = done {
        let _ = verbs::destroy_qp(qp);
        return Err(code);
    }
    Ok(qp)
}

/// Notes the options that the queue pair has, and on the passive side gives it those that the peer
/// asks for.
fn offer(id: &Id, qp: *mut ibv_qp) -> Answer<()> {
    let own = qp_state::query_ece(qp)?;
    let mut state = id.state();
    state.local_ece = own;
    let remote = state.remote_ece;
    drop(state);
    if remote.vendor_id == 0 {
        return Ok(());
    }
    let options = if remote.vendor_id == own.vendor_id {
        remote.options
    } else {
        0
    };
    qp_state::set_ece(qp, own.vendor_id, options)
}

/// On the passive side, notes what remains of the peer's options.
fn offered(id: &Id, qp: *mut ibv_qp) -> Answer<()> {
    if id.state().remote_ece.vendor_id != 0 {
        let agreed = qp_state::query_ece(qp)?;
        id.state().local_ece.options = agreed.options;
    }
    Ok(())
}

/// The same by the short struct; `pd` may be NULL.
pub(crate) fn create(id: &Id, pd: *mut ibv_pd, attr: &mut ibv_qp_init_attr) -> Answer<()> {
    let mut extended = ibv_qp_init_attr_ex {
        qp_context: attr.qp_context,
        send_cq: attr.send_cq,
        recv_cq: attr.recv_cq,
        srq: attr.srq,
        cap: attr.cap,
        qp_type: attr.qp_type,
        sq_sig_all: attr.sq_sig_all,
        comp_mask: QP_PD,
        pd: if pd.is_null() { id.c.pd.get() } else { pd },
        xrcd: std::ptr::null_mut(),
        create_flags: 0,
        max_tso_header: 0,
        rwq_ind_tbl: std::ptr::null_mut(),
        rx_hash_conf: ibv_rx_hash_conf {
            rx_hash_function: 0,
            rx_hash_key_len: 0,
            rx_hash_key: std::ptr::null_mut(),
            rx_hash_fields_mask: 0,
        },
        source_qpn: 0,
        send_ops_flags: 0,
    };
    let done = create_extended(id, &mut extended);
    attr.send_cq = extended.send_cq;
    attr.recv_cq = extended.recv_cq;
    attr.srq = extended.srq;
    attr.cap = extended.cap;
    done
}

/// Destroys the queue pair, and the completion queues that came with it.
pub(crate) fn destroy(id: &Id) {
    let qp = id.c.qp.replace(std::ptr::null_mut());
    if !qp.is_null() {
        let _ = verbs::destroy_qp(qp);
    }
    cqs::destroy(id);
}

#[unsafe(no_mangle)]
extern "C" fn rdma_create_qp(
    id: Handle<Id>,
    pd: *mut ibv_pd,
    attr: Out<ibv_qp_init_attr>,
) -> c_int {
    minus_one(|| create(id.get()?, pd, attr.get()?).map(|()| 0))
}

#[unsafe(no_mangle)]
extern "C" fn rdma_create_qp_ex(id: Handle<Id>, attr: Out<ibv_qp_init_attr_ex>) -> c_int {
    minus_one(|| create_extended(id.get()?, attr.get()?).map(|()| 0))
}

#[unsafe(no_mangle)]
extern "C" fn rdma_destroy_qp(id: Handle<Id>) {
    or((), || {
        destroy(id.get()?);
        Ok(())
    });
}
