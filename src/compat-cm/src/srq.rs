//! The shared receive queues of ids.
//!
//! # Safety
//!
//! Exports names of the library that this one stands for.
#![allow(unsafe_code, reason = "exports names")]

use std::ffi::c_int;

use uverbs_compat_base::abi::{ibv_pd, ibv_srq_init_attr, ibv_srq_init_attr_ex};

use crate::abi::qp_type;
use crate::answer::{Answer, minus_one, or};
use crate::cqs;
use crate::errno::Code;
use crate::failure::NO_DEVICE;
use crate::id::Id;
use crate::pointer::{Handle, Out};
use crate::verbs::{self, SRQ_CQ, SRQ_PD, SRQ_TYPE, SRQ_XRCD};

/// `IBV_SRQT_BASIC`, `IBV_SRQT_XRC`.
const BASIC: u32 = 0;
const XRC: u32 = 1;

fn create(id: &Id, attr: &mut ibv_srq_init_attr_ex) -> Answer<()> {
    if attr.comp_mask & SRQ_TYPE == 0 {
        return Err(Code::INVALID);
    }
    if id.c.verbs.get().is_null() {
        return Err(NO_DEVICE);
    }
    if attr.comp_mask & SRQ_PD == 0 || attr.pd.is_null() {
        attr.pd = id.c.pd.get();
        attr.comp_mask |= SRQ_PD;
    }
    if attr.srq_type == XRC {
        if attr.comp_mask & SRQ_XRCD == 0 || attr.xrcd.is_null() {
            attr.xrcd = id.device()?.xrcd()?;
        }
        if attr.comp_mask & SRQ_CQ == 0 || attr.cq.is_null() {
            cqs::create(id, 0, attr.attr.max_wr)?;
            attr.cq = id.c.recv_cq.get();
        }
        attr.comp_mask |= SRQ_XRCD | SRQ_CQ;
    }
    match verbs::create_srq(id.c.verbs.get(), attr) {
        Ok(srq) => {
            if id.c.pd.get().is_null() {
                id.c.pd.set(attr.pd);
            }
            id.c.srq.set(srq);
            Ok(())
        }
        Err(code) => {
            cqs::destroy(id);
            Err(code)
        }
    }
}

/// Destroys the queue, and the completion queue that came with it.
pub(crate) fn destroy(id: &Id) {
    let srq = id.c.srq.replace(std::ptr::null_mut());
    if !srq.is_null() {
        let _ = verbs::destroy_srq(srq);
    }
    cqs::destroy(id);
}

#[unsafe(no_mangle)]
extern "C" fn rdma_create_srq_ex(id: Handle<Id>, attr: Out<ibv_srq_init_attr_ex>) -> c_int {
    minus_one(|| create(id.get()?, attr.get()?).map(|()| 0))
}

#[unsafe(no_mangle)]
extern "C" fn rdma_create_srq(
    id: Handle<Id>,
    pd: *mut ibv_pd,
    attr: Out<ibv_srq_init_attr>,
) -> c_int {
    minus_one(|| {
        let (id, attr) = (id.get()?, attr.get()?);
        let is_xrc = id.c.qp_type == qp_type::XRC_RECV;
        let mut extended = ibv_srq_init_attr_ex {
            srq_context: attr.srq_context,
            attr: attr.attr,
            comp_mask: SRQ_TYPE | SRQ_PD,
            srq_type: if is_xrc { XRC } else { BASIC },
            pd,
            xrcd: std::ptr::null_mut(),
            cq: std::ptr::null_mut(),
            tm_cap: [0; 2],
        };
        let done = create(id, &mut extended);
        attr.attr = extended.attr;
        done.map(|()| 0)
    })
}

#[unsafe(no_mangle)]
extern "C" fn rdma_destroy_srq(id: Handle<Id>) {
    or((), || {
        destroy(id.get()?);
        Ok(())
    });
}
