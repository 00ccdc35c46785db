//! Every errno at every call of a whole life: an error or a documented fallback, never a panic, and
//! nothing left behind that the kernel had not refused to destroy.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use fake_tests::{Bench, PATHS, live};
use uverbs_driver::CommandPath;
use uverbs_driver::error::Errno;
use uverbs_driver::sys::fake::{Asked, Effect, Profile, Seen, When};
use uverbs_uapi::ib_user_ioctl_cmds::*;
use uverbs_uapi::ib_user_verbs::*;

/// The errnos a kernel can answer anything with.
const LATTICE: [Errno; 16] = [
    Errno::INTR,
    Errno::AGAIN,
    Errno::NOMEM,
    Errno::MFILE,
    Errno::ACCESS,
    Errno::PERM,
    Errno::IO,
    Errno::NODEV,
    Errno::NXIO,
    Errno::BUSY,
    Errno::NOSPC,
    Errno::OPNOTSUPP,
    Errno::PROTONOSUPPORT,
    Errno::NOTTY,
    Errno::INVAL,
    Errno::FAULT,
];

fn is_destroy(asked: Asked) -> bool {
    match asked {
        Asked::Method(UVERBS_OBJECT_DEVICE | UVERBS_OBJECT_ASYNC_EVENT, _) => false,
        Asked::Method(UVERBS_OBJECT_MR, method) => method == UVERBS_METHOD_MR_DESTROY,
        Asked::Method(UVERBS_OBJECT_PD | UVERBS_OBJECT_AH | UVERBS_OBJECT_MW, _) => true,
        Asked::Method(_, method) => method == UVERBS_METHOD_CQ_DESTROY,
        Asked::Invoked(number) | Asked::Written(number) => matches!(
            number,
            IB_USER_VERBS_CMD_DEALLOC_PD
                | IB_USER_VERBS_CMD_DEREG_MR
                | IB_USER_VERBS_CMD_DESTROY_CQ
                | IB_USER_VERBS_CMD_DESTROY_QP
                | IB_USER_VERBS_CMD_DESTROY_SRQ
        ),
        _ => false,
    }
}

/// What became of one life in which call `k` failed with `errno`.
struct Outcome {
    struck: Option<Seen>,
    answer: Result<(), uverbs::Error>,
    left: usize,
    refused_destroys: usize,
}

fn disturbed(profile: Profile, path: CommandPath, k: u64, errno: Errno) -> Outcome {
    let bench = Bench::new(profile, path);
    bench.fake.inject(When::Call(k), Effect::Fail(errno));
    let answer = live(&bench);
    let seen = bench.fake.seen();
    Outcome {
        struck: usize::try_from(k).ok().and_then(|k| seen.get(k).copied()),
        answer,
        left: bench.fake.objects().total(),
        refused_destroys: seen
            .iter()
            .filter(|one| is_destroy(one.asked) && one.answer.is_err())
            .count(),
    }
}

/// Errnos that the library may answer by doing something else.
fn may_be_survived(path: CommandPath, struck: Seen, errno: Errno) -> bool {
    match struck.asked {
        // A doorbell is rung again by ioctl.
        Asked::Written(_)
            if path == CommandPath::Auto
                && matches!(errno, Errno::ACCESS | Errno::PERM | Errno::BADF) =>
        {
            true
        }
        // The other encoding is tried.
        Asked::Method(..) | Asked::Invoked(_)
            if matches!(errno, Errno::NOTTY | Errno::PROTONOSUPPORT) =>
        {
            true
        }
        // The extended device query has a plain one behind it.
        Asked::Invoked(number) | Asked::Written(number)
            if number & IB_USER_VERBS_CMD_FLAG_EXTENDED != 0 =>
        {
            matches!(errno, Errno::OPNOTSUPP | Errno::NOSYS)
        }
        // A read that was interrupted or found nothing is repeated. A destroy in a drop has nobody to tell.
        Asked::Read(_) => matches!(errno, Errno::INTR | Errno::AGAIN),
        asked => is_destroy(asked),
    }
}

fn sweep(profile: Profile, path: CommandPath) -> (u64, usize) {
    let bench = Bench::new(profile, path);
    live(&bench).unwrap_or_else(|error| panic!("{:?} by {path:?}: {error}", profile.version()));
    let calls = bench.fake.calls();
    assert_eq!(bench.fake.objects().total(), 0);
    let mut survived = 0;
    for k in 0..calls {
        for errno in LATTICE {
            let outcome = disturbed(profile, path, k, errno);
            let what = format!(
                "call {k} {:?} on {:?} by {path:?}: {errno}",
                outcome.struck.map(|seen| seen.asked),
                profile.version()
            );
            let struck = outcome.struck.expect("the call was reached");
            match outcome.answer {
                Ok(()) => {
                    assert!(
                        may_be_survived(path, struck, errno),
                        "{what} went unnoticed"
                    );
                    survived += 1;
                }
                Err(error) => assert!(!error.to_string().is_empty(), "{what}"),
            }
            assert!(
                outcome.left == 0 || outcome.refused_destroys > 0,
                "{what}: {} objects left",
                outcome.left
            );
        }
    }
    (calls, survived)
}

#[test]
fn f10_every_errno_at_every_call_on_the_newest_kernel() {
    for path in PATHS {
        let (calls, survived) = sweep(Profile::v7_2(), path);
        println!(
            "{path:?}: {calls} calls, {} lives, {survived} survived",
            calls * LATTICE.len() as u64
        );
    }
}

#[test]
fn f10_every_errno_at_every_call_on_older_kernels() {
    for profile in [Profile::v5_10(), Profile::v6_1(), Profile::v6_12()] {
        let (calls, survived) = sweep(profile, CommandPath::Auto);
        println!(
            "{:?}: {calls} calls, {survived} survived",
            profile.version()
        );
    }
}
