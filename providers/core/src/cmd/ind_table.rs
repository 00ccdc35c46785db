//! Indirection tables (`UVERBS_OBJECT_RWQ_IND_TBL`): map the hash of a packet to a work queue.

use uverbs_uapi::ib_user_ioctl_cmds::{
    UVERBS_ATTR_DESTROY_RWQ_IND_TBL_HANDLE, UVERBS_METHOD_RWQ_IND_TBL_DESTROY,
    UVERBS_OBJECT_RWQ_IND_TBL,
};
use uverbs_uapi::ib_user_verbs::{
    IB_USER_VERBS_EX_CMD_CREATE_RWQ_IND_TBL, IB_USER_VERBS_EX_CMD_DESTROY_RWQ_IND_TBL,
    IB_USER_VERBS_MAX_LOG_IND_TBL_SIZE, ib_uverbs_ex_create_rwq_ind_table,
    ib_uverbs_ex_create_rwq_ind_table_resp,
};
use zerocopy::IntoBytes;

use super::legacy::{Legacy, NO_HANDLE, explain_create, new_handle};
use crate::error::{Error, Op, Result};
use crate::file::UverbsFile;
use crate::kind;
use crate::sys::{Uhw, cells};

/// The most work queues a table may have.
pub const MAX_ENTRIES: usize = 1 << IB_USER_VERBS_MAX_LOG_IND_TBL_SIZE;

/// An indirection table.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Created {
    /// Its handle.
    pub handle: u32,
    /// Its number.
    pub number: u32,
}

/// `ibv_create_rwq_ind_table`—creates a table of work queues, whose number is a power of two.
///
/// One system call, the extended command since 4.7.
///
/// # Errors
/// [`InvalidInput`](crate::ErrorKind::InvalidInput): not a power of two. EOPNOTSUPP: the driver has
/// none. EINVAL: more than the device supports, or no such work queue.
#[doc(alias = "ibv_create_rwq_ind_table")]
pub fn create(file: &UverbsFile, wqs: &[u32], uhw: &Uhw<'_>) -> Result<Created> {
    let op = Op::CreateIndirectionTable;
    if wqs.len() > MAX_ENTRIES {
        return Err(Error::limit(
            op,
            "work_queues",
            wqs.len() as u64,
            MAX_ENTRIES as u64,
        ));
    }
    if !wqs.len().is_power_of_two() {
        return Err(
            Error::invalid(op, "the number of work queues is not a power of two")
                .fact("work_queues", wqs.len()),
        );
    }
    let command = ib_uverbs_ex_create_rwq_ind_table {
        comp_mask: 0,
        log_ind_tbl_size: wqs.len().ilog2(),
    };
    let mut request = [command.as_bytes(), wqs.as_bytes()].concat();
    // The lengths of extended commands are counted in 8-byte words.
    request.resize(request.len().next_multiple_of(8), 0);
    let mut reply = ib_uverbs_ex_create_rwq_ind_table_resp {
        ind_tbl_handle: NO_HANDLE,
        ..ib_uverbs_ex_create_rwq_ind_table_resp::default()
    };
    Legacy::extended(op, IB_USER_VERBS_EX_CMD_CREATE_RWQ_IND_TBL)
        .send(file, &request, cells(&mut reply), uhw)
        .map_err(|error| explain_create(error).fact("work_queues", wqs.len()))?;
    Ok(Created {
        handle: new_handle(op, reply.ind_tbl_handle)?,
        number: reply.ind_tbl_num,
    })
}

/// Tables, which `ibv_destroy_rwq_ind_table` destroys.
///
/// One system call; `RWQ_IND_TBL/DESTROY` since 5.0, else the extended command.
///
/// # Errors
/// EBUSY: a queue pair still uses it.
#[doc(alias = "ibv_destroy_rwq_ind_table")]
pub static KIND: kind::Kind = kind::Kind {
    name: "IndirectionTable",
    op: Op::DestroyIndirectionTable,
    object: UVERBS_OBJECT_RWQ_IND_TBL,
    method: UVERBS_METHOD_RWQ_IND_TBL_DESTROY,
    attr: UVERBS_ATTR_DESTROY_RWQ_IND_TBL_HANDLE,
    counts: kind::Counts::None,
    legacy: kind::Legacy::Extended(IB_USER_VERBS_EX_CMD_DESTROY_RWQ_IND_TBL),
};
