//! How inline functions of the headers reach what they call: by a pointer in the object, in its
//! context, or in the extended context that its context is the end of.
//!
//! # Safety
//!
//! Each of these functions demands what the C function of its name demands: that its pointers lead
//! to objects that exist, of the types that they say, or to structs that are filled in. Objects
//! come from `uverbs-compat`, which leaves no slot empty that a header calls without a test.
#![allow(
    unsafe_code,
    reason = "follows pointers of C's structs, as the headers do"
)]

use std::ffi::c_int;
use std::ptr::null_mut;

use crate::bindings::{
    ibv_context, ibv_counters, ibv_cq, ibv_dm, ibv_flow, ibv_flow_action, ibv_mw, ibv_pd, ibv_qp,
    ibv_rwq_ind_table, ibv_srq, ibv_td, ibv_wq, ibv_xrcd, verbs_context,
};

/// What a function answers if its slot is empty.
pub(crate) trait Unsupported {
    fn unsupported() -> Self;
}

impl Unsupported for c_int {
    fn unsupported() -> Self {
        libc::EOPNOTSUPP
    }
}

impl<T> Unsupported for *mut T {
    fn unsupported() -> Self {
        set_errno(libc::EOPNOTSUPP);
        null_mut()
    }
}

pub(crate) fn set_errno(number: c_int) {
    // SAFETY: it takes no arguments, and returns the address of the thread's own number.
    let place = unsafe { libc::__errno_location() };
    // SAFETY: see above.
    unsafe { *place = number };
}

/// A pointer to an object that knows its context, or to the context itself.
pub(crate) trait OfContext: Copy {
    /// # Safety
    /// The object exists.
    unsafe fn context(self) -> *mut ibv_context;
}

impl OfContext for *mut ibv_context {
    unsafe fn context(self) -> *mut ibv_context {
        self
    }
}

macro_rules! of_context {
    ($($object:ident)*) => {$(
        impl OfContext for *mut $object {
            unsafe fn context(self) -> *mut ibv_context {
                // SAFETY: the caller promises that it exists.
                unsafe { (*self).context }
            }
        }
    )*};
}

of_context! {
    ibv_counters ibv_cq ibv_dm ibv_flow ibv_flow_action ibv_mw ibv_pd ibv_qp
    ibv_rwq_ind_table ibv_srq ibv_td ibv_wq ibv_xrcd
}

/// The extended context, if the object's context is part of one that has the member at `offset`:
/// the newest members are first.
///
/// # Safety
/// The object exists.
pub(crate) unsafe fn extended(
    object: impl OfContext,
    offset: usize,
) -> Option<*const verbs_context> {
    // SAFETY: as the caller promises.
    let context = unsafe { object.context() };
    // SAFETY: an object's context exists as long as the object.
    let marker = unsafe { (*context).abi_compat };
    if marker.addr() != usize::MAX {
        return None;
    }
    let before = std::mem::offset_of!(verbs_context, context);
    let all = context.cast_const().wrapping_byte_sub(before);
    let all = all.cast::<verbs_context>();
    // SAFETY: the marker says that the context is the end of an extended one; its size is next to
    // it, whatever its length.
    let size = unsafe { (*all).sz };
    (size >= size_of::<verbs_context>() - offset).then_some(all)
}

/// Functions that call a slot of their first argument.
macro_rules! own_slots {
    ($object:ty; $($name:ident = $slot:ident($($arg:ident: $type:ty),*) $(-> $answer:ty)?;)*) => {$(
        #[doc = concat!("`", stringify!($name), "` of the headers.")]
        ///
        /// # Safety
        /// As for the C function.
        #[inline]
        pub unsafe fn $name(object: *mut $object $(, $arg: $type)*) $(-> $answer)? {
            // SAFETY: the caller promises that the object exists.
            let slot = unsafe { (*object).$slot };
            // SAFETY: `uverbs-compat` fills this slot of every such object.
            let function = unsafe { slot.unwrap_unchecked() };
            // SAFETY: the caller promises what it demands.
            unsafe { function(object $(, $arg)*) }
        }
    )*};
}

/// Functions that call a slot of the plain context.
macro_rules! operations {
    ($($name:ident = $slot:ident($object:ident: $of:ty $(, $arg:ident: $type:ty)*) -> $answer:ty;)*)
    => {$(
        #[doc = concat!("`", stringify!($name), "` of the headers.")]
        ///
        /// # Safety
        /// As for the C function.
        #[inline]
        pub unsafe fn $name($object: $of $(, $arg: $type)*) -> $answer {
            // SAFETY: the caller promises that the object exists.
            let context = unsafe { $crate::slots::OfContext::context($object) };
            // SAFETY: an object's context exists as long as the object.
            let slot = unsafe { (*context).ops.$slot };
            // SAFETY: `uverbs-compat` fills this slot of every context.
            let function = unsafe { slot.unwrap_unchecked() };
            // SAFETY: the caller promises what it demands.
            unsafe { function($object $(, $arg)*) }
        }
    )*};
}

/// The value of a slot of the extended context.
macro_rules! extended_slot {
    ($slot:ident of $object:expr) => {{
        let offset = std::mem::offset_of!($crate::bindings::verbs_context, $slot);
        // SAFETY: the caller of this function promises that the object exists.
        let all = unsafe { $crate::slots::extended($object, offset) };
        // SAFETY: it has the member at this offset.
        all.and_then(|all| unsafe { (*all).$slot })
    }};
}

/// Functions that call a slot of the extended context, and answer EOPNOTSUPP if it is empty.
macro_rules! extended_slots {
    ($($name:ident = $slot:ident($object:ident: $of:ty $(, $arg:ident: $type:ty)*) -> $answer:ty;)*)
    => {$(
        #[doc = concat!("`", stringify!($name), "` of the headers.")]
        ///
        /// # Safety
        /// As for the C function.
        #[inline]
        pub unsafe fn $name($object: $of $(, $arg: $type)*) -> $answer {
            match $crate::slots::extended_slot!($slot of $object) {
                // SAFETY: the caller promises what it demands.
                Some(function) => unsafe { function($object $(, $arg)*) },
                None => $crate::slots::Unsupported::unsupported(),
            }
        }
    )*};
}

pub(crate) use {extended_slot, extended_slots, operations, own_slots};

#[cfg(test)]
mod tests {
    use super::*;

    /// What a context of this kind has of the member that is next to it, and of the newest one.
    fn found(marker: usize, size: usize) -> [bool; 2] {
        // SAFETY: it consists of numbers and of pointers that may be null.
        let mut all = unsafe { std::mem::zeroed::<verbs_context>() };
        all.sz = size;
        all.context.abi_compat = std::ptr::without_provenance_mut(marker);
        let context = (&raw mut all)
            .wrapping_byte_add(std::mem::offset_of!(verbs_context, context))
            .cast::<ibv_context>();
        let oldest = std::mem::offset_of!(verbs_context, open_xrcd);
        [oldest, 0].map(|offset| {
            // SAFETY: it is the end of `all`.
            unsafe { extended(context, offset) }.is_some()
        })
    }

    #[test]
    fn members_are_looked_for_within_the_size_of_an_extended_context() {
        let size = size_of::<verbs_context>();
        assert_eq!(found(usize::MAX, size), [true, true]);
        assert_eq!(found(usize::MAX, size + 64), [true, true]);
        assert_eq!(found(usize::MAX, size - 8), [true, false]);
        assert_eq!(found(0, size), [false, false]);
    }

    #[test]
    fn an_empty_slot_is_answered_as_c_programs_expect() {
        assert_eq!(c_int::unsupported(), libc::EOPNOTSUPP);
        set_errno(0);
        assert!(<*mut ibv_qp>::unsupported().is_null());
        let errno = std::io::Error::last_os_error().raw_os_error();
        assert_eq!(errno, Some(libc::EOPNOTSUPP));
    }
}
