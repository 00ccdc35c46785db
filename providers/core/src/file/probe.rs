//! Finds out whose driver a device has, when nothing but its node is known.

use std::os::fd::BorrowedFd;

use super::guard::contained_answer;
use crate::sys::{Kernel, is_driver};
use crate::types::DriverId;

/// Which of `candidates` is the driver of the device behind `fd`. One system call each.
///
/// Kernels without `INVOKE_WRITE` (before 5.0) cannot be asked.
///
/// # Safety
/// 1. `fd` is a device that `kernel` [takes calls on](Kernel::check_device).
#[expect(unsafe_code, reason = "passes an obligation on")]
pub unsafe fn driver_of(
    kernel: &dyn Kernel,
    fd: BorrowedFd<'_>,
    candidates: &[DriverId],
) -> Option<DriverId> {
    // SAFETY: the caller's promise.
    let asked = |driver: DriverId| contained_answer(|| unsafe { is_driver(kernel, fd, driver) });
    let is_right = |driver: &&DriverId| asked(**driver) == Ok(true);
    candidates.iter().find(is_right).copied()
}
