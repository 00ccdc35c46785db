//! Protection domains.

use std::sync::Arc;

use uverbs_core::hw::QueueMemory;
use uverbs_core::sys::{Attr, Uhw, cells};
use uverbs_core::{Error, Object, Op, Result, UverbsFile, cmd};
use uverbs_uapi::ib_user_ioctl_cmds::UVERBS_OBJECT_PD;
use uverbs_uapi::mlx5_abi::mlx5_ib_alloc_pd_resp;
use uverbs_uapi::mlx5_user_ioctl_cmds::{
    MLX5_IB_ATTR_QUERY_PD_HANDLE, MLX5_IB_ATTR_QUERY_PD_RESP_PDN, MLX5_IB_METHOD_PD_QUERY,
};

use super::Context;
use crate::context::ThreadDomain;

/// An mlx5 protection domain, or one with a thread domain (a parent domain).
#[derive(Debug)]
pub struct ProtectionDomain {
    object: Arc<Object>,
    number: u32,
    thread: Option<ThreadDomain>,
    memory: Option<Arc<dyn QueueMemory>>,
}

impl ProtectionDomain {
    pub(crate) fn alloc(file: &Arc<UverbsFile>) -> Result<Self> {
        let mut reply = mlx5_ib_alloc_pd_resp::default();
        let handle = cmd::pd::alloc(file, &Uhw::new(&[], cells(&mut reply)))?;
        let object = Object::new(file, &cmd::pd::KIND, handle, []);
        Ok(Self {
            object: Arc::new(object),
            number: reply.pdn,
            thread: None,
            memory: None,
        })
    }

    /// `ibv_import_pd`—the domain of the context that has this handle, whoever allocated it. It is
    /// not freed when this is dropped. One system call, since 5.9.
    ///
    /// # Errors
    /// ENOENT: there is no such domain. Unsupported on older kernels.
    #[doc(alias = "ibv_import_pd")]
    pub fn import(context: &Context, handle: u32) -> Result<Self> {
        let file = context.file();
        let mut number = 0_u32;
        let op = Op::AllocProtectionDomain;
        file.ioctl_only(op, || {
            let attrs = [
                Attr::object(MLX5_IB_ATTR_QUERY_PD_HANDLE, handle),
                Attr::output(MLX5_IB_ATTR_QUERY_PD_RESP_PDN, cells(&mut number)),
            ];
            file.ioctl(
                op,
                UVERBS_OBJECT_PD,
                MLX5_IB_METHOD_PD_QUERY,
                &attrs,
                &Uhw::NONE,
            )
        })?;
        Ok(Self {
            object: Arc::new(Object::borrowed(file, &cmd::pd::KIND, handle)),
            number,
            thread: None,
            memory: None,
        })
    }

    /// `ibv_alloc_parent_domain`—the same domain for the kernel and the device, whose queue pairs
    /// use the doorbells of `thread`'s page of registers. No system call.
    ///
    /// # Errors
    /// A thread domain of another context.
    #[doc(alias = "ibv_alloc_parent_domain")]
    pub fn with_thread(&self, thread: &ThreadDomain) -> Result<Self> {
        if !thread.is_of(self.object.file()) {
            let op = Op::AllocParentDomain;
            return Err(Error::invalid(op, "thread domain").hint("it belongs to another context"));
        }
        Ok(Self {
            object: Arc::clone(&self.object),
            number: self.number,
            thread: Some(thread.clone()),
            memory: self.memory.clone(),
        })
    }

    /// `ibv_alloc_parent_domain`—the same domain for the kernel and the device, whose queues have
    /// memory that `memory` allocates. No system call.
    ///
    /// Completion queues are in no domain: theirs is
    /// [`CqInit::memory`](uverbs_core::contract::CqInit::memory). Doorbell records share pages of
    /// the context.
    #[doc(alias = "IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS")]
    #[must_use]
    pub fn with_memory(&self, memory: Arc<dyn QueueMemory>) -> Self {
        Self {
            object: Arc::clone(&self.object),
            number: self.number,
            thread: self.thread.clone(),
            memory: Some(memory),
        }
    }

    /// What allocates the memory of its queues, if they have no pages of their own.
    pub(crate) fn memory(&self) -> Option<&Arc<dyn QueueMemory>> {
        self.memory.as_ref()
    }

    /// The thread domain whose doorbells its queue pairs use instead of other doorbells of the
    /// device.
    pub(crate) fn thread(&self) -> Option<&ThreadDomain> {
        self.thread.as_ref()
    }

    /// The kernel object.
    pub fn object(&self) -> &Arc<Object> {
        &self.object
    }

    /// `mlx5dv_pd`—the device's number of the domain, for firmware commands.
    #[doc(alias = "mlx5dv_pd")]
    pub fn number(&self) -> u32 {
        self.number
    }
}
