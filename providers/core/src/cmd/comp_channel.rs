//! Completion channels (`UVERBS_OBJECT_COMP_CHANNEL`).

use std::os::fd::OwnedFd;

use uverbs_uapi::ib_user_verbs::{
    IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL, ib_uverbs_create_comp_channel,
    ib_uverbs_create_comp_channel_resp,
};

use super::legacy::Legacy;
use crate::error::{Error, Op, Result};
use crate::file::UverbsFile;
use crate::sys::{NO_DESCRIPTOR, Uhw, adopt_fd};

/// `ibv_create_comp_channel`—creates a completion channel. Reads block unless O_NONBLOCK is set;
/// closing it destroys it.
///
/// One system call. The kernel has only the legacy command.
///
/// # Errors
/// EMFILE, ENFILE: no descriptor left.
#[doc(alias = "ibv_create_comp_channel")]
#[doc(alias = "ibv_destroy_comp_channel")]
pub fn create(file: &UverbsFile) -> Result<OwnedFd> {
    let op = Op::CreateCompletionChannel;
    let unanswered = ib_uverbs_create_comp_channel_resp { fd: NO_DESCRIPTOR };
    let request = ib_uverbs_create_comp_channel::default();
    let reply = Legacy::plain(op, IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL).call(
        file,
        &request,
        unanswered,
        &Uhw::NONE,
    )?;
    adopt_fd(reply.fd).ok_or_else(|| Error::bad_reply(op, "no completion channel descriptor"))
}
