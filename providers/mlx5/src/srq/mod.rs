//! Shared receive queues.

mod number;
mod place;
pub(crate) mod ring;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use uverbs_core::contract::{self, Link, SrqInit};
use uverbs_core::hw::{Part, QueueBuffer, UnitRing};
#[cfg(feature = "rings")]
use uverbs_core::rings::QueueKind;
use uverbs_core::sys::{Uhw, cells};
use uverbs_core::types::{OdpGeneralCaps, RecvRequest, SrqAttr, SrqModify, SrqType};
use uverbs_core::{Error, ErrorKind, Object, Op, PostError, Result, cmd};
use uverbs_uapi::mlx5_abi::{mlx5_ib_create_srq, mlx5_ib_create_srq_resp};
use zerocopy::IntoBytes;

use crate::context::{Context, ProtectionDomain};
use crate::tracker::srq::sizes::Sizes;
use number::Numbered;
use ring::SharedRing;

/// An mlx5 shared receive queue.
#[derive(Debug)]
pub struct SharedReceiveQueue {
    ring: SharedRing,
    object: Arc<Object>,
    sizes: Sizes,
    number: u32,
}

/// The additional parameters of an XRC queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Xrc<'a> {
    /// Its domain.
    pub(crate) domain: &'a Arc<Object>,
    /// The completion queue of its receives.
    pub(crate) cq: Link<'a>,
}

impl SharedReceiveQueue {
    /// A queue for queue pairs of one protection domain.
    pub(crate) fn create(context: &Context, pd: &ProtectionDomain, init: &SrqInit) -> Result<Self> {
        Self::create_in(context, pd, init, None)
    }

    /// A queue for queue pairs of one protection domain, or with `xrc` for senders of an XRC
    /// domain.
    pub(crate) fn create_in(
        context: &Context,
        pd: &ProtectionDomain,
        init: &SrqInit,
        xrc: Option<Xrc<'_>>,
    ) -> Result<Self> {
        let op = Op::CreateSharedReceiveQueue;
        let (pd, memory) = (pd.object(), pd.memory());
        init.check()?;
        check_kind(op, init.kind, xrc.is_some())?;
        let config = context.config();
        // For any transport: for DC the kernel does not report whether page faults may occur.
        let faults = context
            .device()
            .odp
            .general
            .contains(OdpGeneralCaps::SUPPORT);
        let (most, max_desc) = (config.max_srq_recv_wr, config.max_rq_desc);
        let sizes = Sizes::new(op, most, max_desc, &init.attr, faults)?;
        check_limit(op, init.attr.limit, &sizes)?;
        let os = |errno| Error::os(op, errno);
        let bytes = sizes.units() as usize * 16;
        let pages = context
            .pool()
            .for_queue(memory, bytes, QueueBuffer::SharedReceiveQueue)
            .map_err(os)?;
        let ring = UnitRing::new(Part::from(pages), sizes.units())
            .ok_or_else(|| Error::new(op, ErrorKind::OutOfResources))?;
        let record = Arc::new(context.records().take().map_err(os)?);
        let fork = context.file().fork_token();
        let (buf_addr, db_addr) = (ring.address(), record.address());
        let ring = SharedRing::new(ring, sizes, fork, record, faults);
        let tracker = ring.tracker();
        let numbered = Numbered::new(op, context, xrc, tracker)?;
        let data = mlx5_ib_create_srq {
            buf_addr,
            db_addr,
            uidx: numbered.user_index(),
            ..mlx5_ib_create_srq::default()
        };
        let mut reply = mlx5_ib_create_srq_resp::default();
        let create = request(pd, init, xrc, &sizes);
        let file = context.file();
        let uhw = Uhw::new(data.as_bytes(), cells(&mut reply));
        let parents = [
            Some(pd),
            xrc.map(|xrc| xrc.domain),
            xrc.map(|xrc| xrc.cq.object),
        ];
        let (object, _) = Object::create(
            file,
            &cmd::srq::KIND,
            parents.into_iter().flatten().cloned(),
            ring.keep_mapped(),
            || cmd::srq::create(file, &create, &uhw),
            |created| created.handle,
        )?;
        if let Some(registered) = numbered.created(op, context, reply.srqn)? {
            object.keep(registered);
        }
        tracker.set_number(reply.srqn);
        #[cfg(feature = "rings")]
        let ring = ring.watched(file.watched(QueueKind::SharedReceive, reply.srqn));
        let queue = Self {
            ring,
            object: Arc::new(object),
            sizes,
            number: reply.srqn,
        };
        if init.attr.limit != 0 {
            // The kernel's driver takes no limit at creation. The device compares at once: an empty
            // queue is below every limit.
            queue.arm(SrqModify::new().limit(init.attr.limit))?;
        }
        Ok(queue)
    }

    fn arm(&self, change: SrqModify) -> Result<()> {
        let file = self.object.file();
        cmd::srq::modify(file, self.object.handle(), &change, &Uhw::NONE)
    }
}

/// Only a queue of an XRC domain has that type.
fn check_kind(op: Op, kind: SrqType, of_domain: bool) -> Result<()> {
    let fits = match kind {
        SrqType::Basic => !of_domain,
        SrqType::Xrc => of_domain,
        _ => false,
    };
    if !fits {
        return Err(Error::new(op, ErrorKind::Unsupported).fact("type", kind.to_string()));
    }
    Ok(())
}

/// The part of the request that all drivers have.
fn request(
    pd: &Arc<Object>,
    init: &SrqInit,
    xrc: Option<Xrc<'_>>,
    sizes: &Sizes,
) -> cmd::srq::Create<'static> {
    let kind = match xrc {
        None => cmd::srq::Kind::Basic,
        Some(xrc) => cmd::srq::Kind::Xrc {
            xrcd: xrc.domain.handle(),
            cq: xrc.cq.object.handle(),
        },
    };
    cmd::srq::Create {
        pd: pd.handle(),
        kind,
        max_wr: sizes.count - 1,
        max_sge: sizes.max_sge,
        limit: init.attr.limit,
        user_handle: init.user_handle,
        event_fd: None,
    }
}

fn check_limit(op: Op, limit: u32, sizes: &Sizes) -> Result<()> {
    if limit > sizes.max_wr() {
        return Err(Error::limit(
            op,
            "limit",
            limit.into(),
            sizes.max_wr().into(),
        ));
    }
    Ok(())
}

impl contract::Srq for SharedReceiveQueue {
    fn object(&self) -> &Arc<Object> {
        &self.object
    }

    fn object_mut(&mut self) -> &mut Arc<Object> {
        &mut self.object
    }

    fn link(&self) -> Link<'_> {
        Link::new(&self.object, self.ring.tracker())
    }

    fn size(&self) -> SrqAttr {
        SrqAttr {
            max_wr: self.sizes.max_wr(),
            max_sge: self.sizes.max_sge,
            limit: 0,
        }
    }

    fn number(&self) -> u32 {
        self.number
    }

    /// Arms the limit. No kernel's driver resizes a queue of this device (EINVAL, up to Linux 7.2).
    fn modify(&mut self, change: &SrqModify) -> Result<()> {
        let op = Op::ModifySharedReceiveQueue;
        if let Some(max_wr) = change.max_wr {
            return Err(Error::new(op, ErrorKind::Unsupported)
                .fact("max_wr", max_wr)
                .hint("mlx5 has no resizing; create another queue"));
        }
        if let Some(limit) = change.limit {
            check_limit(op, limit, &self.sizes)?;
        }
        self.arm(*change)
    }

    fn query(&self) -> Result<SrqAttr> {
        let known = cmd::srq::query(self.object.file(), self.object.handle())?;
        Ok(SrqAttr {
            limit: known.limit,
            ..self.size()
        })
    }

    #[expect(unsafe_code, reason = "passes its obligations on")]
    #[inline]
    unsafe fn put(&mut self, request: &RecvRequest<'_>) -> Result<(), PostError> {
        self.ring.put(request)
    }

    #[inline]
    fn submit(&mut self) -> Result<(), PostError> {
        self.ring.submit()
    }

    fn abort(&mut self) {
        self.ring.abort();
    }

    fn take_unreported(&mut self, each: &mut dyn FnMut(u64)) {
        self.ring.take_unreported(each);
    }
}
