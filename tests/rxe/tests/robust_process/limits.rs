//! Limits of the process and of its control group: reported by name, and nothing is left half
//! created.

use std::fs;
use std::io::{Read as _, Write as _};
use std::path::PathBuf;

use nix::sys::resource::{Resource, setrlimit};
use uverbs::error::Errno;
use uverbs::{Context, Error, ErrorKind, QpType};

use crate::support::child::{in_child, start};
use crate::support::kernel_log::{KernelLog, excuse};
use crate::support::looped::Looped;
use crate::support::memory::{Memory, descriptors};
use crate::support::objects::Objects;
use crate::support::user::drop_privileges;

/// What rxe logs about memory that cannot be locked, since 6.4 and before.
const NO_MEMORY: [&str; 2] = [
    "rxe_reg_user_mr: returned err = -12",
    "Unable to pin memory region err = -12",
];

fn limit(resource: Resource, bytes: u64) {
    setrlimit(resource, bytes, bytes).expect("the limit is set");
}

fn check(error: &Error, errno: Errno, word: &str) {
    assert_eq!(
        (error.kind(), error.errno()),
        (ErrorKind::OutOfResources, Some(errno)),
        "{error}"
    );
    assert!(
        error.to_string().contains(word),
        "no word of {word}: {error}"
    );
}

#[test]
fn f13_locked_memory() {
    excuse(NO_MEMORY[0]);
    excuse(NO_MEMORY[1]);
    let before = Objects::now();
    let mut log = KernelLog::from_now();
    in_child(|| {
        limit(Resource::RLIMIT_MEMLOCK, 64 << 10);
        drop_privileges();
        let context = verbs_tests::open();
        let pd = context.alloc_pd().expect("a domain");
        let mapped = Memory::now().mapped;
        let error = pd
            .buffers::<1>(1 << 20)
            .expect_err("1 MiB is more than 64 KiB");
        println!("{error}");
        check(&error, Errno::NOMEM, "locked memory");
        let error = pd
            .expose(1 << 20, uverbs::AccessFlags::REMOTE_WRITE)
            .expect_err("1 MiB");
        check(&error, Errno::NOMEM, "locked memory");
        assert_eq!(
            Memory::now().mapped,
            mapped,
            "memory that was not registered is kept"
        );
        let half = pd.buffers::<1>(32 << 10).expect("32 KiB fit");
        let error = pd
            .buffers::<1>(40 << 10)
            .expect_err("32 KiB are left at most");
        check(&error, Errno::NOMEM, "locked memory");
        drop(half);
        let all = pd
            .buffers::<1>(60 << 10)
            .expect("what was locked is free again");
        assert!(Memory::now().pinned >= 60 << 10);
        drop(all);
        assert_eq!(Memory::now().pinned, 0);
        assert_eq!(context.leaked(), 0);
    });
    before.return_in_time();
    // Only the kernel knows how much may be locked.
    let lines = log.lines();
    assert!(
        lines
            .iter()
            .all(|line| NO_MEMORY.iter().any(|words| line.contains(words))),
        "{lines:#?}"
    );
}

/// Permits as many descriptors as are open, and `spare` more.
fn spare(spare: u64) {
    // Reading the folder opens one itself.
    let open = u64::try_from(descriptors() - 1).expect("few");
    setrlimit(Resource::RLIMIT_NOFILE, open + spare, 4096).expect("the limit is set");
}

#[test]
fn f12_descriptors_run_out() {
    let before = Objects::now();
    in_child(|| {
        let open = descriptors();
        let name = verbs_tests::device_name();
        // An open uses a socket, which is closed again, the node and the event file.
        let mut opened = 0;
        for count in 0..4 {
            spare(count);
            match verbs_tests::options().open(&name) {
                Ok(context) => {
                    opened += 1;
                    context.alloc_pd().expect("a domain needs none");
                }
                Err(error) => {
                    println!("{count} to spare: {error}");
                    assert_eq!(opened, 0, "it worked with less: {error}");
                    check(&error, Errno::MFILE, "");
                }
            }
            setrlimit(Resource::RLIMIT_NOFILE, 1024, 4096).expect("the limit is set");
            assert_eq!(
                descriptors(),
                open,
                "an open that failed keeps a descriptor"
            );
        }
        assert_eq!(opened, 2, "two descriptors are enough");

        let context = verbs_tests::open();
        spare(3);
        let channels: Vec<_> = (0..3)
            .map(|_| context.create_completion_channel().expect("a channel"))
            .collect();
        let error = context
            .create_completion_channel()
            .expect_err("none is left");
        check(&error, Errno::MFILE, "");
        drop(channels);
        context
            .create_completion_channel()
            .expect("they are free again");
    });
    before.return_in_time();
}

/// A control group of this test, removed on drop.
struct Group(PathBuf);

impl Group {
    fn new(limits: &str) -> Self {
        let group = Self(PathBuf::from(format!(
            "/sys/fs/cgroup/robust-{}",
            std::process::id()
        )));
        fs::create_dir(&group.0).expect("the control groups are mounted");
        let device = verbs_tests::device_name();
        fs::write(group.0.join("rdma.max"), format!("{device} {limits}"))
            .expect("the rdma controller is on");
        group
    }

    fn enter(&self) {
        fs::write(self.0.join("cgroup.procs"), std::process::id().to_string())
            .expect("it can be entered");
    }

    fn in_use(&self) -> String {
        fs::read_to_string(self.0.join("rdma.current")).expect("the rdma controller is on")
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

#[test]
fn f14_the_rdma_control_group() {
    let before = Objects::now();
    let group = Group::new("hca_handle=2 hca_object=4");
    in_child(|| {
        group.enter();
        let context = verbs_tests::open();
        let second = verbs_tests::open();
        let error = Context::open(&verbs_tests::device_name())
            .map(drop)
            .expect_err("a third handle");
        println!("{error}");
        check(&error, Errno::AGAIN, "rdma.max");
        drop(second);

        let pd = context.alloc_pd().expect("a domain");
        let cq = context.create_cq(8).expect("a queue");
        let buffers = pd.buffers::<1>(64).expect("a region");
        let prepared = pd
            .queue_pair(QpType::Rc, &cq, &cq)
            .build()
            .expect("a queue pair");
        for (what, error) in [
            ("alloc_pd", context.alloc_pd().map(drop).err()),
            ("create_cq", context.create_cq(8).map(drop).err()),
            ("reg_mr", pd.buffers::<1>(64).map(drop).err()),
            (
                "create_qp",
                pd.queue_pair(QpType::Rc, &cq, &cq).build().map(drop).err(),
            ),
            ("create_srq", pd.create_srq(8, 1).map(drop).err()),
            (
                "alloc_mw",
                pd.alloc_mw(uverbs::memory::MwType::Type2).map(drop).err(),
            ),
        ] {
            let error = error.unwrap_or_else(|| panic!("{what}: a fifth object"));
            println!("{error}");
            check(&error, Errno::AGAIN, "rdma.max");
        }
        drop(prepared);
        let again = pd.create_srq(8, 1).expect("one object is free again");
        drop((again, buffers, cq));
        assert_eq!(context.leaked(), 0);
    });
    before.return_in_time();
    let left = group.in_use();
    let device = verbs_tests::device_name();
    assert!(
        left.is_empty() || left.contains(&format!("{device} hca_handle=0 hca_object=0")),
        "the control group still has {left}"
    );
}

/// The kernel's object exists when its queue cannot be mapped: it is destroyed, and nothing is
/// left.
#[test]
fn f15_address_space_runs_out() {
    let before = Objects::now();
    let mut log = KernelLog::from_now();
    let (mut failed, mut made) = (0, 0);
    for pages in (0..160).step_by(4) {
        let (mut hear, mut tell) = std::io::pipe().expect("a pipe");
        let child = start(|| {
            let [failed, made] = with_pages_to_spare(pages);
            tell.write_all(&[failed, made]).expect("the parent listens");
        });
        // It aborts if the limit affects the allocator and not the library.
        if child.joined_or_aborted() {
            let mut counts = [0; 2];
            hear.read_exact(&mut counts).expect("the child's counts");
            failed += usize::from(counts[0]);
            made += usize::from(counts[1]);
        }
        before.return_in_time();
    }
    println!("FIGURE: {made} objects were made, {failed} were not");
    assert!(failed > 20 && made > 20, "{failed} failed, {made} did not");
    log.silent("queues that could not be mapped");
}

/// Creates objects with this much address space; returns how many failed and how many did not.
fn with_pages_to_spare(pages: u64) -> [u8; 2] {
    let mut looped = Looped::new();
    let context = looped.context.clone();
    let objects = Objects::now();
    let mapped = Memory::now().mapped;
    setrlimit(Resource::RLIMIT_AS, mapped + pages * 4096, u64::MAX).expect("the limit is set");
    let results = [
        context.create_cq(4096).map(drop),
        looped
            .pd
            .queue_pair(QpType::Rc, &looped.cq, &looped.cq)
            .max_send_wr(512)
            .max_recv_wr(512)
            .build()
            .map(drop),
        looped.pd.create_srq(2048, 1).map(drop),
        looped.pd.buffers::<1>(1 << 17).map(drop),
    ];
    setrlimit(Resource::RLIMIT_AS, u64::MAX, u64::MAX).expect("the limit is lifted");
    let mut counts = [0; 2];
    for result in results {
        if let Err(error) = &result {
            check(error, Errno::NOMEM, "");
        }
        counts[usize::from(result.is_ok())] += 1;
    }
    objects.same_now();
    assert_eq!(context.leaked(), 0);
    looped.round_trip(1);
    counts
}
