//! Memory windows.

use std::cell::Cell;
use std::ffi::c_int;

use uverbs_core::Object as KernelObject;
use uverbs_core::types::{
    AccessFlags, LocalKey, MwType, Operation, Payload, RemoteKey, SendFlags, SendRequest,
    WindowBinding,
};

use crate::abi::{ibv_mw, ibv_mw_bind, ibv_mw_bind_info, ibv_pd};
use crate::answer::{Answer, number, pointer};
use crate::errno::Code;
use crate::lock::Locked;
use crate::memory::Mr;
use crate::pd::Pd;
use crate::pointer::{Handle, In, Object};
use crate::qp::Qp;
use crate::sends;

/// A memory window.
#[repr(C)]
pub(crate) struct Mw {
    c: ibv_mw,
    object: Locked<KernelObject>,
}

impl Object for Mw {
    type C = ibv_mw;
}

impl Mw {
    /// The binding of this window that a request asks for, with `new_key`.
    pub(crate) fn binding(&self, info: &ibv_mw_bind_info, new_key: u32) -> Answer<WindowBinding> {
        let region = match info.length {
            0 => LocalKey::from_raw(0),
            _ => Handle::<Mr>::of(info.mr).get()?.lkey(),
        };
        Ok(WindowBinding {
            kind: MwType::from_raw(u8::try_from(self.c.r#type).map_err(|_| Code::INVALID)?),
            window_key: RemoteKey::from_raw(self.c.rkey.get()),
            new_key: RemoteKey::from_raw(new_key),
            region_key: region,
            address: info.addr,
            length: info.length,
            access: AccessFlags::from_bits_retain(info.mw_access_flags),
        })
    }
}

/// The slot.
pub(crate) extern "C" fn alloc_mw(pd: Handle<Pd>, kind: u32) -> *mut ibv_mw {
    pointer(|| {
        let domain = pd.get()?;
        let mw_type = MwType::from_raw(u8::try_from(kind).map_err(|_| Code::INVALID)?);
        let provider = domain.context()?.provider();
        let (object, key) = provider.alloc_window(&*domain.domain()?, mw_type)?;
        domain.users.add();
        let mw = Mw {
            c: ibv_mw {
                context: domain.context_pointer(),
                pd: pd.raw(),
                rkey: Cell::new(key.raw()),
                handle: object.handle(),
                r#type: kind,
            },
            object: Locked::new(object, true),
        };
        Ok(Mw::to_c(Box::into_raw(Box::new(mw))))
    })
}

/// The slot.
pub(crate) extern "C" fn dealloc_mw(mw: Handle<Mw>) -> c_int {
    number(|| {
        let window = mw.get()?;
        window.object.with(KernelObject::try_destroy)?;
        let pd: *mut ibv_pd = window.c.pd;
        Handle::<Pd>::of(pd).get()?.users.remove();
        window.free();
        Ok(())
    })
}

/// The slot of `ibv_bind_mw`, for windows of type 1. The header has checked the rest.
pub(crate) extern "C" fn bind_mw(qp: Handle<Qp>, mw: Handle<Mw>, bind: In<ibv_mw_bind>) -> c_int {
    number(|| {
        let (queue, window, bind) = (qp.get()?, mw.get()?, bind.get()?);
        let new_key = RemoteKey::from_raw(window.c.rkey.get()).inc();
        let binding = window.binding(&bind.bind_info, new_key.raw())?;
        let flags = SendFlags::from_bits_retain(bind.send_flags);
        let request = SendRequest::new(Operation::BindWindow(&binding), Payload::NONE)
            .wr_id(bind.wr_id)
            .with(flags);
        sends::post_one(queue, &request)?;
        window.c.rkey.set(new_key.raw());
        Ok(())
    })
}
