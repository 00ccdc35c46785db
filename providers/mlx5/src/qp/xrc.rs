//! Extended reliable connections: shared receive queues that senders on any connection of a domain
//! can address.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use uverbs_core::contract::{Link, QpInit, SrqInit};
use uverbs_core::sys::Uhw;
use uverbs_core::types::{QpCaps, QpCreateFlags, QpType, SigMode};
use uverbs_core::{Error, Object, Op, Result, cmd};

use super::{Parent, QueuePair, Special};
use crate::context::{Context, ProtectionDomain};
use crate::srq::SharedReceiveQueue;
use crate::srq::Xrc;

/// `ibv_xrcd`—an XRC domain.
#[doc(alias = "ibv_xrcd")]
#[derive(Debug)]
pub struct XrcDomain {
    object: Arc<Object>,
}

/// `ibv_xrcd_init_attr`—an XRC domain that processes share, identified by a file.
#[doc(alias = "ibv_xrcd_init_attr")]
#[derive(Clone, Copy, Debug)]
pub struct SharedXrcDomain<'a> {
    /// The file whose inode identifies the domain.
    pub file: BorrowedFd<'a>,
    /// Create the domain if no process has opened it (`O_CREAT`).
    pub create: bool,
    /// With `create`: fail if a process has opened it (`O_EXCL`).
    pub exclusive: bool,
}

impl XrcDomain {
    /// `ibv_open_xrcd`—opens a private domain of this process, or one that a file identifies. One
    /// system call.
    ///
    /// # Errors
    /// Those of [`cmd::xrcd::open`].
    #[doc(alias = "ibv_open_xrcd")]
    pub fn open(context: &Context, shared: Option<&SharedXrcDomain<'_>>) -> Result<Self> {
        let file = context.file();
        let request = shared.map_or_else(cmd::xrcd::Open::default, |shared| cmd::xrcd::Open {
            file: Some(shared.file),
            create: shared.create,
            exclusive: shared.exclusive,
        });
        let handle = cmd::xrcd::open(file, &request, &Uhw::NONE)?;
        let object = Object::new(file, &cmd::xrcd::KIND, handle, []);
        Ok(Self {
            object: Arc::new(object),
        })
    }

    /// The kernel object.
    pub fn object(&self) -> &Arc<Object> {
        &self.object
    }

    /// `ibv_create_srq_ex`—creates a shared receive queue of the domain, whose receives complete in
    /// `cq`.
    ///
    /// # Errors
    /// Limits of the device, and those of the command.
    pub fn create_srq(
        &self,
        context: &Context,
        pd: &ProtectionDomain,
        cq: Link<'_>,
        init: &SrqInit,
    ) -> Result<SharedReceiveQueue> {
        let xrc = Xrc {
            domain: &self.object,
            cq,
        };
        SharedReceiveQueue::create_in(context, pd, init, Some(xrc))
    }

    /// `ibv_create_qp_ex`—creates the receiving end of a connection of the domain, without naming a
    /// protection domain or queues, none of which it uses. One system call.
    ///
    /// # Errors
    /// A domain of another context; those of the command.
    #[doc(alias = "ibv_create_qp_ex")]
    pub fn create_target(&self, context: &Context, user_handle: u64) -> Result<QueuePair> {
        let unused = Link::plain(&self.object);
        let init = QpInit {
            kind: QpType::XrcTarget,
            send_cq: unused,
            recv_cq: unused,
            srq: None,
            caps: QpCaps::default(),
            signal: SigMode::All,
            flags: QpCreateFlags::empty(),
            user_handle,
            extra: None,
        };
        QueuePair::create_xrc_target(context, &self.object, &init)
    }

    /// `ibv_open_qp`—opens the receiving end with this number, which any process may have created
    /// in the domain. Two system calls.
    ///
    /// # Errors
    /// EINVAL: it does not exist.
    #[doc(alias = "ibv_open_qp")]
    pub fn open_target(
        &self,
        context: &Context,
        number: u32,
        user_handle: u64,
    ) -> Result<QueuePair> {
        let file = context.file();
        file.check_process(Op::OpenQueuePair)?;
        let request = cmd::qp::Open {
            xrcd: self.object.handle(),
            qp_num: number,
            qp_type: QpType::XrcTarget,
            user_handle,
        };
        let opened = cmd::qp::open(file, &request, &Uhw::NONE)?;
        let parents = [Arc::clone(&self.object)];
        let object = Object::new(file, &cmd::qp::KIND, opened.handle, parents);
        QueuePair::opened(context, object, opened.qp_num)
    }
}

impl QueuePair {
    /// `ibv_create_qp_ex`—creates the receiving end of a connection of this XRC domain. The queues
    /// in `init` are not used; its type is [`QpType::XrcTarget`].
    ///
    /// # Errors
    /// Another type, a domain of another context, those of the command.
    pub(crate) fn create_xrc_target(
        context: &Context,
        domain: &Arc<Object>,
        init: &QpInit<'_>,
    ) -> Result<Self> {
        let op = Op::CreateQueuePair;
        if !Arc::ptr_eq(domain.file(), context.file()) {
            return Err(
                Error::invalid(op, "xrc domain").hint("the XRC domain belongs to another context")
            );
        }
        if init.kind != QpType::XrcTarget {
            return Err(Error::invalid(op, "type"));
        }
        let parent = Parent::Xrcd(domain);
        Self::create_in(context, parent, init, &Special::default())
    }
}
