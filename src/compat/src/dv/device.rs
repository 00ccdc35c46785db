//! `mlx5dv_is_supported` and `mlx5dv_open_device`.
//!
//! # Safety
//!
//! Exports names of the library that this one stands for.
#![allow(unsafe_code, reason = "exports names")]

use uverbs_core::types::DriverId;

use super::abi::mlx5dv_context_attr;
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
extern "C" fn mlx5dv_open_device(
    device: Handle<Device>,
    attr: In<mlx5dv_context_attr>,
) -> *mut ibv_context {
    if !is_supported(device) {
        return pointer(|| Err(Code::UNSUPPORTED));
    }
    if attr.get().is_ok_and(|attr| attr.comp_mask != 0) {
        return pointer(|| Err(Code::INVALID));
    }
    context::open(device)
}
