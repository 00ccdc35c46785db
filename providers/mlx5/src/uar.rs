//! Pages of the device's registers (user access regions), and the doorbells in them.
//!
//! A page has doorbells for send queues from offset 0x800 on, each with two buffers that are used in turn. A store of
//! eight bytes rings; where a doorbell belongs to one queue alone, a whole request may be copied through it instead
//! (BlueFlame), which saves the device from reading it. Completion queues are armed at 0x20 of any page.
//!
//! Where the kernel hands out pages one by one (`UAR_OBJ_ALLOC`, 5.7), they are taken as they are needed. Older ones give
//! the context a fixed number of pages, and say at the creation of a queue pair which doorbell is its.

use std::cell::Cell;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use uverbs_driver::cmd::{new_object_handle, new_object_slot};
use uverbs_driver::hw::{Register, UnitRing, barrier};
use uverbs_driver::object::{ObjectKind, VendorKind};
use uverbs_driver::sys::{Attr, Mapping, Protection, Uhw, cells};
use uverbs_driver::{Channel, Error, Object, Op, Result};
use uverbs_uapi::mlx5_abi::MLX5_QP_FLAG_UAR_PAGE_INDEX;
use uverbs_uapi::mlx5_user_ioctl_cmds::{
    MLX5_IB_ATTR_UAR_OBJ_ALLOC_HANDLE, MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_LENGTH,
    MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_OFFSET, MLX5_IB_ATTR_UAR_OBJ_ALLOC_PAGE_ID,
    MLX5_IB_ATTR_UAR_OBJ_ALLOC_TYPE, MLX5_IB_ATTR_UAR_OBJ_DESTROY_HANDLE,
    MLX5_IB_METHOD_UAR_OBJ_ALLOC, MLX5_IB_METHOD_UAR_OBJ_DESTROY, MLX5_IB_OBJECT_UAR,
};
use uverbs_uapi::mlx5_user_ioctl_verbs::{
    MLX5_IB_UAPI_UAR_ALLOC_TYPE_BF, MLX5_IB_UAPI_UAR_ALLOC_TYPE_NC,
};

/// Bytes of a page of registers, whatever the machine's pages are.
const UAR: usize = 4096;
/// The first doorbell of a page.
const DOORBELLS: usize = 0x800;
/// Doorbells of a page that send queues may use.
const PER_UAR: usize = 2;
/// Where completion queues are armed.
const ARM: usize = 0x20;
/// Distance of doorbells in a page without BlueFlame.
const PLAIN_DISTANCE: usize = 0x100;

const KIND: ObjectKind = ObjectKind::Vendor(VendorKind {
    name: "Uar",
    object: MLX5_IB_OBJECT_UAR,
    method: MLX5_IB_METHOD_UAR_OBJ_DESTROY,
    attr: MLX5_IB_ATTR_UAR_OBJ_DESTROY_HANDLE,
    op: Op::FreeUar,
});

/// How pages are had and what they can do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UarConfig {
    /// Doorbells that the kernel gave the context at once; 0 where pages are taken one by one.
    pub(crate) fixed: u32,
    /// Pages of registers in a page of the machine.
    pub(crate) per_page: u32,
    /// Bytes of a doorbell with both its buffers; 0: no BlueFlame.
    pub(crate) register_size: u32,
    /// Queue pairs that get a doorbell of their own.
    pub(crate) dedicated: u32,
    /// Doorbells that the others share.
    pub(crate) shared: u32,
}

/// A mapped page.
#[derive(Clone, Debug)]
pub(crate) struct Page {
    pub(crate) memory: Arc<Mapping>,
    /// The device's number of the page.
    pub(crate) id: u32,
    pub(crate) object: Option<Arc<Object>>,
}

/// The doorbells of an opened device.
#[derive(Debug)]
pub(crate) struct Uars {
    channel: Arc<Channel>,
    config: UarConfig,
    pool: Arc<Mutex<Pool>>,
}

#[derive(Debug, Default)]
struct Pool {
    /// The context's fixed pages, as far as they were mapped.
    fixed: Vec<Option<Arc<Mapping>>>,
    /// For arming completion queues.
    plain: Option<Page>,
    /// Doorbells of a page taken for one, that nobody has yet.
    spare: Vec<(Page, usize)>,
    /// Dedicated doorbells that came back.
    free: Vec<(Page, usize)>,
    dedicated: u32,
    shared: Vec<Shared>,
}

#[derive(Debug)]
struct Shared {
    page: Page,
    place: usize,
    users: Arc<()>,
}

/// Takes a page of registers of its own from the kernel (`MLX5_IB_UAPI_UAR_ALLOC_TYPE_*`).
pub(crate) fn allocate(channel: &Arc<Channel>, kind: u32) -> Result<Page> {
    let op = Op::AllocUar;
    let handle: Cell<u32> = new_object_slot();
    let (mut offset, mut length, mut id) = (0_u64, 0_u32, 0_u32);
    channel.ioctl_only(op, || {
        let attrs = [
            Attr::new_object(MLX5_IB_ATTR_UAR_OBJ_ALLOC_HANDLE, &handle),
            Attr::constant(MLX5_IB_ATTR_UAR_OBJ_ALLOC_TYPE, kind),
            Attr::output(MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_OFFSET, cells(&mut offset)),
            Attr::output(MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_LENGTH, cells(&mut length)),
            Attr::output(MLX5_IB_ATTR_UAR_OBJ_ALLOC_PAGE_ID, cells(&mut id)),
        ];
        channel.ioctl(
            op,
            MLX5_IB_OBJECT_UAR,
            MLX5_IB_METHOD_UAR_OBJ_ALLOC,
            &attrs,
            &Uhw::NONE,
        )
    })?;
    let handle = new_object_handle(op, &handle)?;
    let object = Object::new(channel, KIND, handle, []);
    let memory = channel.map(offset, length as usize, Protection::Write)?;
    Ok(Page {
        memory: Arc::new(memory),
        id,
        object: Some(Arc::new(object)),
    })
}

fn lock(pool: &Mutex<Pool>) -> MutexGuard<'_, Pool> {
    pool.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Uars {
    pub(crate) fn new(channel: &Arc<Channel>, config: UarConfig) -> Self {
        Self {
            channel: Arc::clone(channel),
            config,
            pool: Arc::default(),
        }
    }

    /// A doorbell for a queue pair that is about to be created.
    ///
    /// # Errors
    /// No page left, those of mapping one.
    pub(crate) fn for_queue_pair(&self) -> Result<Doorbell> {
        if self.config.fixed != 0 {
            // The kernel chooses, and says so in its reply.
            let page = self.fixed(0)?;
            return Self::doorbell(&page, DOORBELLS, 0, Claim::Fixed);
        }
        let mut pool = lock(&self.pool);
        if let Some((page, place)) = pool.free.pop() {
            return self.dedicated(&page, place);
        }
        if pool.dedicated < self.config.dedicated {
            let (page, place) = self.take(&mut pool)?;
            pool.dedicated += 1;
            return self.dedicated(&page, place);
        }
        if pool.shared.len() < self.config.shared.max(1) as usize {
            let (page, place) = self.take(&mut pool)?;
            pool.shared.push(Shared {
                page,
                place,
                users: Arc::default(),
            });
        }
        let least = pool
            .shared
            .iter()
            .min_by_key(|shared| Arc::strong_count(&shared.users))
            .ok_or_else(|| Error::bad_reply(Op::AllocUar, "no doorbell"))?;
        let claim = Claim::Shared(Arc::clone(&least.users));
        Self::doorbell(&least.page, self.offset(least.place), 0, claim)
    }

    /// The doorbell of a queue pair that was created with `doorbell`, and got `index` in the kernel's reply.
    ///
    /// # Errors
    /// The kernel names a doorbell that there is not, those of mapping its page.
    pub(crate) fn resolve(&self, doorbell: Doorbell, index: u32) -> Result<Doorbell> {
        if self.config.fixed == 0 {
            return Ok(doorbell);
        }
        let op = Op::CreateQueuePair;
        if index >= self.config.fixed {
            return Err(Error::bad_reply(op, "doorbell"));
        }
        let place = index as usize % PER_UAR;
        let uar = index as usize / PER_UAR;
        let per_page = self.config.per_page.max(1) as usize;
        let page = self.fixed(uar / per_page)?;
        let offset = uar % per_page * UAR + DOORBELLS + place * self.distance();
        // The first is everybody's, and so are those before the low-latency ones.
        let shared = self.config.fixed.saturating_sub(self.config.dedicated);
        let exclusive = index != 0 && index / 2 + index % 2 >= shared;
        let buffer = if exclusive { self.buffer() } else { 0 };
        Self::doorbell(&page, offset, buffer, Claim::Fixed)
    }

    /// Where completion queues are armed, and the number of its page where the kernel has to be told.
    ///
    /// # Errors
    /// As [`for_queue_pair`](Self::for_queue_pair).
    pub(crate) fn for_completion_queues(&self) -> Result<(Register, Option<u32>)> {
        let mut pool = lock(&self.pool);
        if pool.plain.is_none() {
            match allocate(&self.channel, MLX5_IB_UAPI_UAR_ALLOC_TYPE_NC) {
                Ok(page) => pool.plain = Some(page),
                Err(_) if self.config.fixed != 0 => {
                    drop(pool);
                    let page = self.fixed(0)?;
                    return Ok((Self::register(&page, ARM, 8)?, None));
                }
                Err(error) => return Err(error),
            }
        }
        let Some(page) = &pool.plain else {
            return Err(Error::bad_reply(Op::AllocUar, "no page"));
        };
        Ok((Self::register(page, ARM, 8)?, Some(page.id)))
    }

    fn dedicated(&self, page: &Page, place: usize) -> Result<Doorbell> {
        let claim = Claim::Dedicated(Arc::clone(&self.pool), (page.clone(), place));
        Self::doorbell(page, self.offset(place), self.buffer(), claim)
    }

    /// A doorbell of a page, of a new one if none is left over.
    fn take(&self, pool: &mut Pool) -> Result<(Page, usize)> {
        if let Some(taken) = pool.spare.pop() {
            return Ok(taken);
        }
        let kind = if self.config.register_size == 0 {
            MLX5_IB_UAPI_UAR_ALLOC_TYPE_NC
        } else {
            MLX5_IB_UAPI_UAR_ALLOC_TYPE_BF
        };
        let page = allocate(&self.channel, kind)?;
        for place in (1..PER_UAR).rev() {
            pool.spare.push((page.clone(), place));
        }
        Ok((page, 0))
    }

    fn fixed(&self, index: usize) -> Result<Page> {
        let mut pool = lock(&self.pool);
        if pool.fixed.len() <= index {
            pool.fixed.resize(index + 1, None);
        }
        let memory = if let Some(Some(memory)) = pool.fixed.get(index) {
            Arc::clone(memory)
        } else {
            let size = page_size();
            let offset = (size as u64).saturating_mul(index as u64);
            let memory = Arc::new(self.channel.map(offset, size, Protection::Write)?);
            if let Some(slot) = pool.fixed.get_mut(index) {
                *slot = Some(Arc::clone(&memory));
            }
            memory
        };
        Ok(Page {
            memory,
            id: 0,
            object: None,
        })
    }

    fn distance(&self) -> usize {
        match self.config.register_size as usize {
            0 => PLAIN_DISTANCE,
            size => size,
        }
    }

    fn buffer(&self) -> usize {
        self.config.register_size as usize / 2
    }

    fn offset(&self, place: usize) -> usize {
        DOORBELLS + place * self.distance()
    }

    fn register(page: &Page, offset: usize, len: usize) -> Result<Register> {
        Register::new(Arc::clone(&page.memory), offset, len)
            .ok_or_else(|| Error::bad_reply(Op::AllocUar, "page of registers"))
    }

    fn doorbell(page: &Page, offset: usize, buffer: usize, claim: Claim) -> Result<Doorbell> {
        let len = buffer.max(8);
        Ok(Doorbell {
            buffers: [
                Self::register(page, offset, len)?,
                Self::register(page, offset + buffer, len)?,
            ],
            turn: 1,
            blocks: u32::try_from(buffer / 64).unwrap_or(0),
            page: page.id,
            object: page.object.clone(),
            claim,
        })
    }
}

fn page_size() -> usize {
    uverbs_driver::sys::page_size()
}

/// What happens to a doorbell when its queue pair is gone.
#[derive(Debug)]
enum Claim {
    /// It goes back to where it came from.
    Dedicated(Arc<Mutex<Pool>>, (Page, usize)),
    /// One user less.
    Shared(#[expect(dead_code, reason = "counts")] Arc<()>),
    /// The kernel keeps count.
    Fixed,
}

/// A doorbell of a send queue.
#[derive(Debug)]
pub(crate) struct Doorbell {
    /// Used in turn: a copy may still be on its way. The same one twice without BlueFlame.
    buffers: [Register; 2],
    turn: usize,
    /// Blocks of 64 bytes that may be copied through it.
    blocks: u32,
    page: u32,
    object: Option<Arc<Object>>,
    claim: Claim,
}

impl Doorbell {
    /// What the creation of a queue pair says about it (`MLX5_QP_FLAG_*`).
    pub(crate) fn qp_flags(&self) -> u32 {
        match self.claim {
            Claim::Fixed => 0,
            _ => MLX5_QP_FLAG_UAR_PAGE_INDEX,
        }
    }

    /// The number of its page, where [`qp_flags`](Self::qp_flags) announce it.
    pub(crate) fn qp_index(&self) -> u32 {
        self.page
    }

    /// The kernel object of its page, which a queue pair must not outlive.
    pub(crate) fn object(&self) -> Option<&Arc<Object>> {
        self.object.as_ref()
    }

    /// Blocks of 64 bytes that may be copied through it; 0: none.
    #[inline]
    pub(crate) fn blue_flame_blocks(&self) -> u32 {
        self.blocks
    }

    /// Rings: `word` is the start of the last request, as it lies in memory.
    #[inline]
    pub(crate) fn ring(&mut self, word: u64) {
        barrier::before_registers();
        self.next_buffer().store(word);
        barrier::flush_registers();
    }

    /// Rings by copying the `blocks` blocks from unit `first` of a ring on.
    #[inline]
    pub(crate) fn blue_flame(&mut self, ring: &UnitRing, first: u32, blocks: u32) {
        barrier::before_registers();
        self.next_buffer().copy_blocks(ring, first, blocks);
        barrier::flush_registers();
    }

    #[inline]
    fn next_buffer(&mut self) -> &Register {
        self.turn ^= 1;
        &self.buffers[self.turn & 1]
    }
}

impl Drop for Doorbell {
    fn drop(&mut self) {
        if let Claim::Dedicated(pool, place) = &self.claim {
            lock(pool).free.push(place.clone());
        }
    }
}

#[cfg(test)]
impl Doorbell {
    /// The first doorbell of a page that is only memory, with buffers of `blocks` blocks.
    pub(crate) fn for_tests(page: &Arc<Mapping>, blocks: u32) -> Self {
        let buffer = blocks as usize * 64;
        let register = |offset| Register::new(Arc::clone(page), offset, buffer.max(8)).unwrap();
        Self {
            buffers: [register(DOORBELLS), register(DOORBELLS + buffer)],
            turn: 1,
            blocks,
            page: 0,
            object: None,
            claim: Claim::Fixed,
        }
    }
}
