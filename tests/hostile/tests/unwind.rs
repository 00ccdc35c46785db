//! Kernels and sinks that panic at any call of a whole life, and kernels whose success cannot be
//! used.
//!
//! Wherever something stops: memory that a kernel holds stays mapped, no queue pair leaves RESET
//! with old work in its rings, what is returned was released by the kernel, and what the kernel
//! keeps is counted.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod life;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fake_tests::thinned;
use hostile_tests::watch::{Bomb, OnPurpose, Stop};
use life::{Device, Life, MANY, STEPS};
use uverbs::attr::{QpAttr, SrqModify};
use uverbs::error::Errno;
use uverbs::recorder::{Record, Sink};
use uverbs::{AccessFlags, Context, ErrorKind, OpenOptions, PollError, PostError, QpState, owned};
use uverbs_fake::{Effect, FakeKernel, When};
use uverbs_uapi::ib_user_verbs::IB_USER_VERBS_CMD_MODIFY_QP;

/// A life whose kernel stops at a call. Returns the result of [`Life::run`], and how many calls
/// there were.
fn stopped(device: Device, stop: Stop, at: u64) -> (usize, usize, u64) {
    let mut bomb = None;
    let mut life = Life::new(device, |kernel| {
        let kernel = Arc::new(Bomb::new(kernel, stop, at));
        bomb = Some(Arc::clone(&kernel));
        OpenOptions::new().kernel(kernel)
    });
    let (unwound, done) = life.run(&format!("{device:?}, {stop:?} call {at}"));
    drop(life);
    (unwound, done, at.wrapping_sub(bomb.unwrap().left()))
}

/// Silences panics on purpose.
fn quiet() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let former = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let on_purpose = info.payload().downcast_ref::<OnPurpose>().is_some();
            if !on_purpose {
                former(info);
            }
        }));
    });
}

/// Stops at every call, and checks every step.
fn every_call(device: Device, stop: Stop) {
    quiet();
    let (unwound, whole, calls) = stopped(device, stop, MANY);
    assert_eq!(unwound, 0);
    // What the device lacks, and polling without a result.
    let lacking = if device == Device::Mlx5 { 3 } else { 5 };
    assert_eq!(
        whole + lacking,
        STEPS.len(),
        "steps that came to their ends"
    );
    assert!((40..200).contains(&calls), "{calls} calls");
    for at in thinned(0..calls, 31) {
        let (unwound, ..) = stopped(device, stop, at);
        assert_eq!(
            unwound, 0,
            "a panic of the kernel came through, of call {at}"
        );
    }
}

#[test]
fn a_kernel_that_panics_before_a_call_costs_that_call() {
    for device in Device::here() {
        every_call(device, Stop::Before);
    }
}

#[test]
fn a_kernel_that_panics_after_a_call_of_rxe_frees_nothing_that_it_has() {
    every_call(Device::Rxe, Stop::After);
}

#[test]
fn a_kernel_that_panics_after_a_call_of_mlx5_frees_nothing_that_it_has() {
    every_call(Device::Mlx5, Stop::After);
}

#[test]
fn a_kernel_that_panics_for_good_frees_nothing_that_it_has() {
    for device in Device::here() {
        every_call(device, Stop::Dead);
    }
}

#[test]
fn a_success_that_cannot_be_used_frees_nothing_that_the_kernel_has() {
    for device in Device::here() {
        every_call(device, Stop::Mute);
    }
}

/// A device with connected queues and posted work, and the handle that stops its kernel at the next
/// call, after it was carried out.
fn ready(device: Device) -> (Life, Arc<Bomb>) {
    quiet();
    let mut bomb = None;
    let mut life = Life::new(device, |kernel| {
        let kernel = Arc::new(Bomb::new(kernel, Stop::After, MANY));
        bomb = Some(Arc::clone(&kernel));
        OpenOptions::new().kernel(kernel)
    });
    for step in [
        Life::open,
        Life::make_domains,
        Life::make_cq,
        Life::make_srq,
        Life::make_qp,
        Life::connect,
        Life::post,
    ] {
        step(&mut life).unwrap();
    }
    (life, bomb.unwrap())
}

/// The number of posted buffers of the program.
fn in_queue(qp: &owned::QueuePair) -> usize {
    qp.sends_posted() + qp.receives_posted()
}

#[test]
fn after_a_reset_of_unknown_outcome_only_a_reset_is_allowed() {
    for device in Device::here() {
        let (mut life, bomb) = ready(device);
        let [buffer] = life.pds[0].buffers::<1>(8).unwrap();
        let qp = life.qp.as_mut().unwrap();
        assert_eq!(in_queue(qp), 2, "{device:?}");
        bomb.arm();
        let error = qp.reset().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Panicked, "{device:?}: {error}");
        assert!(error.outcome_is_unknown());
        assert_eq!(in_queue(qp), 2, "{device:?}: memory came back");
        let refused = qp.recv(buffer, 3).unwrap_err();
        assert_eq!(refused.error, PostError::WrongState, "{device:?}");
        let refused = qp.send(refused.buffer, 8, 4).unwrap_err();
        assert_eq!(refused.error, PostError::WrongState, "{device:?}");
        let init = QpAttr::to(QpState::Init)
            .pkey_index(0)
            .port(1)
            .access(AccessFlags::LOCAL_WRITE);
        let error = qp.modify(&init).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidState, "{device:?}: {error}");
        assert_eq!(qp.reset().unwrap().len(), 2, "{device:?}");
        life.connect().unwrap();
        life.post().unwrap();
        assert_eq!(in_queue(life.qp.as_ref().unwrap()), 2, "{device:?}");
        assert!(life.watched.stale().is_empty(), "{device:?}");
    }
}

/// Makes the kernel report that it has no memory, without doing anything.
#[expect(unsafe_code, reason = "plays a kernel without memory")]
fn refuse(fake: &FakeKernel, when: When) {
    // SAFETY: (1) a call that fails did nothing, and reports nothing about an object's end; (2)
    // nothing is rewritten.
    unsafe { fake.inject(when, Effect::Fail(Errno::NOMEM)) };
}

#[test]
fn a_reset_that_the_kernel_refused_changed_nothing() {
    let (mut life, _) = ready(Device::Rxe);
    let fake = life.fake.clone().unwrap();
    refuse(&fake, When::Command(IB_USER_VERBS_CMD_MODIFY_QP));
    let qp = life.qp.as_mut().unwrap();
    qp.reset().unwrap_err();
    fake.clear_faults();
    assert_eq!((qp.state(), in_queue(qp)), (QpState::ReadyToSend, 2));
    life.post().unwrap();
    assert_eq!(in_queue(life.qp.as_ref().unwrap()), 4);
}

/// The second reset of rxe: the first left a queue pair that would resend what it had discarded.
#[test]
fn a_reset_of_which_only_half_is_done_is_done_again_whole() {
    let (mut life, bomb) = ready(Device::Rxe);
    let fake = life.fake.clone().unwrap();
    let qp = life.qp.as_mut().unwrap();
    let half = fake.calls() + 1;
    refuse(&fake, When::Call(half));
    qp.reset().unwrap_err();
    fake.clear_faults();
    assert_eq!((qp.state(), in_queue(qp)), (QpState::Reset, 2));
    life.connect().unwrap();
    let qp = life.qp.as_mut().unwrap();
    assert_eq!(qp.state(), QpState::Reset);
    let before = bomb.left();
    let back = qp.reset().unwrap();
    assert_eq!(back.len(), 2);
    assert_eq!(before - bomb.left(), 2, "both resets again");
    life.connect().unwrap();
    assert_eq!(life.qp.as_ref().unwrap().state(), QpState::ReadyToSend);
}

#[test]
fn a_completion_queue_in_an_unknown_state_is_not_polled() {
    for device in Device::here() {
        let (mut life, bomb) = ready(device);
        let cq = life.cq.as_mut().unwrap();
        bomb.arm();
        assert_eq!(cq.resize(1500).unwrap_err().kind(), ErrorKind::Panicked);
        assert_eq!(cq.poll().unwrap_err(), PollError::Poisoned, "{device:?}");
        assert_eq!(life.watched.freed(), []);
        // Posted buffers stay with their queue.
        assert_eq!(in_queue(life.qp.as_ref().unwrap()), 2);
        life.destroy().unwrap();
        life.end();
        assert_eq!(life.hand.len(), 2, "{device:?}");
    }
}

#[test]
fn a_shared_queue_in_an_unknown_state_takes_nothing() {
    let (mut life, bomb) = ready(Device::Rxe);
    let [buffer] = life.pds[0].buffers::<1>(8).unwrap();
    let srq = life.srq.as_mut().unwrap();
    let change = SrqModify {
        max_wr: Some(500),
        limit: None,
    };
    bomb.arm();
    assert_eq!(srq.modify(&change).unwrap_err().kind(), ErrorKind::Panicked);
    let refused = srq.recv(buffer, 1).unwrap_err();
    assert_eq!(refused.error, PostError::Poisoned);
    life.destroy_srq().unwrap();
    assert_eq!(life.hand.len(), 1);
}

#[test]
fn a_doorbell_in_which_the_kernel_panics_keeps_its_request() {
    let (mut life, bomb) = ready(Device::Rxe);
    let [first, second] = life.pds[0].buffers::<2>(8).unwrap();
    let qp = life.qp.as_mut().unwrap();
    bomb.arm();
    let refused = qp.send(first, 8, 3).unwrap_err();
    assert_eq!(refused.error, PostError::Doorbell(Errno::NOTRECOVERABLE));
    assert!(refused.work.is_none());
    let refused = qp.send(second, 8, 4).unwrap_err();
    assert_eq!(refused.error, PostError::Poisoned);
    assert_eq!(qp.sends_posted(), 2);
}

#[test]
fn a_group_that_may_have_been_joined_is_left_before_the_end() {
    let (mut life, bomb) = ready(Device::Rxe);
    life.make_raw().unwrap();
    bomb.arm();
    life.join().unwrap();
    life.raw = None;
    assert_eq!(life.context.unwrap().leaked(), 0);
}

/// A sink that panics at one record, and accepts those before and after it.
#[derive(Debug)]
struct Fuse {
    left: AtomicU64,
    taken: AtomicU64,
}

impl Sink for Fuse {
    fn record(&self, _: &Record) {
        if self.left.fetch_sub(1, Ordering::Relaxed) == 0 {
            std::panic::panic_any(OnPurpose);
        }
        self.taken.fetch_add(1, Ordering::Relaxed);
    }
}

/// A life recorded by a sink which panics at record `at`: the number of its steps that succeeded,
/// and of its records.
fn recorded(device: Device, at: u64) -> (usize, u64) {
    let fuse = Arc::new(Fuse {
        left: AtomicU64::new(at),
        taken: AtomicU64::new(0),
    });
    let sink = Arc::clone(&fuse);
    let mut life = Life::new(device, |kernel| {
        OpenOptions::new().kernel(kernel).record(sink)
    });
    let (unwound, done) = life.run(&format!("{device:?}, sink at {at}"));
    assert_eq!(unwound, 0, "a panic of the sink came through, at {at}");
    assert_eq!(life.context.as_ref().map(Context::leaked), Some(0));
    assert_eq!(life.watched.lent(), []);
    (done, fuse.taken.load(Ordering::Relaxed))
}

#[test]
fn a_sink_that_panics_at_any_record_changes_nothing() {
    quiet();
    for device in Device::here() {
        let (whole, records) = recorded(device, MANY);
        for at in thinned(0..records, 31) {
            let (done, taken) = recorded(device, at);
            assert_eq!((done, taken), (whole, at), "{device:?}, at {at}");
        }
    }
}

/// A panic in a drop during unwinding would abort the process.
#[test]
fn kernels_and_sinks_may_panic_while_the_program_unwinds() {
    for device in Device::here() {
        let fuse = Arc::new(Fuse {
            left: AtomicU64::new(MANY),
            taken: AtomicU64::new(0),
        });
        let (sink, mut bomb) = (Arc::clone(&fuse), None);
        let mut life = Life::new(device, |kernel| {
            let kernel = Arc::new(Bomb::new(kernel, Stop::Before, MANY));
            bomb = Some(Arc::clone(&kernel));
            OpenOptions::new().kernel(kernel).record(sink)
        });
        life.open().unwrap();
        life.make_cq().unwrap();
        let (cq, bomb) = (life.cq.take().unwrap(), bomb.unwrap());
        let unwound = catch_unwind(AssertUnwindSafe(|| {
            let _ended = cq;
            fuse.left.store(0, Ordering::Relaxed);
            std::panic::panic_any(OnPurpose)
        }));
        assert!(unwound.is_err_and(|payload| payload.is::<OnPurpose>()));
        let context = life.context.clone().unwrap();
        assert_eq!((context.unrecorded(), context.leaked()), (1, 0));
        life.make_cq().unwrap();
        let cq = life.cq.take().unwrap();
        let unwound = catch_unwind(AssertUnwindSafe(|| {
            let _ended = cq;
            bomb.arm();
            std::panic::panic_any(OnPurpose)
        }));
        assert!(unwound.is_err_and(|payload| payload.is::<OnPurpose>()));
        assert_eq!(context.leaked(), 1);
    }
}

#[test]
fn what_a_sink_missed_is_counted() {
    quiet();
    let fuse = Arc::new(Fuse {
        left: AtomicU64::new(5),
        taken: AtomicU64::new(0),
    });
    let mut life = Life::new(Device::Rxe, |kernel| {
        OpenOptions::new().kernel(kernel).record(fuse)
    });
    life.open();
    let context = life.context.clone().unwrap();
    let before = context.unrecorded();
    for _ in 0..9 {
        context.query_port(1).unwrap();
    }
    assert!(before <= 1, "{before}");
    assert!((5..=9).contains(&context.unrecorded()));
}
