//! Memory regions: registering, reregistering, using them, and what the device does not support.
#![allow(unsafe_code, reason = "changes registrations")]

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU8, Ordering};

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use uverbs::caps::OdpGeneralCaps;
use uverbs::discover::copy_on_fork;
use uverbs::memory::{DmabufRange, Reregister};
use uverbs::{AccessFlags, ErrorKind, ProtectionDomain, QpType, SendRequest, WcStatus};
use verbs_tests::{Pair, Registered, kernel_may_say, next, open, raw, requests_fail};

const ALL: AccessFlags = AccessFlags::LOCAL_WRITE
    .union(AccessFlags::REMOTE_READ)
    .union(AccessFlags::REMOTE_WRITE)
    .union(AccessFlags::REMOTE_ATOMIC);

/// Writes `text` to `target` of b, and returns the status.
fn write(pair: &mut Pair, text: &[u8], target: &Registered, offset: u64) -> WcStatus {
    let source = Registered::local(&pair.a.pd, text.len().max(1));
    source.put(0, text);
    let sges = [source.sge(0, text.len() as u32)];
    let request = SendRequest::write(&sges, target.remote(offset)).signaled();
    raw::send(&mut pair.a.qp, &[request]).unwrap();
    next(&mut pair.a.cq).status
}

#[test]
fn f30_sizes_and_places() {
    let context = open();
    let pd = context.alloc_pd().unwrap();
    for len in [1, 63, 4095, 4096, 4097, 3 << 20] {
        let memory = Registered::new(&pd, len, ALL);
        assert_eq!(memory.mr().length(), len as u64);
        assert_eq!(memory.mr().access(), ALL);
        assert!(memory.mr().pd().is_same(&pd));
        memory.deregister().unwrap();
    }
}

#[test]
fn f21_reasons_why_memory_cannot_be_registered_are_distinguished() {
    kernel_may_say("Unable to pin memory region");
    kernel_may_say("rxe_reg_user_mr");
    let context = open();
    let pd = context.alloc_pd().unwrap();
    // SAFETY: no memory of this process is there.
    let unmapped = unsafe { pd.register(0x1000 as *mut u8, 4096, ALL) }.unwrap_err();
    // If children would take it away, excluding it from them comes first.
    let expected = if copy_on_fork().unwrap() {
        (ErrorKind::InvalidInput, Some(uverbs::error::Errno::FAULT))
    } else {
        (ErrorKind::OutOfResources, Some(uverbs::error::Errno::NOMEM))
    };
    assert_eq!((unmapped.kind(), unmapped.errno()), expected, "{unmapped}");
    let memory = Registered::local(&pd, 64);
    let address = memory.mr().address() as *mut u8;
    // SAFETY: the kernel refuses both; nothing is registered.
    let inconsistent = unsafe { pd.register(address, 64, AccessFlags::REMOTE_WRITE) }.unwrap_err();
    assert_eq!(inconsistent.kind(), ErrorKind::InvalidInput);
    // SAFETY: as above.
    let empty = unsafe { pd.register(address, 0, ALL) }.unwrap_err();
    assert_eq!(empty.kind(), ErrorKind::InvalidInput);
    // SAFETY: as above.
    let wraps = unsafe { pd.register(address, usize::MAX, ALL) }.unwrap_err();
    assert_eq!(wraps.kind(), ErrorKind::InvalidInput);
    assert_eq!(context.leaked(), 0);
}

#[test]
fn work_requests_address_a_region_by_its_iova() {
    let mut pair = Pair::new(QpType::Rc);
    let plain = Registered::remote_all(&pair.b.pd, 8192);
    let address = plain.mr().address() as *mut u8;
    // Both addresses must have the same offset in their pages, or the kernel refuses.
    let iova = 0x10_0000 + plain.mr().address() % 4096;
    // SAFETY: the memory is atomics that are never freed.
    let moved = unsafe { pair.b.pd.register_at(address, 8192, iova, ALL) }.unwrap();
    assert_eq!(moved.address(), iova);
    let source = Registered::local(&pair.a.pd, 4);
    source.put(0, b"iova");
    let sges = [source.sge(0, 4)];
    let target = uverbs::Remote {
        address: iova + 5000,
        key: moved.rkey(),
    };
    let request = SendRequest::write(&sges, target).signaled();
    raw::send(&mut pair.a.qp, &[request]).unwrap();
    assert_eq!(next(&mut pair.a.cq).status, WcStatus::Success);
    assert_eq!(plain.get(5000, 4), b"iova");
}

#[test]
fn f26_a_deregistered_key_opens_nothing() {
    requests_fail();
    let mut pair = Pair::new(QpType::Rc);
    let target = Registered::remote_all(&pair.b.pd, 64);
    assert_eq!(write(&mut pair, b"one", &target, 0), WcStatus::Success);
    let gone = Registered::remote_all(&pair.b.pd, 64);
    let remote = gone.remote(0);
    gone.deregister().unwrap();
    let sges = [];
    let source = Registered::local(&pair.a.pd, 8);
    let some = [source.sge(0, 8)];
    // Nothing is checked for zero bytes, so an invalid key does no harm there (IBTA C9-88).
    raw::send(
        &mut pair.a.qp,
        &[SendRequest::write(&sges, remote).signaled()],
    )
    .unwrap();
    assert_eq!(next(&mut pair.a.cq).status, WcStatus::Success);
    raw::send(
        &mut pair.a.qp,
        &[SendRequest::write(&some, remote).signaled()],
    )
    .unwrap();
    assert_eq!(next(&mut pair.a.cq).status, WcStatus::RemoteAccess);
    assert_eq!(target.get(0, 3), b"one");
}

/// The kernel's answer to a change: made, or refused as unsupported.
fn change(memory: &mut Registered, change: &Reregister<'_>) -> bool {
    // SAFETY: the memory is atomics that are never freed; nothing is posted.
    match unsafe { memory.mr_mut().reregister(change) } {
        Ok(()) => true,
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
            false
        }
    }
}

#[test]
fn access_can_be_changed_where_the_kernel_can() {
    requests_fail();
    let mut pair = Pair::new(QpType::Rc);
    let mut target = Registered::new(&pair.b.pd, 64, AccessFlags::LOCAL_WRITE);
    let more = Reregister {
        access: Some(ALL),
        ..Reregister::default()
    };
    if change(&mut target, &more) {
        assert_eq!(target.mr().access(), ALL);
        assert_eq!(write(&mut pair, b"now", &target, 1), WcStatus::Success);
        assert_eq!(target.get(1, 3), b"now");
        let less = Reregister {
            access: Some(AccessFlags::LOCAL_WRITE),
            ..Reregister::default()
        };
        assert!(change(&mut target, &less));
    }
    assert_eq!(write(&mut pair, b"no!", &target, 8), WcStatus::RemoteAccess);
    assert_eq!(target.get(8, 3), [0; 3]);
    target.deregister().unwrap();
}

#[test]
fn a_region_can_move_to_another_domain_where_the_kernel_can() {
    requests_fail();
    let mut pair = Pair::new(QpType::Rc);
    let other = pair.b.context.alloc_pd().unwrap();
    let mut target = Registered::new(&other, 64, ALL);
    let home = pair.b.pd.clone();
    let to_home = Reregister {
        pd: Some(&home),
        ..Reregister::default()
    };
    if change(&mut target, &to_home) {
        assert!(target.mr().pd().is_same(&home));
        // Nothing of the region is left in its former domain.
        other.dealloc().unwrap();
        assert_eq!(write(&mut pair, b"here", &target, 0), WcStatus::Success);
    } else {
        assert!(target.mr().pd().is_same(&other));
        assert_eq!(
            write(&mut pair, b"here", &target, 0),
            WcStatus::RemoteAccess
        );
    }
    target.deregister().unwrap();
}

#[test]
fn rxe_cannot_change_the_memory_of_a_region() {
    kernel_may_say("not supported");
    let context = open();
    let pd = context.alloc_pd().unwrap();
    let mut one = Registered::remote_all(&pd, 64);
    let two = Registered::local(&pd, 64);
    let place = (two.mr().address() as *mut u8, 64);
    let to_two = Reregister {
        memory: Some(place),
        ..Reregister::default()
    };
    let before = one.mr().address();
    assert!(!change(&mut one, &to_two), "rxe learned to change memory");
    assert_eq!(one.mr().address(), before);
    one.deregister().unwrap();
}

#[test]
fn a_region_with_clones_is_busy() {
    let context = open();
    let pd = context.alloc_pd().unwrap();
    let mut memory = Registered::remote_all(&pd, 64);
    let clone = memory.mr().clone();
    let nothing = Reregister::default();
    // SAFETY: nothing is changed.
    let error = unsafe { memory.mr_mut().reregister(&nothing) }.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy);
    assert_eq!(memory.deregister().unwrap_err().kind(), ErrorKind::Busy);
    clone.deregister().unwrap();
}

#[test]
fn rxe_has_no_dmabuf() {
    let context = open();
    let pd = context.alloc_pd().unwrap();
    let file = std::fs::File::open("/dev/null").unwrap();
    let range = DmabufRange {
        fd: file.as_fd(),
        offset: 0,
        length: 4096,
        iova: 0,
    };
    let error = pd.register_dmabuf(&range, ALL).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
}

fn on_demand(pd: &ProtectionDomain, len: usize) -> Option<Registered> {
    let capable = pd
        .context()
        .device_attr()
        .odp
        .general
        .contains(OdpGeneralCaps::SUPPORT);
    match Registered::try_new(pd, len, ALL | AccessFlags::ON_DEMAND) {
        Ok(memory) => {
            assert!(capable, "registered though the device does not announce it");
            Some(memory)
        }
        Err(error) => {
            assert!(!capable, "announced, and refused: {error}");
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
            None
        }
    }
}

#[test]
fn on_demand_regions_work_where_they_are_announced() {
    let mut pair = Pair::new(QpType::Rc);
    let Some(target) = on_demand(&pair.b.pd, 64 << 10) else {
        return;
    };
    // rxe (6.15 to 7.2) takes every address for the start of its page (__rxe_odp_mr_copy in
    // rxe_odp.c).
    let start = target.mr().address() as usize;
    let page = (start + 40_000).next_multiple_of(4096);
    let offset = page - start;
    assert_eq!(
        write(&mut pair, b"faulted in", &target, offset as u64),
        WcStatus::Success
    );
    assert_eq!(target.get(offset, 10), b"faulted in");

    // The pages may be removed and return meanwhile.
    let page = page as *mut std::ffi::c_void;
    target.fill(|at| at as u8);
    // SAFETY: dropped pages read as zeros, and zeros are valid atomics.
    unsafe { rustix::mm::madvise(page, 4096, rustix::mm::Advice::LinuxDontNeed) }.unwrap();
    let back = Registered::local(&pair.a.pd, 16);
    let sges = [back.sge(0, 16)];
    let request = SendRequest::read(&sges, target.remote(offset as u64)).signaled();
    raw::send(&mut pair.a.qp, &[request]).unwrap();
    assert_eq!(next(&mut pair.a.cq).status, WcStatus::Success);
    assert_eq!(back.all(), target.get(offset, 16));
    target.deregister().unwrap();
}

/// Maps a page, at `address` if that is given.
fn map_page(address: *mut std::ffi::c_void, protection: ProtFlags) -> *mut u8 {
    let flags = if address.is_null() {
        MapFlags::PRIVATE
    } else {
        MapFlags::PRIVATE | MapFlags::FIXED
    };
    // SAFETY: nothing else is at the address: it is the kernel's choice, or was unmapped before.
    unsafe { mmap_anonymous(address, 4096, protection, flags) }
        .unwrap()
        .cast()
}

#[test]
fn f30_memory_that_cannot_be_written_is_not_registered_for_writing() {
    kernel_may_say("Unable to pin memory region");
    let context = open();
    let pd = context.alloc_pd().unwrap();
    let page = map_page(std::ptr::null_mut(), ProtFlags::READ);
    // SAFETY: nothing refers to the page.
    let error = unsafe { pd.register(page, 4096, ALL) }.unwrap_err();
    assert_eq!(error.errno(), Some(uverbs::error::Errno::FAULT), "{error}");
    let reading = AccessFlags::REMOTE_READ;
    // SAFETY: as above.
    let region = unsafe { pd.register(page, 4096, reading) }.unwrap();
    region.deregister().unwrap();
}

#[test]
fn f26_a_page_that_was_mapped_anew_is_not_the_one_that_was_registered() {
    let mut pair = Pair::new(QpType::Rc);
    let both = ProtFlags::READ | ProtFlags::WRITE;
    let page = map_page(std::ptr::null_mut(), both);
    // SAFETY: nothing refers to the page. That it is unmapped is what this test is about.
    let region = unsafe { pair.b.pd.register(page, 4096, ALL) }.unwrap();
    // SAFETY: nothing refers to the page.
    unsafe { munmap(page.cast(), 4096) }.unwrap();
    assert_eq!(map_page(page.cast(), both), page);
    let source = Registered::local(&pair.a.pd, 8);
    source.fill(|_| 0xff);
    let sges = [source.sge(0, 8)];
    let there = uverbs::Remote {
        address: region.address(),
        key: region.rkey(),
    };
    let request = SendRequest::write(&sges, there).signaled();
    raw::send(&mut pair.a.qp, &[request]).unwrap();
    assert_eq!(next(&mut pair.a.cq).status, WcStatus::Success);
    // SAFETY: the page is mapped.
    let byte = unsafe { AtomicU8::from_ptr(page) }.load(Ordering::Relaxed);
    assert_eq!(byte, 0, "a peer wrote into memory that nobody registered");
    let back = Registered::local(&pair.a.pd, 8);
    let sges = [back.sge(0, 8)];
    let request = SendRequest::read(&sges, there).signaled();
    raw::send(&mut pair.a.qp, &[request]).unwrap();
    assert!(next(&mut pair.a.cq).is_success());
    assert_eq!(back.all(), [0xff; 8], "the region still has its own page");
    region.deregister().unwrap();
}
