//! `rdma_get_devices`: the contexts that ids have, for programs that want all of them.
//!
//! # Safety
//!
//! Exports names of the library that this one stands for. The array that C gets is allocated by the
//! C library and ends with NULL, so that it can be given back without its size.
#![allow(unsafe_code, reason = "exports names; makes an array for C")]

use std::ffi::c_int;

use uverbs_compat_base::abi::ibv_context;

use crate::answer::{or, pointer};
use crate::device;
use crate::errno::Code;
use crate::pointer::Out;

#[unsafe(no_mangle)]
extern "C" fn rdma_get_devices(count: Out<c_int>) -> *mut *mut ibv_context {
    count.put_if_any(0);
    pointer(|| {
        let all = device::take_all()?;
        // SAFETY: zeroed memory of this size, or NULL.
        let array = unsafe { libc::calloc(all.len() + 1, size_of::<*mut ibv_context>()) };
        let array = array.cast::<*mut ibv_context>();
        let number = c_int::try_from(all.len());
        if array.is_null() || number.is_err() {
            device::give_back(&all);
            return Err(Code::NO_ROOM);
        }
        for (at, context) in all.iter().enumerate() {
            Out::of(array).after(at).put(*context)?;
        }
        count.put_if_any(number.unwrap_or(0));
        Ok(array)
    })
}

#[unsafe(no_mangle)]
extern "C" fn rdma_free_devices(list: *mut *mut ibv_context) {
    if list.is_null() {
        return;
    }
    or((), || {
        let mut all = Vec::new();
        loop {
            // SAFETY: an array of `rdma_get_devices`; its last item, behind which nothing is read,
            // is NULL.
            let context = unsafe { list.wrapping_add(all.len()).read() };
            if context.is_null() {
                break;
            }
            all.push(context);
        }
        device::give_back(&all);
        Ok(())
    });
    // SAFETY: allocated there, and not used afterwards.
    unsafe { libc::free(list.cast()) };
}
