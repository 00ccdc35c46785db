//! Thousands of objects: nothing is left, memory use stays flat, and so does the cost of each.

use std::time::{Duration, Instant};

use uverbs::QpType;

use crate::support::kernel_log::KernelLog;
use crate::support::memory::Memory;
use crate::support::objects::Objects;

/// How much slower the last objects may be than the first: the variation of an emulated processor.
const NOISE: u32 = 2;

/// Additional tenths in which a machine may recover its speed. Objects whose cost grew with their
/// number do not get cheaper.
const PATIENCE: usize = 30;

/// Number of bytes that the allocator may have taken between the first tenth and the last.
const SLACK: u64 = 256 << 10;

/// Creates ten times `number` objects, `number` at a time, and destroys them.
fn ten_times<T>(what: &str, number: usize, mut make: impl FnMut() -> T) {
    let before = Objects::now();
    let mut log = KernelLog::from_now();
    let mut tenth = || {
        let mut objects = Vec::with_capacity(number);
        let mut starts = Vec::with_capacity(number);
        for _ in 0..number {
            let since = Instant::now();
            objects.push(make());
            starts.push(since.elapsed());
        }
        let mut ends = Vec::with_capacity(number);
        while let Some(object) = objects.pop() {
            let since = Instant::now();
            drop(object);
            ends.push(since.elapsed());
        }
        before.same_now();
        (median(starts), median(ends), Memory::now())
    };
    let mut all: Vec<_> = (0..10).map(|_| tenth()).collect();
    // The best of three, because an emulated processor is interrupted occasionally.
    let best = |tenths: &[(Duration, Duration, Memory)]| {
        let starts = tenths.iter().map(|tenth| tenth.0).min();
        let ends = tenths.iter().map(|tenth| tenth.1).min();
        (
            starts.unwrap_or_default(),
            ends.unwrap_or_default(),
            tenths[tenths.len() - 1].2,
        )
    };
    let first = (best(&all[..3]).0, best(&all[..3]).1, all[0].2);
    let mut last = best(&all[7..]);
    while all.len() < 10 + PATIENCE && (last.0 >= first.0 * NOISE || last.1 >= first.1 * NOISE) {
        all.push(tenth());
        last = best(&all[all.len() - 3..]);
    }
    println!(
        "FIGURE: {} {what}: made in {:?} each at first and {:?} at last, destroyed in {:?} and {:?}; \
         resident {} KiB and {} KiB, mapped {} KiB and {} KiB",
        all.len() * number,
        first.0,
        last.0,
        first.1,
        last.1,
        first.2.resident >> 10,
        last.2.resident >> 10,
        first.2.mapped >> 10,
        last.2.mapped >> 10,
    );
    assert!(
        last.0 < first.0 * NOISE,
        "making them became slower: {all:?}"
    );
    assert!(
        last.1 < first.1 * NOISE,
        "destroying them became slower: {all:?}"
    );
    assert!(
        last.2.resident <= first.2.resident + SLACK,
        "memory grows: {all:?}"
    );
    assert!(
        last.2.mapped <= first.2.mapped + SLACK,
        "mappings grow: {all:?}"
    );
    log.silent(what);
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

#[test]
fn ten_thousand_memory_regions() {
    let context = verbs_tests::open();
    let pd = context.alloc_pd().expect("a domain");
    ten_times("memory regions", 1000, || {
        pd.buffers::<1>(4096).expect("a region")
    });
    assert_eq!((context.leaked(), Memory::now().pinned), (0, 0));
}

#[test]
fn a_thousand_queue_pairs() {
    let context = verbs_tests::open();
    let pd = context.alloc_pd().expect("a domain");
    let cq = context.create_cq(256).expect("a queue");
    let builder = pd.queue_pair(QpType::Rc, &cq, &cq);
    ten_times("queue pairs", 100, || {
        builder.build().expect("a queue pair")
    });
    // Connecting one waits for a kernel worker that resolves the path, on whichever processor that
    // runs next: its time is reported, not checked.
    let before = Objects::now();
    let mut handshakes = Vec::new();
    for _ in 0..10 {
        let mut times = Vec::new();
        for _ in 0..100 {
            let prepared = builder.build().expect("a queue pair");
            let endpoint = prepared.endpoint();
            let since = Instant::now();
            let qp = prepared.handshake(endpoint).expect("connected");
            times.push(since.elapsed());
            qp.destroy().expect("destroyed");
        }
        handshakes.push(median(times));
    }
    println!("FIGURE: handshakes, each tenth of 1000: {handshakes:?}");
    before.same_now();
    assert_eq!(context.leaked(), 0);
}

#[test]
fn thousands_of_other_objects() {
    let context = verbs_tests::open();
    let pd = context.alloc_pd().expect("a domain");
    ten_times("completion queues", 100, || {
        context.create_cq(64).expect("a queue")
    });
    ten_times("shared receive queues", 50, || {
        pd.create_srq(64, 1).expect("a queue")
    });
    ten_times("domains", 100, || context.alloc_pd().expect("a domain"));
    ten_times("windows", 100, || {
        pd.alloc_mw(uverbs::memory::MwType::Type2)
            .expect("a window")
    });
    ten_times("channels", 50, || {
        context.create_completion_channel().expect("a channel")
    });
    ten_times("contexts", 20, verbs_tests::open);
    assert_eq!(context.leaked(), 0);
}
