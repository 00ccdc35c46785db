//! Dispatch of ioctl methods.
#![allow(clippy::wildcard_imports, reason = "a table of the header's own names")]

use std::os::fd::RawFd;

use uverbs_uapi::ib_user_ioctl_cmds::*;
use uverbs_uapi::ib_user_ioctl_verbs::{IB_UVERBS_QP_CREATE_SQ_SIG_ALL, IB_UVERBS_SRQT_BASIC};
use uverbs_uapi::ib_user_verbs::{
    ib_uverbs_destroy_cq_resp, ib_uverbs_destroy_qp_resp, ib_uverbs_destroy_srq_resp,
};
use uverbs_uapi::rdma_user_rxe::rxe_create_cq_resp;

use crate::args::{Answer, Args, request};
use crate::fault::ActiveFaults;
use crate::feature::Feature;
use crate::files::{FileId, Role};
use crate::schema::schema;
use crate::state::{AfterRemoval, Kind, State};
use crate::{cq, device, legacy, mr, qp, srq};
use uverbs_core::error::Errno;
use uverbs_core::sys::Command;

/// Carries out one ioctl.
pub(super) fn run(
    state: &mut State,
    file: FileId,
    command: &Command<'_>,
    faults: &ActiveFaults,
) -> Result<(), Errno> {
    if !state.profile.has(Feature::Ioctl) {
        return Err(Errno::NOTTY);
    }
    if command.driver_id != state.driver().raw() {
        return Err(Errno::INVAL);
    }
    if !state.profile.has_method(command.object, command.method) {
        return Err(Errno::PROTONOSUPPORT);
    }
    let fd_arr = state.profile.has(Feature::ContextDescriptors);
    let schema = schema(command.object, command.method, fd_arr).ok_or(Errno::PROTONOSUPPORT)?;
    let args = Args::check(command, schema)?;
    let answer = dispatch(state, file, command, &args)?;
    args.deliver(answer, faults);
    Ok(())
}

fn dispatch(
    state: &mut State,
    file: FileId,
    command: &Command<'_>,
    args: &Args<'_>,
) -> Result<Answer, Errno> {
    let method = command.method;
    // After the device is gone, the core still lists handles, and destroys objects.
    let lists = (command.object, method) == (UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INFO_HANDLES);
    let invokes = (command.object, method) == (UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INVOKE_WRITE);
    match state.removed {
        Some(AfterRemoval::DestroySucceeds) if is_destroy(command.object, method) => {}
        Some(_) if !lists && !invokes => return Err(Errno::IO),
        _ => {}
    }
    match command.object {
        UVERBS_OBJECT_DEVICE if method == UVERBS_METHOD_INVOKE_WRITE => {
            legacy::invoke(state, file, args)
        }
        UVERBS_OBJECT_DEVICE => device::ioctl(state, file, method, args),
        UVERBS_OBJECT_ASYNC_EVENT => {
            Ok(Answer::default().with_fd(device::new_events(state, file)?))
        }
        UVERBS_OBJECT_CQ if method == UVERBS_METHOD_CQ_CREATE => create_cq(state, file, args),
        UVERBS_OBJECT_QP if method == UVERBS_METHOD_QP_CREATE => create_qp(state, file, args),
        UVERBS_OBJECT_SRQ if method == UVERBS_METHOD_SRQ_CREATE => create_srq(state, file, args),
        UVERBS_OBJECT_MR if method == UVERBS_METHOD_QUERY_MR => Err(Errno::OPNOTSUPP),
        UVERBS_OBJECT_MR if method == UVERBS_METHOD_REG_MR => register(state, file, args),
        object => destroy(state, file, object, args),
    }
}

fn is_destroy(object: u16, method: u16) -> bool {
    matches!(
        (object, method),
        (UVERBS_OBJECT_PD, UVERBS_METHOD_PD_DESTROY)
            | (UVERBS_OBJECT_MR, UVERBS_METHOD_MR_DESTROY)
            | (UVERBS_OBJECT_MW, UVERBS_METHOD_MW_DESTROY)
            | (UVERBS_OBJECT_AH, UVERBS_METHOD_AH_DESTROY)
            | (UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_DESTROY)
            | (UVERBS_OBJECT_QP, UVERBS_METHOD_QP_DESTROY)
            | (UVERBS_OBJECT_SRQ, UVERBS_METHOD_SRQ_DESTROY)
    )
}

/// Destroy methods: the handle has id 0, and the counts, if any, have id 1.
fn destroy(state: &mut State, file: FileId, object: u16, args: &Args<'_>) -> Result<Answer, Errno> {
    let kind = Kind::of_object(object).ok_or(Errno::PROTONOSUPPORT)?;
    let handle = args.object(0).ok_or(Errno::INVAL)?;
    let counts = state.destroy(file, kind, handle)?;
    let answer = Answer::default();
    Ok(match kind {
        Kind::Cq => answer.with(
            UVERBS_ATTR_DESTROY_CQ_RESP,
            &ib_uverbs_destroy_cq_resp {
                comp_events_reported: counts.completions,
                async_events_reported: counts.asynchronous,
            },
        ),
        Kind::Qp => answer.with(
            UVERBS_ATTR_DESTROY_QP_RESP,
            &ib_uverbs_destroy_qp_resp {
                events_reported: counts.asynchronous,
            },
        ),
        Kind::Srq => answer.with(
            UVERBS_ATTR_DESTROY_SRQ_RESP,
            &ib_uverbs_destroy_srq_resp {
                events_reported: counts.asynchronous,
            },
        ),
        _ => answer,
    })
}

/// The file behind a descriptor attribute of this context.
pub(super) fn event_file(
    state: &State,
    file: FileId,
    raw: RawFd,
    channel: bool,
) -> Result<FileId, Errno> {
    let found = state.files.of_number(raw)?;
    let wanted = if channel {
        Role::Channel(file)
    } else {
        Role::Events(file)
    };
    if found.role == wanted {
        Ok(found.id)
    } else {
        Err(Errno::BADF)
    }
}

fn optional_file(
    state: &State,
    file: FileId,
    raw: Option<RawFd>,
    channel: bool,
) -> Result<Option<FileId>, Errno> {
    raw.map(|raw| event_file(state, file, raw, channel))
        .transpose()
}

fn create_cq(state: &mut State, file: FileId, args: &Args<'_>) -> Result<Answer, Errno> {
    let create = cq::Create {
        user_handle: args.number(UVERBS_ATTR_CREATE_CQ_USER_HANDLE).unwrap_or(0),
        cqe: args.number32(UVERBS_ATTR_CREATE_CQ_CQE)?,
        vector: args.number32(UVERBS_ATTR_CREATE_CQ_COMP_VECTOR)?,
        flags: u32::try_from(args.number(UVERBS_ATTR_CREATE_CQ_FLAGS).unwrap_or(0))
            .map_err(|_| Errno::INVAL)?,
        channel: optional_file(
            state,
            file,
            args.fd(UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL),
            true,
        )?,
        events: optional_file(state, file, args.fd(UVERBS_ATTR_CREATE_CQ_EVENT_FD), false)?,
        room: args.uhw().output.len(),
    };
    let (handle, cqe, mi) = cq::create(state, file, &create)?;
    Ok(Answer::default()
        .with_handle(handle)
        .with(UVERBS_ATTR_CREATE_CQ_RESP_CQE, &cqe)
        .with(UVERBS_ATTR_UHW_OUT, &rxe_create_cq_resp { mi }))
}

fn create_qp(state: &mut State, file: FileId, args: &Args<'_>) -> Result<Answer, Errno> {
    let flags = u32::try_from(args.number(UVERBS_ATTR_CREATE_QP_FLAGS).unwrap_or(0))
        .map_err(|_| Errno::INVAL)?;
    if args.object(UVERBS_ATTR_CREATE_QP_XRCD_HANDLE).is_some()
        || args
            .object(UVERBS_ATTR_CREATE_QP_IND_TABLE_HANDLE)
            .is_some()
    {
        return Err(Errno::NOENT);
    }
    let source = args
        .number(UVERBS_ATTR_CREATE_QP_SOURCE_QPN)
        .map_or(0, |_| 1 << 10);
    let create = qp::Create {
        pd: args
            .object(UVERBS_ATTR_CREATE_QP_PD_HANDLE)
            .ok_or(Errno::INVAL)?,
        send_cq: args.object(UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE),
        recv_cq: args.object(UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE),
        srq: args.object(UVERBS_ATTR_CREATE_QP_SRQ_HANDLE),
        user_handle: args.number(UVERBS_ATTR_CREATE_QP_USER_HANDLE).unwrap_or(0),
        cap: request(args.bytes(UVERBS_ATTR_CREATE_QP_CAP))?,
        qp_type: args.number32(UVERBS_ATTR_CREATE_QP_TYPE)?,
        sig_all: flags & IB_UVERBS_QP_CREATE_SQ_SIG_ALL != 0,
        flags: (flags & !IB_UVERBS_QP_CREATE_SQ_SIG_ALL) | source,
        events: optional_file(state, file, args.fd(UVERBS_ATTR_CREATE_QP_EVENT_FD), false)?,
        driver: (args.uhw().input.len(), args.uhw().output.len()),
    };
    let created = qp::create(state, file, &create)?;
    Ok(Answer::default()
        .with_handle(created.handle)
        .with(UVERBS_ATTR_CREATE_QP_RESP_CAP, &created.cap)
        .with(UVERBS_ATTR_CREATE_QP_RESP_QP_NUM, &created.qpn)
        .with(UVERBS_ATTR_UHW_OUT, &created.driver))
}

fn create_srq(state: &mut State, file: FileId, args: &Args<'_>) -> Result<Answer, Errno> {
    if args.number(UVERBS_ATTR_CREATE_SRQ_TYPE) != Some(u64::from(IB_UVERBS_SRQT_BASIC)) {
        return Err(Errno::OPNOTSUPP);
    }
    let create = srq::Create {
        pd: args
            .object(UVERBS_ATTR_CREATE_SRQ_PD_HANDLE)
            .ok_or(Errno::INVAL)?,
        user_handle: args.number(UVERBS_ATTR_CREATE_SRQ_USER_HANDLE).unwrap_or(0),
        max_wr: args.number32(UVERBS_ATTR_CREATE_SRQ_MAX_WR)?,
        max_sge: args.number32(UVERBS_ATTR_CREATE_SRQ_MAX_SGE)?,
        limit: args.number32(UVERBS_ATTR_CREATE_SRQ_LIMIT)?,
        events: optional_file(state, file, args.fd(UVERBS_ATTR_CREATE_SRQ_EVENT_FD), false)?,
        room: args.uhw().output.len(),
    };
    let created = srq::create(state, file, &create)?;
    // The core reports the driver's number only for XRC queues.
    Ok(Answer::default()
        .with_handle(created.handle)
        .with(UVERBS_ATTR_CREATE_SRQ_RESP_MAX_WR, &created.max_wr)
        .with(UVERBS_ATTR_CREATE_SRQ_RESP_MAX_SGE, &created.max_sge)
        .with(UVERBS_ATTR_UHW_OUT, &created.driver))
}

fn register(state: &mut State, file: FileId, args: &Args<'_>) -> Result<Answer, Errno> {
    if args.fd(UVERBS_ATTR_REG_MR_FD).is_some()
        || args.object(UVERBS_ATTR_REG_MR_DMA_HANDLE).is_some()
    {
        return Err(Errno::OPNOTSUPP);
    }
    let range = mr::Range {
        start: args.number(UVERBS_ATTR_REG_MR_ADDR).ok_or(Errno::INVAL)?,
        length: args.number(UVERBS_ATTR_REG_MR_LENGTH).unwrap_or(0),
        iova: args.number(UVERBS_ATTR_REG_MR_IOVA).unwrap_or(0),
    };
    let pd = args
        .object(UVERBS_ATTR_REG_MR_PD_HANDLE)
        .ok_or(Errno::INVAL)?;
    let access = args.number32(UVERBS_ATTR_REG_MR_ACCESS_FLAGS)?;
    let (handle, key) = mr::register(state, file, pd, range, access)?;
    Ok(Answer::default()
        .with_handle(handle)
        .with(UVERBS_ATTR_REG_MR_RESP_LKEY, &key)
        .with(UVERBS_ATTR_REG_MR_RESP_RKEY, &key))
}
