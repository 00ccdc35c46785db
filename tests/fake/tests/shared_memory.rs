//! Memory that several threads access concurrently: whole words are not torn, nothing beside what
//! is written is lost, and there are no data races (`cargo xtask tsan`, `cargo xtask miri`).
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Scope};

use fake_tests::{Bench, Loopback};
use uverbs::owned::{ExposedMemory, Work};
use uverbs::{AccessFlags, Operation, QpType, Remote, owned};
use uverbs_core::hw::{
    BlockRing, PagePool, Pages, Part, Records, Register, RingLayout, SharedRing, UnitRing, Window,
};
use uverbs_core::sys::Mapping;

/// Iterations of each thread.
const TURNS: u64 = if cfg!(miri) { 12 } else { 3000 };

/// A word consisting of one byte value, repeated.
fn word(turn: u64) -> u64 {
    u64::from_ne_bytes([turn.to_le_bytes()[0]; 8])
}

fn is_whole(word: u64) -> bool {
    let bytes = word.to_ne_bytes();
    bytes == [bytes[0]; 8]
}

/// Repeats something on a thread of its own.
fn again<'scope>(scope: &'scope Scope<'scope, '_>, mut turn: impl FnMut(u64) + Send + 'scope) {
    scope.spawn(move || (0..TURNS).for_each(&mut turn));
}

/// Connects a queue pair whose peer has all rights to `memory` of its domain.
fn peer(bench: &Bench) -> (Loopback, ExposedMemory) {
    let context = bench.context().unwrap();
    let pd = context.alloc_pd().unwrap();
    let access = AccessFlags::REMOTE_READ | AccessFlags::REMOTE_WRITE | AccessFlags::REMOTE_ATOMIC;
    let memory = pd.expose(203, access).unwrap();
    let cq = context.create_cq(32).unwrap();
    let builder = pd.queue_pair(QpType::Rc, &cq, &cq);
    let prepared = builder.gid_index(1).access(access).build().unwrap();
    let endpoint = prepared.endpoint();
    let qp = owned::QueuePair::new(prepared.handshake(endpoint).unwrap());
    (Loopback { qp, cq, pd }, memory)
}

/// Bytes of `memory` that only one thread writes to: they hold what it wrote.
fn own(memory: &ExposedMemory, range: Range<usize>, turn: u64) {
    let bytes = vec![turn.to_le_bytes()[0]; range.len()];
    assert!(memory.write(range.start, &bytes));
    let mut back = vec![0; range.len()];
    assert!(memory.read(range.start, &mut back));
    assert_eq!(back, bytes, "{range:?}");
}

#[test]
fn all_threads_may_access_exposed_memory() {
    let bench = Bench::newest();
    let (mut pair, memory) = peer(&bench);
    let remote = memory.remote().start();
    thread::scope(|scope| {
        // Adjacent ranges, some of which share a word.
        for range in [0..5, 5..9, 9..24, 51..64, 198..203] {
            let memory = memory.clone();
            again(scope, move |turn| own(&memory, range.clone(), turn));
        }
        // Words, copies over them, and what both leave of them.
        for _ in 0..2 {
            let memory = memory.clone();
            again(scope, move |turn| {
                assert!(memory.store(64, word(turn)) && memory.store(72, word(turn)));
                assert!(memory.write(64, &[turn.to_le_bytes()[0]; 64]));
            });
        }
        let reader = memory.clone();
        again(scope, move |_| {
            for offset in [64, 72, 120] {
                assert!(is_whole(reader.load(offset).unwrap()));
            }
            let mut all = [0; 203];
            assert!(reader.read(0, &mut all));
            for eight in all[64..128].as_chunks().0 {
                assert!(is_whole(u64::from_ne_bytes(*eight)));
            }
        });
        // A peer does everything that it may, with bytes of its own next to those of others.
        scope.spawn(move || {
            let [buffer] = pair.buffers::<1>(8).unwrap();
            let mut buffer = Some(buffer);
            for turn in 0..TURNS {
                let at = |offset: u64| Remote {
                    address: remote.address + offset,
                    ..remote
                };
                let work = match turn % 4 {
                    0 => Work::write(at(25)).untyped(),
                    1 => Work::read(at(60)).untyped(),
                    2 => Work::new(Operation::FetchAdd {
                        remote: at(136),
                        add: 1,
                    }),
                    _ => Work::write(at(190)).untyped(),
                };
                let lent = buffer.take().unwrap();
                pair.qp.post(work.memory(lent).user_data(turn)).unwrap();
                let finished = pair.finish(1).unwrap().pop().unwrap();
                assert!(finished.status().is_success(), "{finished:?}");
                buffer = finished.into_buffer();
            }
        });
        // The device increments the counter; an observer sees it grow.
        let watcher = memory.clone();
        let mut seen = 0;
        again(scope, move |_| {
            let now = watcher.load(136).unwrap();
            assert!(now >= seen);
            seen = now;
        });
    });
    assert_eq!(memory.load(136), Some(TURNS.div_ceil(4)));
}

#[test]
fn all_threads_may_access_pages() {
    let pages = Arc::new(Pages::new(61).unwrap());
    thread::scope(|scope| {
        for (from, len) in [(0, 7), (7, 12), (56, 5)] {
            let pages = Arc::clone(&pages);
            again(scope, move |turn| {
                let bytes = vec![turn.to_le_bytes()[0]; len];
                let mut back = vec![0; len];
                assert!(pages.copy_from(from, &bytes) && pages.copy_to(from, &mut back));
                assert_eq!(back, bytes);
            });
        }
        for half in [24, 28] {
            let pages = Arc::clone(&pages);
            again(scope, move |turn| {
                let value = u32::try_from(turn).unwrap();
                assert!(pages.store_u32(half, value));
                assert_eq!(pages.load_u32(half), Some(value));
            });
        }
        for _ in 0..2 {
            let pages = Arc::clone(&pages);
            again(scope, move |turn| {
                assert!(pages.store(32, word(turn), Ordering::Release));
                assert!(is_whole(pages.load(32, Ordering::Acquire).unwrap()));
                let mut all = [0; 61];
                assert!(pages.copy_to(0, &mut all));
                assert!(pages.copy_from(32, &[turn.to_le_bytes()[0]; 8]));
            });
        }
    });
}

fn part() -> Part {
    Part::from(Pages::new(4096).unwrap())
}

#[test]
fn rings_are_read_while_they_are_written() {
    let units = UnitRing::new(part(), 16).unwrap();
    let blocks = BlockRing::new(part(), 4).unwrap();
    let memory = Mapping::anonymous(4096).unwrap();
    let layout = RingLayout {
        producer: 128,
        consumer: 256,
        data: 384,
        slot_size: 128,
        slots: 8,
    };
    let shared = SharedRing::new(memory, layout).unwrap();
    thread::scope(|scope| {
        for _ in 0..2 {
            again(scope, |turn| {
                let position = u32::try_from(turn).unwrap();
                units.put(position, [word(turn); 2]);
                units.put_bytes(position, &[turn.to_le_bytes()[0]; 16]);
                units.set_word(position, 1, word(turn));
                blocks.block(position).put(3, [word(turn); 2]);
                assert!(shared.put(position, 1, &[word(turn); 2]));
                assert!(shared.put(position, 0, &[word(turn); 13]));
                let bytes = [turn.to_le_bytes()[0]; 21];
                let parts = [&bytes[..5], &bytes[5..]];
                assert_eq!(shared.put_bytes(position, 13, &parts, 24), Some(21));
                shared.publish(position);
                shared.release(position);
            });
            again(scope, |turn| {
                let position = u32::try_from(turn).unwrap();
                assert!(units.get(position).into_iter().all(is_whole));
                assert!(is_whole(units.word(position, 1)));
                let block = blocks.block(position);
                assert!(is_whole(block.word(6)) && is_whole(block.flag(7)));
                let slot = shared.read::<[u64; 15]>(position).unwrap();
                assert!(slot.into_iter().all(is_whole));
                assert!(shared.producer().is_some() && shared.consumer().is_some());
            });
        }
    });
}

#[test]
fn values_are_visible_once_their_index_is_published() {
    let layout = RingLayout {
        producer: 128,
        consumer: 256,
        data: 384,
        slot_size: 64,
        slots: 4,
    };
    let ring = SharedRing::new(Mapping::anonymous(4096).unwrap(), layout).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            for turn in 0..TURNS {
                let index = u32::try_from(turn).unwrap() & ring.mask();
                while ring.consumer() == Some(ring.next(index)) {
                    thread::yield_now();
                }
                assert!(ring.put(index, 0, &[turn; 8]));
                ring.publish(index + 1);
            }
        });
        for turn in 0..TURNS {
            let index = u32::try_from(turn).unwrap() & ring.mask();
            while ring.producer() == Some(index) {
                thread::yield_now();
            }
            assert_eq!(ring.read::<[u64; 8]>(index), Some([turn; 8]));
            ring.release(index + 1);
        }
    });
}

#[test]
fn records_and_registers_are_stored_to_by_all() {
    let records = Records::new(64, &PagePool::default());
    let record = records.take().unwrap();
    let page = Arc::new(Mapping::anonymous(4096).unwrap());
    let register = Register::new(Arc::clone(&page), 128, 256).unwrap();
    let mut ring = BlockRing::new(part(), 4).unwrap();
    ring.block_mut(2).put_bytes(0, &[7; 64]);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let others: Vec<_> = (0..3_u32)
            .map(|number| {
                let (record, records, register, ring) =
                    (&record, &records, register.clone(), &ring);
                scope.spawn(move || {
                    for turn in 0..TURNS {
                        record.store(0, number);
                        record.store(1, number);
                        assert!(record.load(0) < 3 && record.load(1) < 3);
                        register.store(word(turn));
                        register.copy(8, [word(turn); 2]);
                        register.copy_block(ring.block(2));
                        register.copy_blocks(ring, 1, 4);
                        // Another one is created and destroyed.
                        let mine = records.take().unwrap();
                        mine.store(0, number + 10);
                        assert_eq!(mine.load(0), number + 10);
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                assert!(is_whole(page.load(128).unwrap()));
            }
        });
        for other in others {
            other.join().unwrap();
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn all_threads_may_access_device_memory() {
    let window = Window::new(Mapping::anonymous(4096).unwrap(), 64, 64).unwrap();
    thread::scope(|scope| {
        // Overlapping words of both widths.
        for (offset, len) in [(0, 16), (4, 8), (8, 4), (12, 12)] {
            let window = &window;
            again(scope, move |turn| {
                let bytes = vec![turn.to_le_bytes()[0]; len];
                assert_eq!(window.store(offset, &bytes), Some(()));
                let mut back = vec![0; len];
                assert_eq!(window.load(offset, &mut back), Some(()));
                for four in back.as_chunks::<4>().0 {
                    assert_eq!(*four, [four[0]; 4]);
                }
            });
        }
    });
}
