//! A program as C programs are, linked static with the library: NULL everywhere, objects destroyed
//! in the wrong order, and an event that is acknowledged late.
//!
//! # Safety
//!
//! The functions are those of `infiniband/verbs.h`, called with what it demands, or with NULL,
//! which this library refuses.
#![allow(unsafe_code, reason = "calls functions of C")]

use std::ffi::{c_int, c_void};
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use uverbs_compat as _;

type Pointer = *mut c_void;

unsafe extern "C" {
    safe fn ibv_get_device_list(count: *mut c_int) -> *mut Pointer;
    safe fn ibv_free_device_list(list: *mut Pointer);
    safe fn ibv_open_device(device: Pointer) -> Pointer;
    safe fn ibv_close_device(context: Pointer) -> c_int;
    safe fn ibv_alloc_pd(context: Pointer) -> Pointer;
    safe fn ibv_dealloc_pd(pd: Pointer) -> c_int;
    safe fn ibv_reg_mr(pd: Pointer, address: Pointer, length: usize, access: c_int) -> Pointer;
    safe fn ibv_dereg_mr(mr: Pointer) -> c_int;
    safe fn ibv_create_comp_channel(context: Pointer) -> Pointer;
    safe fn ibv_destroy_comp_channel(channel: Pointer) -> c_int;
    safe fn ibv_create_cq(
        context: Pointer,
        entries: c_int,
        cq_context: Pointer,
        channel: Pointer,
        vector: c_int,
    ) -> Pointer;
    safe fn ibv_destroy_cq(cq: Pointer) -> c_int;
    safe fn ibv_create_qp(pd: Pointer, attr: *mut InitAttr) -> Pointer;
    safe fn ibv_modify_qp(qp: Pointer, attr: *const Attr, mask: c_int) -> c_int;
    safe fn ibv_destroy_qp(qp: Pointer) -> c_int;
    safe fn ibv_get_cq_event(channel: Pointer, cq: *mut Pointer, data: *mut Pointer) -> c_int;
    safe fn ibv_ack_cq_events(cq: Pointer, count: u32);
    safe fn ibv_query_device(context: Pointer, attr: Pointer) -> c_int;
    safe fn ibv_destroy_srq(srq: Pointer) -> c_int;
    safe fn ibv_destroy_ah(ah: Pointer) -> c_int;
}

/// `struct ibv_qp_init_attr`.
#[repr(C)]
struct InitAttr {
    qp_context: Pointer,
    send_cq: Pointer,
    recv_cq: Pointer,
    srq: Pointer,
    cap: [u32; 5],
    qp_type: u32,
    sq_sig_all: c_int,
}

/// `struct ibv_qp_attr`: what leads to INIT and to the error state.
#[repr(C)]
struct Attr {
    state: u32,
    before_access: [u32; 7],
    access: u32,
    before_port: [u8; 93],
    port: u8,
    rest: [u8; 14],
}

/// `struct ibv_recv_wr` without memory.
#[repr(C)]
struct Receive {
    wr_id: u64,
    next: Pointer,
    sg_list: Pointer,
    num_sge: c_int,
}

/// The functions in two slots.
type Notify = extern "C" fn(Pointer, c_int) -> c_int;
type Post = extern "C" fn(Pointer, *mut Receive, *mut Pointer) -> c_int;

const INVALID: c_int = 22;
const BUSY: c_int = 16;
/// `IBV_QPT_RC`, `IBV_QPS_INIT` and `IBV_QPS_ERR`, and the masks of these steps.
const RC: u32 = 2;
const INIT: u32 = 1;
const ERROR: u32 = 6;
const TO_INIT: c_int = 1 | 1 << 3 | 1 << 4 | 1 << 5;
const TO_ERROR: c_int = 1;

/// Slots of `struct ibv_context`.
const REQ_NOTIFY: usize = 12;
const POST_RECV: usize = 26;

/// The address in a slot of an opened device.
fn slot(context: Pointer, at: usize) -> *const c_void {
    let place = context.wrapping_byte_add(8 + 8 * at);
    // SAFETY: there are 32 slots behind the first field.
    unsafe { place.cast::<*const c_void>().read() }
}

/// How many descriptors the process has.
fn descriptors() -> usize {
    let open = std::fs::read_dir("/proc/self/fd");
    open.map_or(0, Iterator::count)
}

fn nothing_is_accepted() {
    for refused in [
        ibv_close_device(null_mut()),
        ibv_dealloc_pd(null_mut()),
        ibv_dereg_mr(null_mut()),
        ibv_destroy_comp_channel(null_mut()),
        ibv_destroy_cq(null_mut()),
        ibv_destroy_qp(null_mut()),
        ibv_destroy_srq(null_mut()),
        ibv_destroy_ah(null_mut()),
        ibv_modify_qp(null_mut(), null(), 0),
        ibv_query_device(null_mut(), null_mut()),
    ] {
        assert_eq!(refused, INVALID);
    }
    assert!(ibv_open_device(null_mut()).is_null());
    assert!(ibv_alloc_pd(null_mut()).is_null());
    assert!(ibv_create_qp(null_mut(), null_mut()).is_null());
    assert_eq!(ibv_get_cq_event(null_mut(), null_mut(), null_mut()), -1);
    ibv_ack_cq_events(null_mut(), 1);
    ibv_free_device_list(null_mut());
}

/// The first device.
fn open() -> Pointer {
    let mut count = 0;
    let list = ibv_get_device_list(&raw mut count);
    assert!(count > 0 && !list.is_null(), "there is no device");
    // SAFETY: the list is not empty.
    let device = unsafe { list.read() };
    let context = ibv_open_device(device);
    ibv_free_device_list(list);
    assert!(!context.is_null(), "{}", std::io::Error::last_os_error());
    context
}

/// Has a receive flushed, so that the queue raises an event.
fn raise(context: Pointer, cq: Pointer, qp: Pointer) {
    let mut attr = Attr {
        state: INIT,
        before_access: [0; 7],
        access: 0,
        before_port: [0; 93],
        port: 1,
        rest: [0; 14],
    };
    assert_eq!(ibv_modify_qp(qp, &raw const attr, TO_INIT), 0);
    // SAFETY: the slot's function.
    let notify: Notify = unsafe { std::mem::transmute(slot(context, REQ_NOTIFY)) };
    // SAFETY: the slot's function.
    let post: Post = unsafe { std::mem::transmute(slot(context, POST_RECV)) };
    assert_eq!(notify(cq, 0), 0);
    let mut receive = Receive {
        wr_id: 7,
        next: null_mut(),
        sg_list: null_mut(),
        num_sge: 0,
    };
    let mut bad = null_mut();
    assert_eq!(post(qp, &raw mut receive, &raw mut bad), 0);
    attr.state = ERROR;
    assert_eq!(ibv_modify_qp(qp, &raw const attr, TO_ERROR), 0);
}

/// Destroys a queue while an event of it is not acknowledged: the destroy waits.
fn a_destroy_waits(cq: Pointer) {
    let destroyed = AtomicBool::new(false);
    let address = cq.expose_provenance();
    std::thread::scope(|scope| {
        let destroyed = &destroyed;
        scope.spawn(move || {
            let cq = std::ptr::with_exposed_provenance_mut(address);
            assert_eq!(ibv_destroy_cq(cq), 0);
            destroyed.store(true, Ordering::SeqCst);
        });
        std::thread::sleep(Duration::from_millis(500));
        assert!(!destroyed.load(Ordering::SeqCst), "it did not wait");
        ibv_ack_cq_events(cq, 1);
    });
    assert!(destroyed.load(Ordering::SeqCst));
}

fn main() {
    nothing_is_accepted();
    let context = open();
    let pd = ibv_alloc_pd(context);
    let mut memory = vec![0_u8; 4096];
    let mr = ibv_reg_mr(pd, memory.as_mut_ptr().cast(), memory.len(), 1);
    let channel = ibv_create_comp_channel(context);
    let mut data = 5_u32;
    let cq = ibv_create_cq(context, 8, (&raw mut data).cast(), channel, 0);
    let mut attr = InitAttr {
        qp_context: null_mut(),
        send_cq: cq,
        recv_cq: cq,
        srq: null_mut(),
        cap: [4, 4, 1, 1, 0],
        qp_type: RC,
        sq_sig_all: 0,
    };
    let qp = ibv_create_qp(pd, &raw mut attr);
    for made in [pd, mr, channel, cq, qp] {
        assert!(!made.is_null(), "{}", std::io::Error::last_os_error());
    }
    // Whatever others use stays, twice.
    for _ in 0..2 {
        assert_eq!(ibv_dealloc_pd(pd), BUSY);
        assert_eq!(ibv_destroy_comp_channel(channel), BUSY);
        assert_eq!(ibv_destroy_cq(cq), BUSY);
    }
    raise(context, cq, qp);
    let (mut queue, mut user) = (null_mut(), null_mut());
    assert_eq!(ibv_get_cq_event(channel, &raw mut queue, &raw mut user), 0);
    assert_eq!(queue, cq);
    assert_eq!(user, (&raw mut data).cast());
    assert_eq!(ibv_destroy_qp(qp), 0);
    a_destroy_waits(cq);
    assert_eq!(ibv_destroy_comp_channel(channel), 0);
    assert_eq!(ibv_dereg_mr(mr), 0);
    // What was made from a closed device lives on, and closes it when it goes.
    assert_eq!(ibv_close_device(context), 0);
    let open = descriptors();
    assert_eq!(ibv_dealloc_pd(pd), 0);
    assert_eq!(descriptors() + 2, open);
    println!("ok");
}
