//! The library for C programs over a ConnectX in the process.
//!
//! The programs of `../oracle` are compiled with these functions in place of those that find and
//! open a device, and of the one by which they wait for it; everything else is the library's.
//!
//! # Safety
//!
//! The functions are called by those programs alone, as the headers say.
#![allow(unsafe_code, reason = "stands in for functions of C libraries")]

use std::cell::RefCell;
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::ptr::null_mut;

use adversary::device::Device as _;
use adversary::mlx5::Cards;

thread_local! {
    /// It carries out what was posted when it is told to run.
    static CARDS: RefCell<Option<Cards>> = const { RefCell::new(None) };
}

/// The list of devices is this one.
struct List([*mut c_void; 2]);

// SAFETY: the pointers are not followed.
unsafe impl Sync for List {}

static NAME: &std::ffi::CStr = c"mlx5_0";
static LIST: List = List([NAME.as_ptr().cast_mut().cast(), null_mut()]);

#[unsafe(no_mangle)]
extern "C" fn cost_device_list(_count: *mut c_int) -> *const *mut c_void {
    LIST.0.as_ptr()
}

#[unsafe(no_mangle)]
extern "C" fn cost_device_name(device: *const c_char) -> *const c_char {
    device
}

#[unsafe(no_mangle)]
extern "C" fn cost_open_device(_device: *const c_char) -> *mut c_void {
    let cards = Cards::new(1);
    let Ok((kernel, fd, info)) = cards.parts(0) else {
        return null_mut();
    };
    CARDS.with_borrow_mut(|place| *place = Some(cards));
    // SAFETY: the kernel takes calls on the descriptor that comes with it.
    unsafe { uverbs_compat::open_over(kernel, fd, &info) }
}

/// Has the device work instead of waiting for it.
#[unsafe(no_mangle)]
extern "C" fn cost_wait(_microseconds: c_uint) -> c_int {
    CARDS.with_borrow(|cards| {
        if let Some(cards) = cards {
            cards.run();
        }
    });
    0
}
