//! An id of the kernel that somebody owns.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use uverbs_core::cm::{self, CmFile, Event, PortSpace};
use uverbs_core::types::QpType;
use uverbs_core::{Op, Result};

use super::channel::Channel;
use super::table::Takes;

/// Owns an id. Dropping it destroys the id; events that are under way become stale.
#[derive(Debug)]
pub(crate) struct Handle {
    channel: Arc<Channel>,
    id: u32,
    /// What its events carry; 0 for a request that is not accepted.
    number: AtomicU64,
    /// Whether the kernel may have to wait before it can destroy it.
    may_block: AtomicBool,
}

impl Handle {
    /// `rdma_create_id`.
    pub(super) fn create(channel: &Arc<Channel>, space: PortSpace, takes: Takes) -> Result<Self> {
        let number = channel.reserve(Op::CmCreateId, takes)?;
        let kind = match space {
            PortSpace::Tcp | PortSpace::Ib => QpType::Rc,
            _ => QpType::Ud,
        };
        match cm::create_id(channel.file(), number, space, kind) {
            Ok(id) => Ok(Self {
                channel: Arc::clone(channel),
                id,
                number: AtomicU64::new(number),
                may_block: AtomicBool::new(false),
            }),
            Err(error) => {
                channel.release(number);
                Err(error)
            }
        }
    }

    /// Owns the id of a request.
    pub(super) fn of_request(channel: &Arc<Channel>, id: u32) -> Self {
        Self {
            channel: Arc::clone(channel),
            id,
            number: AtomicU64::new(0),
            may_block: AtomicBool::new(true),
        }
    }

    /// The number that its events carry; one of its own from now on, if it had none.
    pub(super) fn numbered(&self, takes: Takes) -> Result<u64> {
        match self.number() {
            0 => {
                let number = self.channel.reserve(Op::CmAccept, takes)?;
                self.number.store(number, Ordering::Release);
                Ok(number)
            }
            number => Ok(number),
        }
    }

    pub(crate) fn number(&self) -> u64 {
        self.number.load(Ordering::Acquire)
    }

    pub(super) fn id(&self) -> u32 {
        self.id
    }

    pub(super) fn file(&self) -> &CmFile {
        self.channel.file()
    }

    pub(crate) fn channel(&self) -> &Arc<Channel> {
        &self.channel
    }

    /// Messages of it may be under way from now on.
    pub(super) fn may_block(&self) {
        self.may_block.store(true, Ordering::Release);
    }

    /// The channel that has to destroy it on another thread, if it may block. It is destroyed by
    /// whoever drops it, from now on.
    pub(super) fn elsewhere(&self) -> Option<Arc<Channel>> {
        let is_ours = self.file().check_process(Op::CmDestroyId).is_ok();
        let blocks = is_ours && self.may_block.swap(false, Ordering::AcqRel);
        blocks.then(|| Arc::clone(&self.channel))
    }

    /// Waits for its next event.
    pub(super) fn wait(&self, deadline: Option<Instant>) -> Result<Option<Event>> {
        let number = self.number();
        self.channel.wait_for(deadline, |table| table.take(number))
    }

    /// Its next event, if there is one.
    pub(super) fn look(&self) -> Result<Option<Event>> {
        let number = self.number();
        self.channel.look(|table| table.take(number))
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // In a child it is the parent's, and so may be the lock.
        if self.file().check_process(Op::CmDestroyId).is_err() {
            return;
        }
        let number = self.number();
        if number != 0 {
            self.channel.release(number);
        }
        if self.may_block.load(Ordering::Acquire) {
            self.channel.reap(self.id);
        } else {
            self.channel.destroy(self.id);
        }
    }
}
