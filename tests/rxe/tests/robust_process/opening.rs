//! A device that cannot be opened: the reason is reported at once, and each reason differs.

use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use uverbs::discover::Access;
use uverbs::discover::netlink::{Client, NetnsMode};
use uverbs::error::Errno;
use uverbs::{Context, Error, ErrorKind, OpenOptions};
use uverbs_core::discover::find;

use crate::support::child::in_child;
use crate::support::objects::Objects;
use crate::support::user::drop_privileges;

/// The project's guarantee for a device that may not be opened, or whose node is missing.
const AT_ONCE: Duration = Duration::from_millis(10);

/// How often that is tried on a busy machine.
const TRIES: usize = 100;

/// Time limit where every device is queried, on an emulated processor.
const SOON: Duration = Duration::from_millis(200);

/// The node of the device under test.
fn node() -> PathBuf {
    let info = find(
        &verbs_tests::device_name(),
        &uverbs::discover::Options::default(),
    )
    .expect("the device is listed");
    info.path.expect("it has a node")
}

/// The reason why it cannot be opened, which must be reported soon.
fn refused(open: impl Fn() -> uverbs::Result<Context>) -> Error {
    refused_within(SOON, open)
}

/// The fastest of several attempts counts: the others include what the emulator and other processes
/// do meanwhile, and anything that opening waits for would be in all of them.
fn refused_within(limit: Duration, open: impl Fn() -> uverbs::Result<Context>) -> Error {
    let error = open().map(drop).expect_err("it was opened");
    let mut quickest = Duration::MAX;
    for _ in 0..TRIES {
        let since = Instant::now();
        let _ = open();
        quickest = quickest.min(since.elapsed());
        if quickest < limit {
            break;
        }
    }
    println!("FIGURE: {quickest:?}: {error}");
    assert!(quickest < limit, "it took {quickest:?} to say so");
    error
}

fn check(error: &Error, kind: ErrorKind, errno: Option<Errno>, hint: &str) {
    assert_eq!((error.kind(), error.errno()), (kind, errno), "{error}");
    let found = error.known_hint().unwrap_or_default();
    assert!(found.contains(hint), "no word of {hint:?}: {error}");
}

#[test]
fn f16_without_permission() {
    // An emulated processor has to translate what it runs for the first time.
    drop(verbs_tests::open());
    let before = Objects::now();
    let path = node();
    let mode =
        |mode| set_permissions(&path, Permissions::from_mode(mode)).expect("the mode is changed");
    mode(0o600);
    in_child(|| {
        drop_privileges();
        let by_name = refused_within(AT_ONCE, || Context::open(&verbs_tests::device_name()));
        check(
            &by_name,
            ErrorKind::PermissionDenied,
            Some(Errno::ACCESS),
            "udevadm trigger",
        );
        let by_path = refused_within(AT_ONCE, || OpenOptions::new().open_path(&path));
        check(
            &by_path,
            ErrorKind::PermissionDenied,
            Some(Errno::ACCESS),
            "udevadm trigger",
        );
        let listed = uverbs::devices().expect("devices are listed all the same");
        let device = listed
            .iter()
            .find(|device| device.name() == verbs_tests::device_name());
        let access = &device.expect("the device is listed").info().access;
        assert!(
            matches!(access, Access::Refused(error) if error.errno() == Some(Errno::ACCESS)),
            "{access:?}"
        );
    });
    mode(0o666);
    in_child(|| {
        drop_privileges();
        let context = Context::open(&verbs_tests::device_name()).expect("the mode allows it");
        context.alloc_pd().expect("a domain");
    });
    before.return_in_time();
}

#[test]
fn f16_without_a_node() {
    drop(verbs_tests::open());
    let path = node();
    in_child(|| {
        unshare(CloneFlags::CLONE_NEWNS).expect("a mount namespace");
        let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
        mount(None::<&str>, "/", None::<&str>, private, None::<&str>).expect("private mounts");
        let folder = Path::new("/dev/infiniband");
        mount(
            Some("tmpfs"),
            folder,
            Some("tmpfs"),
            MsFlags::empty(),
            None::<&str>,
        )
        .expect("an empty folder");
        let by_name = refused_within(AT_ONCE, || Context::open(&verbs_tests::device_name()));
        check(
            &by_name,
            ErrorKind::NotFound,
            Some(Errno::NOENT),
            "--device=",
        );
        let by_path = refused_within(AT_ONCE, || OpenOptions::new().open_path(&path));
        check(
            &by_path,
            ErrorKind::NotFound,
            Some(Errno::NOENT),
            "--device=",
        );

        // A node that exists and is another device.
        std::os::unix::fs::symlink("/dev/null", &path).expect("a stale node");
        let stale = refused(|| Context::open(&verbs_tests::device_name()));
        check(&stale, ErrorKind::InvalidInput, None, "stale");
    });
}

#[test]
fn without_a_device() {
    for name in [
        "rxe77",
        "uverbs77",
        "",
        "/",
        "..",
        "rxe0\0",
        "mlx5_0",
        &"x".repeat(5000),
    ] {
        let error = refused(|| Context::open(name));
        assert_eq!(error.kind(), ErrorKind::NotFound, "{name:?}: {error}");
        assert!(
            error.to_string().contains(&verbs_tests::device_name()),
            "what there is, is told: {error}"
        );
    }
}

#[test]
fn files_that_are_no_device() {
    let path = |path: &'static str| refused(move || OpenOptions::new().open_path(path));
    check(
        &path("/proc/self/exe"),
        ErrorKind::Other,
        Some(Errno::TXTBSY),
        "",
    );
    check(&path("/dev"), ErrorKind::Other, Some(Errno::ISDIR), "");
    check(
        &path("/nonexistent/uverbs0"),
        ErrorKind::NotFound,
        Some(Errno::NOENT),
        "--device=",
    );
    check(&path("/proc/self/mem"), ErrorKind::InvalidInput, None, "");
    // A character device, but not a verbs device.
    check(&path("/dev/null"), ErrorKind::InvalidInput, None, "");
    let descriptor = |file: &str| {
        let opened = std::fs::File::options()
            .read(true)
            .write(true)
            .open(file)
            .expect("it opens");
        refused(|| OpenOptions::new().from_fd(opened.try_clone().expect("a descriptor").into()))
    };
    check(
        &descriptor("/proc/self/mem"),
        ErrorKind::InvalidInput,
        None,
        "",
    );
    check(&descriptor("/dev/zero"), ErrorKind::InvalidInput, None, "");
    let (reader, _writer) = std::io::pipe().expect("a pipe");
    let pipe =
        refused(|| OpenOptions::new().from_fd(reader.try_clone().expect("a descriptor").into()));
    check(&pipe, ErrorKind::InvalidInput, None, "");
}

/// A descriptor that already has a context cannot get a second one.
#[test]
#[expect(unsafe_code, reason = "takes the device's descriptor a second time")]
fn a_descriptor_twice() {
    let before = Objects::now();
    let context = verbs_tests::open();
    let again = || {
        // SAFETY: (1, 2) no command but that for another context is issued, which is refused.
        let descriptor = unsafe { context.device_fd() };
        descriptor.try_clone_to_owned().expect("a descriptor")
    };
    let error = refused(|| OpenOptions::new().from_fd(again()));
    assert_eq!(
        (error.kind(), error.errno()),
        (ErrorKind::InvalidInput, Some(Errno::INVAL)),
        "{error}"
    );
    context.alloc_pd().expect("the first goes on");
    drop(context);
    before.same_now();
}

#[test]
fn f05_from_another_network_namespace() {
    let path = node();
    let mode = |mode| {
        let mut last = None;
        // A namespace that is being destroyed keeps the mode for a moment.
        for _ in 0..200 {
            match Client::connect().and_then(|mut client| client.set_netns_mode(mode)) {
                Ok(()) => return,
                Err(error) => last = Some(error),
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("{mode:?}: {last:?}");
    };
    let elsewhere = |part: &dyn Fn()| {
        in_child(|| {
            unshare(CloneFlags::CLONE_NEWNET).expect("a network namespace");
            part();
        });
    };
    // Shared: other namespaces see the device.
    elsewhere(&|| {
        Context::open(&verbs_tests::device_name()).expect("shared devices open everywhere");
    });
    mode(NetnsMode::Exclusive);
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        elsewhere(&|| {
            let by_name = refused(|| Context::open(&verbs_tests::device_name()));
            check(&by_name, ErrorKind::NotFound, None, "network namespaces");
            let by_path = refused(|| OpenOptions::new().open_path(&path));
            check(
                &by_path,
                ErrorKind::PermissionDenied,
                Some(Errno::PERM),
                "network namespace",
            );
            let listed = uverbs::devices().expect("the list is empty");
            assert!(listed.is_empty(), "{listed:?}");
        });
        Context::open(&verbs_tests::device_name()).expect("its own namespace opens it");
    }));
    mode(NetnsMode::Shared);
    if let Err(panic) = result {
        std::panic::resume_unwind(panic);
    }
}
