//! Queues by address, as UCX and DPDK use them: a write is put into the ring by hand, the device
//! told of it, and the completion read from the other ring.
//!
//! # Safety
//!
//! Addresses are those that the library said, for as many entries as it said.
#![allow(unsafe_code, reason = "writes into queues")]

use std::ffi::c_int;
use std::ptr::null_mut;
use std::time::{Duration, Instant};

use super::face::{
    Objects, Pointer, PortAttr, QpAttr, STATE, connection, ibv_alloc_pd, ibv_close_device,
    ibv_create_cq, ibv_dealloc_pd, ibv_dereg_mr, ibv_destroy_cq, ibv_destroy_qp, ibv_modify_qp,
    ibv_query_port, ibv_reg_mr, initialise, mlx5dv_init_obj, open, there, word,
};

/// `struct mlx5dv_qp`.
#[repr(C)]
struct Qp {
    record: Pointer,
    send: Ring,
    recv: Ring,
    doorbell: Pointer,
    copied: u32,
    comp_mask: u64,
    rest: [u64; 4],
}

/// A ring in it.
#[repr(C)]
struct Ring {
    buffer: Pointer,
    count: u32,
    stride: u32,
}

/// `struct mlx5dv_cq`.
#[repr(C)]
struct Cq {
    buffer: Pointer,
    record: Pointer,
    count: u32,
    size: u32,
    page: Pointer,
    number: u32,
    comp_mask: u64,
}

const NOTHING: Ring = Ring {
    buffer: null_mut(),
    count: 0,
    stride: 0,
};

/// Rights of peers: to write.
const WRITE: u32 = 1 | 1 << 1;
/// Offsets in `struct ibv_mr` and `struct ibv_qp`.
const LKEY: usize = 36;
const RKEY: usize = 40;
const QP_NUMBER: usize = 52;
/// Masks of the steps to the states that receive and send, and these states.
const TO_RECEIVE: c_int = 1 | 1 << 7 | 1 << 8 | 1 << 12 | 1 << 15 | 1 << 17 | 1 << 20;
const TO_SEND: c_int = 1 | 1 << 9 | 1 << 10 | 1 << 11 | 1 << 13 | 1 << 16;
const RECEIVES: u32 = 2;
const SENDS: u32 = 3;
/// How many writes: the rings are gone around several times.
const WRITES: u32 = 40;
/// Bytes of each.
const BYTES: u32 = 64;

/// Connects a queue pair with itself.
fn connect(context: Pointer, qp: Pointer) {
    let mut port = PortAttr::default();
    assert_eq!(ibv_query_port(context, 1, &raw mut port), 0);
    initialise(qp, WRITE);
    let attr = QpAttr::new()
        .word(STATE, RECEIVES)
        // `IBV_MTU_1024`, the number of the peer, its address, and the port that leads there.
        .word(8, 3)
        .word(28, word(qp, QP_NUMBER))
        .set(80, port.lid.to_ne_bytes())
        .set(86, [1])
        .set(127, [1, 12]);
    assert_eq!(ibv_modify_qp(qp, &raw const attr, TO_RECEIVE), 0);
    let attr = QpAttr::new()
        .word(STATE, SENDS)
        .set(126, [1])
        .set(130, [14, 7, 7]);
    assert_eq!(ibv_modify_qp(qp, &raw const attr, TO_SEND), 0);
}

/// Stores a number in network order.
fn store(at: Pointer, value: u32) {
    // SAFETY: in a ring or a record, where the device expects a number.
    unsafe { at.cast::<u32>().write_volatile(value.to_be()) };
}

fn fence() {
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
}

/// The halves of an address.
fn halves(address: u64) -> [u32; 2] {
    [address >> 32, address & 0xffff_ffff].map(|half| u32::try_from(half).unwrap_or(0))
}

/// Posts a write of the first bytes of the memory to the ones behind them.
fn post(queue: &Qp, number: u32, index: u32, memory: u64, keys: [u32; 2]) {
    let block = (index % queue.send.count) * queue.send.stride;
    let entry = queue.send.buffer.wrapping_byte_add(block as usize);
    let [high, low] = halves(memory);
    let to = memory + u64::from(BYTES);
    let words = [
        // Control: index and operation, number and size in units of 16 bytes, a completion.
        (index & 0xffff) << 8 | 0x08,
        number << 8 | 3,
        2 << 2,
        0,
        // The peer's memory.
        halves(to)[0],
        halves(to)[1],
        keys[1],
        0,
        // This side's.
        BYTES,
        keys[0],
        high,
        low,
    ];
    for (at, value) in words.into_iter().enumerate() {
        store(entry.wrapping_byte_add(4 * at), value);
    }
    fence();
    store(queue.record.wrapping_byte_add(4), (index + 1) & 0xffff);
    fence();
    // SAFETY: the first words of the entry.
    let first = unsafe { entry.cast::<u64>().read_volatile() };
    // SAFETY: the register of the queue's doorbell.
    unsafe { queue.doorbell.cast::<u64>().write_volatile(first) };
    fence();
}

/// Waits for the completion at an index, and returns its operation and the request's index.
fn complete(queue: &Cq, index: u32) -> (u8, u16) {
    let entry = (index % queue.count) * queue.size + queue.size - 64;
    let entry = queue.buffer.wrapping_byte_add(entry as usize);
    let pass = u8::from((index / queue.count) & 1 == 1);
    let begin = Instant::now();
    loop {
        let last = entry.wrapping_byte_add(63).cast::<u8>();
        // SAFETY: the last byte of an entry.
        let last = unsafe { last.read_volatile() };
        if last & 1 == pass && last >> 4 != 15 {
            fence();
            let counter = entry.wrapping_byte_add(60).cast::<u16>();
            // SAFETY: the counter in the entry.
            let counter = u16::from_be(unsafe { counter.read_volatile() });
            store(queue.record, (index + 1) & 0xff_ffff);
            return (last >> 4, counter);
        }
        assert!(
            begin.elapsed() < Duration::from_secs(20),
            "no completion {index}"
        );
    }
}

pub(super) fn run() {
    let context = open();
    let pd = there(ibv_alloc_pd(context));
    let mut memory = vec![0_u8; 4096];
    let start = memory.as_mut_ptr();
    let rights = WRITE.cast_signed();
    let mr = there(ibv_reg_mr(pd, start.cast(), memory.len(), rights));
    let cq = there(ibv_create_cq(context, 8, null_mut(), null_mut(), 0));
    let qp = connection(pd, cq);
    connect(context, qp);
    let mut queue = Qp {
        record: null_mut(),
        send: NOTHING,
        recv: NOTHING,
        doorbell: null_mut(),
        copied: 0,
        comp_mask: 0,
        rest: [0; 4],
    };
    let mut completions = Cq {
        buffer: null_mut(),
        record: null_mut(),
        count: 0,
        size: 0,
        page: null_mut(),
        number: 0,
        comp_mask: 0,
    };
    let mut objects = Objects {
        qp: [qp, (&raw mut queue).cast()],
        cq: [cq, (&raw mut completions).cast()],
        rest: [[null_mut(); 2]; 6],
    };
    assert_eq!(mlx5dv_init_obj(&raw mut objects, 3), 0);
    assert!(queue.send.count >= 4 && queue.send.stride == 64);
    assert!(completions.count >= 8 && completions.size >= 64);
    let keys = [word(mr, LKEY), word(mr, RKEY)];
    let address = start.expose_provenance() as u64;
    for index in 0..WRITES {
        let fill = u8::try_from(index + 1).unwrap_or(0);
        // SAFETY: the memory is the program's, and no request is under way.
        unsafe { start.write_bytes(fill, BYTES as usize) };
        post(&queue, word(qp, QP_NUMBER), index, address, keys);
        let (operation, of) = complete(&completions, index);
        assert_eq!((operation, u32::from(of)), (0, index), "write {index}");
        let last = start.wrapping_add(2 * BYTES as usize - 1);
        // SAFETY: inside the memory, and no request is under way.
        assert_eq!(unsafe { last.read_volatile() }, fill, "write {index}");
    }
    assert_eq!(ibv_destroy_qp(qp), 0);
    assert_eq!(ibv_destroy_cq(cq), 0);
    assert_eq!(ibv_dereg_mr(mr), 0);
    assert_eq!(ibv_dealloc_pd(pd), 0);
    assert_eq!(ibv_close_device(context), 0);
}
