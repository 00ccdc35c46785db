//! Calls for which the caller has to guarantee something.
//!
//! # Safety
//!
//! Objects of these tests use pages that their registration keeps, or no memory at all.
#![allow(unsafe_code, reason = "creates objects whose memory is kept")]

use uverbs::mlx5::Adapter;
use uverbs::mlx5::devx::{Devx, DevxObject, Parent, Umem, UmemInit, UmemMemory};
use uverbs::mlx5::prm::Mailbox;
use uverbs::{AccessFlags, CompletionQueue, Result};

pub(super) fn create(devx: &Devx, command: &Mailbox, parents: Vec<Parent>) -> Result<DevxObject> {
    // SAFETY: the memory that the command names is registered pages, which `parents` keep.
    unsafe { devx.create(command, 16, parents) }
}

/// Registers addresses where nothing is mapped.
pub(super) fn register(devx: &Devx, address: u64, length: u64) -> Result<Umem> {
    let init = UmemInit {
        memory: UmemMemory::Process { address, length },
        access: AccessFlags::LOCAL_WRITE,
        page_sizes: None,
    };
    // SAFETY: there is no memory, so that nobody holds a reference to it.
    unsafe { devx.register(&init, ()) }
}

/// Changes how events of a completion queue are moderated.
pub(super) fn moderate(
    adapter: &Adapter,
    cq: &CompletionQueue,
    command: &Mailbox,
) -> Result<Mailbox> {
    // SAFETY: neither its memory nor its state changes.
    unsafe { adapter.modify_queue(cq, command, 16) }
}
