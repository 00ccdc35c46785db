//! DEVX: the firmware's own commands, and the objects that they create
//! (`drivers/infiniband/hw/mlx5/devx.c`).
//!
//! The kernel filters commands by their opcode, fills in the user context that they run in, and
//! destroys the objects that they created when the context ends. It leaves the meaning of a command
//! to the device: errors there are returned with the firmware's status and syndrome.

mod crypto;
mod event;
mod mapping;
mod object;
mod query;
mod reply;
mod reserved;
mod signatures;
mod uar;
mod umem;

use std::sync::Arc;

use uverbs_core::sys::{Attr, Uhw, cells};
use uverbs_core::{Error, Object, Op, Result, UverbsFile};
use uverbs_uapi::mlx5_user_ioctl_cmds::{
    MLX5_IB_ATTR_DEVX_OTHER_CMD_IN, MLX5_IB_ATTR_DEVX_OTHER_CMD_OUT,
    MLX5_IB_ATTR_DEVX_QUERY_EQN_DEV_EQN, MLX5_IB_ATTR_DEVX_QUERY_EQN_USER_VEC,
    MLX5_IB_ATTR_DEVX_QUERY_UAR_DEV_IDX, MLX5_IB_ATTR_DEVX_QUERY_UAR_USER_IDX,
    MLX5_IB_METHOD_DEVX_OTHER, MLX5_IB_METHOD_DEVX_QUERY_EQN, MLX5_IB_METHOD_DEVX_QUERY_UAR,
    MLX5_IB_OBJECT_DEVX,
};

pub use crypto::{CryptoCaps, CryptoLogin, DataKey, DataKeyInfo, DataKeyInit, DataKeySize};
pub use event::{Eqe, Event, EventChannel, EventType};
pub use mapping::AddressMapping;
pub use object::{DevxObject, Parent};
pub use query::{QueryReplies, QueryReply};
pub use reserved::ReservedNumbers;
pub use signatures::SignatureCaps;
pub use uar::DevxUar;
pub use umem::{Umem, UmemInit, UmemMemory};

use crate::prm::{CAP_REPLY_LEN, GeneralCaps, Mailbox, QosCaps, query_hca_cap};
use reply::exchange;

/// Handles of another context are the numbers of other objects in this one.
fn check_context(op: Op, object: &Object, file: &Arc<UverbsFile>) -> Result<()> {
    if Arc::ptr_eq(object.file(), file) {
        return Ok(());
    }
    Err(Error::invalid(op, "object").hint("it belongs to another context"))
}

/// Access to the firmware of an opened device.
///
/// Commands run in the user context that the kernel created when the device was opened for DEVX; in
/// a context without one only queries of capabilities and ports are allowed.
#[derive(Clone, Debug)]
pub struct Devx {
    file: Arc<UverbsFile>,
}

impl Devx {
    /// Access to the firmware of the device behind `file`.
    #[doc(hidden)] // Users have no such handle: the facade calls it.
    pub fn new(file: &Arc<UverbsFile>) -> Self {
        Self {
            file: Arc::clone(file),
        }
    }

    pub(crate) fn file(&self) -> &Arc<UverbsFile> {
        &self.file
    }

    /// `mlx5dv_devx_general_cmd`—has the firmware run a command that neither creates nor needs an
    /// object, and returns its reply of at most `reply_len` bytes (16 at least).
    ///
    /// One system call; it waits for the firmware.
    ///
    /// # Errors
    /// The errno for the firmware's status, with status and syndrome. EINVAL without them: the
    /// kernel does not allow this opcode here.
    ///
    /// # Safety
    /// 1. Of this process's memory, what the command sets up makes the device use only memory that
    ///    stays allocated, and is not accessed through references, for as long as the device may
    ///    use it.
    #[doc(alias = "mlx5dv_devx_general_cmd")]
    #[expect(unsafe_code, reason = "passes an obligation on")]
    pub unsafe fn command(&self, command: &Mailbox, reply_len: usize) -> Result<Mailbox> {
        self.query(command, reply_len)
    }

    /// The same, with a reply that the caller has even if the firmware refuses.
    ///
    /// # Errors
    /// As [`command`](Self::command).
    ///
    /// # Safety
    /// As that of [`command`](Self::command).
    #[expect(unsafe_code, reason = "passes an obligation on")]
    pub unsafe fn command_into(&self, command: &Mailbox, reply: &mut Mailbox) -> Result<()> {
        self.query_into(command, reply)
    }

    /// A command that sets nothing up.
    pub(crate) fn query(&self, command: &Mailbox, reply_len: usize) -> Result<Mailbox> {
        let mut reply = Mailbox::new(reply_len);
        self.query_into(command, &mut reply)?;
        Ok(reply)
    }

    fn query_into(&self, command: &Mailbox, reply: &mut Mailbox) -> Result<()> {
        exchange(
            &self.file,
            Op::DevxCommand,
            MLX5_IB_OBJECT_DEVX,
            MLX5_IB_METHOD_DEVX_OTHER,
            (command, MLX5_IB_ATTR_DEVX_OTHER_CMD_IN),
            (reply, MLX5_IB_ATTR_DEVX_OTHER_CMD_OUT),
            &[],
        )
    }

    /// The current capabilities of a group (`enum mlx5_cap_type`), as the firmware returns them: 16
    /// bytes, followed by the group's capabilities.
    ///
    /// # Errors
    /// As [`command`](Self::command).
    pub fn capabilities(&self, group: u16) -> Result<Mailbox> {
        self.query(&query_hca_cap(group), CAP_REPLY_LEN)
    }

    /// The device's general capabilities.
    ///
    /// # Errors
    /// As [`command`](Self::command).
    pub fn general_caps(&self) -> Result<GeneralCaps> {
        let reply = self.query(&GeneralCaps::query(), CAP_REPLY_LEN)?;
        Ok(GeneralCaps::parse(&reply))
    }

    /// The device's capabilities for quality of service; empty if it has none.
    ///
    /// # Errors
    /// As [`command`](Self::command).
    pub fn qos_caps(&self, general: &GeneralCaps) -> Result<QosCaps> {
        if !general.qos {
            return Ok(QosCaps::default());
        }
        let reply = self.query(&QosCaps::query(), CAP_REPLY_LEN)?;
        Ok(QosCaps::parse(&reply))
    }

    /// `mlx5dv_devx_query_eqn`—the device's number of the event queue for completion vector
    /// `vector`, for completion queues created by DEVX.
    ///
    /// One system call.
    ///
    /// # Errors
    /// EINVAL (ENOENT on some kernels): there is no such vector.
    #[doc(alias = "mlx5dv_devx_query_eqn")]
    pub fn event_queue(&self, vector: u32) -> Result<u32> {
        self.number(
            Op::DevxQueryEventQueue,
            MLX5_IB_METHOD_DEVX_QUERY_EQN,
            (MLX5_IB_ATTR_DEVX_QUERY_EQN_USER_VEC, vector),
            MLX5_IB_ATTR_DEVX_QUERY_EQN_DEV_EQN,
        )
        .map_err(|error| error.fact("vector", vector))
    }

    /// The device's number of the doorbell page with index `index` in this context, in contexts
    /// with static doorbell pages.
    ///
    /// One system call.
    ///
    /// # Errors
    /// EINVAL: there is no such page.
    pub fn uar_page(&self, index: u32) -> Result<u32> {
        self.number(
            Op::DevxQueryUar,
            MLX5_IB_METHOD_DEVX_QUERY_UAR,
            (MLX5_IB_ATTR_DEVX_QUERY_UAR_USER_IDX, index),
            MLX5_IB_ATTR_DEVX_QUERY_UAR_DEV_IDX,
        )
        .map_err(|error| error.fact("index", index))
    }

    fn number(&self, op: Op, method: u16, query: (u16, u32), answer: u16) -> Result<u32> {
        let mut number = 0_u32;
        self.file.ioctl_only(op, || {
            let attrs = [
                Attr::input(query.0, &query.1),
                Attr::output(answer, cells(&mut number)),
            ];
            self.file
                .ioctl(op, MLX5_IB_OBJECT_DEVX, method, &attrs, &Uhw::NONE)
        })?;
        Ok(number)
    }
}

#[cfg(test)]
mod tests;
