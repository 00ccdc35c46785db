//! Memory of the user that is registered and given back, pools, typed buffers, and what exposed
//! memory does on its own: used as intended, and misused.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::mem_forget,
    reason = "a test fails by panicking, and forgets buffers"
)]

use std::io;
use std::sync::Arc;
use std::thread;

use fake_tests::{Bench, Loopback, thinned};
use memmap2::MmapMut;
use uverbs::discover::ForkGuard;
use uverbs::error::Op;
use uverbs::owned::{Buffer, BufferPool, ExposedMemory, Memory, TypedBuffer, Work};
use uverbs::{AccessFlags, Context, ErrorKind, OpenOptions, ProtectionDomain};
use uverbs_core::error::Errno;
use uverbs_fake::{Effect, When};

/// Opens the device, whatever the running kernel does with registered pages on fork.
fn open(bench: &Bench, fork: ForkGuard) -> Context {
    OpenOptions::new()
        .kernel(Arc::new(bench.fake.clone()))
        .fork_guard(fork)
        .over(bench.fake.device_info(), bench.fake.open().unwrap())
        .unwrap()
}

fn domain(bench: &Bench) -> (Context, ProtectionDomain) {
    let context = open(bench, ForkGuard::unneeded());
    let pd = context.alloc_pd().unwrap();
    (context, pd)
}

/// Sends `message` to `room` and returns both.
fn exchange(looped: &mut Loopback, message: Buffer, room: Buffer) -> (Buffer, Buffer) {
    let len = message.len();
    looped.qp.recv(room, 1).unwrap();
    looped.qp.send(message, len, 2).unwrap();
    let mut finished = looped.finish(2).unwrap();
    assert!(finished.iter().all(|one| one.status().is_success()));
    finished.sort_by_key(uverbs::owned::Finished::user_data);
    let sent = finished.pop().unwrap().into_buffer().unwrap();
    let received = finished.pop().unwrap().into_buffer().unwrap();
    (sent, received)
}

#[test]
fn memory_of_the_user_moves_data_and_comes_back() {
    let bench = Bench::newest();
    let context = open(&bench, ForkGuard::unneeded());
    let mut looped = Loopback::new(&context).unwrap();
    let text: Vec<u8> = (0..100).collect();
    let place = text.as_ptr();
    let message = looped.pd.register_owned(text).unwrap();
    let room = vec![0_u8; 100].into_boxed_slice();
    let room = looped.pd.register_owned(room).unwrap();
    let (sent, mut received) = exchange(&mut looped, message, room);
    assert!(received.iter().copied().eq(0..100));
    received[0] = 7;
    let text: Vec<u8> = sent.into_inner().unwrap();
    assert_eq!(text.as_ptr(), place, "nothing was copied");
    let room: Box<[u8]> = received.into_inner().unwrap();
    assert_eq!((room.len(), room[0], room[99]), (100, 7, 99));
    assert_eq!(bench.fake.objects().mrs, 0);
    assert_eq!(context.leaked(), 0);
}

#[test]
fn maps_are_memory_of_the_user() {
    let bench = Bench::newest();
    let context = open(&bench, ForkGuard::unneeded());
    let mut looped = Loopback::new(&context).unwrap();
    let mut map = MmapMut::map_anon(8192).unwrap();
    map[8191] = 5;
    let map = looped.pd.register_owned(map).unwrap();
    let [room] = looped.buffers::<1>(8192).unwrap();
    let (map, room) = exchange(&mut looped, map, room);
    assert_eq!(room[8191], 5);
    assert_eq!(map.into_inner::<MmapMut>().unwrap()[8191], 5);
}

#[test]
fn memory_that_is_in_use_is_not_given_back() {
    let bench = Bench::newest();
    let context = open(&bench, ForkGuard::unneeded());
    let mut looped = Loopback::new(&context).unwrap();
    let mut first = looped.pd.register_owned(vec![1_u8; 128]).unwrap();
    let posted = first.split_off(64).unwrap();
    looped.qp.recv(posted, 1).unwrap();
    let refused = first.into_inner::<Vec<u8>>().unwrap_err();
    assert_eq!(refused.error.kind(), ErrorKind::Busy);
    let first = refused.memory.unwrap();
    let [message] = looped.buffers::<1>(64).unwrap();
    looped.qp.send(message, 64, 2).unwrap();
    let finished = looped.finish(2).unwrap();
    let posted = finished
        .into_iter()
        .find_map(|one| {
            let posted = one.user_data() == 1;
            posted
                .then_some(one.into_memory())
                .and_then(Memory::into_buffer)
        })
        .unwrap();
    drop(posted);
    let all: Vec<u8> = first.into_inner().unwrap();
    assert_eq!((all.len(), all[0], all[64]), (128, 1, 0));

    // A part that was forgotten keeps the rest registered forever; nothing is freed.
    let mut first = looped.pd.register_owned(vec![1_u8; 128]).unwrap();
    std::mem::forget(first.split_off(64));
    assert!(first.into_inner::<Vec<u8>>().is_err());
    assert_eq!(bench.fake.objects().mrs, 1);
}

#[test]
fn memory_is_returned_only_as_its_original_type() {
    let bench = Bench::newest();
    let (_context, pd) = domain(&bench);
    let buffer = pd.register_owned(vec![3_u8; 10]).unwrap();
    let refused = buffer.into_inner::<Box<[u8]>>().unwrap_err();
    assert_eq!(refused.error.kind(), ErrorKind::InvalidInput);
    assert_eq!(
        refused.memory.unwrap().into_inner::<Vec<u8>>().unwrap(),
        [3; 10]
    );
    let [buffer] = pd.buffers::<1>(10).unwrap();
    let refused = buffer.into_inner::<Vec<u8>>().unwrap_err();
    assert_eq!(refused.memory.unwrap()[..], [0; 10]);
}

#[test]
fn a_refused_deregistration_leaks_the_memory_and_counts_it() {
    let bench = Bench::newest();
    let (context, pd) = domain(&bench);
    let owner = Arc::new(());
    let buffer = pd
        .register_owned(Watched(vec![1; 64], Arc::clone(&owner)))
        .unwrap();
    bench.inject(
        When::Operation(Op::DeregisterMemory),
        Effect::Fail(Errno::BUSY),
    );
    let refused = buffer.into_inner::<Watched>().unwrap_err();
    assert_eq!(refused.error.errno(), Some(Errno::BUSY));
    assert!(refused.memory.is_none());
    assert_eq!(context.leaked(), 1);
    assert_eq!(Arc::strong_count(&owner), 2, "never freed");
}

/// A vector whose drop is seen.
#[derive(Debug)]
struct Watched(Vec<u8>, #[expect(dead_code, reason = "counted")] Arc<()>);

// SAFETY: a vector, as in the library.
#[expect(unsafe_code, reason = "memory of a type of its own")]
unsafe impl uverbs::owned::StableBytes for Watched {
    fn bytes(&mut self) -> std::ptr::NonNull<[u8]> {
        std::ptr::NonNull::from(self.0.as_mut_slice())
    }
}

#[test]
fn memory_that_cannot_be_registered_comes_back_at_once() {
    let bench = Bench::newest();
    let (context, pd) = domain(&bench);
    let refused = pd.register_owned(Vec::<u8>::new()).unwrap_err();
    assert_eq!(refused.error.kind(), ErrorKind::InvalidInput);
    assert!(refused.memory.is_some());

    let register = When::Operation(Op::RegisterMemory);
    bench.inject(register, Effect::Fail(Errno::NOMEM));
    let refused = pd.register_owned(vec![9_u8; 10]).unwrap_err();
    assert_eq!(refused.error.kind(), ErrorKind::OutOfResources);
    assert_eq!(refused.memory, Some(vec![9; 10]));
    assert_eq!(context.leaked(), 0);

    // The kernel may have registered it.
    bench.fake.clear_faults();
    bench.inject(register, Effect::Fail(Errno::TIMEDOUT));
    let refused = pd.register_owned(vec![9_u8; 10]).unwrap_err();
    let error = &refused.error;
    assert!(error.outcome_is_unknown(), "{error}");
    assert_eq!(refused.memory, None);
    assert_eq!(context.leaked(), 1);
}

#[test]
#[cfg_attr(miri, ignore = "excludes pages from children")]
fn parts_of_pages_are_refused_where_children_would_lose_the_rest() {
    let bench = Bench::newest();
    let context = open(&bench, ForkGuard::forced());
    let pd = context.alloc_pd().unwrap();
    let page = rustix::param::page_size();
    let refused = pd.register_owned(vec![1_u8; page + 1]).unwrap_err();
    assert_eq!(refused.error.kind(), ErrorKind::Unsupported);
    assert_eq!(refused.memory.unwrap().len(), page + 1);
    let map = MmapMut::map_anon(2 * page).unwrap();
    let buffer = pd.register_owned(map).unwrap();
    assert_eq!(buffer.into_inner::<MmapMut>().unwrap().len(), 2 * page);
}

#[test]
fn a_buffer_is_split_and_put_together_again() {
    let bench = Bench::newest();
    let (_context, pd) = domain(&bench);
    let [mut whole, other] = pd.buffers::<2>(64).unwrap();
    whole.copy_from_slice(&std::array::from_fn::<u8, 64, _>(|at| {
        u8::try_from(at).unwrap()
    }));
    assert!(whole.split_off(65).is_none());
    let mut tail = whole.split_off(10).unwrap();
    let end = tail.split_off(54).unwrap();
    assert!(end.is_empty());
    assert_eq!((whole.len(), tail.len(), tail[0]), (10, 54, 10));
    // Not in this order, and not with what lies elsewhere.
    let whole_again = tail.unsplit(whole).unwrap_err();
    let other = other_first(whole_again, other, tail);
    assert_eq!(other.len(), 64);
}

/// Puts `head` and `tail` together, after `foreign` was refused between them.
fn other_first(mut head: Buffer, foreign: Buffer, tail: Buffer) -> Buffer {
    let foreign = head.unsplit(foreign).unwrap_err();
    head.unsplit(tail).unwrap();
    assert!(head.iter().copied().eq(0..64));
    // Buffers of one allocation without a gap between them may be joined as well.
    head.unsplit(foreign).unwrap();
    assert_eq!(head.len(), 128);
    head.split_off(64).unwrap()
}

#[test]
fn a_pool_gets_its_buffers_back() {
    let bench = Bench::newest();
    let context = open(&bench, ForkGuard::unneeded());
    let mut looped = Loopback::new(&context).unwrap();
    let pool = looped.pd.buffer_pool(3, 100).unwrap();
    assert_eq!((pool.total(), pool.free(), pool.buffer_len()), (3, 3, 100));
    let (message, room) = (pool.take().unwrap(), pool.take().unwrap());
    assert!(pool.owns(&message));
    let third = pool.take().unwrap();
    assert!(pool.take().is_none());
    assert_eq!((pool.free(), pool.high_water()), (0, 3));
    drop(third);
    let (message, room) = exchange(&mut looped, message, room);
    drop((message, room));
    assert_eq!((pool.free(), pool.high_water()), (3, 3));

    // What is posted comes back with its queue, and what is forgotten does not.
    looped.qp.recv(pool.take().unwrap(), 1).unwrap();
    assert_eq!(pool.free(), 2);
    std::mem::forget(pool.take());
    drop(looped);
    assert_eq!(pool.free(), 2);
    // The memory outlives the pool while a buffer exists.
    let mut last = pool.take().unwrap();
    drop(pool);
    last.fill(1);
    assert_eq!(last.len(), 100);
}

#[test]
fn buffers_of_a_pool_keep_their_size() {
    let bench = Bench::newest();
    let (_context, pd) = domain(&bench);
    let pool = pd.buffer_pool(2, 64).unwrap();
    let (mut one, two) = (pool.take().unwrap(), pool.take().unwrap());
    assert!(one.split_off(32).is_none(), "both halves would come back");
    assert!(one.unsplit(two).is_err());
    assert!(one.into_inner::<Vec<u8>>().is_err());
    assert_eq!(pool.free(), 2);
    assert!(pd.buffer_pool(0, 64).is_err());
    assert!(pd.buffer_pool(1, 0).is_err());
}

#[test]
fn a_buffer_that_the_kernel_may_still_use_does_not_come_back() {
    let bench = Bench::newest();
    let context = open(&bench, ForkGuard::unneeded());
    let mut looped = Loopback::new(&context).unwrap();
    let pool = looped.pd.buffer_pool(2, 64).unwrap();
    looped.qp.recv(pool.take().unwrap(), 1).unwrap();
    bench.inject(
        When::Operation(Op::DestroyQueuePair),
        Effect::Fail(Errno::BUSY),
    );
    drop(looped);
    assert!(context.leaked() > 0);
    assert_eq!((pool.total(), pool.free()), (2, 1));
}

#[test]
fn threads_share_a_pool() {
    let bench = Bench::newest();
    let (_context, pd) = domain(&bench);
    let pool = pd.buffer_pool(4, 64).unwrap();
    let (give, given) = std::sync::mpsc::channel::<Buffer>();
    thread::scope(|scope| {
        for number in 1..=3_u8 {
            let (pool, give) = (pool.clone(), give.clone());
            scope.spawn(move || take_and_give(&pool, number, &give));
        }
        drop(give);
        // Buffers are given back by a thread that did not take them.
        scope.spawn(move || {
            for buffer in given {
                assert!(buffer.iter().all(|byte| *byte == buffer[0]));
            }
        });
    });
    assert_eq!(pool.free(), 4);
    assert!((1..=4).contains(&pool.high_water()));
    let all: Vec<_> = std::iter::from_fn(|| pool.take()).collect();
    let mut places: Vec<_> = all.iter().map(|buffer| buffer.as_ptr()).collect();
    places.sort_unstable();
    places.dedup();
    assert_eq!(places.len(), 4, "each exactly once");
}

fn take_and_give(pool: &BufferPool, number: u8, give: &std::sync::mpsc::Sender<Buffer>) {
    for turn in thinned(0..2000, 100) {
        let Some(mut buffer) = pool.take() else {
            thread::yield_now();
            continue;
        };
        buffer.fill(number);
        assert_eq!(buffer[..], [number; 64], "it is nobody else's");
        if turn % 200 == 0 {
            give.send(buffer).unwrap();
        }
    }
}

#[test]
fn buffers_of_values_are_sent_and_received() {
    let bench = Bench::newest();
    let context = open(&bench, ForkGuard::unneeded());
    let mut looped = Loopback::new(&context).unwrap();
    let mut numbers = looped.pd.buffer_of::<u32>(5).unwrap();
    assert_eq!(numbers[..], [0; 5]);
    numbers[1] = 0x42;
    let [room] = looped.buffers::<1>(20).unwrap();
    looped.qp.recv(room, 1).unwrap();
    looped
        .qp
        .post(Work::send().memory(numbers).user_data(2))
        .unwrap();
    for finished in looped.finish(2).unwrap() {
        let buffer = finished.into_buffer().unwrap();
        let numbers = TypedBuffer::<u32>::from_buffer(buffer).unwrap();
        assert_eq!(numbers[..], [0, 0x42, 0, 0, 0]);
    }
}

#[test]
fn views_are_inside_and_aligned() {
    let bench = Bench::newest();
    let (_context, pd) = domain(&bench);
    let [mut bytes] = pd.buffers::<1>(20).unwrap();
    *bytes.view_mut::<u64>(8).unwrap() = u64::MAX;
    assert_eq!(bytes[7..17], [0, 255, 255, 255, 255, 255, 255, 255, 255, 0]);
    assert_eq!(bytes.view::<u64>(8), Some(&u64::MAX));
    for offset in [1, 12, 16, 20, 21, usize::MAX] {
        assert_eq!(bytes.view::<u64>(offset), None, "{offset}");
    }
    assert_eq!(bytes.slice_of::<u32>().unwrap().len(), 5);
    assert_eq!(bytes.slice_of::<u64>(), None);
    assert!(TypedBuffer::<u64>::from_buffer(bytes).is_err());
    assert!(pd.buffer_of::<u64>(usize::MAX).is_err());
    assert!(pd.buffer_of::<u64>(0).is_err());
}

fn exposed(pd: &ProtectionDomain, len: usize) -> ExposedMemory {
    pd.expose(len, AccessFlags::REMOTE_WRITE).unwrap()
}

#[test]
fn words_of_exposed_memory_change_atomically() {
    let bench = Bench::newest();
    let (_context, pd) = domain(&bench);
    let memory = exposed(&pd, 100);
    assert_eq!(memory.compare_exchange(8, 0, 5), Some(Ok(0)));
    assert_eq!(memory.compare_exchange(8, 0, 6), Some(Err(5)));
    assert_eq!(memory.fetch_add(8, u64::MAX), Some(5));
    assert_eq!(memory.swap(8, 9), Some(4));
    assert_eq!(memory.load(8), Some(9));
    for offset in [4, 96, 100, usize::MAX] {
        assert_eq!(memory.fetch_add(offset, 1), None, "{offset}");
        assert_eq!(memory.swap(offset, 1), None, "{offset}");
        assert_eq!(memory.compare_exchange(offset, 0, 1), None, "{offset}");
    }
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                thinned(0..1000, 50).for_each(|_| {
                    let _ = memory.fetch_add(0, 1);
                });
            });
        }
    });
    assert_eq!(
        memory.load(0),
        Some(4 * thinned(0..1000, 50).count() as u64)
    );
}

#[test]
fn exposed_memory_is_copied_to_writers_and_from_readers() {
    let bench = Bench::newest();
    let (_context, pd) = domain(&bench);
    let memory = exposed(&pd, 50_000);
    let bytes: Vec<u8> = (0..40_001_u32)
        .map(|at| at.to_le_bytes()[0] ^ 0x5a)
        .collect();
    memory.read_from(3..40_004, bytes.as_slice()).unwrap();
    let mut back = Vec::new();
    memory.write_to(3..40_004, &mut back).unwrap();
    assert!(back == bytes);
    let mut none = Vec::new();
    memory.write_to(7..7, &mut none).unwrap();
    let short = memory.read_from(0..10, &b"123"[..]).unwrap_err();
    assert_eq!(short.kind(), io::ErrorKind::UnexpectedEof);
    #[expect(clippy::reversed_empty_ranges, reason = "refused")]
    for range in [0..50_001, 9..8, 50_001..50_001] {
        let refused = memory.write_to(range.clone(), &mut none).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);
        assert!(memory.read_from(range, io::repeat(1)).is_err());
    }
    assert!(none.is_empty());
}

#[test]
fn a_peer_is_given_a_part_of_the_memory() {
    let bench = Bench::newest();
    let context = open(&bench, ForkGuard::unneeded());
    let mut looped = peer(&context);
    let memory = exposed(&looped.pd, 4096);
    let part = memory.remote_at(1024..2048).unwrap();
    assert_eq!((part.length, part.key), (1024, memory.rkey()));
    assert!(memory.remote_at(4096..4097).is_err());
    let [mut buffer] = looped.buffers::<1>(4).unwrap();
    buffer.copy_from_slice(b"here");
    let there = part.at(1020).unwrap();
    looped.qp.post(Work::write(there).memory(buffer)).unwrap();
    assert!(looped.finish(1).unwrap()[0].status().is_success());
    let mut bytes = [0; 4];
    assert!(memory.read(2044, &mut bytes));
    assert_eq!(&bytes, b"here");
}

/// A queue pair that lets its peer write.
fn peer(context: &Context) -> Loopback {
    let pd = context.alloc_pd().unwrap();
    let cq = context.create_cq(8).unwrap();
    let prepared = pd
        .queue_pair(uverbs::QpType::Rc, &cq, &cq)
        .gid_index(1)
        .access(AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_WRITE)
        .build()
        .unwrap();
    let endpoint = prepared.endpoint();
    let qp = uverbs::owned::QueuePair::new(prepared.handshake(endpoint).unwrap());
    Loopback { qp, cq, pd }
}
