//! Names that are exported without a function of their own, made by the build script from
//! `symbols.txt`: calls answer EOPNOTSUPP.
//!
//! # Safety
//!
//! Exporting a name is unsafe because another library's may be shadowed; these are names of the
//! library that this one stands for, and the functions read no arguments.
#![allow(unsafe_code, reason = "exports names")]

use std::ffi::{c_int, c_void};
use std::sync::atomic::AtomicU8;

use crate::errno::{Code, set};

#[cold]
fn unsupported() -> c_int {
    set(Code::UNSUPPORTED);
    Code::UNSUPPORTED.number()
}

#[cold]
fn unsupported_object() -> *mut c_void {
    set(Code::UNSUPPORTED);
    std::ptr::null_mut()
}

/// Static programs name the providers that they want linked: all are.
#[cfg(not(feature = "shared"))]
#[unsafe(no_mangle)]
extern "C" fn ibv_static_providers(_unused: *mut c_void) {}

include!(concat!(env!("OUT_DIR"), "/stubs.rs"));
