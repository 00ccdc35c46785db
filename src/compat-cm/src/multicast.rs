//! Multicast groups that ids have joined.
//!
//! # Safety
//!
//! Exports names of the library that this one stands for.
#![allow(unsafe_code, reason = "exports names")]

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use uverbs_compat_base::abi::{ibv_ah_attr, ibv_gid};
use uverbs_core::cm::{self, CmAddress, MulticastJoin};

use crate::abi::rdma_cm_join_mc_attr_ex;
use crate::answer::{Answer, minus_one};
use crate::errno::Code;
use crate::failure::NO_ADDRESS;
use crate::id::{Id, Shared};
use crate::pointer::{Handle, In};
use crate::table::{Owner, Target, Uid};
use crate::{peer, verbs, wait};

/// A group that an id has joined, or tries to.
#[derive(Debug)]
pub(crate) struct Join {
    pub(crate) uid: Uid,
    pub(crate) shared: Shared,
    /// The kernel's number.
    number: AtomicU32,
    address: CmAddress,
    how: MulticastJoin,
    /// What the program wants to read in its events.
    context: usize,
    /// The group that the queue pair is attached to.
    attached: Mutex<Option<([u8; 16], u16)>>,
}

impl Join {
    pub(crate) fn context(&self) -> *mut c_void {
        std::ptr::with_exposed_provenance_mut(self.context)
    }

    /// Attaches the id's queue pair to the group, or none any more.
    fn group(&self) -> std::sync::MutexGuard<'_, Option<([u8; 16], u16)>> {
        self.attached.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The group is there: its messages go to the queue pair, if there is one that receives.
pub(crate) fn joined(id: &Id, join: &Join, way: &ibv_ah_attr) -> Answer<()> {
    let qp = id.c.qp.get();
    if qp.is_null() || join.how == MulticastJoin::SendOnly {
        return Ok(());
    }
    verbs::attach_mcast(qp, &way.grh.dgid, way.dlid)?;
    *join.group() = Some((way.grh.dgid.raw, way.dlid));
    Ok(())
}

fn join(
    handle: Handle<Id>,
    id: &Id,
    address: *const c_void,
    how: MulticastJoin,
    context: *mut c_void,
) -> Answer<()> {
    let address = peer::read(address)?;
    let join = Arc::new(Join {
        uid: Uid::new(),
        shared: Shared::default(),
        number: AtomicU32::new(u32::MAX),
        address,
        how,
        context: context.expose_provenance(),
        attached: Mutex::new(None),
    });
    let target = Target::Join(Owner::new(handle, &id.shared), Arc::clone(&join));
    join.uid.is(target);
    id.state().joins.push(Arc::clone(&join));
    let file = &id.channel()?.file;
    match cm::join_multicast(file, id.number(), join.uid.number(), address, how) {
        Ok(number) => {
            join.number.store(number, Ordering::Relaxed);
            Ok(())
        }
        Err(error) => {
            join.uid.forget();
            id.state().joins.retain(|other| !Arc::ptr_eq(other, &join));
            Err(error.into())
        }
    }
}

fn leave(id: &Id, address: *const c_void) -> Answer<()> {
    let address = peer::read(address)?;
    let join = {
        let mut state = id.state();
        let last = state.joins.iter().rposition(|join| join.address == address);
        state.joins.remove(last.ok_or(NO_ADDRESS)?)
    };
    let attached = join.group().take();
    let qp = id.c.qp.get();
    if let Some((raw, lid)) = attached
        && !qp.is_null()
    {
        let _ = verbs::detach_mcast(qp, &ibv_gid { raw }, lid);
    }
    let number = join.number.load(Ordering::Relaxed);
    let done = cm::leave_multicast(&id.channel()?.file, number);
    if let Ok(delivered) = done {
        join.shared.until_acknowledged(delivered);
    }
    join.uid.forget();
    Ok(done.map(drop)?)
}

#[unsafe(no_mangle)]
extern "C" fn rdma_join_multicast(
    id: Handle<Id>,
    address: *const c_void,
    context: *mut c_void,
) -> c_int {
    wait::command(id, |own| {
        join(id, own, address, MulticastJoin::Full, context)
    })
}

/// Which fields of the struct count.
const ADDRESS: u32 = 1 << 0;
const FLAGS: u32 = 1 << 1;
const KNOWN: u32 = ADDRESS | FLAGS;

/// The address and the kind of a join.
fn extended(attr: In<rdma_cm_join_mc_attr_ex>) -> Answer<(*const c_void, MulticastJoin)> {
    let attr = attr.get()?;
    if attr.comp_mask & !KNOWN != 0 {
        return Err(Code::UNSUPPORTED);
    }
    if attr.comp_mask != KNOWN {
        return Err(Code::INVALID);
    }
    let how = match attr.join_flags {
        0 => MulticastJoin::Full,
        1 => MulticastJoin::SendOnly,
        _ => return Err(Code::INVALID),
    };
    Ok((attr.addr, how))
}

#[unsafe(no_mangle)]
extern "C" fn rdma_join_multicast_ex(
    id: Handle<Id>,
    attr: In<rdma_cm_join_mc_attr_ex>,
    context: *mut c_void,
) -> c_int {
    wait::command(id, |own| {
        let (address, how) = extended(attr)?;
        join(id, own, address, how, context)
    })
}

#[unsafe(no_mangle)]
extern "C" fn rdma_leave_multicast(id: Handle<Id>, address: *const c_void) -> c_int {
    minus_one(|| leave(id.get()?, address).map(|()| 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joins_of_an_unknown_kind_are_refused() {
        let of = |comp_mask, join_flags| {
            let attr = rdma_cm_join_mc_attr_ex {
                comp_mask,
                join_flags,
                addr: std::ptr::null(),
            };
            extended(In::of(&raw const attr)).map(|(_, how)| how)
        };
        assert_eq!(of(KNOWN, 0), Ok(MulticastJoin::Full));
        assert_eq!(of(KNOWN, 1), Ok(MulticastJoin::SendOnly));
        assert_eq!(of(KNOWN, 2), Err(Code::INVALID));
        assert_eq!(of(ADDRESS, 0), Err(Code::INVALID));
        assert_eq!(of(KNOWN | 4, 0), Err(Code::UNSUPPORTED));
    }
}
