//! What threads do to queues concurrently, in every order: `cargo xtask loom`.
//!
//! Each model is two or three threads of a few steps over the real tables, trackers, pollers and
//! shared rings; `loom` runs it once for every order of their accesses to shared words, and every
//! value that a load may return by the rules of the language. In the larger models, threads are
//! interrupted where they could continue no more often than stated. What `loom` does not model are
//! loads that are reordered with later stores.
//!
//! The following must hold in all models:
//!
//! 1. a completion is never that of a request of another queue pair, or of another incarnation of
//!    it;
//! 2. a request is reported at most once;
//! 3. what a queue pair that still exists did in this incarnation is reported;
//! 4. an index of a shared queue is freed once per use, and each use is reported once: by a
//!    completion, or as unreported;
//! 5. a receive that met a page fault is posted again, and none is left behind;
//! 6. memory of a request that was returned does not change any more, although its message was in a
//!    completion.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a model that panics was refuted"
)]

mod completion_queues;
mod device_numbers;
mod faults;
mod lives;
mod numbers;
mod scatter;
mod shared;
mod world;

/// Explores all orders in which threads are interrupted, where they could continue, at most `most`
/// times in one execution, and prints how many there were.
#[cfg(loom)]
fn explore(name: &str, most: Option<usize>, model: impl Fn() + Send + Sync + 'static) {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    let count = Arc::new(AtomicU64::new(0));
    let mut builder = loom::model::Builder::new();
    builder.max_branches = 100_000;
    builder.preemption_bound = most;
    let counted = Arc::clone(&count);
    builder.check(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        model();
    });
    let count = count.load(Ordering::Relaxed);
    let bound = most.map_or_else(
        || "all there are".to_owned(),
        |most| format!("up to {most} interruptions"),
    );
    println!("model: {name}: {count} executions, {bound}");
}

/// Runs it in whatever orders occur.
#[cfg(not(loom))]
fn explore(_: &str, _: Option<usize>, model: impl Fn()) {
    // Miri uses other seeds for other orders.
    let times = if cfg!(miri) { 1 } else { 200 };
    (0..times).for_each(|_| model());
}
