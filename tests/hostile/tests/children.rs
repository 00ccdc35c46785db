//! Registered memory is excluded from children wherever it is, on kernels that do not copy it for
//! them.
#![allow(
    clippy::unwrap_used,
    unsafe_code,
    reason = "a test fails by panicking, and registers memory of its own"
)]

use std::collections::BTreeSet;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use hostile_tests::watch::{Bomb, Stop};
use hostile_tests::{mlx5_kernel, open_mlx5};
use uverbs::discover::{ForkAdvice, ForkGuard};
use uverbs::error::Errno;
use uverbs::memory::Reregister;
use uverbs::{AccessFlags, Context, ErrorKind, OpenOptions};

const PAGE: usize = 4096;
const LENGTH: usize = 3 * PAGE;

/// What children do not inherit, by pages.
#[derive(Clone, Debug, Default)]
struct Pages(Arc<Mutex<BTreeSet<usize>>>);

impl ForkAdvice for Pages {
    fn page_size(&self) -> usize {
        PAGE
    }

    fn advise(&self, address: usize, len: usize, inherit: bool) -> Result<(), Errno> {
        let mut pages = self.0.lock().unwrap();
        for page in (address..address + len).step_by(PAGE) {
            if inherit {
                pages.remove(&page);
            } else {
                pages.insert(page);
            }
        }
        Ok(())
    }
}

impl Pages {
    /// Whether children inherit nothing of a range, or all of it.
    fn leave_out(&self, memory: &[AtomicU64]) -> Option<bool> {
        let pages = self.0.lock().unwrap();
        let start = memory.as_ptr().addr() & !(PAGE - 1);
        let end = memory.as_ptr_range().end.addr();
        let mut out = (start..end).step_by(PAGE).map(|page| pages.contains(&page));
        let first = out.next()?;
        out.all(|other| other == first).then_some(first)
    }
}

/// Memory that shares no page with other data.
fn memory() -> Box<[AtomicU64]> {
    (0..LENGTH / 8 + 2 * PAGE / 8)
        .map(|_| AtomicU64::new(0))
        .collect()
}

fn middle(memory: &[AtomicU64]) -> &[AtomicU64] {
    &memory[PAGE / 8..][..LENGTH / 8]
}

fn open(stop: Stop) -> (Context, Pages, Arc<Bomb>) {
    let pages = Pages::default();
    let bomb = Arc::new(Bomb::new(mlx5_kernel(), stop, u64::MAX / 2));
    let options = OpenOptions::new()
        .kernel(Arc::<Bomb>::clone(&bomb))
        .fork_guard(ForkGuard::over(Box::new(pages.clone())));
    (open_mlx5(options).unwrap(), pages, bomb)
}

#[test]
fn a_reregistered_region_is_kept_out_of_children_at_its_new_place() {
    for unknown in [false, true] {
        let (context, pages, bomb) = open(Stop::After);
        let pd = context.alloc_pd().unwrap();
        let (from, to) = (memory(), memory());
        let (from, to) = (middle(&from), middle(&to));
        let place = |memory: &[AtomicU64]| memory.as_ptr().cast::<u8>().cast_mut();
        let access = AccessFlags::LOCAL_WRITE;
        // SAFETY: the memory is atomics that outlive the region.
        let mut region = unsafe { pd.register(place(from), LENGTH, access) }.unwrap();
        assert_eq!(pages.leave_out(from), Some(true));
        assert_eq!(pages.leave_out(to), Some(false));
        if unknown {
            bomb.arm();
        }
        let change = Reregister {
            memory: Some((place(to), LENGTH)),
            ..Reregister::default()
        };
        // SAFETY: as above.
        let moved = unsafe { region.reregister(&change) };
        assert_eq!(
            moved.err().map(|error| error.kind()),
            unknown.then_some(ErrorKind::Panicked)
        );
        assert_eq!(pages.leave_out(to), Some(true), "where it is now");
        assert_eq!(pages.leave_out(from), Some(unknown), "where it was");
        region.deregister().unwrap();
        assert_eq!(pages.leave_out(from), Some(false));
        assert_eq!(pages.leave_out(to), Some(false));
    }
}
