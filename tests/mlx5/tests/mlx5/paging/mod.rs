//! On-demand paging: regions whose pages are provided when needed, and may be dropped again. The
//! InfiniBand functions support it.
//!
//! # Safety
//!
//! The bytes are atomics in mappings of their own, which outlive their regions or are dropped only
//! where the test is about that.
#![allow(unsafe_code, reason = "maps and drops pages under a device")]

use std::ffi::c_void;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::thread;
use std::time::Duration;

use mlx5_tests::{Model, model_may_report};
use rustix::mm::{
    Advice, MapFlags, MprotectFlags, ProtFlags, madvise, mmap_anonymous, mprotect, munmap,
};
use uverbs::caps::{OdpGeneralCaps, OdpTransportCaps};
use uverbs::completion::WcOpcode;
use uverbs::memory::{MrAdvice, MrAdviceFlags};
use uverbs::{
    AccessFlags, ErrorKind, MemoryRegion, Operation, Payload, ProtectionDomain, QpType, Remote,
    SendRequest, Sge, WcStatus,
};
use verbs_tests::{Pair, Registered, next, open, raw};

mod shared;

const PAGE: usize = 4096;
const ALL: AccessFlags = AccessFlags::LOCAL_WRITE
    .union(AccessFlags::REMOTE_READ)
    .union(AccessFlags::REMOTE_WRITE)
    .union(AccessFlags::REMOTE_ATOMIC)
    .union(AccessFlags::ON_DEMAND);

/// A mapping whose pages are still absent.
struct Pages {
    start: *mut c_void,
    bytes: &'static [AtomicU8],
}

// SAFETY: it is a place and atomics.
unsafe impl Sync for Pages {}

impl Pages {
    fn new(count: usize) -> Self {
        let length = count * PAGE;
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping wherever there is room.
        let start = unsafe { mmap_anonymous(null_mut(), length, rights, MapFlags::PRIVATE) };
        let start = start.unwrap();
        // SAFETY: it is only unmapped by `unmap`, after which its pages are not accessed any more.
        let bytes = unsafe { std::slice::from_raw_parts(start.cast(), length) };
        // SAFETY: advice about this mapping. A huge page would come as one.
        unsafe { madvise(start, length, Advice::LinuxNoHugepage) }.unwrap();
        Self { start, bytes }
    }

    fn register(&self, pd: &ProtectionDomain, access: AccessFlags) -> MemoryRegion {
        // SAFETY: atomics, which stay mapped or are unmapped by the test that says so.
        unsafe { pd.register(self.start.cast(), self.bytes.len(), access) }.unwrap()
    }

    fn address(&self) -> u64 {
        self.start as u64
    }

    fn put(&self, offset: usize, bytes: &[u8]) {
        for (to, from) in self.bytes[offset..offset + bytes.len()].iter().zip(bytes) {
            to.store(*from, Ordering::Release);
        }
    }

    fn get(&self, offset: usize, length: usize) -> Vec<u8> {
        let bytes = self.bytes[offset..offset + length].iter();
        bytes.map(|byte| byte.load(Ordering::Acquire)).collect()
    }

    /// Drops pages; they read as zeros when they are provided again.
    fn drop_pages(&self, first: usize, count: usize) {
        let start = self.start.wrapping_byte_add(first * PAGE);
        // SAFETY: zeros are valid atomics.
        unsafe { madvise(start, count * PAGE, Advice::LinuxDontNeed) }.unwrap();
    }

    /// Makes a page inaccessible; nothing else is mapped in its place.
    fn close(&self, page: usize) {
        let page = self.start.wrapping_byte_add(page * PAGE);
        // SAFETY: nothing accesses the page any more.
        unsafe { mprotect(page, PAGE, MprotectFlags::empty()) }.unwrap();
    }

    fn unmap(&self) {
        // SAFETY: nothing accesses the mapping any more.
        unsafe { munmap(self.start, self.bytes.len()) }.unwrap();
    }
}

/// A line of this process's status, in KiB.
fn status(name: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let words = line.unwrap_or("0").trim_start_matches(':');
    words.trim().trim_end_matches(" kB").trim().parse().unwrap()
}

fn pattern(seed: usize, length: usize) -> Vec<u8> {
    (0..length)
        .map(|at| u8::try_from((at * 7 + seed + at / 251) % 256).unwrap())
        .collect()
}

fn faults(model: &mut Model) -> u64 {
    let counts = ["page-faults 0", "page-faults 1"];
    counts
        .map(|question| model.ask(question).parse::<u64>().unwrap())
        .iter()
        .sum()
}

fn sge(region: &MemoryRegion, offset: usize, length: usize) -> Sge {
    region
        .sge(offset as u64, u32::try_from(length).unwrap())
        .unwrap()
}

fn place(region: &MemoryRegion, offset: usize) -> Remote {
    Remote {
        address: region.address() + offset as u64,
        key: region.rkey(),
    }
}

fn carry(pair: &mut Pair, request: SendRequest<'_>) -> WcStatus {
    raw::send(&mut pair.a.qp, &[request.signaled()]).unwrap();
    next(&mut pair.a.cq).status
}

#[test]
fn ib_what_may_be_on_demand_is_announced() {
    let context = open();
    let caps = context.device_attr().odp;
    assert!(caps.general.contains(OdpGeneralCaps::SUPPORT));
    assert!(caps.general.contains(OdpGeneralCaps::IMPLICIT));
    let rc = OdpTransportCaps::SEND
        | OdpTransportCaps::RECV
        | OdpTransportCaps::WRITE
        | OdpTransportCaps::READ
        | OdpTransportCaps::ATOMIC
        | OdpTransportCaps::SRQ_RECV;
    assert_eq!(caps.rc, rc);
    assert_eq!(caps.ud, OdpTransportCaps::SEND | OdpTransportCaps::SRQ_RECV);
    assert_eq!(caps.uc, OdpTransportCaps::empty());
}

#[test]
fn ib_pages_come_when_they_are_needed_on_either_side() {
    let mut model = Model::open();
    let mut pair = Pair::new(QpType::Rc);
    let pinned = status("VmPin");
    let (near, far) = (Pages::new(64), Pages::new(64));
    let here = near.register(&pair.a.pd, ALL);
    let there = far.register(&pair.b.pd, ALL);
    assert_eq!(status("VmPin"), pinned, "pages were pinned");
    let before = faults(&mut model);

    // A write from pages that the processor filled to some that were never accessed, across page
    // boundaries.
    let text = pattern(1, 5 * PAGE);
    near.put(100, &text);
    let sges = [sge(&here, 100, text.len())];
    let status_of = carry(&mut pair, SendRequest::write(&sges, place(&there, 3000)));
    assert_eq!(status_of, WcStatus::Success);
    assert_eq!(far.get(3000, text.len()), text);
    assert_eq!(
        (far.get(2999, 1), far.get(3000 + text.len(), 1)),
        (vec![0], vec![0])
    );

    // A read from there into pages that were never accessed.
    let sges = [sge(&here, 20 * PAGE + 5, text.len())];
    let status_of = carry(&mut pair, SendRequest::read(&sges, place(&there, 3000)));
    assert_eq!(status_of, WcStatus::Success);
    assert_eq!(near.get(20 * PAGE + 5, text.len()), text);

    // Atomic additions in a page that was never accessed, with the result in another one.
    for expected in 0..3_u64 {
        let sges = [sge(&here, 40 * PAGE, 8)];
        let remote = place(&there, 40 * PAGE + 8);
        let operation = Operation::FetchAdd { remote, add: 1 };
        let request = SendRequest::new(operation, Payload::Gather(&sges));
        assert_eq!(carry(&mut pair, request), WcStatus::Success);
        assert_eq!(near.get(40 * PAGE, 8), expected.to_ne_bytes());
    }
    assert_eq!(far.get(40 * PAGE + 8, 8), 3_u64.to_ne_bytes());

    // A message, gathered and scattered.
    let scatter = [
        sge(&there, 50 * PAGE - 10, 20),
        sge(&there, 52 * PAGE, 5000),
    ];
    raw::recv(&mut pair.b.qp, 7, &scatter).unwrap();
    near.put(50 * PAGE, &pattern(2, 3000));
    let sges = [sge(&here, 50 * PAGE, 3000), sge(&here, 55 * PAGE, 20)];
    assert_eq!(
        carry(&mut pair, SendRequest::send(&sges)),
        WcStatus::Success
    );
    let received = next(&mut pair.b.cq);
    assert_eq!((received.wr_id, received.byte_len), (7, 3020));
    assert_eq!(received.opcode, WcOpcode::Recv);
    let mut got = far.get(50 * PAGE - 10, 20);
    got.extend(far.get(52 * PAGE, 3000));
    assert_eq!(got[..3000], pattern(2, 3000));
    assert_eq!(got[3000..], [0; 20]);

    assert!(faults(&mut model) >= before + 5, "nothing was requested");
    assert_eq!(status("VmPin"), pinned, "pages were pinned");
    here.deregister().unwrap();
    there.deregister().unwrap();
}

#[test]
fn ib_pages_that_were_dropped_come_again() {
    let mut model = Model::open();
    let mut pair = Pair::new(QpType::Rc);
    let (near, far) = (Pages::new(8), Pages::new(8));
    let here = near.register(&pair.a.pd, ALL);
    let there = far.register(&pair.b.pd, ALL);
    for round in 0..4 {
        let before = faults(&mut model);
        let text = pattern(round, 3 * PAGE);
        near.put(10, &text);
        let sges = [sge(&here, 10, text.len())];
        let written = carry(&mut pair, SendRequest::write(&sges, place(&there, 2000)));
        assert_eq!(written, WcStatus::Success);
        assert_eq!(far.get(2000, text.len()), text, "round {round}");
        // Dropped pages read as zeros, for the device as for the processor.
        far.drop_pages(1, 1);
        let sges = [sge(&here, 4 * PAGE, 3 * PAGE)];
        let read = carry(&mut pair, SendRequest::read(&sges, place(&there, 0)));
        assert_eq!(read, WcStatus::Success);
        assert_eq!(near.get(4 * PAGE, 3 * PAGE), far.get(0, 3 * PAGE));
        assert_eq!(near.get(5 * PAGE, PAGE), [0; PAGE]);
        assert_eq!(near.get(4 * PAGE + 2000, 2096), text[..2096]);
        near.drop_pages(0, 8);
        far.drop_pages(0, 8);
        assert!(faults(&mut model) >= before + 2, "round {round}");
    }
}

#[test]
fn ib_pages_may_go_while_they_are_used() {
    const ROUNDS: usize = 20;
    /// A request needs all its pages at the same time, which may never happen on a slow machine
    /// while they are dropped continuously.
    const DROPS: usize = 300;
    let mut pair = Pair::new(QpType::Rc);
    let (near, far) = (Pages::new(16), Pages::new(16));
    let here = near.register(&pair.a.pd, ALL);
    let there = far.register(&pair.b.pd, ALL);
    let over = AtomicBool::new(false);
    let length = 12 * PAGE;
    thread::scope(|scope| {
        let dropper = scope.spawn(|| {
            let mut page = 0;
            while page < DROPS && !over.load(Ordering::Acquire) {
                // Not the first of the one, nor the last of the other.
                near.drop_pages(1 + page % 15, 1);
                far.drop_pages(page * 3 % 15, 1);
                page += 1;
                thread::sleep(Duration::from_millis(1));
            }
        });
        for round in 0..ROUNDS {
            let mark = pattern(round, 64);
            near.put(0, &mark);
            let sges = [sge(&here, 0, length)];
            let remote = place(&there, 16 * PAGE - 64);
            let whole = place(&there, 100);
            assert_eq!(
                carry(&mut pair, SendRequest::write(&sges, whole)),
                WcStatus::Success
            );
            let sges = [sge(&here, 0, 64)];
            assert_eq!(
                carry(&mut pair, SendRequest::write(&sges, remote)),
                WcStatus::Success
            );
            assert_eq!(far.get(16 * PAGE - 64, 64), mark, "round {round}");
        }
        over.store(true, Ordering::Release);
        dropper.join().unwrap();
    });
}

#[test]
fn ib_a_region_of_the_whole_address_space_has_all_memory() {
    let mut pair = Pair::new(QpType::Rc);
    let pinned = status("VmPin");
    // SAFETY: posted work uses mappings of atomics that stay until it is done.
    let here = unsafe { pair.a.pd.register(null_mut(), usize::MAX, ALL) }.unwrap();
    // SAFETY: posted work uses mappings of atomics that stay until it is done.
    let there = unsafe { pair.b.pd.register(null_mut(), usize::MAX, ALL) }.unwrap();
    for round in 0..3 {
        // Memory that did not exist when the regions were made.
        let (near, far) = (Pages::new(20), Pages::new(20));
        let text = pattern(round, 9 * PAGE);
        near.put(77, &text);
        let remote = Remote {
            address: far.address() + 4000,
            key: there.rkey(),
        };
        let from = |offset: usize| Sge {
            address: near.address() + offset as u64,
            length: u32::try_from(text.len()).unwrap(),
            key: here.lkey(),
        };
        let sges = [from(77)];
        let written = carry(&mut pair, SendRequest::write(&sges, remote));
        assert_eq!(written, WcStatus::Success);
        assert_eq!(far.get(4000, text.len()), text, "round {round}");
        let sges = [from(10 * PAGE + 1)];
        let read = carry(&mut pair, SendRequest::read(&sges, remote));
        assert_eq!(read, WcStatus::Success);
        assert_eq!(near.get(10 * PAGE + 1, text.len()), text, "round {round}");
        if round % 2 == 0 {
            near.unmap();
            far.unmap();
        }
    }
    assert_eq!(status("VmPin"), pinned, "pages were pinned");
    here.deregister().unwrap();
    there.deregister().unwrap();
}

#[test]
fn ib_memory_that_is_not_there_fails_the_work() {
    model_may_report("memory key");
    // A page of the requester's.
    let mut pair = Pair::new(QpType::Rc);
    let (near, far) = (Pages::new(4), Pages::new(4));
    let here = near.register(&pair.a.pd, ALL);
    let there = far.register(&pair.b.pd, ALL);
    near.close(2);
    let sges = [sge(&here, 2 * PAGE - 8, 16)];
    let written = carry(&mut pair, SendRequest::write(&sges, place(&there, 0)));
    assert_eq!(written, WcStatus::LocalProtection);
    drop((here, there, pair));
    // A page of the responder's.
    let mut pair = Pair::new(QpType::Rc);
    let here = far.register(&pair.a.pd, ALL);
    let there = near.register(&pair.b.pd, ALL);
    let sges = [sge(&here, 0, 16)];
    let written = carry(&mut pair, SendRequest::write(&sges, place(&there, PAGE)));
    assert_eq!(written, WcStatus::Success);
    let written = carry(
        &mut pair,
        SendRequest::write(&sges, place(&there, 2 * PAGE)),
    );
    assert_eq!(written, WcStatus::RemoteAccess);
    drop((here, there, pair));
    // A page of a receive.
    let mut pair = Pair::new(QpType::Rc);
    let here = far.register(&pair.a.pd, ALL);
    let there = near.register(&pair.b.pd, ALL);
    raw::recv(&mut pair.b.qp, 3, &[sge(&there, 2 * PAGE, 16)]).unwrap();
    let sges = [sge(&here, 0, 16)];
    let sent = carry(&mut pair, SendRequest::send(&sges));
    assert_eq!(sent, WcStatus::RemoteOperation);
    let received = next(&mut pair.b.cq);
    assert_eq!(
        (received.wr_id, received.status),
        (3, WcStatus::LocalProtection)
    );
    // A page of a region of the whole address space.
    drop((here, there, pair));
    let mut pair = Pair::new(QpType::Rc);
    // SAFETY: nothing but the hole is used.
    let here = unsafe { pair.a.pd.register(null_mut(), usize::MAX, ALL) }.unwrap();
    let there = far.register(&pair.b.pd, ALL);
    let hole = Sge {
        address: near.address() + 2 * PAGE as u64,
        length: 16,
        key: here.lkey(),
    };
    let read = carry(&mut pair, SendRequest::read(&[hole], place(&there, 0)));
    assert_eq!(read, WcStatus::LocalProtection);
}

#[test]
fn ib_prefetched_pages_do_not_fault() {
    let mut model = Model::open();
    let mut pair = Pair::new(QpType::Rc);
    let (near, far) = (Pages::new(16), Pages::new(16));
    let here = near.register(&pair.a.pd, ALL);
    let there = far.register(&pair.b.pd, ALL);
    let now = MrAdviceFlags::FLUSH;
    let whole = |region: &MemoryRegion| [sge(region, 0, 16 * PAGE)];
    near.put(0, &pattern(9, 16 * PAGE));
    pair.a
        .pd
        .advise(MrAdvice::Prefetch, now, &whole(&here))
        .unwrap();
    pair.b
        .pd
        .advise(MrAdvice::PrefetchWrite, now, &whole(&there))
        .unwrap();
    let before = faults(&mut model);
    let sges = whole(&here);
    let written = carry(&mut pair, SendRequest::write(&sges, place(&there, 0)));
    assert_eq!(written, WcStatus::Success);
    assert_eq!(far.get(0, 16 * PAGE), pattern(9, 16 * PAGE));
    assert_eq!(faults(&mut model), before, "pages were missed");

    // Prefetches the pages that are present, without bringing in others.
    near.drop_pages(0, 16);
    near.put(0, &[1; 2 * PAGE]);
    pair.a
        .pd
        .advise(MrAdvice::PrefetchNoFault, now, &whole(&here))
        .unwrap();
    let sges = [sge(&here, 0, 2 * PAGE)];
    let written = carry(&mut pair, SendRequest::write(&sges, place(&there, 0)));
    assert_eq!(written, WcStatus::Success);
    assert_eq!(faults(&mut model), before, "pages were missed");
    let sges = [sge(&here, 8 * PAGE, 8)];
    let written = carry(&mut pair, SendRequest::write(&sges, place(&there, 0)));
    assert_eq!(written, WcStatus::Success);
    assert!(faults(&mut model) > before, "a page was brought unasked");
}

#[test]
fn ib_advice_that_makes_no_sense_is_refused() {
    let context = open();
    let (pd, other) = (context.alloc_pd().unwrap(), context.alloc_pd().unwrap());
    let pages = Pages::new(2);
    let region = pages.register(&pd, AccessFlags::ON_DEMAND | AccessFlags::REMOTE_READ);
    let whole = [sge(&region, 0, 2 * PAGE)];
    let now = MrAdviceFlags::FLUSH;
    let kind = |result: uverbs::Result<()>| result.unwrap_err().kind();
    pd.advise(MrAdvice::Prefetch, now, &whole).unwrap();
    pd.advise(MrAdvice::Prefetch, MrAdviceFlags::empty(), &whole)
        .unwrap();
    let writing = pd.advise(MrAdvice::PrefetchWrite, now, &whole);
    assert_ne!(kind(writing), ErrorKind::Unsupported);
    assert!(other.advise(MrAdvice::Prefetch, now, &whole).is_err());
    let pinned = Registered::local(&pd, PAGE);
    let refused = pd.advise(MrAdvice::Prefetch, now, &[pinned.sge(0, 8)]);
    assert!(refused.is_err());
    let many = vec![whole[0]; 4096];
    assert_eq!(
        kind(pd.advise(MrAdvice::Prefetch, now, &many)),
        ErrorKind::LimitExceeded
    );
    assert!(pd.advise(MrAdvice::Prefetch, now, &[]).is_err());
    pages.close(1);
    assert_eq!(
        kind(pd.advise(MrAdvice::Prefetch, now, &whole)),
        ErrorKind::InvalidInput
    );
}

#[test]
fn ib_a_process_may_fork_while_its_pages_are_used() {
    const ROUNDS: usize = 12;
    const FORKS: usize = 30;
    let mut pair = Pair::new(QpType::Rc);
    let (near, far) = (Pages::new(4), Pages::new(4));
    let here = near.register(&pair.a.pd, ALL);
    let there = far.register(&pair.b.pd, ALL);
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let forker = scope.spawn(|| {
            let mut forks = 0;
            while forks < FORKS && !over.load(Ordering::Acquire) {
                let mut child = Command::new("/");
                // SAFETY: it sleeps and makes an error of a number.
                unsafe {
                    child.pre_exec(|| {
                        // The pages are shared with the parent meanwhile.
                        thread::sleep(Duration::from_millis(5));
                        Err(std::io::Error::from_raw_os_error(1))
                    });
                }
                assert!(child.spawn().is_err());
                forks += 1;
            }
            forks
        });
        for round in 0..ROUNDS {
            // Pages from before the fork are written, by the processor here and by the device
            // there.
            let text = pattern(round, 3 * PAGE);
            near.put(50, &text);
            let sges = [sge(&here, 50, text.len())];
            let written = carry(&mut pair, SendRequest::write(&sges, place(&there, 500)));
            assert_eq!(written, WcStatus::Success);
            assert_eq!(far.get(500, text.len()), text, "round {round}");
            thread::sleep(Duration::from_millis(3));
        }
        over.store(true, Ordering::Release);
        assert_ne!(forker.join().unwrap(), 0);
    });
}
