//! Functions of the program that allocate the memory of queues.
//!
//! # Safety
//!
//! Calls functions that a C program passed with a parent domain, or for a device: they do what the
//! header says, and what they return is theirs until it is freed, at its address, and not used
//! otherwise.
#![allow(unsafe_code, reason = "calls functions of the C program")]

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::fmt;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use uverbs_core::Errno;
use uverbs_core::discover::fork::Registration;
use uverbs_core::hw::{QueueBuffer, QueueMemory};

use crate::abi::{Alloc, Free, ibv_pd};
use crate::fork;

/// `IBV_ALLOCATOR_USE_DEFAULT`.
const USE_DEFAULT: usize = usize::MAX;

/// `mlx5dv_ctx_allocators`: functions for all queues of a device.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct OfDevice {
    pub(crate) alloc: Option<AllocOfDevice>,
    pub(crate) free: Option<FreeOfDevice>,
    pub(crate) data: *mut c_void,
}

type AllocOfDevice = extern "C" fn(usize, *mut c_void) -> *mut c_void;
type FreeOfDevice = extern "C" fn(*mut c_void, *mut c_void);

/// What is called.
enum Functions {
    Domain(Alloc, Free),
    Device(AllocOfDevice, FreeOfDevice),
}

/// The functions of a parent domain, or of a device.
pub(crate) struct Allocator {
    functions: Functions,
    /// The domain; set before anything is created in it.
    pub(crate) domain: AtomicPtr<ibv_pd>,
    context: AtomicPtr<c_void>,
    /// What is left out of children, where that was asked for, by its address.
    left_out: Mutex<BTreeMap<usize, Registration>>,
}

impl Allocator {
    pub(crate) fn new(alloc: Alloc, free: Free, context: *mut c_void) -> Self {
        Self::of(Functions::Domain(alloc, free), context)
    }

    /// Those of a device, if there are both.
    pub(crate) fn of_device(functions: &OfDevice) -> Option<Self> {
        let functions_of = Functions::Device(functions.alloc?, functions.free?);
        Some(Self::of(functions_of, functions.data))
    }

    fn of(functions: Functions, context: *mut c_void) -> Self {
        Self {
            functions,
            domain: AtomicPtr::default(),
            context: AtomicPtr::new(context),
            left_out: Mutex::default(),
        }
    }

    fn left_out(&self) -> MutexGuard<'_, BTreeMap<usize, Registration>> {
        // Nothing panics while it is held.
        self.left_out.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn call_alloc(&self, len: usize, align: usize, buffer: QueueBuffer) -> *mut c_void {
        let context = self.context.load(Ordering::Acquire);
        match self.functions {
            Functions::Domain(alloc, _) => {
                let domain = self.domain.load(Ordering::Acquire);
                alloc(domain, context, len, align, resource(buffer))
            }
            Functions::Device(alloc, _) => alloc(len, context),
        }
    }

    fn call_free(&self, start: *mut c_void, buffer: QueueBuffer) {
        let context = self.context.load(Ordering::Acquire);
        match self.functions {
            Functions::Domain(_, free) => {
                let domain = self.domain.load(Ordering::Acquire);
                free(domain, context, start, resource(buffer));
            }
            Functions::Device(_, free) => free(start, context),
        }
    }
}

impl fmt::Debug for Allocator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Allocator").finish_non_exhaustive()
    }
}

/// `MLX5DV_RES_TYPE_QP`, `…_RWQ`, `…_SRQ`, `…_CQ`.
fn resource(buffer: QueueBuffer) -> u64 {
    let number = match buffer {
        QueueBuffer::WorkQueue => 2,
        QueueBuffer::SharedReceiveQueue => 4,
        QueueBuffer::CompletionQueue => 5,
        _ => 1,
    };
    1 << 32 | number
}

// SAFETY: what the header says of the program's functions; see the module.
unsafe impl QueueMemory for Allocator {
    fn allocate(
        &self,
        len: usize,
        align: usize,
        buffer: QueueBuffer,
    ) -> Result<Option<NonNull<u8>>, Errno> {
        let start = self.call_alloc(len, align, buffer);
        if start.addr() == USE_DEFAULT && matches!(self.functions, Functions::Domain(..)) {
            return Ok(None);
        }
        let start = NonNull::new(start.cast::<u8>()).ok_or(Errno::NOMEM)?;
        // Those of a device are not told.
        if !start.addr().get().is_multiple_of(align) {
            self.call_free(start.as_ptr().cast(), buffer);
            return Err(Errno::INVAL);
        }
        let Ok(left_out) = fork::protect(start.addr().get(), len) else {
            self.free(start, len, buffer);
            return Err(Errno::NOMEM);
        };
        let left_out = left_out.map(|left_out| (start.addr().get(), left_out));
        self.left_out().extend(left_out);
        Ok(Some(start))
    }

    fn free(&self, start: NonNull<u8>, _len: usize, buffer: QueueBuffer) {
        drop(self.left_out().remove(&start.addr().get()));
        self.call_free(start.as_ptr().cast(), buffer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    extern "C" fn alloc(
        domain: *mut ibv_pd,
        context: *mut c_void,
        len: usize,
        align: usize,
        resource: u64,
    ) -> *mut c_void {
        assert_eq!((domain.addr(), align), (8, 4096));
        match (context.addr(), len) {
            (_, 1) => std::ptr::null_mut(),
            (_, 2) => std::ptr::without_provenance_mut(USE_DEFAULT),
            (_, 3) => std::ptr::without_provenance_mut((resource & 0xff) as usize * 4096),
            _ => context,
        }
    }

    extern "C" fn free(_: *mut ibv_pd, context: *mut c_void, start: *mut c_void, resource: u64) {
        assert_eq!((context, resource), (start, 1 << 32 | 1));
    }

    #[test]
    fn answers_of_the_programs_functions() {
        let memory = Allocator::new(alloc, free, std::ptr::without_provenance_mut(0x5000));
        let domain = std::ptr::without_provenance_mut(8);
        memory.domain.store(domain, Ordering::Release);
        let of = |len, buffer| {
            let start = memory.allocate(len, 4096, buffer);
            start.map(|start| start.map(|start| start.addr().get()))
        };
        assert_eq!(of(1, QueueBuffer::QueuePair), Err(Errno::NOMEM));
        assert_eq!(of(2, QueueBuffer::QueuePair), Ok(None));
        for (buffer, number) in [
            (QueueBuffer::QueuePair, 1),
            (QueueBuffer::WorkQueue, 2),
            (QueueBuffer::SharedReceiveQueue, 4),
            (QueueBuffer::CompletionQueue, 5),
        ] {
            assert_eq!(of(3, buffer), Ok(Some(number * 4096)));
        }
        let start = memory.allocate(4, 4096, QueueBuffer::QueuePair);
        memory.free(start.unwrap().unwrap(), 4, QueueBuffer::QueuePair);
    }

    extern "C" fn alloc_of_device(len: usize, data: *mut c_void) -> *mut c_void {
        data.wrapping_byte_add(len)
    }

    extern "C" fn free_of_device(start: *mut c_void, data: *mut c_void) {
        assert!(start.addr() > data.addr());
    }

    #[test]
    fn functions_of_a_device_know_only_sizes() {
        let mut functions = OfDevice {
            alloc: Some(alloc_of_device),
            free: Some(free_of_device),
            data: std::ptr::without_provenance_mut(0x5000),
        };
        let memory = Allocator::of_device(&functions).unwrap();
        let of = |len| {
            let start = memory.allocate(len, 4096, QueueBuffer::CompletionQueue);
            start.map(|start| start.map(|start| start.addr().get()))
        };
        assert_eq!(of(0x1000), Ok(Some(0x6000)));
        assert_eq!(of(0x800), Err(Errno::INVAL));
        let start = NonNull::without_provenance(0x6000.try_into().unwrap());
        memory.free(start, 0x1000, QueueBuffer::CompletionQueue);
        functions.free = None;
        assert!(Allocator::of_device(&functions).is_none());
    }
}
