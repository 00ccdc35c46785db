//! NULL everywhere, objects destroyed in the wrong order, an event that is acknowledged late, and
//! completions from before a reset.
//!
//! # Safety
//!
//! Functions in slots are called as the header's inline ones do.
#![allow(unsafe_code, reason = "calls functions of C")]

use std::ffi::{c_int, c_void};
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::face::{
    BUSY, INVALID, Pointer, QpAttr, STATE, connection, ibv_ack_cq_events, ibv_alloc_pd,
    ibv_close_device, ibv_create_comp_channel, ibv_create_cq, ibv_create_qp, ibv_dealloc_pd,
    ibv_dereg_mr, ibv_destroy_ah, ibv_destroy_comp_channel, ibv_destroy_cq, ibv_destroy_qp,
    ibv_destroy_srq, ibv_free_device_list, ibv_get_cq_event, ibv_modify_qp, ibv_open_device,
    ibv_query_device, ibv_reg_mr, initialise, open, there,
};

/// `struct ibv_recv_wr` without memory.
#[repr(C)]
struct Receive {
    wr_id: u64,
    next: Pointer,
    sg_list: Pointer,
    num_sge: c_int,
}

/// The functions in slots.
type Notify = extern "C" fn(Pointer, c_int) -> c_int;
type Poll = extern "C" fn(Pointer, c_int, *mut [u64; 6]) -> c_int;
type Post = extern "C" fn(Pointer, *mut Receive, *mut Pointer) -> c_int;

/// `IBV_QPS_RESET` and `IBV_QPS_ERR`, and the mask of the steps to them.
const RESET: u32 = 0;
const ERROR: u32 = 6;
const TO_STATE: c_int = 1;

/// Slots of `struct ibv_context`.
const POLL: usize = 11;
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

/// Has a receive flushed, so that the queue raises an event.
fn raise(context: Pointer, cq: Pointer, qp: Pointer) {
    // SAFETY: the slot's function.
    let notify: Notify = unsafe { std::mem::transmute(slot(context, REQ_NOTIFY)) };
    assert_eq!(notify(cq, 0), 0);
    flush(context, qp, 7);
}

/// Has a receive flushed.
fn flush(context: Pointer, qp: Pointer, wr_id: u64) {
    initialise(qp, 0);
    // SAFETY: the slot's function.
    let post: Post = unsafe { std::mem::transmute(slot(context, POST_RECV)) };
    let mut receive = Receive {
        wr_id,
        next: null_mut(),
        sg_list: null_mut(),
        num_sge: 0,
    };
    let mut bad = null_mut();
    assert_eq!(post(qp, &raw mut receive, &raw mut bad), 0);
    go(qp, ERROR);
}

/// Moves a queue pair to a state that needs nothing else.
fn go(qp: Pointer, state: u32) {
    let attr = QpAttr::new().word(STATE, state);
    assert_eq!(ibv_modify_qp(qp, &raw const attr, TO_STATE), 0);
}

/// The number of the next request that completes.
fn next(context: Pointer, cq: Pointer) -> u64 {
    // SAFETY: the slot's function.
    let poll: Poll = unsafe { std::mem::transmute(slot(context, POLL)) };
    let mut completion = [0_u64; 6];
    let begin = Instant::now();
    while poll(cq, 1, &raw mut completion) == 0 {
        assert!(begin.elapsed() < Duration::from_secs(20), "no completion");
    }
    completion[0]
}

/// A reset takes the completions of its queue pair away, and leaves those of others.
fn a_reset_forgets(context: Pointer, pd: Pointer, cq: Pointer, qp: Pointer) {
    let other = connection(pd, cq);
    flush(context, other, 8);
    go(qp, RESET);
    assert_eq!(next(context, cq), 8, "a completion from before a reset");
    assert_eq!(ibv_destroy_qp(other), 0);
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

pub(super) fn run() {
    nothing_is_accepted();
    let context = open();
    let pd = there(ibv_alloc_pd(context));
    let mut memory = vec![0_u8; 4096];
    let mr = there(ibv_reg_mr(pd, memory.as_mut_ptr().cast(), memory.len(), 1));
    let channel = there(ibv_create_comp_channel(context));
    let mut data = 5_u32;
    let cq = there(ibv_create_cq(
        context,
        8,
        (&raw mut data).cast(),
        channel,
        0,
    ));
    let qp = connection(pd, cq);
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
    a_reset_forgets(context, pd, cq, qp);
    assert_eq!(ibv_destroy_qp(qp), 0);
    a_destroy_waits(cq);
    assert_eq!(ibv_destroy_comp_channel(channel), 0);
    assert_eq!(ibv_dereg_mr(mr), 0);
    // What was made from a closed device lives on, and closes it when it goes.
    assert_eq!(ibv_close_device(context), 0);
    let open = descriptors();
    assert_eq!(ibv_dealloc_pd(pd), 0);
    assert_eq!(descriptors() + 2, open);
}
