//! Shared receive queues.

use std::sync::Arc;

use uverbs_core::contract::{self, ContextBase, SrqInit};
#[cfg(feature = "rings")]
use uverbs_core::rings::QueueKind;
use uverbs_core::sys::{Pointer, Uhw, cells};
use uverbs_core::types::{RecvRequest, SrqAttr, SrqModify, SrqType};
use uverbs_core::{Error, ErrorKind, Object, Op, PostError, Result, cmd};
use uverbs_uapi::rdma_user_rxe::{mminfo, rxe_create_srq_resp, rxe_modify_srq_cmd};
use zerocopy::IntoBytes;

use crate::limits::some_at_most;
use crate::queue;
use crate::rq::ReceiveRing;

/// An rxe shared receive queue.
#[derive(Debug)]
pub struct SharedReceiveQueue {
    object: Arc<Object>,
    /// `None` after a resize whose new ring could not be mapped, or whose outcome is unknown.
    ring: Option<ReceiveRing>,
    number: u32,
    max_sge: u32,
    max_wr: u32,
}

impl SharedReceiveQueue {
    pub(crate) fn create(context: &ContextBase, pd: &Arc<Object>, init: &SrqInit) -> Result<Self> {
        let op = Op::CreateSharedReceiveQueue;
        let ContextBase { file, device, .. } = context;
        init.check()?;
        if init.kind != SrqType::Basic {
            return Err(Error::new(op, ErrorKind::Unsupported).fact("type", init.kind.to_string()));
        }
        let attr = init.attr;
        some_at_most(op, "max_wr", attr.max_wr, device.max_srq_wr)?;
        some_at_most(op, "max_sge", attr.max_sge, device.max_srq_sge)?;
        Error::at_most(op, "limit", attr.limit, attr.max_wr)?;
        let mut reply = rxe_create_srq_resp::default();
        let create = cmd::srq::Create {
            pd: pd.handle(),
            kind: cmd::srq::Kind::Basic,
            max_wr: attr.max_wr,
            max_sge: attr.max_sge,
            limit: attr.limit,
            user_handle: init.user_handle,
            event_fd: None,
        };
        let created = cmd::srq::create(file, &create, &Uhw::new(&[], cells(&mut reply)))?;
        let object = Object::new(file, &cmd::srq::KIND, created.handle, [Arc::clone(pd)]);
        let mut queue = Self {
            object: Arc::new(object),
            ring: None,
            number: reply.srq_num,
            max_sge: created.max_sge,
            max_wr: device.max_srq_wr,
        };
        queue.map(op, reply.mi)?;
        Ok(queue)
    }

    fn map(&mut self, op: Op, info: mminfo) -> Result<()> {
        let file = self.object.file();
        let ring = queue::map(file, op, info, ReceiveRing::slot_size(self.max_sge))?;
        self.ring = ReceiveRing::new(ring, self.max_sge, file.fork_token());
        #[cfg(feature = "rings")]
        if let Some(ring) = self.ring.take() {
            let watched = file.watched(QueueKind::SharedReceive, self.number);
            self.ring = Some(ring.watched(watched));
        }
        match self.ring {
            Some(_) => Ok(()),
            None => Err(Error::bad_reply(op, "producer index")),
        }
    }

    fn check(&self, change: &SrqModify) -> Result<()> {
        let op = Op::ModifySharedReceiveQueue;
        let size = self.ring.as_ref().map_or(0, ReceiveRing::capacity);
        if let Some(max_wr) = change.max_wr {
            some_at_most(op, "max_wr", max_wr, self.max_wr)?;
            self.object.file().check_process(op)?;
            let waiting = self.ring.as_ref().map_or(0, ReceiveRing::waiting);
            if max_wr < waiting {
                return Err(Error::invalid(op, "max_wr")
                    .fact("requested", max_wr)
                    .fact("waiting", waiting));
            }
            // The kernel compares with the armed limit even if a new one is given. The event that
            // disarms it is not visible here.
            let mut armed = change.limit.unwrap_or(0);
            if max_wr < size {
                armed = armed.max(contract::Srq::query(self)?.limit);
            }
            if max_wr < armed {
                return Err(Error::invalid(op, "max_wr")
                    .fact("requested", max_wr)
                    .fact("limit", armed));
            }
        }
        if let Some(limit) = change.limit {
            Error::at_most(op, "limit", limit, size)?;
        }
        Ok(())
    }
}

impl contract::Srq for SharedReceiveQueue {
    fn object(&self) -> &Arc<Object> {
        &self.object
    }

    fn object_mut(&mut self) -> &mut Arc<Object> {
        &mut self.object
    }

    fn size(&self) -> SrqAttr {
        SrqAttr {
            max_wr: self.ring.as_ref().map_or(0, ReceiveRing::capacity),
            max_sge: self.max_sge,
            limit: 0,
        }
    }

    fn number(&self) -> u32 {
        self.number
    }

    /// The kernel checks every attribute before it applies any; a resize moves the waiting requests
    /// to a new ring, which replaces the mapped one.
    fn modify(&mut self, change: &SrqModify) -> Result<()> {
        let op = Op::ModifySharedReceiveQueue;
        self.check(change)?;
        if let Some(ring) = &mut self.ring {
            ring.abort();
        }
        let mut info = mminfo::default();
        let request = rxe_modify_srq_cmd::default();
        let uhw = Uhw {
            input: request.as_bytes(),
            pointer: Some(Pointer {
                offset: std::mem::offset_of!(rxe_modify_srq_cmd, mmap_info_addr),
                buffer: cells(&mut info),
            }),
            ..Uhw::NONE
        };
        let file = self.object.file();
        if change.max_wr.is_none() {
            return cmd::srq::modify(file, self.object.handle(), change, &uhw);
        }
        // From here on the kernel no longer uses the old ring, unless it refuses the command.
        let old = self.ring.take();
        if let Err(error) = cmd::srq::modify(file, self.object.handle(), change, &uhw) {
            if !error.outcome_is_unknown() {
                self.ring = old;
            }
            return Err(error);
        }
        drop(old);
        self.map(op, info)
    }

    fn query(&self) -> Result<SrqAttr> {
        cmd::srq::query(self.object.file(), self.object.handle())
    }

    #[expect(unsafe_code, reason = "forwards its safety contract")]
    #[inline]
    unsafe fn put(&mut self, request: &RecvRequest<'_>) -> Result<(), PostError> {
        self.ring.as_mut().ok_or(PostError::Poisoned)?.put(request)
    }

    #[inline]
    fn submit(&mut self) -> Result<(), PostError> {
        self.ring.as_mut().ok_or(PostError::Poisoned)?.submit()
    }

    fn abort(&mut self) {
        if let Some(ring) = &mut self.ring {
            ring.abort();
        }
    }
}
