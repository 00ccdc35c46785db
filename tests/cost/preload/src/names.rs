//! What is preloaded: functions in place of those of the C library.
//!
//! # Safety
//!
//! Each has the conditions of the function that it replaces, and passes on what is not for the
//! device: to another function of the C library, or as a system call.
#![allow(unsafe_code, reason = "functions that C programs call")]

use std::ffi::{CStr, c_char, c_int, c_ulong, c_void};
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;

use uverbs_core::Errno;
use uverbs_uapi::rdma_user_ioctl_cmds::RDMA_VERBS_IOCTL;

use crate::{argument, node};

/// Netlink of RDMA. Without it libibverbs looks for devices in sysfs, which a variable moves.
const NETLINK_RDMA: c_int = 20;

/// The path to open for a path, which may be NULL.
///
/// # Safety
/// `path` is NULL or a string.
unsafe fn opened(path: *const c_char) -> *const c_char {
    if path.is_null() {
        return path;
    }
    // SAFETY: it is a string, as the caller promises.
    node::opened(unsafe { CStr::from_ptr(path) }).as_ptr()
}

fn failed(errno: Errno) -> c_int {
    // SAFETY: the function has no conditions.
    let place = unsafe { libc::__errno_location() };
    // SAFETY: the place is this thread's own.
    unsafe { place.write(errno.raw_os_error()) };
    -1
}

/// `open(2)`
///
/// # Safety
/// Those of the function.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn open(
    path: *const c_char,
    flags: c_int,
    mode: libc::mode_t,
) -> c_int {
    // SAFETY: the caller passes a string.
    let path = unsafe { opened(path) };
    // SAFETY: the same call with another path.
    unsafe { libc::openat(libc::AT_FDCWD, path, flags, mode) }
}

/// `stat(2)`
///
/// # Safety
/// Those of the function.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn stat(path: *const c_char, about: *mut libc::stat) -> c_int {
    // SAFETY: the caller passes a string.
    let path = unsafe { opened(path) };
    // SAFETY: the same call with another path.
    unsafe { libc::fstatat(libc::AT_FDCWD, path, about, 0) }
}

/// `socket(2)`, without that of RDMA
#[unsafe(no_mangle)]
pub(crate) extern "C" fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    if (domain, protocol) == (libc::AF_NETLINK, NETLINK_RDMA) {
        return failed(Errno::PROTONOSUPPORT);
    }
    // SAFETY: numbers are passed, and a descriptor is returned.
    let socket = unsafe { libc::syscall(libc::SYS_socket, domain, kind, protocol) };
    c_int::try_from(socket).unwrap_or(-1)
}

/// `ioctl(2)`: commands of RDMA are for the device, whichever descriptor they are issued on
///
/// # Safety
/// Those of the function.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ioctl(fd: c_int, request: c_ulong, argument: *mut c_void) -> c_int {
    if request != c_ulong::from(RDMA_VERBS_IOCTL) {
        // SAFETY: the caller fulfils the conditions of this request.
        let done = unsafe { libc::syscall(libc::SYS_ioctl, fd, request, argument) };
        return c_int::try_from(done).unwrap_or(-1);
    }
    let Some(argument) = NonNull::new(argument.cast()) else {
        return failed(Errno::FAULT);
    };
    // SAFETY: the caller passes a descriptor that is open.
    let fd = unsafe { BorrowedFd::borrow_raw(fd) };
    // SAFETY: the caller passes the argument of this request.
    match unsafe { argument::carry_out(&node::kernel(), fd, argument) } {
        Ok(()) => 0,
        Err(errno) => failed(errno),
    }
}

/// Lets the device carry out what has been posted. Not of the C library: programs look whether it
/// is there.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn device_works() {
    node::work();
}
