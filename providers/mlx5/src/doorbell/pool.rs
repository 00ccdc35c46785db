//! The allocation of doorbells: which queue pair has which, which ones are shared, and how they are
//! returned.
//!
//! A pool refers to the registers that queue pairs share, these to the page that is returned with
//! them, and that page to the pool: so all are in one file.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use uverbs_core::Object;
use uverbs_core::hw::{BlockRing, Register, barrier};
use uverbs_core::sys::Mapping;

use super::uar::Page;

/// How the creation of a queue pair identifies a doorbell.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Naming {
    /// Not at all: the kernel chooses, and names it in its reply.
    Kernel,
    /// By the device's number of its page.
    Page(u32),
    /// By its index among those of the context.
    Index(u32),
}

/// What happens to a doorbell when its queue pair is destroyed.
#[derive(Debug)]
pub(crate) enum Claim {
    /// Nothing.
    None,
    /// It is returned to its pool.
    Dedicated(Arc<Mutex<Pool>>, (Page, usize)),
    /// It has one user less.
    Shared(#[expect(dead_code, reason = "counts")] Arc<()>),
}

/// The free doorbells, and the state of the others.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    /// The context's fixed pages that have been mapped.
    pub(super) fixed: Vec<Option<Arc<Mapping>>>,
    /// For arming completion queues.
    pub(super) plain: Option<Page>,
    /// Free pages of registers, by their first slots. Slots are counted through a whole page of the
    /// machine.
    pub(super) spare: Vec<(Page, usize)>,
    /// The second doorbell of a page whose first belongs to a queue pair.
    pub(super) half: Option<(Page, usize)>,
    /// Dedicated doorbells that were returned.
    pub(super) free: Vec<(Page, usize)>,
    pub(super) dedicated: u32,
    pub(super) shared: Vec<Shared>,
    /// Pages of destroyed thread domains, which the kernel hands out only once, and how many it has
    /// handed out.
    pub(super) extra: Vec<ExtraPage>,
    pub(super) extra_taken: u32,
}

/// The page of a thread domain, how its doorbells are identified, and where it is returned.
#[derive(Debug)]
pub(crate) struct ThreadPage {
    pub(crate) page: Page,
    pub(crate) naming: Naming,
    pub(super) extra: Option<(Arc<Mutex<Pool>>, ExtraPage)>,
}

impl Drop for ThreadPage {
    fn drop(&mut self) {
        if let Some((pool, page)) = self.extra.take() {
            Pool::lock(&pool).give_back_extra(page);
        }
    }
}

/// A page beyond the fixed ones, and its index among those.
#[derive(Clone, Debug)]
pub(crate) struct ExtraPage {
    pub(crate) memory: Arc<Mapping>,
    pub(crate) index: u32,
}

/// A page of registers that queue pairs share: one doorbell for copying, one for plain writes.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) plain: Register,
    pub(super) registers: Arc<Registers>,
    pub(super) naming: Naming,
    pub(super) object: Option<Arc<Object>>,
    pub(super) users: Arc<()>,
}

impl Pool {
    pub(crate) fn lock(pool: &Mutex<Self>) -> MutexGuard<'_, Self> {
        pool.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes back the doorbell of one queue pair.
    pub(crate) fn give_back(&mut self, place: (Page, usize)) {
        self.free.push(place);
    }

    /// Takes back the page of a thread domain, which the kernel hands out only once.
    pub(crate) fn give_back_extra(&mut self, page: ExtraPage) {
        self.extra.push(page);
    }
}

/// The doorbell for copying requests, and the one for plain writes.
pub(crate) const COPIED: usize = 0;
pub(crate) const RUNG: usize = 1;

/// The buffer for the next copy, and whether a thread is copying.
const TURN: u32 = 1;
const TAKEN: u32 = 2;

/// Both buffers of the doorbell for copying requests, one copy at a time.
#[derive(Debug)]
pub(crate) struct Registers {
    buffers: [Register; 2],
    state: AtomicU32,
    /// Keeps the page from being reused.
    #[expect(dead_code, reason = "kept for its drop")]
    page: Option<ThreadPage>,
}

impl Registers {
    /// Unused registers. `page` is returned when they are dropped.
    pub(crate) fn new(buffers: [Register; 2], page: Option<ThreadPage>) -> Self {
        Self {
            buffers,
            state: AtomicU32::new(0),
            page,
        }
    }

    pub(crate) fn buffers(&self) -> &[Register; 2] {
        &self.buffers
    }

    /// Copies `blocks` blocks of a ring that start at `first`. Returns false, without copying, if
    /// another thread is copying.
    pub(crate) fn copy(&self, ring: &BlockRing, first: u32, blocks: u32) -> bool {
        let was = self.state.fetch_or(TAKEN, Ordering::Acquire);
        if was & TAKEN != 0 {
            return false;
        }
        barrier::before_registers();
        self.buffers[(was & TURN) as usize].copy_blocks(ring, first, blocks);
        barrier::flush_registers();
        self.state.store(was ^ TURN, Ordering::Release);
        true
    }
}

#[cfg(test)]
mod tests {
    use uverbs_core::hw::{Pages, Part};
    use uverbs_core::sys::Mapping;

    use super::*;
    use crate::doorbell::Doorbell;
    use crate::doorbell::uar::DOORBELLS;

    const BUFFER: usize = 256;

    fn registers(page: &Arc<Mapping>) -> Arc<Registers> {
        let at = |offset| Register::new(Arc::clone(page), DOORBELLS + offset, BUFFER).unwrap();
        Arc::new(Registers::new([at(0), at(BUFFER)], None))
    }

    fn word(page: &Mapping, offset: usize) -> u64 {
        page.load(DOORBELLS + offset).unwrap().to_le()
    }

    #[test]
    fn queue_pairs_take_turns_and_the_second_writes_the_doorbell() {
        let page = Arc::new(Mapping::anonymous(4096).unwrap());
        let shared = registers(&page);
        let ring = BlockRing::new(Part::from(Pages::new(4096).unwrap()), 64).unwrap();
        for at in 0..256_u32 {
            ring.put(at, [u64::from(at).to_le(), 0]);
        }
        let plain = Register::new(Arc::clone(&page), DOORBELLS + 2 * BUFFER, 8).unwrap();
        let mut one = Doorbell::of_thread(plain.clone(), &shared, Naming::Page(7), None);
        let mut other = Doorbell::of_thread(plain, &shared, Naming::Page(7), None);
        assert_eq!((one.blue_flame_blocks(), one.qp_index()), (4, 7));
        one.blue_flame(&ring, 1, 1);
        assert_eq!((word(&page, 0), word(&page, 16)), (4, 5));
        assert_eq!(word(&page, BUFFER), 0);
        // Of the same thread domain: the next buffer, whichever queue pair it is.
        other.blue_flame(&ring, 2, 1);
        assert_eq!((word(&page, 0), word(&page, BUFFER)), (4, 8));
        // As if another thread were copying.
        shared.state.fetch_or(TAKEN, Ordering::Relaxed);
        one.blue_flame(&ring, 3, 1);
        assert_eq!((word(&page, 0), word(&page, BUFFER)), (4, 8));
        assert_eq!(word(&page, 2 * BUFFER), 12);
        shared.state.fetch_and(!TAKEN, Ordering::Relaxed);
        one.blue_flame(&ring, 4, 1);
        assert_eq!(word(&page, 0), 16);
        other.ring(99_u64.to_le());
        assert_eq!(word(&page, 2 * BUFFER), 99);
        assert_eq!(word(&page, BUFFER), 8);
    }
}
