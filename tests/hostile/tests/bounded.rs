//! Kernels that put the largest numbers into each field of their replies: the library must not base
//! allocations on them.
//!
//! # Safety
//!
//! The allocator is the system's; it counts, and does nothing else.
#![allow(
    clippy::panic,
    clippy::unwrap_used,
    unsafe_code,
    reason = "a test fails by panicking, and counts what is allocated"
)]

mod life;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::mem::offset_of;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use fake_tests::{PATIENCE, thinned};
use life::{Device, Life};
use uverbs::OpenOptions;
use uverbs::error::Errno;
use uverbs_core::sys::{Call, Kernel, Reply, Value};
use uverbs_uapi::ib_user_ioctl_cmds::{
    UVERBS_ATTR_CORE_OUT, UVERBS_METHOD_GET_CONTEXT, UVERBS_METHOD_QP_CREATE, UVERBS_OBJECT_DEVICE,
    UVERBS_OBJECT_QP,
};
use uverbs_uapi::mlx5_abi::{mlx5_ib_alloc_ucontext_resp, mlx5_ib_create_qp_resp};

/// More than anything here needs at once.
const MOST: usize = 16 << 20;

/// The largest number of words of a reply that are tried.
const LONG: usize = 96;

/// The system's allocator, and the largest single request.
struct Counting(AtomicUsize);

#[global_allocator]
static ALLOCATOR: Counting = Counting(AtomicUsize::new(0));

// SAFETY: the system's, whose rules it keeps because it passes everything on.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.0.fetch_max(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(place, layout) }
    }
}

/// A kernel that puts `value` into one word of one reply. Handles and descriptors stay valid:
/// otherwise others would be destroyed or closed.
#[derive(Debug)]
struct Greedy {
    kernel: Arc<dyn Kernel>,
    value: u32,
    /// Number of words before that one.
    left: AtomicU64,
}

impl Greedy {
    fn spoil(&self, cells: &[Cell<u8>]) {
        // Of a table, some entries.
        for word in cells.chunks(4).take(LONG) {
            if self.left.fetch_sub(1, Ordering::Relaxed) == 0 {
                for (cell, byte) in word.iter().zip(self.value.to_ne_bytes()) {
                    cell.set(byte);
                }
            }
        }
    }

    /// The reply of a legacy command: its first word may be a handle, or a descriptor's number.
    fn reply(&self, cells: &[Cell<u8>]) {
        self.spoil(cells.get(4..).unwrap_or(&[]));
    }
}

// SAFETY: descriptors are those of the kernel underneath, whose numbers stay as they are.
unsafe impl Kernel for Greedy {
    unsafe fn call(&self, fd: BorrowedFd<'_>, call: Call<'_>) -> Result<Reply, Errno> {
        // SAFETY: the caller fulfils the obligations that the kernel underneath requires.
        let answer = unsafe { self.kernel.call(fd, call) }?;
        match call {
            Call::Ioctl(command) => {
                for attr in command.attrs.iter().chain(command.uhw.attrs) {
                    match &attr.value {
                        Value::Out(cells, _) if attr.id == UVERBS_ATTR_CORE_OUT => {
                            self.reply(cells);
                        }
                        Value::Out(cells, _) => self.spoil(cells),
                        Value::In(_, Some(pointer)) => self.spoil(pointer.buffer),
                        _ => {}
                    }
                }
                if let Some(pointer) = &command.uhw.pointer {
                    self.spoil(pointer.buffer);
                }
                self.spoil(command.uhw.output);
            }
            Call::Write(command) => {
                self.reply(command.reply);
                self.spoil(command.uhw.output);
            }
            _ => {}
        }
        Ok(answer)
    }
}

/// A life with `value` in word `at` of all replies. Returns how many words there were.
fn spoiled(device: Device, value: u32, at: u64) -> u64 {
    let mut greedy = None;
    let mut life = Life::new(device, |kernel| {
        let kernel = Arc::new(Greedy {
            kernel,
            value,
            left: AtomicU64::new(at),
        });
        greedy = Some(Arc::clone(&kernel));
        OpenOptions::new().kernel(kernel)
    });
    let what = format!("{device:?}, {value:#x} in word {at}");
    let (unwound, _) = life.run(&what);
    assert_eq!(unwound, 0, "{what}");
    drop(life);
    let most = ALLOCATOR.0.load(Ordering::Relaxed);
    assert!(most < MOST, "{what}: {most} bytes at once");
    at.wrapping_sub(greedy.unwrap().left.load(Ordering::Relaxed))
}

/// Large numbers; the last is negative if it is signed.
const LARGE: [u32; 2] = [1 << 24, u32::MAX];

fn sweep(device: Device) {
    let words = spoiled(device, 0, life::MANY);
    assert!((150..2000).contains(&words), "{words} words");
    let all = (0..words).flat_map(|at| LARGE.map(|value| (at, value)));
    for (at, value) in thinned(all, if cfg!(miri) { 6007 } else { 1511 }) {
        spoiled(device, value, at);
    }
}

#[test]
fn numbers_from_rxe_cause_no_large_allocations() {
    sweep(Device::Rxe);
}

#[test]
fn numbers_from_mlx5_cause_no_large_allocations() {
    sweep(Device::Mlx5);
}

/// A kernel with fixed doorbells: so many, and the last of them for every queue pair.
#[derive(Debug)]
struct Doorbells(Arc<dyn Kernel>, u32);

// SAFETY: descriptors are those of the kernel underneath.
unsafe impl Kernel for Doorbells {
    unsafe fn call(&self, fd: BorrowedFd<'_>, call: Call<'_>) -> Result<Reply, Errno> {
        // SAFETY: the caller fulfils the obligations that the kernel underneath requires.
        let answer = unsafe { self.0.call(fd, call) }?;
        let Call::Ioctl(command) = call else {
            return Ok(answer);
        };
        let put = |at: usize, value: u32| {
            let cells = command.uhw.output.get(at..at + 4).unwrap_or(&[]);
            for (cell, byte) in cells.iter().zip(value.to_ne_bytes()) {
                cell.set(byte);
            }
        };
        match (command.object, command.method) {
            (UVERBS_OBJECT_DEVICE, UVERBS_METHOD_GET_CONTEXT) => {
                put(offset_of!(mlx5_ib_alloc_ucontext_resp, tot_bfregs), self.1);
            }
            (UVERBS_OBJECT_QP, UVERBS_METHOD_QP_CREATE) => {
                put(offset_of!(mlx5_ib_create_qp_resp, bfreg_index), self.1 - 1);
            }
            _ => {}
        }
        Ok(answer)
    }
}

#[test]
fn impossible_numbers_of_doorbells_are_refused() {
    for (count, is_believed) in [
        (16, true),
        (512, true),
        (513, false),
        (1 << 24, false),
        (u32::MAX, false),
    ] {
        let mut life = Life::new(Device::Mlx5, |kernel| {
            OpenOptions::new().kernel(Arc::new(Doorbells(kernel, count)))
        });
        life.run(&format!("{count} doorbells"));
        assert_eq!(life.context.is_some(), is_believed, "{count}");
        let most = ALLOCATOR.0.load(Ordering::Relaxed);
        assert!(most < MOST, "{count} doorbells: {most} bytes at once");
    }
}

/// Its descriptor is always readable, and never has anything to read.
#[test]
fn a_file_that_only_looks_readable_blocks_no_reader() {
    let mut life = Life::new(Device::Mlx5, |kernel| OpenOptions::new().kernel(kernel));
    life.open().unwrap();
    let context = life.context.unwrap();
    let channel = context.create_completion_channel().unwrap();
    let since = std::time::Instant::now();
    let soon = Some(Duration::from_millis(20));
    assert!(context.async_event(soon).unwrap().is_none());
    assert!(channel.event(soon).unwrap().is_none());
    assert!(since.elapsed() < PATIENCE);
}
