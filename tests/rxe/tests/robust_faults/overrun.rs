//! A completion queue that is too small. rxe loses completions and continues; no memory is lost or
//! freed early.

use std::time::Duration;

use uverbs::event::{AsyncEventType, EventSource};
use uverbs::owned::{QueuePair, Work};
use uverbs::{ErrorKind, QpType};

use crate::support::kernel_log::excuse;
use crate::support::looped::Looped;
use crate::support::memory::Memory;
use crate::support::objects::Objects;

/// Number of requests of each kind.
const POSTED: usize = 40;

#[test]
fn f23_an_overrun_loses_completions_and_no_memory() {
    excuse("queue full");
    let before = Objects::now();
    let context = verbs_tests::open();
    let pd = context.alloc_pd().expect("a domain");
    let mut cq = context
        .completion_queue(4)
        .user_data(11)
        .build()
        .expect("a queue");
    let prepared = pd
        .queue_pair(QpType::Rc, &cq, &cq)
        .max_send_wr(64)
        .max_recv_wr(64)
        .build()
        .expect("a queue pair");
    let endpoint = prepared.endpoint();
    let mut qp = QueuePair::new(prepared.handshake(endpoint).expect("connected"));
    for buffer in pd.buffer_list(POSTED, 64).expect("buffers") {
        qp.recv(buffer, 1).expect("posted");
    }
    for mut buffer in pd.buffer_list(POSTED, 64).expect("buffers") {
        buffer.fill(3);
        qp.post(Work::send().memory((buffer, 64))).expect("posted");
    }

    // The events come as fast as completions are lost; all of them are for this queue.
    let mut events = 0_usize;
    while let Some(event) = context
        .async_event(Some(Duration::from_millis(500)))
        .expect("events go on")
    {
        assert_eq!(event.event, AsyncEventType::CqError);
        assert_eq!(event.source, EventSource::CompletionQueue { user_data: 11 });
        events += 1;
        assert!(events <= 2 * POSTED, "more events than completions");
    }
    let mut finished = Vec::new();
    while let Ok(Some(done)) = cq.poll() {
        finished.push(qp.complete(done).expect("a request of this queue pair"));
    }
    let owned = qp.sends_posted() + qp.receives_posted();
    println!(
        "FIGURE: {events} events; {} of {} completions came",
        finished.len(),
        2 * POSTED
    );
    assert!(events > 0, "no event tells of the overrun");
    assert!(finished.len() < 2 * POSTED, "nothing was lost");
    assert_eq!(owned, 2 * POSTED - finished.len(), "a buffer is nobody's");

    // What is still owned is registered and mapped: the destroy returns it.
    let pinned = Memory::now().pinned;
    let memory = qp.destroy().expect("destroyed");
    assert_eq!(memory.len(), owned, "the destroy returns what was lost");
    assert_eq!(
        Memory::now().pinned,
        pinned,
        "memory was deregistered early"
    );
    for buffer in memory
        .into_iter()
        .filter_map(uverbs::owned::Memory::into_buffer)
    {
        assert!(buffer.iter().all(|byte| *byte == 3 || *byte == 0));
    }
    drop(finished);
    let counts = cq.destroy().expect("destroyed");
    println!("{counts:?}");
    assert_eq!(
        context
            .try_async_event()
            .expect_err("no event is left")
            .kind(),
        ErrorKind::WouldBlock
    );
    let mut looped = Looped::on(&context);
    looped.round_trip(5);
    drop((looped, pd));
    assert_eq!(context.leaked(), 0);
    drop(context);
    before.return_in_time();
}

/// The events are never read: neither the destroy nor the end of the context waits for that.
#[test]
fn f23_a_storm_without_a_reader() {
    excuse("queue full");
    let before = Objects::now();
    let context = verbs_tests::open();
    let pd = context.alloc_pd().expect("a domain");
    let cq = context.create_cq(1).expect("a queue");
    let prepared = pd
        .queue_pair(QpType::Rc, &cq, &cq)
        .max_send_wr(64)
        .build()
        .expect("a queue pair");
    let endpoint = prepared.endpoint();
    let mut qp = QueuePair::new(prepared.handshake(endpoint).expect("connected"));
    let target = pd
        .expose(64, uverbs::AccessFlags::REMOTE_WRITE)
        .expect("memory");
    for _ in 0..POSTED {
        // Refused once the send queue is full of requests whose completions were lost.
        if qp.post(Work::write(target.remote())).is_err() {
            break;
        }
    }
    std::thread::sleep(Duration::from_millis(100));
    let since = std::time::Instant::now();
    qp.destroy().expect("destroyed");
    cq.destroy().expect("destroyed");
    drop((target, pd));
    assert_eq!(context.leaked(), 0);
    drop(context);
    assert!(
        since.elapsed() < verbs_tests::DEADLINE,
        "{:?}",
        since.elapsed()
    );
    before.return_in_time();
}
