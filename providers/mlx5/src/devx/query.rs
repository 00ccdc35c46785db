//! Asynchronous queries, whose replies arrive through a descriptor.

use std::cell::Cell;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use uverbs_core::contract::set_nonblocking;
use uverbs_core::sys::{Attr, Uhw, Value};
use uverbs_core::{Error, Op, Result, UverbsFile};
use uverbs_uapi::mlx5_user_ioctl_cmds::{
    MLX5_IB_ATTR_DEVX_ASYNC_CMD_FD_ALLOC_HANDLE, MLX5_IB_ATTR_DEVX_OBJ_QUERY_ASYNC_CMD_IN,
    MLX5_IB_ATTR_DEVX_OBJ_QUERY_ASYNC_FD, MLX5_IB_ATTR_DEVX_OBJ_QUERY_ASYNC_HANDLE,
    MLX5_IB_ATTR_DEVX_OBJ_QUERY_ASYNC_OUT_LEN, MLX5_IB_ATTR_DEVX_OBJ_QUERY_ASYNC_WR_ID,
    MLX5_IB_METHOD_DEVX_ASYNC_CMD_FD_ALLOC, MLX5_IB_METHOD_DEVX_OBJ_ASYNC_QUERY,
    MLX5_IB_OBJECT_DEVX_ASYNC_CMD_FD, MLX5_IB_OBJECT_DEVX_OBJ,
};
use uverbs_uapi::mlx5_user_ioctl_verbs::mlx5_ib_uapi_devx_async_cmd_hdr;

use super::reply::check;
use super::{Devx, DevxObject, check_context};
use crate::prm::Mailbox;

const HEADER: usize = size_of::<mlx5_ib_uapi_devx_async_cmd_hdr>();

/// `mlx5dv_devx_cmd_comp`—the channel for replies of asynchronous queries.
///
/// The kernel keeps up to 1 MiB of unread replies.
#[doc(alias = "mlx5dv_devx_cmd_comp")]
#[derive(Debug)]
pub struct QueryReplies {
    file: Arc<UverbsFile>,
    fd: OwnedFd,
    /// The largest reply length that any query requested.
    longest: AtomicU16,
}

/// One reply.
#[derive(Clone, Debug)]
pub struct QueryReply {
    /// The number of its query.
    pub id: u64,
    /// The firmware's reply; failures contain their status.
    pub reply: Mailbox,
}

impl QueryReply {
    /// The reply, or the firmware's error.
    ///
    /// # Errors
    /// The errno for the firmware's status.
    pub fn into_result(self) -> Result<Mailbox> {
        check(Op::DevxReply, self.reply.opcode(), &self.reply)?;
        Ok(self.reply)
    }
}

impl Devx {
    /// `mlx5dv_devx_create_cmd_comp`—creates a channel for the replies of asynchronous queries.
    ///
    /// One system call.
    ///
    /// # Errors
    /// EMFILE, ENFILE, ENOMEM; unsupported without DEVX.
    #[doc(alias = "mlx5dv_devx_create_cmd_comp")]
    pub fn query_replies(&self) -> Result<QueryReplies> {
        let op = Op::DevxReply;
        let slot = Cell::new(None);
        self.file.ioctl_only(op, || {
            self.file.ioctl(
                op,
                MLX5_IB_OBJECT_DEVX_ASYNC_CMD_FD,
                MLX5_IB_METHOD_DEVX_ASYNC_CMD_FD_ALLOC,
                &[Attr::new_fd(
                    MLX5_IB_ATTR_DEVX_ASYNC_CMD_FD_ALLOC_HANDLE,
                    &slot,
                )],
                &Uhw::NONE,
            )
        })?;
        let fd = slot
            .take()
            .ok_or_else(|| Error::bad_reply(op, "no descriptor"))?;
        Ok(QueryReplies {
            file: Arc::clone(&self.file),
            fd,
            longest: AtomicU16::new(16),
        })
    }
}

impl DevxObject {
    /// `mlx5dv_devx_obj_query_async`—queries the firmware about the object without waiting: the
    /// reply, of at most `reply_len` bytes (16 at least), arrives in `replies` and carries `id`.
    ///
    /// One system call.
    ///
    /// # Errors
    /// EAGAIN: too many unread replies. EINVAL: command and object do not belong together, or the
    /// kernel supports only synchronous queries of objects of this kind (6.1: general objects).
    #[doc(alias = "mlx5dv_devx_obj_query_async")]
    pub fn query_async(
        &self,
        replies: &QueryReplies,
        command: &Mailbox,
        reply_len: u16,
        id: u64,
    ) -> Result<()> {
        let op = Op::DevxQueryAsync;
        check_context(op, self.object(), &replies.file)?;
        let reply_len = reply_len.max(16);
        // Before the command: another thread may read its reply at once.
        replies.longest.fetch_max(reply_len, Ordering::Relaxed);
        let file = self.object().file();
        file.ioctl_only(op, || {
            let attrs = [
                Attr::object(
                    MLX5_IB_ATTR_DEVX_OBJ_QUERY_ASYNC_HANDLE,
                    self.object().handle(),
                ),
                Attr::new(
                    MLX5_IB_ATTR_DEVX_OBJ_QUERY_ASYNC_CMD_IN,
                    Value::In(command.as_bytes(), None),
                ),
                Attr::fd(MLX5_IB_ATTR_DEVX_OBJ_QUERY_ASYNC_FD, replies.fd.as_fd()),
                Attr::input(MLX5_IB_ATTR_DEVX_OBJ_QUERY_ASYNC_WR_ID, &id),
                Attr::constant(MLX5_IB_ATTR_DEVX_OBJ_QUERY_ASYNC_OUT_LEN, reply_len),
            ];
            file.ioctl(
                op,
                MLX5_IB_OBJECT_DEVX_OBJ,
                MLX5_IB_METHOD_DEVX_OBJ_ASYNC_QUERY,
                &attrs,
                &Uhw::NONE,
            )
        })
    }
}

impl QueryReplies {
    /// `mlx5dv_devx_get_async_cmd_comp`—takes the next reply. Blocks until there is one, unless
    /// [`set_nonblocking`](Self::set_nonblocking) was called.
    ///
    /// One system call.
    ///
    /// # Errors
    /// [`WouldBlock`](uverbs_core::ErrorKind::WouldBlock),
    /// [`DeviceRemoved`](uverbs_core::ErrorKind::DeviceRemoved).
    #[doc(alias = "mlx5dv_devx_get_async_cmd_comp")]
    pub fn next(&self) -> Result<QueryReply> {
        let op = Op::DevxReply;
        let room = HEADER + usize::from(self.longest.load(Ordering::Relaxed));
        let mut buffer = vec![0_u8; room];
        let cells = Cell::from_mut(buffer.as_mut_slice()).as_slice_of_cells();
        let count = self.file.read_bytes(op, self.fd.as_fd(), cells)?;
        buffer.truncate(count);
        let (id, reply) = buffer
            .split_first_chunk::<HEADER>()
            .ok_or_else(|| Error::bad_reply(op, "less than a header").fact("bytes", count))?;
        Ok(QueryReply {
            id: u64::from_ne_bytes(*id),
            reply: Mailbox::from(reply.to_vec()),
        })
    }

    /// Waits until there is a reply, for at most `timeout` (`None`: without limit). Returns whether
    /// there is one.
    ///
    /// # Errors
    /// [`DeviceRemoved`](uverbs_core::ErrorKind::DeviceRemoved).
    pub fn wait(&self, timeout: Option<Duration>) -> Result<bool> {
        self.file
            .wait_readable(Op::DevxReply, self.fd.as_fd(), timeout)
    }

    /// Makes [`next`](Self::next) return at once if there is no reply.
    ///
    /// # Errors
    /// The errno of `fcntl(2)`.
    pub fn set_nonblocking(&self) -> Result<()> {
        set_nonblocking(Op::DevxReply, self.fd.as_fd())
    }
}

impl AsFd for QueryReplies {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
