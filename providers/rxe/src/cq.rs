//! Completion queues: the kernel produces 48-byte completions, this side consumes them.

use std::sync::Arc;

use uverbs_core::contract::{self, ContextBase, CqInit, Unpolled};
use uverbs_core::hw::SharedRing;
#[cfg(feature = "rings")]
use uverbs_core::rings::{QueueKind, Watched};
use uverbs_core::sys::{ForkToken, Uhw, cells};
use uverbs_core::types::{RemoteKey, Timestamps, WcFlags, WcOpcode, WcStatus, WorkCompletion};
use uverbs_core::{Error, ErrorKind, Object, Op, PollError, Result, cmd};
use uverbs_uapi::ib_user_verbs::ib_uverbs_wc;
use uverbs_uapi::rdma_user_rxe::{rxe_create_cq_resp, rxe_resize_cq_resp};

use crate::limits::some_at_most;
use crate::queue;
#[cfg(feature = "rings")]
use crate::rings;

/// An rxe completion queue.
#[derive(Debug)]
pub struct CompletionQueue {
    object: Arc<Object>,
    /// `None` after a resize whose new ring could not be mapped, or whose outcome is unknown.
    ring: Option<SharedRing>,
    /// The next completion to take.
    head: u32,
    /// The producer index when it was last read.
    produced: u32,
    max_entries: u32,
    fork: ForkToken,
    unpolled: Option<&'static dyn Unpolled>,
    /// The observer of polled completions. The device has no numbers for completion queues, so
    /// entries carry the handle.
    #[cfg(feature = "rings")]
    watched: Option<Watched>,
}

/// The completions that are unpolled when the queue is destroyed. Kept with the kernel object,
/// since completions can arrive until it is destroyed.
struct UnpolledRest {
    ring: SharedRing,
    head: u32,
    fork: ForkToken,
    unpolled: &'static dyn Unpolled,
}

impl CompletionQueue {
    pub(crate) fn create(context: &ContextBase, init: &CqInit<'_>) -> Result<Self> {
        let op = Op::CreateCompletionQueue;
        let ContextBase { file, device, .. } = context;
        init.no_extra()?;
        init.no_memory()?;
        some_at_most(op, "entries", init.entries, device.max_cqe)?;
        if init.ignores_overrun {
            return Err(Error::new(op, ErrorKind::Unsupported)
                .fact("ignores_overrun", true)
                .hint("the kernel's driver checks for it"));
        }
        if init.timestamps != Timestamps::None {
            return Err(Error::new(op, ErrorKind::Unsupported).hint("the device has no clock"));
        }
        let mut reply = rxe_create_cq_resp::default();
        let create = cmd::cq::Create {
            vector: init.vector,
            comp_channel: init.comp_channel,
            ..cmd::cq::Create::new(init.entries, init.user_handle)
        };
        let created = cmd::cq::create(file, &create, &Uhw::new(&[], cells(&mut reply)))?;
        let object = Object::new(file, &cmd::cq::KIND, created.handle, []);
        let ring = queue::map(file, op, reply.mi, size_of::<ib_uverbs_wc>())?;
        Ok(Self {
            #[cfg(feature = "rings")]
            watched: file.watched(QueueKind::Completion, object.handle()),
            object: Arc::new(object),
            ring: Some(ring),
            head: 0,
            produced: 0,
            max_entries: device.max_cqe,
            fork: file.fork_token(),
            unpolled: init.unpolled,
        })
    }

    /// How many completions are in the queue; 0 if that is unknown.
    fn waiting(&self) -> u32 {
        self.ring.as_ref().map_or(0, |ring| {
            let produced = ring.producer().unwrap_or(self.head);
            produced.wrapping_sub(self.head) & ring.mask()
        })
    }
}

impl contract::Cq for CompletionQueue {
    fn object(&self) -> &Arc<Object> {
        &self.object
    }

    fn entries(&self) -> u32 {
        self.ring.as_ref().map_or(0, SharedRing::mask)
    }

    #[inline]
    fn next(&mut self) -> Result<Option<WorkCompletion>, PollError> {
        // A forked child has no mapping of the ring.
        if !self.fork.is_current() {
            return Err(PollError::Forked);
        }
        let Some(ring) = &self.ring else {
            return Err(PollError::Poisoned);
        };
        if self.head == self.produced {
            self.produced = ring.producer().ok_or(PollError::Corrupt)?;
            if self.head == self.produced {
                return Ok(None);
            }
        }
        let entry = ring
            .read::<ib_uverbs_wc>(self.head)
            .ok_or(PollError::Corrupt)?;
        #[cfg(feature = "rings")]
        if let Some(queue) = &self.watched {
            rings::completion(queue, self.head, &entry);
        }
        self.head = ring.next(self.head);
        Ok(Some(completion(&entry)))
    }

    #[inline]
    fn release(&mut self) {
        if let Some(ring) = &self.ring {
            ring.release(self.head);
        }
    }

    /// What stays moves towards the newest entries: the kernel fills the ring behind these.
    fn forget(&mut self, qp_num: u32) {
        if !self.fork.is_current() {
            return;
        }
        let Some(ring) = &self.ring else { return };
        let Some(produced) = ring.producer() else {
            return;
        };
        let before = |index: u32| index.wrapping_sub(1) & ring.mask();
        let (mut from, mut to) = (produced, produced);
        while from != self.head {
            from = before(from);
            let Some(entry) = ring.read::<ib_uverbs_wc>(from) else {
                return;
            };
            if entry.qp_num == qp_num {
                continue;
            }
            to = before(to);
            if to != from {
                ring.put(to, 0, &entry);
            }
        }
        self.head = to;
        self.produced = produced;
        self.release();
    }

    fn arm(&mut self, solicited_only: bool) -> Result<()> {
        let op = Op::RequestNotification;
        self.object.file().check_process(op)?;
        cmd::cq::request_notify(self.object.file(), self.object.handle(), solicited_only)
            .map_err(|errno| Error::os(op, errno))
    }

    /// The kernel moves unpolled completions to a new ring, which replaces the mapped one.
    fn resize(&mut self, entries: u32) -> Result<()> {
        let op = Op::ResizeCompletionQueue;
        some_at_most(op, "entries", entries, self.max_entries)?;
        // A forked child has no mapping of the ring.
        self.object.file().check_process(op)?;
        self.release();
        let waiting = self.waiting();
        if entries < waiting {
            return Err(Error::invalid(op, "entries")
                .fact("requested", entries)
                .fact("waiting", waiting));
        }
        let file = self.object.file();
        let mut reply = rxe_resize_cq_resp::default();
        // From here on the kernel no longer uses the old ring, unless it refuses the command.
        let old = self.ring.take();
        let uhw = Uhw::new(&[], cells(&mut reply));
        if let Err(error) = cmd::cq::resize(file, self.object.handle(), entries, &uhw) {
            if !error.outcome_is_unknown() {
                self.ring = old;
            }
            return Err(error);
        }
        drop(old);
        let ring = queue::map(file, op, reply.mi, size_of::<ib_uverbs_wc>())?;
        self.head = ring
            .consumer()
            .ok_or_else(|| Error::bad_reply(op, "consumer index"))?;
        self.produced = self.head;
        self.ring = Some(ring);
        Ok(())
    }
}

impl Drop for CompletionQueue {
    fn drop(&mut self) {
        if let (Some(ring), Some(unpolled)) = (self.ring.take(), self.unpolled.take()) {
            self.object.keep(UnpolledRest {
                ring,
                head: self.head,
                fork: self.fork,
                unpolled,
            });
        }
    }
}

impl Drop for UnpolledRest {
    fn drop(&mut self) {
        // A forked child has no mapping of the ring.
        if !self.fork.is_current() {
            return;
        }
        let Some(produced) = self.ring.producer() else {
            return;
        };
        // The index is inside the ring, so the loop terminates.
        while self.head != produced {
            let Some(entry) = self.ring.read::<ib_uverbs_wc>(self.head) else {
                return;
            };
            self.unpolled.completed(entry.wr_id);
            self.head = self.ring.next(self.head);
        }
    }
}

fn completion(entry: &ib_uverbs_wc) -> WorkCompletion {
    let flags = WcFlags::from_bits_retain(entry.wc_flags);
    WorkCompletion {
        wr_id: entry.wr_id,
        status: WcStatus::from_raw(entry.status),
        opcode: WcOpcode::from_raw(entry.opcode),
        vendor_err: entry.vendor_err,
        byte_len: entry.byte_len,
        imm: flags
            .contains(WcFlags::WITH_IMM)
            .then(|| entry.ex.imm_data().get()),
        invalidated: flags
            .contains(WcFlags::WITH_INVALIDATE)
            .then(|| RemoteKey::from_raw(entry.ex.invalidate_rkey())),
        qp_num: entry.qp_num,
        src_qp: entry.src_qp,
        flags,
        pkey_index: entry.pkey_index,
        slid: entry.slid,
        sl: entry.sl,
        dlid_path_bits: entry.dlid_path_bits,
    }
}
