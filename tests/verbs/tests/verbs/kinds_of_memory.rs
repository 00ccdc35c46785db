//! Memory of files and of huge pages, at odd addresses, and a file that is truncated.
#![allow(unsafe_code, reason = "registers memory that it mapped")]

use std::ffi::c_void;
use std::fs::File;
use std::os::fd::AsFd as _;
use std::os::unix::fs::FileExt as _;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU8, Ordering};

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};
use uverbs::discover::copy_on_fork;
use uverbs::{AccessFlags, ErrorKind, MemoryRegion, QpType, Remote, SendRequest, WcStatus};
use verbs_tests::{Pair, Registered, kernel_may_say, next, raw};

const ALL: AccessFlags = AccessFlags::LOCAL_WRITE
    .union(AccessFlags::REMOTE_READ)
    .union(AccessFlags::REMOTE_WRITE);
const BOTH: ProtFlags = ProtFlags::READ.union(ProtFlags::WRITE);
const PAGE: usize = 4096;
const HUGE: usize = 2 << 20;

/// Mapped memory that belongs to this test.
struct Mapped {
    start: *mut c_void,
    len: usize,
}

impl Mapped {
    fn anonymous(len: usize, flags: MapFlags) -> Self {
        // SAFETY: the kernel chooses the address.
        let start = unsafe { mmap_anonymous(null_mut(), len, BOTH, MapFlags::PRIVATE | flags) };
        let start = start.unwrap_or_else(|errno| panic!("{len} bytes with {flags:?}: {errno}"));
        Self { start, len }
    }

    fn of(file: &File, len: usize) -> Self {
        // SAFETY: as above.
        let start = unsafe { mmap(null_mut(), len, BOTH, MapFlags::SHARED, file.as_fd(), 0) };
        Self {
            start: start.unwrap(),
            len,
        }
    }

    fn address(&self) -> *mut u8 {
        self.start.cast()
    }

    fn byte(&self, at: usize) -> u8 {
        assert!(at < self.len);
        // SAFETY: it is inside of the mapping, which is accessed only by atomics of bytes.
        let byte = unsafe { AtomicU8::from_ptr(self.address().wrapping_add(at)) };
        byte.load(Ordering::Relaxed)
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: nothing refers to it any more; regions have pages of their own.
        unsafe { munmap(self.start, self.len) }.unwrap();
    }
}

/// Registers part of the memory.
fn register(pair: &Pair, memory: &Mapped, at: usize, len: usize) -> uverbs::Result<MemoryRegion> {
    assert!(at + len <= memory.len);
    // SAFETY: the part is mapped, and accessed only by atomics.
    unsafe {
        pair.b
            .pd
            .register(memory.address().wrapping_add(at), len, ALL)
    }
}

/// Makes the peer write a byte to a region, and returns the status.
fn write(pair: &mut Pair, region: &MemoryRegion, at: u64, byte: u8) -> WcStatus {
    let source = Registered::local(&pair.a.pd, 1);
    source.put(0, &[byte]);
    let sges = [source.sge(0, 1)];
    let there = Remote {
        address: region.address() + at,
        key: region.rkey(),
    };
    let request = SendRequest::write(&sges, there).signaled();
    raw::send(&mut pair.a.qp, &[request]).unwrap();
    next(&mut pair.a.cq).status
}

/// Makes the peer read a byte of a region.
fn read(pair: &mut Pair, region: &MemoryRegion, at: u64) -> u8 {
    let target = Registered::local(&pair.a.pd, 1);
    let sges = [target.sge(0, 1)];
    let there = Remote {
        address: region.address() + at,
        key: region.rkey(),
    };
    let request = SendRequest::read(&sges, there).signaled();
    raw::send(&mut pair.a.qp, &[request]).unwrap();
    assert_eq!(next(&mut pair.a.cq).status, WcStatus::Success);
    target.get(0, 1)[0]
}

/// Parts of this memory at odd addresses can be registered, and a peer reaches their ends and
/// nothing beyond.
fn reached(pair: &mut Pair, memory: &Mapped, what: &str) {
    let end = memory.len;
    let middle = end / 2;
    for (number, (at, len)) in (1..).zip([
        (0, 1),
        (end - 1, 1),
        (0, end),
        (1, end - 2),
        (PAGE - 1, 2),
        (middle - 3, 7),
        (end - PAGE, PAGE),
    ]) {
        let region = register(pair, memory, at, len)
            .unwrap_or_else(|error| panic!("{what}: {len} bytes at {at}: {error}"));
        for place in [0, len - 1] {
            let status = write(pair, &region, place as u64, number);
            assert_eq!(
                status,
                WcStatus::Success,
                "{what}: byte {place} of {len} at {at}"
            );
            assert_eq!(memory.byte(at + place), number, "{what}: {len} at {at}");
            assert_eq!(read(pair, &region, place as u64), number, "{what}");
        }
        region.deregister().unwrap();
    }
}

fn file(len: usize, flags: MemfdFlags) -> File {
    let file = File::from(memfd_create("registered", flags).unwrap());
    file.set_len(len as u64).unwrap();
    file
}

#[test]
fn f30_memory_of_a_file() {
    let mut pair = Pair::new(QpType::Rc);
    let file = file(4 * PAGE, MemfdFlags::CLOEXEC);
    let memory = Mapped::of(&file, 4 * PAGE);
    reached(&mut pair, &memory, "a file");
    // What arrived is in the file, too.
    let mut bytes = vec![0; 4 * PAGE];
    file.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!((bytes[PAGE - 1], bytes[4 * PAGE - 1]), (5, 7));
    // Pages that were never accessed are allocated when they are registered.
    let fresh = Mapped::of(&self::file(PAGE, MemfdFlags::CLOEXEC), PAGE);
    let region = register(&pair, &fresh, 0, PAGE).unwrap();
    assert_eq!(write(&mut pair, &region, 9, 3), WcStatus::Success);
    assert_eq!(fresh.byte(9), 3);
}

#[test]
fn f30_huge_pages() {
    let mut pair = Pair::new(QpType::Rc);
    let pool = "/proc/sys/vm/nr_hugepages";
    std::fs::write(pool, "4").unwrap();
    let there = std::fs::read_to_string(pool).unwrap();
    assert_eq!(there.trim(), "4", "the kernel made fewer huge pages");
    {
        let memory = Mapped::anonymous(2 * HUGE, MapFlags::HUGETLB);
        if !copy_on_fork().unwrap() {
            // Memory that children would take away is excluded from them, which only works for
            // whole pages.
            let part = register(&pair, &memory, 0, 1).unwrap_err();
            assert_eq!(part.kind(), ErrorKind::InvalidInput, "{part}");
            let whole = register(&pair, &memory, 0, 2 * HUGE).unwrap();
            assert_eq!(write(&mut pair, &whole, 9, 3), WcStatus::Success);
            whole.deregister().unwrap();
            drop(memory);
            std::fs::write(pool, "0").unwrap();
            return;
        }
        reached(&mut pair, &memory, "huge pages");
        let file = file(HUGE, MemfdFlags::HUGETLB);
        reached(&mut pair, &Mapped::of(&file, HUGE), "a file of huge pages");
    }
    std::fs::write(pool, "0").unwrap();

    // If the kernel decides to, it puts this into huge pages by itself.
    let memory = Mapped::anonymous(3 * HUGE, MapFlags::empty());
    // SAFETY: the advice changes no byte.
    unsafe { madvise(memory.start, memory.len, Advice::LinuxHugepage) }.unwrap();
    reached(&mut pair, &memory, "transparent huge pages");
}

/// The region keeps its pages; the file's new ones are different. (This process itself would get
/// SIGBUS for accessing the mapping meanwhile. The library never does; its own buffers belong to no
/// file.)
#[test]
fn f31_a_file_is_cut_short_under_its_region() {
    kernel_may_say("Unable to pin memory region");
    kernel_may_say("rxe_reg_user_mr");
    let mut pair = Pair::new(QpType::Rc);
    let file = file(2 * PAGE, MemfdFlags::CLOEXEC);
    let memory = Mapped::of(&file, 2 * PAGE);
    let region = register(&pair, &memory, 0, 2 * PAGE).unwrap();
    assert_eq!(write(&mut pair, &region, 5000, 1), WcStatus::Success);
    file.set_len(0).unwrap();
    assert_eq!(write(&mut pair, &region, 5000, 2), WcStatus::Success);
    assert_eq!(read(&mut pair, &region, 5000), 2, "the region has its page");

    // There is nothing to register any more.
    let error = register(&pair, &memory, 0, 2 * PAGE).unwrap_err();
    assert_eq!(error.errno(), Some(uverbs::error::Errno::FAULT), "{error}");

    file.set_len(2 * PAGE as u64).unwrap();
    assert_eq!(memory.byte(5000), 0, "the file got the region's page back");
    assert_eq!(write(&mut pair, &region, 5000, 3), WcStatus::Success);
    assert_eq!(
        memory.byte(5000),
        0,
        "a peer wrote into a page that nobody registered"
    );
    let again = register(&pair, &memory, 0, 2 * PAGE).unwrap();
    assert_eq!(write(&mut pair, &again, 5000, 4), WcStatus::Success);
    assert_eq!(memory.byte(5000), 4);
    assert_eq!(read(&mut pair, &region, 5000), 3);
    again.deregister().unwrap();
    region.deregister().unwrap();
    assert_eq!(pair.b.context.leaked(), 0);
}
