//! Polling with a deadline, so that a lost completion is a failure and not a hang.

use std::time::{Duration, Instant};

use uverbs::event::{AsyncEvent, EventSource};
use uverbs::{CompletionQueue, Context, WorkCompletion};

/// How long a test waits for anything. Emulated processors are slow.
pub const DEADLINE: Duration = Duration::from_secs(20);

/// Calls `ready` until it returns an answer.
pub fn until<T>(what: &str, mut ready: impl FnMut() -> Option<T>) -> T {
    let since = Instant::now();
    loop {
        if let Some(value) = ready() {
            return value;
        }
        assert!(
            since.elapsed() < DEADLINE,
            "{what}: nothing in {DEADLINE:?}"
        );
        std::thread::yield_now();
    }
}

/// The next completion of `cq`.
pub fn next(cq: &mut CompletionQueue) -> WorkCompletion {
    until("a completion", || {
        cq.poll()
            .expect("the queue can be polled")
            .map(|done| *done)
    })
}

/// The next `count` completions of `cq`, in order.
pub fn drain(cq: &mut CompletionQueue, count: usize) -> Vec<WorkCompletion> {
    (0..count).map(|_| next(cq)).collect()
}

/// Checks that nothing arrives in `cq` for a while.
pub fn nothing(cq: &mut CompletionQueue) {
    let since = Instant::now();
    while since.elapsed() < Duration::from_millis(100) {
        let done = cq.poll().expect("the queue can be polled");
        assert!(
            done.is_none(),
            "a completion that nobody asked for: {done:?}"
        );
        std::thread::yield_now();
    }
}

/// The next event of a queue or the device. Events of ports may come at any time, because addresses
/// appear and disappear.
pub fn queue_event(context: &Context, timeout: Option<Duration>) -> Option<AsyncEvent> {
    loop {
        let event = context.async_event(timeout).expect("events can be read")?;
        if !matches!(event.source, EventSource::Port(_)) {
            return Some(event);
        }
    }
}
