//! What a queue, a region or an address handle takes to create and destroy, with few others and
//! with many: the library's own time, without the kernel's, and (mlx5) bytes of the heap.
//!
//! `cargo test -p hostile-tests --test growth -- --nocapture` prints the table.
//!
//! # Safety
//!
//! The kernel in between returns what the one underneath returns. The allocator is the system's; it
//! counts, and does nothing else. Registered memory is never freed.
#![allow(
    clippy::cast_precision_loss,
    clippy::unwrap_used,
    unsafe_code,
    reason = "a test fails by panicking; registers memory, and counts what is allocated"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

use fake_tests::Bench;
use hostile_tests::{mlx5_kernel, open_mlx5};
use rustix::time::{ClockId, clock_gettime};
use uverbs::address::GlobalRoute;
use uverbs::discover::ForkGuard;
use uverbs::error::Errno;
use uverbs::{AccessFlags, AddressVector, Context, OpenOptions, QpType};
use uverbs_core::sys::{Call, Kernel, Reply};

/// Bytes of the heap that an object of mlx5 may take at most, and libmlx5's of Debian 13 for
/// comparison: `tests/cost/oracle/heap.c` measures those; without the page of the ring, which is
/// not ours on the heap.
const MOST_BYTES: [(&str, usize, usize); 5] = [
    ("completion queue", 790, 688),
    ("queue pair", 1370, 1252),
    ("shared receive queue", 715, 674),
    ("memory region", 120, 79),
    ("address handle", 136, 144),
];
/// How many objects there are when the cost of further ones is measured.
const SIZES: [usize; 4] = [10, 100, 1000, 10_000];
/// Objects that are created and then destroyed at once, and how often; the least counts, because
/// the machine does other things as well.
const MANY: usize = 16;
const TRIES: usize = 40;
/// With the most others, one may take this many times as long as with the fewest. While it takes
/// longer, it is tried again, so many times in all: a busy machine makes half as much again of it.
const BOUND: f64 = 1.5;
const MOST_TRIES: usize = 50;

thread_local! {
    static IN_KERNEL: Cell<Duration> = const { Cell::new(Duration::ZERO) };
    static ALLOCATED: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: everything is passed on.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.set(ALLOCATED.get().wrapping_add(layout.size()));
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        ALLOCATED.set(ALLOCATED.get().wrapping_sub(layout.size()));
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Time that this thread was running.
fn now() -> Duration {
    clock_gettime(ClockId::ThreadCPUTime).try_into().unwrap()
}

/// A kernel whose time and memory are counted as its own.
#[derive(Debug)]
struct Timed(Arc<dyn Kernel>);

// SAFETY: what it returns is what the kernel underneath returns.
unsafe impl Kernel for Timed {
    unsafe fn call(&self, fd: BorrowedFd<'_>, call: Call<'_>) -> Result<Reply, Errno> {
        let (start, allocated) = (now(), ALLOCATED.get());
        // SAFETY: the caller fulfils the obligations that the kernel underneath requires.
        let answer = unsafe { self.0.call(fd, call) };
        ALLOCATED.set(allocated);
        IN_KERNEL.set(IN_KERNEL.get() + now().saturating_sub(start));
        answer
    }
}

/// Time of the library alone for creating and destroying one of `MANY` objects.
fn once<T>(create: &mut impl FnMut() -> T) -> f64 {
    let mut made = Vec::with_capacity(MANY);
    let (start, kernel) = (now(), IN_KERNEL.get());
    made.extend((0..MANY).map(|_| create()));
    drop(made);
    let in_kernel = IN_KERNEL.get().saturating_sub(kernel);
    let own = now().saturating_sub(start).saturating_sub(in_kernel);
    own.as_secs_f64() * 1e6 / MANY as f64
}

/// How much longer one takes with the most others than with the fewest.
fn ratio(times: &[f64]) -> f64 {
    times[times.len() - 1] / times[0]
}

/// Measures with more and more others, and returns whether the cost stays the same.
fn grow<T>(name: &str, has_bytes: bool, mut create: impl FnMut() -> T) -> bool {
    let before = ALLOCATED.get();
    let mut others = Vec::with_capacity(SIZES[SIZES.len() - 1]);
    let mut times = Vec::with_capacity(SIZES.len());
    for size in SIZES {
        others.extend((others.len()..size).map(|_| create()));
        let tries = (0..TRIES).map(|_| once(&mut create));
        times.push(tries.fold(f64::INFINITY, f64::min));
    }
    let own = others.capacity() * size_of::<T>() + times.capacity() * size_of::<f64>();
    let heap = ALLOCATED.get().wrapping_sub(before).saturating_sub(own);
    // Memory of the fake kernel's becomes the library's when it is mapped: not counted.
    let bytes = has_bytes.then(|| size_of::<T>() + heap / others.len());
    for _ in 1..MOST_TRIES {
        if ratio(&times) <= BOUND {
            break;
        }
        let tries = (0..TRIES).map(|_| once(&mut create));
        let last = times.len() - 1;
        times[last] = tries.fold(times[last], f64::min);
    }
    let ratio = ratio(&times);
    let times: Vec<_> = times.iter().map(|time| format!("{time:9.2}")).collect();
    let shown = bytes.map_or(String::new(), |bytes| bytes.to_string());
    println!("{name:24}{:39} {ratio:9.2} {shown:>9}", times.join(" "));
    if let Some(bytes) = bytes {
        let most = MOST_BYTES.iter().find(|(kind, ..)| name.ends_with(kind));
        let &(_, most, theirs) = most.unwrap();
        assert!(bytes <= most, "{name}: {bytes} bytes; libmlx5's: {theirs}");
    }
    ratio <= BOUND
}

fn measure(device: &str, context: &Context, has_bytes: bool) -> bool {
    let pd = context.alloc_pd().unwrap();
    let cq = context.create_cq(4).unwrap();
    let memory = Box::leak(vec![0_u8; 64].into_boxed_slice()).as_mut_ptr();
    let vector = context.gid_table().unwrap().first().map_or_else(
        || AddressVector::local(1, 1),
        |entry| AddressVector::global(1, GlobalRoute::new(entry.gid, 0)),
    );
    let name = |kind| format!("{device} {kind}");
    let flat = [
        grow(&name("completion queue"), has_bytes, || {
            context.create_cq(4).unwrap()
        }),
        grow(&name("queue pair"), has_bytes, || {
            let builder = pd.queue_pair(QpType::Rc, &cq, &cq);
            builder.max_send_wr(1).max_recv_wr(1).build().unwrap()
        }),
        grow(&name("shared receive queue"), has_bytes, || {
            pd.create_srq(4, 1).unwrap()
        }),
        grow(&name("memory region"), has_bytes, || {
            // SAFETY: the memory stays, and nothing refers to it.
            unsafe { pd.register(memory, 64, AccessFlags::LOCAL_WRITE) }.unwrap()
        }),
        grow(&name("address handle"), has_bytes, || {
            pd.create_ah(&vector).unwrap()
        }),
    ];
    flat == [true; 5]
}

#[test]
fn the_cost_per_object_does_not_grow() {
    let sizes = SIZES.map(|size| format!("{size:9}")).join(" ");
    println!("{:24}{sizes}     ratio     bytes", "µs each, others:");
    // As libmlx5's were measured: without `ibv_fork_init`.
    let mlx5 = OpenOptions::new()
        .kernel(Arc::new(Timed(mlx5_kernel())))
        .fork_guard(ForkGuard::unneeded());
    let mlx5 = measure("mlx5", &open_mlx5(mlx5).unwrap(), true);
    let Bench { fake, .. } = Bench::newest();
    let (info, fd) = (fake.device_info(), fake.open().unwrap());
    let rxe = OpenOptions::new().kernel(Arc::new(Timed(Arc::new(fake))));
    let rxe = measure("rxe", &rxe.over(info, fd).unwrap(), false);
    assert!(mlx5 && rxe, "more than {BOUND} times as much");
}
