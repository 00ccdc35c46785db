//! A process that forks while it holds handles.

use std::time::Duration;

use uverbs::attr::{QpAttr, SrqModify};
use uverbs::discover::netlink::Client;
use uverbs::discover::{ForkGuard, copy_on_fork};
use uverbs::memory::MwType;
use uverbs::owned::{self, Work};
use uverbs::{
    AccessFlags, AddressVector, ErrorKind, Notify, PollError, PostError, QpState, QpType,
};

use crate::support::child::{in_child, start};
use crate::support::kernel_log::KernelLog;
use crate::support::looped::Looped;
use crate::support::objects::Objects;
use crate::support::rings;

/// Runs `part` in a child, where it owns what the parent continues to use.
fn in_child_with<T>(handles: T, part: impl FnOnce(T)) -> T {
    let mut handles = Some(handles);
    in_child(|| part(handles.take().expect("the handles")));
    handles.expect("the parent's handles")
}

#[test]
fn f18_a_child_may_not_post_or_poll_and_the_rings_stay_as_they_are() {
    let mut log = KernelLog::from_now();
    let mut looped = Looped::new();
    looped.round_trip(1);
    let srq = owned::SharedReceiveQueue::new(looped.pd.create_srq(8, 1).expect("a shared queue"));
    let objects = Objects::now();
    let quiet = rings::all();

    let (mut looped, srq) = in_child_with((looped, srq), |(mut looped, mut srq)| {
        let buffer = |looped: &mut Looped| looped.buffers.pop().expect("a buffer");
        let refused = looped
            .qp
            .post(Work::send().user_data(77))
            .expect_err("a child's send");
        assert_eq!(refused.error, PostError::Forked);
        assert!(refused.work.is_some(), "the request comes back");
        let message = buffer(&mut looped);
        let refused = looped.qp.send(message, 8, 77).expect_err("a child's send");
        assert_eq!(refused.error, PostError::Forked);
        let refused = looped.qp.send_inline(&[], 77).expect_err("a child's send");
        assert_eq!(refused, PostError::Forked);
        let reply = buffer(&mut looped);
        let refused = looped.qp.recv(reply, 77).expect_err("a child's receive");
        assert_eq!(refused.error, PostError::Forked);
        let refused = srq
            .recv(refused.buffer, 77)
            .expect_err("a child's shared receive");
        assert_eq!(refused.error, PostError::Forked);
        assert_eq!(looped.cq.poll().map(|_| ()), Err(PollError::Forked));
    });

    assert_eq!(rings::all(), quiet, "a child changed the rings");
    objects.same_now();
    for byte in 0..20 {
        looped.round_trip(byte);
    }
    drop((looped, srq));
    log.silent("a child that posts");
}

/// A child that polls would consume the parent's completions.
#[test]
fn f18_completions_wait_for_the_parent() {
    let mut looped = Looped::new();
    for context in 0..3 {
        let buffer = looped.buffers.pop().expect("a buffer");
        looped.qp.recv(buffer, 10 + context).expect("posted");
    }
    for context in 0..3 {
        looped
            .qp
            .post(Work::send().user_data(context))
            .expect("posted");
    }
    // One is polled by the parent, so that the rest is known to be there.
    let mut seen = vec![looped.finished().user_data()];
    std::thread::sleep(Duration::from_millis(100));
    let quiet = rings::all();
    let mut looped = in_child_with(looped, |mut looped| {
        for _ in 0..3 {
            assert_eq!(looped.cq.poll().map(|_| ()), Err(PollError::Forked));
        }
        let mut list = [looped_completion(); 4];
        assert_eq!(looped.cq.poll_into(&mut list), Err(PollError::Forked));
        let error = looped.cq.resize(128).expect_err("a child's resize");
        assert_eq!(error.kind(), ErrorKind::Forked);
    });
    assert_eq!(rings::all(), quiet, "a child changed the rings");
    for _ in 0..5 {
        seen.push(looped.finished().user_data());
    }
    seen.sort_unstable();
    assert_eq!(seen, [0, 1, 2, 10, 11, 12]);
}

fn looped_completion() -> uverbs::WorkCompletion {
    uverbs::WorkCompletion::default()
}

#[test]
fn f18_a_childs_commands_are_refused_and_its_drops_destroy_nothing() {
    let mut log = KernelLog::from_now();
    let looped = Looped::new();
    let channel = looped
        .context
        .create_completion_channel()
        .expect("a channel");
    let cq = looped
        .context
        .completion_queue(4)
        .channel(&channel)
        .build()
        .expect("a queue");
    let srq = looped.pd.create_srq(8, 1).expect("a shared queue");
    let mw = looped.pd.alloc_mw(MwType::Type2).expect("a window");
    let memory = looped
        .pd
        .expose(4096, AccessFlags::REMOTE_WRITE)
        .expect("memory");
    let objects = Objects::now();
    let all = (looped, channel, cq, srq, mw, memory);

    let mut all = in_child_with(all, |(mut looped, channel, mut cq, mut srq, mw, memory)| {
        let refused: Vec<(&str, Option<uverbs::Error>)> = vec![
            ("alloc_pd", looped.context.alloc_pd().err()),
            ("create_cq", looped.context.create_cq(4).err()),
            ("query_port", looped.context.query_port(1).err()),
            ("gid_table", looped.context.gid_table().err()),
            ("gid", looped.context.gid(1, 0).err()),
            ("channel", looped.context.create_completion_channel().err()),
            ("try_async_event", looped.context.try_async_event().err()),
            (
                "async_event",
                looped.context.async_event(Some(Duration::ZERO)).err(),
            ),
            ("try_event", channel.try_event().err()),
            ("event", channel.event(Some(Duration::ZERO)).err()),
            ("buffers", looped.pd.buffers::<1>(64).err()),
            (
                "expose",
                looped.pd.expose(64, AccessFlags::REMOTE_READ).err(),
            ),
            ("create_srq", looped.pd.create_srq(4, 1).err()),
            (
                "create_ah",
                looped.pd.create_ah(&AddressVector::default()).err(),
            ),
            ("alloc_mw", looped.pd.alloc_mw(MwType::Type2).err()),
            (
                "create_qp",
                looped.pd.queue_pair(QpType::Rc, &cq, &cq).build().err(),
            ),
            ("notify", cq.request_notification(Notify::Any).err()),
            ("resize_cq", cq.resize(8).err()),
            ("modify_srq", srq.modify(&SrqModify::default()).err()),
            ("query_srq", srq.query().err()),
            (
                "modify_qp",
                looped.qp.modify(&QpAttr::to(QpState::Error)).err(),
            ),
            ("query_qp", looped.qp.query().err()),
            ("reset_qp", looped.qp.reset().err()),
            ("dealloc_mw", mw.dealloc().err()),
            ("destroy_srq", srq.destroy().err()),
            ("destroy_cq", cq.destroy().err()),
        ];
        for (call, error) in &refused {
            let error = error
                .as_ref()
                .unwrap_or_else(|| panic!("{call} worked in a child"));
            assert_eq!(error.kind(), ErrorKind::Forked, "{call}: {error}");
        }
        drop((looped, channel, memory));
    });
    objects.same_now();
    all.0.round_trip(9);
    drop(all);
    log.silent("a child that tries everything");
}

/// The child's own rings are mapped where the parent's were left out. Dropping the parent's handles
/// must not unmap them.
#[test]
fn f18_a_child_opens_a_context_of_its_own() {
    let before = Objects::now();
    let mut looped = Looped::new();
    looped.round_trip(1);
    let mut looped = in_child_with(looped, |inherited| {
        let mut own = Looped::new();
        own.round_trip(2);
        let rings = rings::all();
        drop(inherited);
        assert_eq!(
            rings::all().len(),
            rings.len(),
            "the child's own rings were unmapped"
        );
        for byte in 0..20 {
            own.round_trip(byte);
        }
        // And its children are detected again.
        in_child(|| {
            let error = own.context.alloc_pd().expect_err("a grandchild's command");
            assert_eq!(error.kind(), ErrorKind::Forked);
            let mut another = Looped::new();
            another.round_trip(4);
        });
        own.round_trip(5);
    });
    looped.round_trip(3);
    drop(looped);
    before.return_in_time();
}

/// Parent and child write to their copies of registered memory; the device continues to use the
/// parent's.
#[test]
fn f18_registered_memory_stays_the_parents() {
    let copies = copy_on_fork().expect("the kernel says");
    let queried = Client::connect()
        .and_then(|mut client| client.system())
        .expect("the kernel says");
    assert_eq!(copies, queried.copy_on_fork);
    println!("FIGURE: copy on fork: {copies}");
    let mut looped = Looped::new();
    for buffer in &mut looped.buffers {
        buffer.fill(1);
    }
    let (hear, to_child) = std::io::pipe().expect("a pipe");
    let mut to_child = Some(to_child);
    let child = start(|| {
        to_child = None;
        for buffer in &mut looped.buffers {
            assert!(
                !copies || buffer.iter().all(|byte| *byte == 1),
                "before the parent writes"
            );
            buffer.fill(7);
        }
        // Until the parent is done.
        let mut end = Vec::new();
        std::io::Read::read_to_end(&mut &hear, &mut end).expect("the parent's end");
        for buffer in &looped.buffers {
            assert!(
                buffer.iter().all(|byte| *byte == 7),
                "the parent's traffic reached the child's copy"
            );
        }
    });
    std::thread::sleep(Duration::from_millis(50));
    // `round_trip` writes to the page of one buffer, and the device to that of the other.
    for byte in 20..60 {
        looped.round_trip(byte);
    }
    to_child = None;
    child.join();
    assert!(to_child.is_none());
}

/// For kernels that do not copy: registered memory is not mapped in a child.
#[test]
fn f18_forced_protection_leaves_memory_out_of_children() {
    let pages = uverbs_core::hw::Pages::new(3 * 4096).expect("pages");
    assert!(pages.store(0, 1, std::sync::atomic::Ordering::Relaxed));
    let guard = ForkGuard::forced();
    #[expect(unsafe_code, reason = "the pages are this test's own")]
    // SAFETY: nobody else leaves the test's own pages out of children.
    let registration =
        unsafe { guard.protect(pages.as_ptr().addr() + 100, 4096) }.expect("left out");
    let touch = |offset: usize| {
        start(|| {
            let _ = pages.load(offset, std::sync::atomic::Ordering::Relaxed);
        })
    };
    touch(0).died_of_fault();
    touch(4096).died_of_fault();
    touch(8192).join();
    drop(registration);
    touch(0).join();
    touch(4096).join();
    assert_eq!(guard.stuck(), 0);
}
