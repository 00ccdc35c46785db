//! Every errno at every call of a whole life: the result is an error that names the operation and
//! the errno, or a documented fallback; never a panic; nothing is left behind but what the kernel
//! refused to destroy; and the next life is unaffected.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use fake_tests::{Bench, is_thinned, live, thinned, ways};
use uverbs::{Error, ErrorKind};
use uverbs_core::CommandPath;
use uverbs_core::error::Errno;
use uverbs_fake::{CallKind, Effect, Profile, Seen, When};
use uverbs_uapi::ib_user_verbs::IB_USER_VERBS_CMD_FLAG_EXTENDED;

/// The errnos that a kernel may return from any call.
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

/// The result of one life in which call `k` failed with `errno`, and of the one after it.
struct Outcome {
    struck: Seen,
    answer: Result<(), Error>,
    left: usize,
    next: Result<(), Error>,
    left_by_next: usize,
}

fn disturbed(profile: Profile, path: CommandPath, k: u64, errno: Errno) -> Outcome {
    let bench = Bench::new(profile, path);
    bench.inject(When::Call(k), Effect::Fail(errno));
    let answer = live(&bench);
    let seen = bench.fake.seen();
    let left = bench.fake.objects().total();
    bench.fake.clear_faults();
    Outcome {
        struck: seen[usize::try_from(k).unwrap()],
        answer,
        left,
        next: live(&bench),
        left_by_next: bench.fake.objects().total() - left,
    }
}

/// The kind of an error with this errno.
fn kind_of(struck: Seen, errno: Errno) -> ErrorKind {
    match errno {
        Errno::INTR => ErrorKind::Interrupted,
        Errno::AGAIN | Errno::NOMEM | Errno::MFILE | Errno::NOSPC => ErrorKind::OutOfResources,
        Errno::ACCESS | Errno::PERM => ErrorKind::PermissionDenied,
        // An event file ends when its device does.
        Errno::IO if matches!(struck.call, CallKind::Read(_)) => ErrorKind::DeviceRemoved,
        Errno::NODEV | Errno::NXIO => ErrorKind::NotFound,
        Errno::BUSY => ErrorKind::Busy,
        Errno::OPNOTSUPP | Errno::PROTONOSUPPORT | Errno::NOTTY => ErrorKind::Unsupported,
        Errno::INVAL | Errno::FAULT => ErrorKind::InvalidInput,
        _ => ErrorKind::Other,
    }
}

/// Whether this error describes what happened.
fn names_it(error: &Error, path: CommandPath, struck: Seen, errno: Errno) -> bool {
    if Some(error.op()) == struck.call.operation() && error.errno() == Some(errno) {
        return error.kind() == kind_of(struck, errno);
    }
    let lacks_it = kind_of(struck, errno) == ErrorKind::Unsupported;
    match struck.call {
        // A drop reports nothing; what the object depended on is still in use then, or counted as
        // leaked.
        asked if asked.is_destroy() => matches!(error.kind(), ErrorKind::Busy | ErrorKind::Other),
        // sysfs was read instead, and does not have the fake device.
        CallKind::Method(..) if lacks_it => error.errno() == Some(Errno::NOENT),
        // The path permits no other encoding.
        CallKind::Invoked(_) if lacks_it && path == CommandPath::Ioctl => {
            error.is_unsupported() && Some(error.op()) == struck.call.operation()
        }
        _ => false,
    }
}

/// Errnos after which the library may do something else instead.
fn may_be_survived(path: CommandPath, struck: Seen, errno: Errno) -> bool {
    match struck.call {
        // The doorbell is rung again by ioctl.
        CallKind::Written(_)
            if path == CommandPath::Auto
                && matches!(errno, Errno::ACCESS | Errno::PERM | Errno::BADF) =>
        {
            true
        }
        // The other encoding is tried.
        CallKind::Method(..) | CallKind::Invoked(_)
            if matches!(errno, Errno::NOTTY | Errno::PROTONOSUPPORT) =>
        {
            true
        }
        // The extended device query falls back to the plain one.
        CallKind::Invoked(number) | CallKind::Written(number)
            if number & IB_USER_VERBS_CMD_FLAG_EXTENDED != 0 =>
        {
            matches!(errno, Errno::OPNOTSUPP | Errno::NOSYS)
        }
        // A read that was interrupted or found nothing is repeated. A destroy in a drop cannot
        // report an error.
        CallKind::Read(_) => matches!(errno, Errno::INTR | Errno::AGAIN),
        asked => asked.is_destroy(),
    }
}

/// The number of lives, and how many of them survived.
fn sweep(profile: Profile, path: CommandPath) -> (usize, usize) {
    let bench = Bench::new(profile, path);
    live(&bench).unwrap_or_else(|error| panic!("{:?} by {path:?}: {error}", profile.version()));
    let calls = bench.fake.calls();
    assert_eq!(bench.fake.objects().total(), 0);
    let (mut lives, mut survived) = (0, 0);
    let pairs = (0..calls).flat_map(|k| LATTICE.map(|errno| (k, errno)));
    for (k, errno) in thinned(pairs, 149) {
        let outcome = disturbed(profile, path, k, errno);
        lives += 1;
        let Outcome { struck, .. } = outcome;
        let what = format!(
            "call {k} {:?} on {:?} by {path:?}: {errno}",
            struck.call,
            profile.version()
        );
        match outcome.answer {
            Ok(()) => {
                assert!(
                    may_be_survived(path, struck, errno),
                    "{what} went unnoticed"
                );
                survived += 1;
            }
            Err(error) => assert!(
                names_it(&error, path, struck, errno),
                "{what} is told as {error}"
            ),
        }
        // A destroy that was only interrupted is issued again.
        let refused = struck.call.is_destroy() && errno != Errno::INTR;
        assert!(
            outcome.left == 0 || refused,
            "{what}: {} objects left",
            outcome.left
        );
        if let Err(error) = outcome.next {
            panic!("{what}: the next life failed: {error}");
        }
        assert_eq!(outcome.left_by_next, 0, "{what}: left by the next life");
    }
    (lives, survived)
}

#[test]
fn f10_every_errno_at_every_call_on_the_newest_kernel() {
    for path in ways() {
        let (lives, survived) = sweep(Profile::v7_2(), path);
        println!("{path:?}: {lives} lives, {survived} survived");
    }
}

#[test]
fn f10_every_errno_at_every_call_on_older_kernels() {
    for profile in thinned([Profile::v5_10(), Profile::v6_1(), Profile::v6_12()], 2) {
        let (lives, survived) = sweep(profile, CommandPath::Auto);
        println!(
            "{:?}: {lives} lives, {survived} survived",
            profile.version()
        );
    }
}

/// Reads and mappings that return less than they should.
#[test]
fn f07_every_read_and_every_mapping_cut_short() {
    for path in ways() {
        let bench = Bench::new(Profile::v6_12(), path);
        live(&bench).unwrap();
        let mut cut = 0;
        let cuts = (0..).zip(bench.fake.seen()).flat_map(|(k, seen)| {
            let effects: Vec<_> = match seen.call {
                CallKind::Read(len) => (0..len).map(Effect::ShortRead).collect(),
                CallKind::Map { len, .. } => {
                    [0, 1, 127, len / 2, len - 1].map(Effect::ShortMap).to_vec()
                }
                _ => Vec::new(),
            };
            effects.into_iter().map(move |effect| (k, seen, effect))
        });
        for (k, seen, effect) in thinned(cuts, 11) {
            let what = format!("call {k} {:?} by {path:?}: {effect:?}", seen.call);
            let bench = Bench::new(Profile::v6_12(), path);
            bench.inject(When::Call(k), effect);
            let error = live(&bench).expect_err(&what);
            assert_eq!(error.kind(), ErrorKind::BadReply, "{what}: {error}");
            assert_eq!(bench.fake.objects().total(), 0, "{what}");
            bench.fake.clear_faults();
            live(&bench).unwrap_or_else(|error| panic!("{what}: the next life: {error}"));
            cut += 1;
        }
        assert!(cut >= 5 && (cut >= 50 || is_thinned()), "{path:?}: {cut}");
    }
}

/// A queue that cannot be mapped is destroyed again, whatever the reason.
#[test]
fn f15_every_mapping_fails() {
    for path in ways() {
        let bench = Bench::new(Profile::v6_12(), path);
        live(&bench).unwrap();
        let is_map = |seen: &Seen| matches!(seen.call, CallKind::Map { .. });
        let mappings: Vec<_> = (0..)
            .zip(bench.fake.seen())
            .filter(|(_, seen)| is_map(seen))
            .collect();
        // For a completion queue, created and resized; for a shared one, created and resized; for
        // two queue pairs.
        assert_eq!(mappings.len(), 7, "{path:?}: {mappings:?}");
        let errnos = [Errno::NOMEM, Errno::AGAIN, Errno::MFILE, Errno::PERM];
        let pairs = mappings
            .into_iter()
            .flat_map(|mapping| errnos.map(|errno| (mapping, errno)));
        for ((k, seen), errno) in thinned(pairs, 9) {
            let outcome = disturbed(Profile::v6_12(), path, k, errno);
            let error = outcome.answer.unwrap_err();
            assert_eq!(error.errno(), Some(errno), "{seen:?} by {path:?}: {error}");
            assert_eq!(outcome.left, 0, "{seen:?} by {path:?}");
            outcome.next.unwrap();
        }
    }
}
