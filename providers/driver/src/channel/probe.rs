//! Finds out whose driver a device has, when nothing but its node is known.

use std::os::fd::BorrowedFd;

use uverbs_uapi::ib_user_ioctl_cmds::{
    UVERBS_ATTR_WRITE_CMD, UVERBS_METHOD_INVOKE_WRITE, UVERBS_OBJECT_DEVICE,
};
use uverbs_uapi::ib_user_verbs::IB_USER_VERBS_CMD_QUERY_DEVICE;

use crate::error::Errno;
use crate::sys::{Attr, Call, Command, Kernel, Uhw};
use crate::types::DriverId;

/// Which of `candidates` is the driver of the device behind `fd`. One system call each.
///
/// The kernel compares the driver id of a command before anything else (EINVAL). The command asked
/// here has no room for its answer, so with the right id it ends with ENOSPC and has done nothing;
/// it needs no context. Kernels without `INVOKE_WRITE` (before 5.0) cannot be asked.
pub fn driver_of(
    kernel: &dyn Kernel,
    fd: BorrowedFd<'_>,
    candidates: &[DriverId],
) -> Option<DriverId> {
    let is_right = |driver: &&DriverId| {
        let answer = kernel.call(
            fd,
            Call::Ioctl(&Command {
                object: UVERBS_OBJECT_DEVICE,
                method: UVERBS_METHOD_INVOKE_WRITE,
                driver_id: driver.raw(),
                attrs: &[Attr::constant(
                    UVERBS_ATTR_WRITE_CMD,
                    IB_USER_VERBS_CMD_QUERY_DEVICE,
                )],
                uhw: Uhw::NONE,
            }),
        );
        matches!(answer, Err(Errno::NOSPC))
    };
    candidates.iter().find(is_right).copied()
}
