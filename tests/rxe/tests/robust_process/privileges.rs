//! A process that drops its privileges after it opened the device.

#![allow(unsafe_code, reason = "rings doorbells behind the back of the library")]

use std::sync::Arc;
use std::time::Duration;

use uverbs::error::Errno;
use uverbs::kernel::CommandPath;
use uverbs::owned::Work;
use uverbs::{AccessFlags, ErrorKind, PostError};
use uverbs_core::sys::Linux;
use uverbs_core::{UverbsFile, cmd};

use crate::support::child::in_child;
use crate::support::kernel_log::KernelLog;
use crate::support::looped::{Looped, PATHS};
use crate::support::objects::Objects;
use crate::support::rings;
use crate::support::user::drop_privileges;

/// Long enough for a request that the kernel knows about to be carried out.
const A_WHILE: Duration = Duration::from_millis(200);

#[test]
fn f19_posting_and_everything_else_work_after_setuid() {
    let before = Objects::now();
    let mut log = KernelLog::from_now();
    for path in PATHS.into_iter().filter(|path| *path != CommandPath::Write) {
        in_child(|| {
            let mut looped = Looped::by(path);
            looped.round_trip(1);
            drop_privileges();
            for byte in 0..20 {
                looped.round_trip(byte);
            }
            let mut another = Looped::on(&looped.context);
            another.round_trip(3);
            another.qp.query().expect("queries work");
            let context = looped.context.clone();
            drop((looped, another));
            assert_eq!(context.leaked(), 0, "{path:?}");
        });
        println!("{path:?}: 20 round trips and new objects after setuid");
    }
    before.return_in_time();
    log.silent("a process that changed its user");
}

/// The kernel binds write(2) to the credentials of the opener. The request that was already in the
/// ring is taken back; no later doorbell, in whatever encoding, executes it.
#[test]
fn f19_a_doorbell_by_write_is_refused_after_setuid_and_leaves_no_ghost() {
    let before = Objects::now();
    in_child(|| {
        let mut looped = Looped::by(CommandPath::Write);
        let target = looped
            .pd
            .expose(64, AccessFlags::REMOTE_WRITE)
            .expect("memory");
        let Looped { pd, cq, .. } = &looped;
        let prepared = pd
            .queue_pair(uverbs::QpType::Rc, cq, cq)
            .allow_remote_rw()
            .build()
            .expect("a queue pair");
        let endpoint = prepared.endpoint();
        let mut qp =
            uverbs::owned::QueuePair::new(prepared.handshake(endpoint).expect("connected"));
        std::mem::swap(&mut looped.qp, &mut qp);

        let mut source = looped.buffers.pop().expect("a buffer");
        source.fill(0xaa);
        looped
            .qp
            .post(Work::write(target.remote()).memory((source, 8)))
            .expect("root may");
        assert!(looped.finished().status().is_success());
        assert_eq!(target.load(0), Some(0xaaaa_aaaa_aaaa_aaaa));

        let indexes = || {
            rings::all()
                .iter()
                .map(rings::Ring::indexes)
                .collect::<Vec<_>>()
        };
        let quiet = indexes();
        drop_privileges();
        let mut ghost = looped.buffers.pop().expect("a buffer");
        ghost.fill(0xbb);
        let refused = looped
            .qp
            .post(
                Work::write(target.remote())
                    .memory((ghost, 8))
                    .user_data(77),
            )
            .expect_err("write(2) is refused");
        assert_eq!(refused.error, PostError::Doorbell(Errno::ACCESS));
        assert!(
            refused.work.is_none(),
            "the kernel may have seen the memory"
        );
        assert_eq!(
            indexes(),
            quiet,
            "the request was not taken back out of the ring"
        );
        assert_eq!(looped.qp.sends_posted(), 1, "the queue keeps the memory");

        // Every queue pair's doorbell, by a way that works. SAFETY: (1, 2) doorbells of queues that
        // hold no request move no memory, and change nothing.
        let descriptor = unsafe { looped.context.device_fd() };
        let descriptor = descriptor.try_clone_to_owned().expect("a descriptor");
        let (kernel, rxe) = (Arc::new(Linux), uverbs::attr::DriverId::Rxe.raw());
        // SAFETY: (1) it is the device that the library opened; (2, 3) as above.
        let other_way = unsafe { UverbsFile::new(kernel, descriptor, rxe, CommandPath::Ioctl) };
        let rung = (0..64)
            .filter(|handle| cmd::qp::doorbell(&other_way, *handle).is_ok())
            .count();
        assert!(
            rung >= 2,
            "{rung} doorbells were rung, two queue pairs exist"
        );
        std::thread::sleep(A_WHILE);
        assert!(
            looped.cq.poll().expect("the queue can be polled").is_none(),
            "a ghost completed"
        );
        assert_eq!(target.load(0), Some(0xaaaa_aaaa_aaaa_aaaa), "a ghost wrote");

        let again = looped
            .qp
            .post(Work::send())
            .expect_err("the queue is unusable");
        assert_eq!(again.error, PostError::Poisoned);
        let refused = looped.context.alloc_pd().expect_err("write(2) is refused");
        assert_eq!(
            (refused.kind(), refused.errno()),
            (ErrorKind::PermissionDenied, Some(Errno::ACCESS))
        );
        println!("{refused}");
    });
    before.return_in_time();
}
