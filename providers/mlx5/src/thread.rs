//! Thread domains: queue pairs that one thread uses, and a page of registers that is theirs.
//!
//! What C promises by documentation, that no two threads use the queue pairs of a thread domain at once, nothing here
//! relies on: requests are rung at one doorbell of the page by single stores, which threads may mix, and copied through
//! another (BlueFlame) by whoever finds it free. A second thread that comes at the same time rings instead.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use uverbs_core::hw::{BlockRing, Register, barrier};
use uverbs_core::{Error, ErrorKind, Object, Op, Result, UverbsFile};

use crate::Context;
use crate::doorbell::{Doorbell, Naming};
use crate::uar::ThreadPage;

/// Where requests are copied, and where they are rung.
pub(crate) const COPIED: usize = 0;
pub(crate) const RUNG: usize = 1;

/// `ibv_td`—a thread domain. Cheap to clone.
#[doc(alias = "ibv_td")]
#[derive(Clone, Debug)]
pub struct ThreadDomain {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    plain: Register,
    registers: Arc<Registers>,
    naming: Naming,
    object: Option<Arc<Object>>,
    file: Arc<UverbsFile>,
}

impl ThreadDomain {
    /// `ibv_alloc_td`—takes a page of registers. Two system calls.
    ///
    /// # Errors
    /// The device has no page left; [`Unsupported`](ErrorKind::Unsupported) by kernels before 5.7 that map no pages
    /// beyond those of the context.
    #[doc(alias = "ibv_alloc_td")]
    pub fn alloc(context: &Context) -> Result<Self> {
        let (uars, file) = (context.uars(), context.file());
        file.check_process(Op::AllocUar)?;
        let page = uars.for_thread()?;
        let copied = uars.registers_of(&page.page, COPIED)?;
        let [plain, _] = uars.registers_of(&page.page, RUNG)?;
        Ok(Self {
            inner: Arc::new(Inner {
                plain,
                naming: page.naming,
                object: page.page.object.clone(),
                registers: Arc::new(Registers::new(copied, Some(page))),
                file: Arc::clone(file),
            }),
        })
    }

    /// `ibv_dealloc_td`—gives the page back. One system call. Dropping the last clone does the same, once the queue pairs are gone.
    ///
    /// # Errors
    /// [`Busy`](ErrorKind::Busy) while clones, or domains that were made with it, exist; it lives on with them.
    #[doc(alias = "ibv_dealloc_td")]
    pub fn dealloc(self) -> Result<()> {
        let busy = |users| Error::new(Op::FreeUar, ErrorKind::Busy).fact("users", users);
        let inner =
            Arc::try_unwrap(self.inner).map_err(|shared| busy(Arc::strong_count(&shared) - 1))?;
        let Inner {
            registers, object, ..
        } = inner;
        let registers =
            Arc::try_unwrap(registers).map_err(|shared| busy(Arc::strong_count(&shared) - 1))?;
        drop(registers);
        object.map_or(Ok(()), |object| Object::destroy_shared(object).map(|_| ()))
    }

    /// Whether it is of that opened device.
    pub(crate) fn is_of(&self, file: &Arc<UverbsFile>) -> bool {
        Arc::ptr_eq(&self.inner.file, file)
    }

    /// A doorbell for one more queue pair.
    pub(crate) fn doorbell(&self) -> Doorbell {
        let Inner {
            plain,
            registers,
            naming,
            object,
            ..
        } = &*self.inner;
        Doorbell::of_thread(plain.clone(), registers, *naming, object.clone())
    }
}

/// The buffer whose turn it is, and whether somebody is copying.
const TURN: u32 = 1;
const TAKEN: u32 = 2;

/// Both buffers of the doorbell that requests are copied through, one copy at a time.
#[derive(Debug)]
pub(crate) struct Registers {
    buffers: [Register; 2],
    state: AtomicU32,
    /// Nobody else has the page meanwhile.
    #[expect(dead_code, reason = "kept for its drop")]
    page: Option<ThreadPage>,
}

impl Registers {
    /// Free ones. `page` is what goes back when they are gone.
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

    /// Copies `blocks` blocks from the `first` of a ring on. False, and nothing was copied, when another thread is at it.
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
    use crate::uar::DOORBELLS;

    const BUFFER: usize = 256;

    fn registers(page: &Arc<Mapping>) -> Arc<Registers> {
        let at = |offset| Register::new(Arc::clone(page), DOORBELLS + offset, BUFFER).unwrap();
        Arc::new(Registers::new([at(0), at(BUFFER)], None))
    }

    fn word(page: &Mapping, offset: usize) -> u64 {
        page.load(DOORBELLS + offset).unwrap().to_le()
    }

    #[test]
    fn queue_pairs_take_turns_and_whoever_comes_second_rings() {
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
