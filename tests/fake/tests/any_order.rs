//! Objects created, used and destroyed in any order while calls fail: after every step the kernel
//! has exactly the objects that the model has, memory is in one place, and in the end nothing is
//! left.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use fake_tests::{Bench, PATHS, World};
use proptest::prelude::*;
use uverbs_core::CommandPath;
use uverbs_core::error::Errno;
use uverbs_fake::{CallKind, Effect, Objects, Profile, When};

/// Errnos that calls fail with.
const ERRNOS: [Errno; 8] = [
    Errno::INTR,
    Errno::AGAIN,
    Errno::NOMEM,
    Errno::MFILE,
    Errno::ACCESS,
    Errno::BUSY,
    Errno::INVAL,
    Errno::IO,
];

/// A step, and which of its calls fails, if any.
#[derive(Clone, Copy, Debug)]
struct Step {
    what: u8,
    a: u8,
    b: u8,
    fault: Option<(u64, Errno)>,
}

fn steps(faults: bool) -> impl Strategy<Value = Vec<Step>> {
    let errno = prop::sample::select(ERRNOS.to_vec());
    let fault = prop::option::weighted(0.2, (0_u64..5, errno));
    let step =
        (any::<u8>(), any::<u8>(), any::<u8>(), fault).prop_map(move |(what, a, b, fault)| Step {
            what,
            a,
            b,
            fault: fault.filter(|_| faults),
        });
    prop::collection::vec(step, 1..if cfg!(miri) { 20 } else { 150 })
}

fn at_least(there: Objects, expected: Objects) -> bool {
    there.contexts >= expected.contexts
        && there.event_files >= expected.event_files
        && there.pds >= expected.pds
        && there.mrs >= expected.mrs
        && there.cqs >= expected.cqs
        && there.qps >= expected.qps
        && there.srqs >= expected.srqs
}

/// Carries out the steps; returns how many destroys the kernel refused.
fn take(path: CommandPath, steps: &[Step]) -> u64 {
    let bench = Bench::new(Profile::v6_12(), path);
    let context = bench.context().unwrap();
    let mut world = World::new(&context);
    let mut refused = 0;
    for (number, step) in steps.iter().enumerate() {
        let before = bench.fake.calls();
        if let Some((offset, errno)) = step.fault {
            bench.inject(When::Call(before + offset), Effect::Fail(errno));
        }
        world.step(step.what, step.a, step.b);
        bench.fake.clear_faults();
        let seen = bench.fake.seen();
        let here = &seen[usize::try_from(before).unwrap()..];
        // The end of the events means that the device is gone; this one is not, so from here on the
        // library is entitled to be wrong.
        if here
            .iter()
            .any(|seen| matches!(seen.call, CallKind::Read(_)) && seen.answer == Err(Errno::IO))
        {
            break;
        }
        let failed = here
            .iter()
            .filter(|seen| seen.call.is_destroy())
            .filter(|seen| !matches!(seen.answer, Ok(()) | Err(Errno::INTR)));
        refused += failed.count() as u64;
        let (there, expected) = (bench.fake.objects(), world.expected());
        let what = format!("after step {number}, {step:?}, by {path:?}");
        assert_eq!(context.leaked() > 0, refused > 0, "{what}");
        if refused == 0 {
            assert_eq!(there, expected, "{what}");
        } else {
            assert!(at_least(there, expected), "{what}: {there:?}, {expected:?}");
        }
    }
    world.end();
    let leaked = context.leaked();
    drop(context);
    let left = bench.fake.objects().total();
    // What depended on nothing was destroyed with the context.
    assert!(left == 0 || leaked > 0, "{left} objects left, none leaked");
    leaked
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 4 } else { 256 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn f25_any_order_leaves_what_the_model_has(steps in steps(false), path in prop::sample::select(PATHS.to_vec())) {
        prop_assert_eq!(take(path, &steps), 0);
    }

    #[test]
    fn f10_f25_any_order_with_any_call_failing(steps in steps(true), path in prop::sample::select(PATHS.to_vec())) {
        take(path, &steps);
    }
}
