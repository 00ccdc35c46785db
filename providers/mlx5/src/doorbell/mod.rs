//! The doorbell of a send queue.

pub(crate) mod pool;
mod supply;
pub(crate) mod uar;

use std::sync::Arc;

use uverbs_core::Object;
use uverbs_core::hw::{BlockRing, Register, barrier};
use uverbs_uapi::mlx5_abi::{MLX5_QP_FLAG_BFREG_INDEX, MLX5_QP_FLAG_UAR_PAGE_INDEX};

use pool::{Claim, Naming, Pool, Registers};
pub use supply::Doorbells;
pub(crate) use supply::{UarConfig, Uars};

/// A doorbell of a send queue.
#[derive(Debug)]
pub(crate) struct Doorbell {
    /// Used alternately: a copy may still be in flight. The same buffer twice without BlueFlame.
    buffers: [Register; 2],
    turn: usize,
    /// Blocks of 64 bytes that may be copied through it.
    blocks: u32,
    /// Requests are copied through these registers instead, which are shared with other queue
    /// pairs: those of a thread domain, or any.
    thread: Option<Arc<Registers>>,
    naming: Naming,
    object: Option<Arc<Object>>,
    claim: Claim,
}

impl Doorbell {
    /// A doorbell with these buffers, on the page of `object`.
    pub(crate) fn new(
        buffers: [Register; 2],
        naming: Naming,
        object: Option<Arc<Object>>,
        claim: Claim,
    ) -> Self {
        Self {
            blocks: blocks_of(&buffers),
            buffers,
            turn: 1,
            thread: None,
            naming,
            object,
            claim,
        }
    }

    /// A doorbell that is written at `plain`, with requests copied through `thread`'s registers.
    pub(crate) fn of_thread(
        plain: Register,
        thread: &Arc<Registers>,
        naming: Naming,
        object: Option<Arc<Object>>,
    ) -> Self {
        let mut doorbell = Self::new([plain.clone(), plain], naming, object, Claim::None);
        doorbell.blocks = blocks_of(thread.buffers());
        doorbell.thread = Some(Arc::clone(thread));
        doorbell
    }

    /// The same doorbell, counted among `users`.
    pub(crate) fn shared_by(mut self, users: &Arc<()>) -> Self {
        self.claim = Claim::Shared(Arc::clone(users));
        self
    }

    /// Whether the kernel's reply says which doorbell it is.
    pub(crate) fn is_kernels_choice(&self) -> bool {
        self.naming == Naming::Kernel
    }

    /// The flags for it in the creation of a queue pair (`MLX5_QP_FLAG_*`).
    pub(crate) fn qp_flags(&self) -> u32 {
        match self.naming {
            Naming::Kernel => 0,
            Naming::Page(_) => MLX5_QP_FLAG_UAR_PAGE_INDEX,
            Naming::Index(_) => MLX5_QP_FLAG_BFREG_INDEX,
        }
    }

    /// Its index there, if [`qp_flags`](Self::qp_flags) announce one.
    pub(crate) fn qp_index(&self) -> u32 {
        match self.naming {
            Naming::Kernel => 0,
            Naming::Page(index) | Naming::Index(index) => index,
        }
    }

    /// The kernel object of its page, which must outlive the queue pair.
    pub(crate) fn object(&self) -> Option<&Arc<Object>> {
        self.object.as_ref()
    }

    /// Where it is in this process.
    pub(crate) fn address(&self) -> u64 {
        self.buffers[0].address()
    }

    /// Blocks of 64 bytes that may be copied through it; 0: none.
    #[inline]
    pub(crate) fn blue_flame_blocks(&self) -> u32 {
        self.blocks
    }

    /// Writes the doorbell: `word` is the start of the last request, in memory order.
    #[inline]
    pub(crate) fn ring(&mut self, word: u64) {
        barrier::before_registers();
        self.next_buffer().store(word);
        barrier::flush_registers();
    }

    /// The same for a doorbell that no blocks are copied through: its buffers are one.
    #[inline]
    pub(crate) fn ring_only(&self, word: u64) {
        barrier::before_registers();
        self.buffers[0].store(word);
        barrier::flush_registers();
    }

    /// Submits by copying the `blocks` blocks of a ring that start at `first`.
    #[inline]
    pub(crate) fn blue_flame(&mut self, ring: &BlockRing, first: u32, blocks: u32) {
        if self.thread.is_some() {
            return self.blue_flame_of_thread(ring, first, blocks);
        }
        barrier::before_registers();
        let buffer = self.next_buffer();
        if blocks == 1 {
            buffer.copy_block(ring.block(first));
        } else {
            buffer.copy_blocks(ring, first, blocks);
        }
        barrier::flush_registers();
    }

    #[inline(never)]
    fn blue_flame_of_thread(&mut self, ring: &BlockRing, first: u32, blocks: u32) {
        let thread = self.thread.as_ref();
        if !thread.is_some_and(|registers| registers.copy(ring, first, blocks)) {
            self.ring(ring.block(first).word(0));
        }
    }

    #[inline]
    fn next_buffer(&mut self) -> &Register {
        self.turn ^= 1;
        &self.buffers[self.turn & 1]
    }
}

/// The number of blocks that fit into one of the buffers; a buffer smaller than a block cannot be
/// copied to.
fn blocks_of(buffers: &[Register; 2]) -> u32 {
    u32::try_from(buffers[0].len() / 64).unwrap_or(0)
}

impl Drop for Doorbell {
    fn drop(&mut self) {
        if let Claim::Dedicated(pool, place) = &self.claim {
            Pool::lock(pool).give_back(place.clone());
        }
    }
}

#[cfg(test)]
impl Doorbell {
    /// The first doorbell of a page of ordinary memory, with buffers of `blocks` blocks.
    pub(crate) fn for_tests(page: &Arc<uverbs_core::sys::Mapping>, blocks: u32) -> Self {
        let buffer = blocks as usize * 64;
        let start = uar::DOORBELLS;
        let register = |offset| Register::new(Arc::clone(page), offset, buffer.max(8)).unwrap();
        let buffers = [register(start), register(start + buffer)];
        Self::new(buffers, Naming::Kernel, None, Claim::None)
    }
}
