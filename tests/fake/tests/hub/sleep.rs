//! Whatever has nothing to do sleeps, and is woken for everything that concerns it.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Waker;
use std::thread;
use std::time::{Duration, Instant};

use fake_tests::{Bench, PATIENCE};
use uverbs::hub::{ConnectionError, Events};

use super::{Counted, MOMENT, connect, hub, poll_with, send};

/// A channel that counts how often a driver looks at it.
struct Sleepy(AtomicUsize);

impl Events for &Sleepy {
    async fn event(&self, limit: Option<Duration>) -> uverbs::Result<bool> {
        assert_eq!(limit, None, "nothing is due");
        self.0.fetch_add(1, Ordering::Relaxed);
        std::future::pending().await
    }
}

#[test]
fn a_task_that_drives_sleeps_until_the_end() {
    let context = Bench::newest().context().unwrap();
    let pd = context.alloc_pd().unwrap();
    let a = hub(&pd, |hub| hub.spin(Duration::ZERO));
    let events = Sleepy(AtomicUsize::new(0));
    let woken = Arc::new(Counted(AtomicUsize::new(0), || {}));
    let waker = Waker::from(woken.clone());
    let events = &events;
    let mut driver = pin!(a.driver().run_async(&events));
    assert!(poll_with(driver.as_mut(), &waker).is_pending());
    thread::sleep(2 * MOMENT);
    assert_eq!(woken.0.load(Ordering::Relaxed), 0);
    assert_eq!(events.0.load(Ordering::Relaxed), 1);
    a.close();
    assert_eq!(woken.0.load(Ordering::Relaxed), 1);
    assert!(poll_with(driver, &waker).is_ready());
}

/// How often this thread has slept and was woken.
fn sleeps_of_thread() -> u64 {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.unwrap().trim().parse().unwrap()
}

#[test]
#[cfg_attr(miri, ignore = "no /proc/thread-self/status")]
fn threads_that_wait_for_nothing_sleep() {
    const LONG: Duration = Duration::from_millis(500);
    let context = Bench::newest().context().unwrap();
    let pd = context.alloc_pd().unwrap();
    for with_driver in [true, false] {
        let a = hub(&pd, |hub| hub);
        let (here, _there) = connect(&a, &a);
        let driver = a.driver();
        let driver = with_driver.then(|| {
            thread::spawn(move || {
                driver.run().unwrap();
                sleeps_of_thread()
            })
        });
        let slept: Vec<u64> = thread::scope(|scope| {
            let waits: Vec<_> = (0..3)
                .map(|_| {
                    scope.spawn(|| {
                        let before = sleeps_of_thread();
                        let why = here.recv().wait(LONG).unwrap_err();
                        assert_eq!(why, ConnectionError::TimedOut);
                        sleeps_of_thread() - before
                    })
                })
                .collect();
            waits.into_iter().map(|wait| wait.join().unwrap()).collect()
        });
        a.close();
        let driver = driver.map(|driver| driver.join().unwrap());
        // Once, and for locks and calls now and then; ten times a second would be five.
        let most = slept.iter().copied().max();
        assert!(most < Some(5), "{slept:?}");
        assert!(driver.unwrap_or(0) < 30, "{driver:?}");
    }
}

#[test]
fn without_a_driver_waiting_threads_take_turns_polling() {
    let context = Bench::newest().context().unwrap();
    let pd = context.alloc_pd().unwrap();
    let (a, b) = (hub(&pd, |hub| hub), hub(&pd, |hub| hub));
    let pairs: Vec<_> = (0..4).map(|_| connect(&a, &b)).collect();
    thread::scope(|scope| {
        for (here, _) in &pairs {
            scope.spawn(|| assert_eq!(here.recv().wait(PATIENCE).unwrap()[0], 7));
        }
        // Whoever has the turn, one after the other gets its message.
        for (_, there) in &pairs {
            thread::sleep(MOMENT);
            send(&b, there, &[7]).unwrap();
        }
    });
    // A thread that sleeps in its turn is woken by what others do.
    let (here, there) = &pairs[0];
    thread::scope(|scope| {
        scope.spawn(|| {
            let why = here.recv().wait(10 * PATIENCE).unwrap_err();
            assert_eq!(why, ConnectionError::Closed);
        });
        thread::sleep(MOMENT);
        here.close();
    });
    assert_eq!(there.over(), None);
}

#[test]
fn a_receive_that_waits_for_a_buffer_gets_the_next_one() {
    let bench = Bench::newest();
    let context = bench.context().unwrap();
    let pd = context.alloc_pd().unwrap();
    let clients = hub(&pd, |hub| hub);
    // Two connections want four buffers each, and there are six.
    let server = hub(&pd, |hub| hub.buffers(6));
    let driver = server.driver();
    let driver = thread::spawn(move || driver.run());
    let (one, first) = connect(&clients, &server);
    let (other, second) = connect(&clients, &server);
    let held: Vec<_> = (0..4_u8)
        .map(|number| {
            send(&clients, &one, &[number]).unwrap();
            first.recv().wait(PATIENCE).unwrap()
        })
        .collect();
    for number in 0..2 {
        send(&clients, &other, &[number]).unwrap();
    }
    let more: Vec<_> = (0..2)
        .map(|_| second.recv().wait(PATIENCE).unwrap())
        .collect();
    // Nobody has a receive posted; its peer waits until somebody drops a message.
    let mut buffer = clients.buffer().unwrap();
    buffer[0] = 9;
    let request = one.send(buffer, 1);
    thread::sleep(MOMENT);
    drop((held, more));
    let since = Instant::now();
    let message = loop {
        // The fake device looks for receives when it is told to.
        bench.fake.freeze(false);
        match first.recv().wait(MOMENT) {
            Ok(message) => break message,
            Err(error) => assert!(since.elapsed() < PATIENCE, "{error}"),
        }
    };
    assert_eq!(message[0], 9);
    drop(request.wait(PATIENCE).unwrap());
    server.close();
    driver.join().unwrap().unwrap();
}

#[test]
fn time_limits_hold_and_closing_ends_drivers_that_never_sleep() {
    let context = Bench::newest().context().unwrap();
    let pd = context.alloc_pd().unwrap();
    let a = hub(&pd, |hub| hub.spin(Duration::MAX));
    let (here, _there) = connect(&a, &a);
    let why = here.recv().wait(MOMENT).unwrap_err();
    assert_eq!(why, ConnectionError::TimedOut);
    let driver = a.driver();
    let driver = thread::spawn(move || driver.run());
    thread::sleep(MOMENT);
    drop(a);
    driver.join().unwrap().unwrap();
}

#[test]
fn a_loop_of_the_program_sleeps_until_the_channel_is_readable() {
    let context = Bench::newest().context().unwrap();
    let pd = context.alloc_pd().unwrap();
    let a = hub(&pd, |hub| hub.adaptive_spin(Duration::from_micros(50)));
    let (here, there) = connect(&a, &a);
    for number in 0..3 {
        assert_eq!(a.arm().unwrap(), 0);
        let empty = a.channel().event(Some(Duration::ZERO)).unwrap();
        assert!(empty.is_none());
        let request = here.send(a.buffer().unwrap(), 1);
        // Armed anew, it takes the event and finds the completions.
        let mut taken = 0;
        let since = Instant::now();
        while taken < 2 && since.elapsed() < PATIENCE {
            taken += a.arm().unwrap();
        }
        assert_eq!(taken, 2, "{number}");
        drop(there.recv().wait(Duration::ZERO).unwrap());
        drop(request.wait(Duration::ZERO).unwrap());
    }
}
