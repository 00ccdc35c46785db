//! Finds out which driver a device has when only its node is known.

use std::os::fd::BorrowedFd;

use super::guard::catch_kernel_panic;
use crate::sys::{Kernel, is_driver};
use crate::types::DriverId;

/// Returns which of `candidates` drives the device behind `fd`. One system call each.
///
/// Kernels without `INVOKE_WRITE` (before 5.0) cannot be asked.
///
/// # Safety
/// 1. `fd` is a device that `kernel` [takes calls on](Kernel::check_device).
#[expect(unsafe_code, reason = "forwards its safety contract")]
pub unsafe fn driver_of(
    kernel: &dyn Kernel,
    fd: BorrowedFd<'_>,
    candidates: &[DriverId],
) -> Option<DriverId> {
    // SAFETY: the caller's promise.
    let is_driven_by =
        |driver: DriverId| catch_kernel_panic(|| unsafe { is_driver(kernel, fd, driver) });
    let is_right = |driver: &&DriverId| is_driven_by(**driver) == Ok(true);
    candidates.iter().find(is_right).copied()
}
