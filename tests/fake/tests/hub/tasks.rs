//! Tasks of tokio, whose futures are dropped at random.

use super::*;

/// How many messages a task sends at most. There is room for all of them: a request that is dropped
/// while it waits for room is never sent.
const MESSAGES: u32 = 8;

/// Numbers that look random.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

#[test]
fn a_thousand_tasks_of_tokio_whose_futures_are_dropped_at_random() {
    let tasks: usize = if fake_tests::is_thinned() { 20 } else { 1000 };
    let bench = Bench::newest();
    let context = bench.context().unwrap();
    let pd = context.alloc_pd().unwrap();
    let many = || {
        hub(&pd, |hub| {
            hub.connections(tasks)
                .sends(MESSAGES)
                .receives(2)
                .buffers(tasks * 6)
        })
    };
    let (a, b) = (many(), many());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        for hub in [&a, &b] {
            let events = AsyncCompletionChannel::new(hub.channel().clone()).unwrap();
            let driver = hub.driver();
            tokio::spawn(async move { driver.run_async(&events).await });
        }
        let (a, b) = (Arc::new(a), Arc::new(b));
        let all: Vec<_> = (0..tasks)
            .map(|number| {
                let (here, there) = connect(&a, &b);
                let a = a.clone();
                tokio::spawn(client_and_server(a, here, there, number as u64))
            })
            .collect();
        let mut through = 0;
        for task in all {
            through += task.await.unwrap();
        }
        assert!(through > tasks, "{through} messages");
        is_clean(&a);
        is_clean(&b);
    });
    drop(runtime);
    assert_eq!(bench.fake.objects().qps, 0);
}

/// Sends, and drops some of the futures; whoever sent to a connection that was cut off stops.
async fn client_and_server(hub: Arc<Hub>, here: Connection, there: Connection, seed: u64) -> usize {
    let mut random = Random(seed + 1);
    let (mut sent, mut heard) = (0, 0);
    for _ in 0..MESSAGES {
        let Ok(mut buffer) = hub.buffer() else { break };
        buffer[..8].copy_from_slice(&seed.to_ne_bytes());
        let mut request = Box::pin(here.send(buffer, 8));
        sent += 1;
        if random.below(3) == 0 {
            let _ = poll_with(request.as_mut(), Waker::noop());
            drop(request);
        } else {
            let end = tokio::time::timeout(WITH_MANY, request)
                .await
                .expect("in time");
            end.expect("sent");
        }
        if random.below(4) == 0 {
            let mut dropped = Box::pin(there.recv());
            if let Poll::Ready(message) = poll_with(dropped.as_mut(), Waker::noop()) {
                message.expect("a message");
                heard += 1;
            }
        }
        while sent - heard > 1 {
            let message = tokio::time::timeout(WITH_MANY, there.recv()).await;
            let message = message.expect("in time").expect("a message");
            assert_eq!(&message[..], seed.to_ne_bytes());
            heard += 1;
        }
        if random.below(30) == 0 {
            break;
        }
    }
    heard
}
