//! Memory that peers access: the program's own, shared with other mappings, another device's.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::fs::File;
use std::os::fd::AsFd;
use std::sync::Arc;

use fake_tests::{Bench, Loopback};
use memmap2::MmapMut;
use uverbs::discover::ForkGuard;
use uverbs::error::Op;
use uverbs::memory::DmabufRange;
use uverbs::owned::{ExposedMemory, PageSize, QueuePair, SharedMemory, Work};
use uverbs::{AccessFlags, Context, ErrorKind, OpenOptions, QpType};
use uverbs_core::error::Errno;
use uverbs_fake::{Effect, When};

const PEERS: AccessFlags = AccessFlags::REMOTE_WRITE
    .union(AccessFlags::REMOTE_READ)
    .union(AccessFlags::REMOTE_ATOMIC);

fn open(bench: &Bench, fork: ForkGuard) -> Context {
    OpenOptions::new()
        .kernel(Arc::new(bench.fake.clone()))
        .fork_guard(fork)
        .over(bench.fake.device_info(), bench.fake.open().unwrap())
        .unwrap()
}

/// A queue pair that lets its peer, itself, access memory.
fn looped(bench: &Bench) -> (Context, Loopback) {
    let context = open(bench, ForkGuard::unneeded());
    let pd = context.alloc_pd().unwrap();
    let cq = context.create_cq(32).unwrap();
    let queue = pd.queue_pair(QpType::Rc, &cq, &cq).gid_index(1);
    let prepared = queue.access(AccessFlags::LOCAL_WRITE | PEERS).build();
    let prepared = prepared.unwrap();
    let endpoint = prepared.endpoint();
    let qp = QueuePair::new(prepared.handshake(endpoint).unwrap());
    (context, Loopback { pd, cq, qp })
}

/// A peer writes `bytes` at `offset`.
fn write(looped: &mut Loopback, memory: &ExposedMemory, offset: u64, bytes: &[u8]) {
    let [mut buffer] = looped.buffers::<1>(bytes.len()).unwrap();
    buffer.copy_from_slice(bytes);
    let to = memory.remote().at(offset).unwrap();
    looped.qp.post(Work::write(to).memory(buffer)).unwrap();
    let finished = looped.finish(1).unwrap();
    assert!(finished[0].status().is_success());
}

#[test]
fn memory_of_the_program_is_written_by_peers_and_comes_back() {
    let bench = Bench::newest();
    let (context, mut looped) = looped(&bench);
    let text = vec![1_u8; 101];
    let place = text.as_ptr();
    let memory = looped.pd.expose_owned(text, PEERS).unwrap();
    assert_eq!((memory.len(), memory.is_local()), (101, true));
    // Across the end of the last whole word.
    write(&mut looped, &memory, 90, &[7; 11]);
    let mut end = [0; 12];
    assert!(memory.read(89, &mut end));
    assert_eq!(end, [1, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7]);
    assert!(memory.write(0, b"here"));
    assert_eq!(memory.load(96), None, "no whole word");
    let text: Vec<u8> = memory.into_inner().unwrap();
    assert_eq!(text.as_ptr(), place, "nothing was copied");
    assert_eq!((&text[..5], &text[89..91]), (&b"here\x01"[..], &[1, 7][..]));
    assert_eq!(bench.fake.objects().mrs, 0);

    let map = MmapMut::map_anon(8192).unwrap();
    let memory = looped.pd.expose_owned(map, PEERS).unwrap();
    write(&mut looped, &memory, 8184, &5_u64.to_ne_bytes());
    assert_eq!(memory.fetch_add(8184, 1), Some(5));
    let map: MmapMut = memory.into_inner().unwrap();
    assert_eq!(map[8184..], 6_u64.to_ne_bytes());
    let boxed = vec![2_u8; 8].into_boxed_slice();
    let memory = looped.pd.expose_owned(boxed, PEERS).unwrap();
    drop(memory);
    assert_eq!(bench.fake.objects().mrs, 0);
    assert_eq!(context.leaked(), 0);
}

#[test]
fn memory_that_is_used_elsewhere_or_is_something_else_is_not_given_back() {
    let bench = Bench::newest();
    let (_context, mut looped) = looped(&bench);
    let memory = looped.pd.expose_owned(vec![1_u8; 64], PEERS).unwrap();
    let refused = memory.into_inner::<Box<[u8]>>().unwrap_err();
    assert_eq!(refused.error.kind(), ErrorKind::InvalidInput);
    let memory = refused.memory.unwrap();
    // A request holds a clone.
    let work = Work::send().memory((memory.clone(), 0..64));
    let [room] = looped.buffers::<1>(64).unwrap();
    looped.qp.recv(room, 1).unwrap();
    looped.qp.post(work).unwrap();
    let refused = memory.into_inner::<Vec<u8>>().unwrap_err();
    assert_eq!(refused.error.kind(), ErrorKind::Busy);
    let memory = refused.memory.unwrap();
    drop(looped.finish(2).unwrap());
    assert_eq!(memory.into_inner::<Vec<u8>>().unwrap(), [1; 64]);
    let allocated = looped.pd.expose(64, PEERS).unwrap();
    let refused = allocated.into_inner::<Vec<u8>>().unwrap_err();
    assert_eq!(refused.error.kind(), ErrorKind::InvalidInput);
}

#[test]
fn what_cannot_be_exposed_comes_back_and_what_may_be_is_leaked() {
    let bench = Bench::newest();
    let (context, looped) = looped(&bench);
    let none = AccessFlags::LOCAL_WRITE;
    let refused = looped.pd.expose_owned(vec![9_u8; 10], none).unwrap_err();
    assert_eq!(refused.error.kind(), ErrorKind::InvalidInput);
    assert_eq!(refused.memory, Some(vec![9; 10]));
    let register = When::Operation(Op::RegisterMemory);
    bench.inject(register, Effect::Fail(Errno::NOMEM));
    let refused = looped.pd.expose_owned(vec![9_u8; 10], PEERS).unwrap_err();
    assert_eq!(refused.memory, Some(vec![9; 10]));
    assert_eq!(context.leaked(), 0);
    bench.fake.clear_faults();
    bench.inject(register, Effect::Fail(Errno::TIMEDOUT));
    let refused = looped.pd.expose_owned(vec![9_u8; 10], PEERS).unwrap_err();
    assert!(refused.error.outcome_is_unknown());
    assert_eq!((refused.memory, context.leaked()), (None, 1));
    bench.fake.clear_faults();

    let memory = looped.pd.expose_owned(vec![9_u8; 10], PEERS).unwrap();
    let deregister = When::Operation(Op::DeregisterMemory);
    bench.inject(deregister, Effect::Fail(Errno::BUSY));
    let refused = memory.into_inner::<Vec<u8>>().unwrap_err();
    assert!(refused.memory.is_none(), "peers may still write to it");
    assert_eq!(context.leaked(), 2);
}

#[test]
#[cfg_attr(miri, ignore = "excludes pages from children")]
fn parts_of_pages_are_not_exposed_where_children_would_lose_the_rest() {
    let bench = Bench::newest();
    let context = open(&bench, ForkGuard::forced());
    let pd = context.alloc_pd().unwrap();
    let refused = pd.expose_owned(vec![1_u8; 64], PEERS).unwrap_err();
    assert_eq!(refused.error.kind(), ErrorKind::Unsupported);
    assert_eq!(refused.memory, Some(vec![1; 64]));
    let map = MmapMut::map_anon(rustix::param::page_size()).unwrap();
    let memory = pd.expose_owned(map, PEERS).unwrap();
    assert!(memory.write(0, &[1]));
    assert_eq!(memory.into_inner::<MmapMut>().unwrap()[0], 1);
}

#[test]
#[cfg_attr(miri, ignore = "creates files in memory")]
fn writes_of_peers_are_seen_in_other_mappings_of_shared_memory() {
    let bench = Bench::newest();
    let (context, mut looped) = looped(&bench);
    let shared = SharedMemory::new(5000, PageSize::Base).unwrap();
    let memory = looped.pd.expose_shared(&shared, PEERS).unwrap();
    // As another process does: by the descriptor.
    let fd = shared.as_fd().try_clone_to_owned().unwrap();
    let same = SharedMemory::from_fd(fd).unwrap();
    assert_eq!((shared.len(), same.len()), (5000, 5000));
    let other = looped.pd.expose_shared(&same, PEERS).unwrap();
    assert_ne!(memory.remote(), other.remote());
    write(&mut looped, &memory, 4990, &[3; 10]);
    let mut bytes = [0; 11];
    assert!(other.read(4989, &mut bytes));
    assert_eq!(bytes, [0, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3]);
    assert_eq!(other.fetch_add(16, 2), Some(0));
    assert_eq!(memory.load(16), Some(2));
    let refused = memory.into_inner::<Vec<u8>>().unwrap_err();
    assert_eq!(refused.error.kind(), ErrorKind::InvalidInput);
    drop((refused, other));
    assert_eq!((bench.fake.objects().mrs, context.leaked()), (0, 0));
}

#[test]
#[cfg_attr(miri, ignore = "creates files in memory")]
fn what_is_no_shared_memory_is_refused() {
    assert!(SharedMemory::new(0, PageSize::Base).is_err());
    let file = File::open("/dev/null").unwrap();
    let error = SharedMemory::from_fd(file.into()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    let bench = Bench::newest();
    let (_context, looped) = looped(&bench);
    let shared = SharedMemory::new(64, PageSize::Base).unwrap();
    let error = looped.pd.expose_shared(&shared, AccessFlags::LOCAL_WRITE);
    assert_eq!(error.unwrap_err().kind(), ErrorKind::InvalidInput);
}

#[test]
fn a_dmabuf_is_refused_by_a_device_that_registers_none() {
    let bench = Bench::newest();
    let (_context, looped) = looped(&bench);
    let file = File::open("/dev/null").unwrap();
    let range = DmabufRange {
        fd: file.as_fd(),
        offset: 0,
        length: 4096,
        iova: 0,
    };
    let error = looped.pd.expose_dmabuf(&range, PEERS).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
}
