//! The supply of doorbells of an opened device, as the kernel hands them out.
//!
//! Where the kernel hands out pages one by one (`UAR_OBJ_ALLOC`, 5.7), they are allocated as they
//! are needed. Older kernels give the context a fixed number of pages, and name the doorbell of a
//! queue pair at its creation. A page then has four doorbells, of which send queues use the first
//! two.

use std::sync::{Arc, Mutex};

use uverbs_core::hw::Register;
use uverbs_core::sys::Protection;
use uverbs_core::{Error, ErrorKind, Op, Result, UverbsFile};
use uverbs_uapi::mlx5_abi::MLX5_IB_MMAP_ALLOC_WC;
use uverbs_uapi::mlx5_user_ioctl_verbs::{
    MLX5_IB_UAPI_UAR_ALLOC_TYPE_BF, MLX5_IB_UAPI_UAR_ALLOC_TYPE_NC,
};

use super::Doorbell;
use super::pool::{COPIED, Claim, ExtraPage, Naming, Pool, RUNG, Registers, Shared, ThreadPage};
use super::uar::{DOORBELLS, Page, allocate};
use crate::mmap;

/// Bytes of a page of registers, whatever the machine's page size.
const UAR: usize = 4096;
/// Doorbells of a page that send queues may use (`MLX5_NON_FP_BFREGS_PER_UAR`).
pub(crate) const PER_UAR: usize = 2;
/// Doorbells of a page by the kernel's numbering, where it chooses (`MLX5_BFREGS_PER_UAR`).
const NUMBERED: usize = 4;
/// The largest number of register pages in a page of the machine: 64 KiB of them.
const MOST_PER_PAGE: usize = 16;
/// The register that arms completion queues.
const ARM: usize = 0x20;
/// Distance of doorbells in a page without BlueFlame.
const PLAIN_DISTANCE: usize = 0x100;

/// Which doorbells an opened device has.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Doorbells {
    /// Pages of registers are allocated one by one as they are needed, where the kernel supports
    /// this (5.7); otherwise as below.
    #[default]
    AsNeeded,
    /// A fixed number of doorbells is allocated with the context, from which the kernel chooses one
    /// for each queue pair: the only way on kernels before 5.7, which newer ones still support.
    Fixed,
}

/// How pages are obtained and what they support.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UarConfig {
    /// Doorbells that were allocated with the context; 0 where pages are allocated one by one.
    pub(crate) fixed: u32,
    /// Pages of registers in a page of the machine.
    pub(crate) per_page: u32,
    /// Bytes of a doorbell with both its buffers; 0: no BlueFlame.
    pub(crate) register_size: u32,
    /// Queue pairs that get a doorbell of their own.
    pub(crate) dedicated: u32,
    /// Doorbells that the other queue pairs share, two on a page of registers.
    pub(crate) shared: u32,
    /// With fixed doorbells: how many more can be mapped, one page at a time.
    pub(crate) extra: u32,
}

/// The doorbells of an opened device.
#[derive(Debug)]
pub(crate) struct Uars {
    file: Arc<UverbsFile>,
    config: UarConfig,
    pool: Arc<Mutex<Pool>>,
}

impl Uars {
    pub(crate) fn new(file: &Arc<UverbsFile>, config: UarConfig) -> Self {
        Self {
            file: Arc::clone(file),
            config,
            pool: Arc::default(),
        }
    }

    /// A doorbell for a queue pair that is about to be created.
    ///
    /// # Errors
    /// No page left, or the error of mapping one.
    pub(crate) fn for_queue_pair(&self) -> Result<Doorbell> {
        if self.config.fixed != 0 {
            // The kernel chooses, and names it in its reply.
            let page = self.fixed(0)?;
            return self.doorbell(&page, 0, 0, Claim::None);
        }
        let mut pool = Pool::lock(&self.pool);
        if let Some((page, place)) = pool.free.pop() {
            return self.dedicated(&page, place);
        }
        if pool.dedicated < self.config.dedicated {
            let (page, place) = self.take(&mut pool)?;
            pool.dedicated += 1;
            return self.dedicated(&page, place);
        }
        if pool.shared.len() < (self.config.shared as usize / PER_UAR).max(1) {
            let (page, uar) = self.take_uar(&mut pool)?;
            let copied = Self::buffers(&page, self.offset_in(uar, COPIED), self.buffer())?;
            pool.shared.push(Shared {
                plain: Self::register(&page, self.offset_in(uar, RUNG), 8)?,
                registers: Arc::new(Registers::new(copied, None)),
                naming: Self::naming(&page, uar),
                object: page.object,
                users: Arc::default(),
            });
        }
        let least = pool
            .shared
            .iter()
            .min_by_key(|shared| Arc::strong_count(&shared.users))
            .ok_or_else(|| Error::bad_reply(Op::AllocUar, "no doorbell"))?;
        let (plain, object) = (least.plain.clone(), least.object.clone());
        let doorbell = Doorbell::of_thread(plain, &least.registers, least.naming, object);
        Ok(doorbell.shared_by(&least.users))
    }

    /// The doorbell of a queue pair that was created with `doorbell`, for which the kernel's reply
    /// names `index`.
    ///
    /// # Errors
    /// The kernel names a doorbell that does not exist, or mapping its page fails.
    pub(crate) fn resolve(&self, doorbell: Doorbell, index: u32) -> Result<Doorbell> {
        if !doorbell.is_kernels_choice() {
            return Ok(doorbell);
        }
        let (uar, place) = (index as usize / NUMBERED, index as usize % NUMBERED);
        // Its number among those that send queues may use.
        let number = uar * PER_UAR + place;
        let fixed = self.config.fixed as usize;
        if place >= PER_UAR || number >= fixed {
            return Err(Error::bad_reply(Op::CreateQueuePair, "doorbell").fact("index", index));
        }
        let per_page = self.config.per_page.max(1) as usize;
        let page = self.fixed(uar / per_page)?;
        let place = uar % per_page * PER_UAR + place;
        // The first is shared by all, and so are those before the low-latency ones.
        let shared = fixed.saturating_sub(self.config.dedicated as usize);
        let exclusive = number != 0 && number >= shared;
        let buffer = if exclusive { self.buffer() } else { 0 };
        self.doorbell(&page, place, buffer, Claim::None)
    }

    /// The register for arming completion queues, and the number of its page if the kernel has to
    /// be told.
    ///
    /// # Errors
    /// As [`for_queue_pair`](Self::for_queue_pair).
    pub(crate) fn for_completion_queues(&self) -> Result<(Register, Option<u32>)> {
        let mut pool = Pool::lock(&self.pool);
        if pool.plain.is_none() {
            match allocate(&self.file, MLX5_IB_UAPI_UAR_ALLOC_TYPE_NC) {
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

    /// A page for a thread domain alone.
    ///
    /// # Errors
    /// No page left, or the error of mapping one. [`ErrorKind::Unsupported`] where the kernel gave
    /// fixed doorbells and no more.
    pub(crate) fn for_thread(&self) -> Result<ThreadPage> {
        if self.config.fixed == 0 {
            let page = self.allocate()?;
            return Ok(ThreadPage {
                naming: Naming::Page(page.id),
                page,
                extra: None,
            });
        }
        let extra = self.extra_page()?;
        let page = Page {
            memory: Arc::clone(&extra.memory),
            id: 0,
            object: None,
        };
        Ok(ThreadPage {
            naming: Naming::Index(extra.index.saturating_mul(self.per_extra())),
            page,
            extra: Some((Arc::clone(&self.pool), extra)),
        })
    }

    /// The registers of a slot on such a page.
    pub(crate) fn registers_of(&self, page: &Page, place: usize) -> Result<[Register; 2]> {
        Self::buffers(page, self.offset(place), self.buffer())
    }

    /// Doorbells on a page beyond the fixed ones.
    fn per_extra(&self) -> u32 {
        self.config.per_page.max(1).saturating_mul(2)
    }

    fn extra_page(&self) -> Result<ExtraPage> {
        let op = Op::AllocUar;
        let mut pool = Pool::lock(&self.pool);
        if let Some(page) = pool.extra.pop() {
            return Ok(page);
        }
        let most = self.config.extra / self.per_extra();
        let index = pool.extra_taken;
        if self.config.register_size == 0 || most == 0 {
            return Err(Error::new(op, ErrorKind::Unsupported)
                .hint("the kernel maps no doorbells beyond those of the context"));
        }
        if index >= most {
            return Err(Error::limit(op, "pages", (index + 1).into(), most.into()));
        }
        let memory = self.file.map(
            mmap::offset(MLX5_IB_MMAP_ALLOC_WC, index),
            page_size(),
            Protection::Write,
        )?;
        pool.extra_taken += 1;
        Ok(ExtraPage {
            memory: Arc::new(memory),
            index,
        })
    }

    fn dedicated(&self, page: &Page, place: usize) -> Result<Doorbell> {
        let claim = Claim::Dedicated(Arc::clone(&self.pool), (page.clone(), place));
        self.doorbell(page, place, self.buffer(), claim)
    }

    /// A doorbell of a page, which is a new page if no doorbell is left over.
    fn take(&self, pool: &mut Pool) -> Result<(Page, usize)> {
        if let Some(taken) = pool.half.take() {
            return Ok(taken);
        }
        let (page, place) = self.take_uar(pool)?;
        pool.half = Some((page.clone(), place + 1));
        Ok((page, place))
    }

    /// Both doorbells of a page of registers: returns the slot of the first.
    fn take_uar(&self, pool: &mut Pool) -> Result<(Page, usize)> {
        if let Some(taken) = pool.spare.pop() {
            return Ok(taken);
        }
        let page = self.allocate()?;
        let mapped = page.memory.len() / UAR;
        let uars = (self.config.per_page as usize)
            .min(mapped)
            .min(MOST_PER_PAGE);
        for uar in (1..uars.max(1)).rev() {
            pool.spare.push((page.clone(), uar * PER_UAR));
        }
        Ok((page, 0))
    }

    /// A new page: with BlueFlame, where the device supports it.
    fn allocate(&self) -> Result<Page> {
        let kind = if self.config.register_size == 0 {
            MLX5_IB_UAPI_UAR_ALLOC_TYPE_NC
        } else {
            MLX5_IB_UAPI_UAR_ALLOC_TYPE_BF
        };
        allocate(&self.file, kind)
    }

    fn fixed(&self, index: usize) -> Result<Page> {
        let mut pool = Pool::lock(&self.pool);
        if pool.fixed.len() <= index {
            pool.fixed.resize(index + 1, None);
        }
        let memory = if let Some(Some(memory)) = pool.fixed.get(index) {
            Arc::clone(memory)
        } else {
            let size = page_size();
            let offset = (size as u64).saturating_mul(index as u64);
            let memory = Arc::new(self.file.map(offset, size, Protection::Write)?);
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

    /// Where one of the doorbells of the page is that begins with doorbell `first`.
    fn offset_in(&self, first: usize, doorbell: usize) -> usize {
        self.offset(first + doorbell)
    }

    fn offset(&self, place: usize) -> usize {
        place / PER_UAR * UAR + DOORBELLS + place % PER_UAR * self.distance()
    }

    fn register(page: &Page, offset: usize, len: usize) -> Result<Register> {
        Register::new(Arc::clone(&page.memory), offset, len)
            .ok_or_else(|| Error::bad_reply(Op::AllocUar, "page of registers"))
    }

    fn doorbell(&self, page: &Page, place: usize, buffer: usize, claim: Claim) -> Result<Doorbell> {
        let naming = Self::naming(page, place);
        let buffers = Self::buffers(page, self.offset(place), buffer)?;
        Ok(Doorbell::new(buffers, naming, page.object.clone(), claim))
    }

    /// The pages of registers in one page that the kernel handed out have consecutive numbers.
    fn naming(page: &Page, place: usize) -> Naming {
        let uar = u32::try_from(place / PER_UAR).unwrap_or(0);
        match page.object {
            Some(_) => Naming::Page(page.id.wrapping_add(uar)),
            None => Naming::Kernel,
        }
    }

    /// Both buffers of a doorbell; the same one twice without BlueFlame.
    fn buffers(page: &Page, offset: usize, buffer: usize) -> Result<[Register; 2]> {
        let len = buffer.max(8);
        Ok([
            Self::register(page, offset, len)?,
            Self::register(page, offset + buffer, len)?,
        ])
    }
}

fn page_size() -> usize {
    uverbs_core::sys::page_size()
}

#[cfg(test)]
mod tests;
