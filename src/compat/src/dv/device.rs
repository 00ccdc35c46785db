//! `mlx5dv_is_supported` and `mlx5dv_open_device`.
//!
//! # Safety
//!
//! Exports names of the library that this one stands for.
#![allow(unsafe_code, reason = "exports names")]

use std::ffi::c_void;

use uverbs_core::types::DriverId;

use crate::abi::ibv_context;
use crate::answer::pointer;
use crate::context;
use crate::device::Device;
use crate::errno::Code;
use crate::pointer::{Handle, In};

fn is_supported(device: Handle<Device>) -> bool {
    let driver = device.optional().and_then(|device| device.info.driver_id());
    driver == Some(DriverId::Mlx5)
}

#[unsafe(no_mangle)]
extern "C" fn mlx5dv_is_supported(device: Handle<Device>) -> bool {
    is_supported(device)
}

/// Opens it as `ibv_open_device` does: no flag of the attributes changes what it can do here.
#[unsafe(no_mangle)]
extern "C" fn mlx5dv_open_device(device: Handle<Device>, _attr: In<c_void>) -> *mut ibv_context {
    if is_supported(device) {
        return context::open(device);
    }
    pointer(|| Err(Code::UNSUPPORTED))
}
