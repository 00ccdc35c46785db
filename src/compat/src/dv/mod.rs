//! `mlx5dv.h`, and what verbs only devices of its vendor have. Functions of the header that are not
//! here answer EOPNOTSUPP (`symbols.txt`).

mod abi;
mod actions;
mod changes;
mod channels;
mod counters;
mod crypto;
mod data_direct;
mod device;
mod devx;
mod dm;
mod dynamic;
mod encryption;
mod entropy;
mod frames;
mod held;
mod import;
mod keys;
mod numbers;
mod pages;
mod query;
mod rates;
mod rss;
mod sched;
mod settings;
mod shared;
mod signatures;
mod steering;
mod to;
mod xrc;

pub(crate) use abi::{VENDOR, mlx5dv_qp_ex as QpFunctions};
pub(crate) use actions::{action, destroy_flow_action};
pub(crate) use changes::Request;
pub(crate) use counters::counters_of_rule;
pub(crate) use crypto::OwnLogin;
pub(crate) use dm::{
    Dm, alloc_dm, alloc_null_mr, free_dm, ibv_dm_export_dmabuf_fd, import_dm, reg_dm_mr,
    unimport_dm,
};
pub(crate) use dynamic::slots;
pub(crate) use entropy::{Mapping, Reserved};
pub(crate) use frames::{check_frames, poll_frame};
pub(crate) use import::{import, import_pd, with_memory};
pub(crate) use query::add_to;
pub(crate) use rates::{modify_qp_rate_limit, query_rt_values};
pub(crate) use rss::{
    IndirectionTable, Wq, create_spreading, create_table, create_wq, destroy_table, destroy_wq,
    modify_wq,
};
pub(crate) use to::{To, post_usual, put, put_composed, put_known, with_headers};
pub(crate) use uverbs_mlx5::steering::FlowAction;
pub(crate) use xrc::{Xrcd, close_xrcd, open_xrcd};

use crate::answer::Answer;
use crate::context::Context;
use crate::errno::Code;

/// The vendor's own part of an opened device.
fn own(context: &Context) -> Answer<&uverbs_mlx5::Context> {
    context.provider().of().ok_or(Code::UNSUPPORTED)
}
