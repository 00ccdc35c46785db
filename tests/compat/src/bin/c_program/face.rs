//! What the programs use of the headers, and the objects that each of them begins with.
//!
//! # Safety
//!
//! The functions are those of `infiniband/verbs.h` and `mlx5dv.h`, called with what they demand, or
//! with NULL, which this library refuses.
#![allow(unsafe_code, reason = "calls functions of C")]

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

pub(super) type Pointer = *mut c_void;

unsafe extern "C" {
    pub(super) safe fn ibv_get_device_list(count: *mut c_int) -> *mut Pointer;
    pub(super) safe fn ibv_free_device_list(list: *mut Pointer);
    pub(super) safe fn ibv_open_device(device: Pointer) -> Pointer;
    pub(super) safe fn ibv_close_device(context: Pointer) -> c_int;
    pub(super) safe fn ibv_alloc_pd(context: Pointer) -> Pointer;
    pub(super) safe fn ibv_dealloc_pd(pd: Pointer) -> c_int;
    pub(super) safe fn ibv_reg_mr(
        pd: Pointer,
        address: Pointer,
        length: usize,
        access: c_int,
    ) -> Pointer;
    pub(super) safe fn ibv_dereg_mr(mr: Pointer) -> c_int;
    pub(super) safe fn ibv_create_comp_channel(context: Pointer) -> Pointer;
    pub(super) safe fn ibv_destroy_comp_channel(channel: Pointer) -> c_int;
    pub(super) safe fn ibv_create_cq(
        context: Pointer,
        entries: c_int,
        cq_context: Pointer,
        channel: Pointer,
        vector: c_int,
    ) -> Pointer;
    pub(super) safe fn ibv_destroy_cq(cq: Pointer) -> c_int;
    pub(super) safe fn ibv_create_qp(pd: Pointer, attr: *mut InitAttr) -> Pointer;
    pub(super) safe fn ibv_modify_qp(qp: Pointer, attr: *const QpAttr, mask: c_int) -> c_int;
    pub(super) safe fn ibv_destroy_qp(qp: Pointer) -> c_int;
    pub(super) safe fn ibv_get_cq_event(
        channel: Pointer,
        cq: *mut Pointer,
        data: *mut Pointer,
    ) -> c_int;
    pub(super) safe fn ibv_ack_cq_events(cq: Pointer, count: u32);
    pub(super) safe fn ibv_query_device(context: Pointer, attr: Pointer) -> c_int;
    pub(super) safe fn ibv_destroy_srq(srq: Pointer) -> c_int;
    pub(super) safe fn ibv_destroy_ah(ah: Pointer) -> c_int;
    pub(super) safe fn ibv_query_port(context: Pointer, port: u8, attr: *mut PortAttr) -> c_int;
    pub(super) safe fn mlx5dv_init_obj(objects: *mut Objects, kinds: u64) -> c_int;
}

/// `struct ibv_qp_init_attr`.
#[repr(C)]
pub(super) struct InitAttr {
    pub(super) qp_context: Pointer,
    pub(super) send_cq: Pointer,
    pub(super) recv_cq: Pointer,
    pub(super) srq: Pointer,
    pub(super) cap: [u32; 5],
    pub(super) qp_type: u32,
    pub(super) sq_sig_all: c_int,
}

/// `struct ibv_port_attr`, as far as it is read, and room for the rest.
#[repr(C)]
#[derive(Default)]
pub(super) struct PortAttr {
    before: [u16; 17],
    pub(super) lid: u16,
    behind: [u16; 16],
}

/// `struct ibv_qp_attr`, whose fields are set by their offsets.
#[repr(C, align(8))]
pub(super) struct QpAttr([u8; 144]);

impl QpAttr {
    pub(super) fn new() -> Self {
        Self([0; 144])
    }

    pub(super) fn set<const N: usize>(mut self, at: usize, bytes: [u8; N]) -> Self {
        self.0[at..at + N].copy_from_slice(&bytes);
        self
    }

    pub(super) fn word(self, at: usize, value: u32) -> Self {
        self.set(at, value.to_ne_bytes())
    }
}

/// A pair of pointers of `struct mlx5dv_obj`: the object, and where the answer goes.
pub(super) type Asked = [Pointer; 2];

/// `struct mlx5dv_obj`.
#[repr(C)]
pub(super) struct Objects {
    pub(super) qp: Asked,
    pub(super) cq: Asked,
    pub(super) rest: [Asked; 6],
}

pub(super) const INVALID: c_int = 22;
pub(super) const BUSY: c_int = 16;
/// `IBV_QPT_RC`.
pub(super) const RC: u32 = 2;
/// `IBV_QPS_INIT`, and the mask of the step to it.
pub(super) const INIT: u32 = 1;
pub(super) const TO_INIT: c_int = 1 | 1 << 3 | 1 << 4 | 1 << 5;
/// Offsets in `struct ibv_qp_attr`.
pub(super) const STATE: usize = 0;
pub(super) const ACCESS: usize = 32;
pub(super) const PORT: usize = 129;

/// The number in a struct of C's, at an offset.
pub(super) fn word(of: Pointer, at: usize) -> u32 {
    let place = of.wrapping_byte_add(at).cast::<u32>();
    // SAFETY: inside an object of the library, whose struct has a number there.
    unsafe { place.read() }
}

/// The first device, opened.
pub(super) fn open() -> Pointer {
    let mut count = 0;
    let list = ibv_get_device_list(&raw mut count);
    assert!(count > 0 && !list.is_null(), "there is no device");
    // SAFETY: the list is not empty.
    let device = unsafe { list.read() };
    let context = ibv_open_device(device);
    ibv_free_device_list(list);
    there(context)
}

/// An object that was made.
pub(super) fn there(made: Pointer) -> Pointer {
    assert!(!made.is_null(), "{}", std::io::Error::last_os_error());
    made
}

/// A queue pair of reliable connections, both of whose queues complete in `cq`.
pub(super) fn connection(pd: Pointer, cq: Pointer) -> Pointer {
    let mut attr = InitAttr {
        qp_context: null_mut(),
        send_cq: cq,
        recv_cq: cq,
        srq: null_mut(),
        cap: [4, 4, 1, 1, 0],
        qp_type: RC,
        sq_sig_all: 0,
    };
    there(ibv_create_qp(pd, &raw mut attr))
}

/// Moves it to INIT, where peers have these rights.
pub(super) fn initialise(qp: Pointer, access: u32) {
    let attr = QpAttr::new()
        .word(STATE, INIT)
        .word(ACCESS, access)
        .set(PORT, [1]);
    assert_eq!(ibv_modify_qp(qp, &raw const attr, TO_INIT), 0);
}
