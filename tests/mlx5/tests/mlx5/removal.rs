//! A device that fails, and one that is unplugged, while programs use them.

use std::fs;
use std::time::{Duration, Instant};

use mlx5_tests::{Model, model_may_report, uses_the_machine_up};
use uverbs::event::{AsyncEventType, EventSource};
use uverbs::{Context, Error, ErrorKind, Operation, Payload, QpType, SendRequest};
use verbs_tests::{
    Pair, Registered, device_name, kernel_may_say, open_named, peer_name, raw, requests_fail,
};

/// The driver checks the device's health every two seconds.
const PATIENCE: Duration = Duration::from_secs(45);

/// Writes until the device reports that it is gone; returns how many writes completed before.
fn write_until_fatal(context: &Context, pair: &mut Pair, there: &Registered, fault: &str) -> u64 {
    let (since, mut done, mut under_way) = (Instant::now(), 0_u64, 0);
    loop {
        let bytes: [&[u8]; 1] = [b"traffic"];
        let request =
            SendRequest::new(Operation::Write(there.remote(0)), Payload::Inline(&bytes)).signaled();
        // A full queue, or one that failed, is acceptable; the consequences are checked below.
        while under_way < 32 && raw::send(&mut pair.a.qp, &[request]).is_ok() {
            under_way += 1;
        }
        while let Ok(Some(_)) = pair.a.cq.poll() {
            under_way -= 1;
            done += 1;
            if done == 100 {
                Model::open().make(fault);
            }
        }
        match context.async_event(Some(Duration::from_millis(1))) {
            Ok(Some(event)) if event.event == AsyncEventType::DeviceFatal => {
                assert_eq!(event.source, EventSource::Device);
                return done;
            }
            Ok(_) => {}
            Err(error) => panic!("no event, but {error}"),
        }
        assert!(
            since.elapsed() < PATIENCE,
            "the device was not removed in time"
        );
    }
}

/// Creating anything fails in time, with a reason.
fn refused(context: &Context) -> Error {
    let since = Instant::now();
    loop {
        let tried = context
            .alloc_pd()
            .and_then(|pd| context.create_cq(16).map(|cq| (pd, cq)));
        match tried {
            Err(error) => return error,
            // The driver has reported it, but does not refuse commands yet.
            Ok(made) => drop(made),
        }
        assert!(since.elapsed() < PATIENCE, "the device works on");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Number of descriptors of this process, and of its device mappings.
fn held() -> (usize, usize) {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    (
        fs::read_dir("/proc/self/fd").unwrap().count(),
        maps.lines()
            .filter(|line| line.contains("/dev/infiniband"))
            .count(),
    )
}

fn ends(name: &str, fault: &str) {
    let before = held();
    let context = open_named(name);
    let mut pair = Pair::between(&context, &context, QpType::Rc, |builder| builder);
    let (pd, cq) = (context.alloc_pd().unwrap(), context.create_cq(16).unwrap());
    let srq = pd.create_srq(16, 1).unwrap();
    let memory = Registered::local(&pd, 4096);
    let there = Registered::remote_all(&pair.b.pd, 64);
    let since = Instant::now();
    let done = write_until_fatal(&context, &mut pair, &there, fault);
    let reported = since.elapsed();
    assert!(done >= 100);

    let error = refused(&context);
    assert_eq!(error.kind(), ErrorKind::DeviceRemoved, "{error}");
    // The data path does not crash: it posts to memory of its own, and nothing completes.
    let bytes: [&[u8]; 1] = [b"nobody"];
    let _ = raw::send(&mut pair.a.qp, &[SendRequest::send_inline(&bytes)]);
    while let Ok(Some(_)) = pair.a.cq.poll() {}
    // Teardown finishes, in any order.
    let since = Instant::now();
    drop(pd);
    drop(cq);
    drop((memory, there, srq));
    drop(pair);
    println!(
        "FIGURE: {fault}: told after {reported:?} and {done} writes; then {error}; teardown in {:?}",
        since.elapsed()
    );
    assert_eq!(context.leaked(), 0);
    drop(context);
    assert_eq!(held(), before);
}

#[test]
fn f01_programs_hear_of_the_end_of_their_device_and_survive_it() {
    kernel_may_say("mlx5");
    kernel_may_say("pci");
    requests_fail();
    model_may_report("");
    uses_the_machine_up();
    ends(&device_name(), "remove 0");
    // The driver begins to recover this one seconds later, when the test is over.
    ends(&peer_name(), "health 1 1");
}
