//! Dispatch of legacy commands, through `INVOKE_WRITE` and `write(2)`.
#![allow(clippy::wildcard_imports, reason = "a table of the header's own names")]

use std::os::fd::IntoRawFd;

use uverbs_uapi::ib_user_ioctl_cmds::{
    UVERBS_ATTR_CORE_IN, UVERBS_ATTR_CORE_OUT, UVERBS_ATTR_UHW_OUT, UVERBS_ATTR_WRITE_CMD,
};
use uverbs_uapi::ib_user_ioctl_verbs::ib_uverbs_qp_cap;
use uverbs_uapi::ib_user_verbs::*;
use uverbs_uapi::rdma_user_rxe::{rxe_create_ah_resp, rxe_create_cq_resp, rxe_resize_cq_resp};
use zerocopy::IntoBytes;

use crate::args::{Answer, Args, copy, request};
use crate::fault::ActiveFaults;
use crate::feature::Feature;
use crate::files::{FileId, Role};
use crate::ioctl::event_file;
use crate::state::{AfterRemoval, Kind, State};
use crate::{ah, cq, device, engine, mr, mw, pd, qp, srq};
use uverbs_core::error::Errno;
use uverbs_core::sys::{Pointer, Uhw, WriteCommand};

/// The flag of extended commands.
const EXTENDED: u32 = IB_USER_VERBS_CMD_FLAG_EXTENDED;

/// A legacy command, by `INVOKE_WRITE` or `write(2)`.
struct Legacy<'a> {
    number: u32,
    request: &'a [u8],
    /// Buffer sizes for the core's reply and for the driver's.
    room: (usize, usize),
    uhw: &'a Uhw<'a>,
}

/// `INVOKE_WRITE`.
pub(super) fn invoke(state: &mut State, file: FileId, args: &Args<'_>) -> Result<Answer, Errno> {
    let legacy = Legacy {
        number: args.number32(UVERBS_ATTR_WRITE_CMD)?,
        request: args.bytes(UVERBS_ATTR_CORE_IN),
        room: (
            args.room(UVERBS_ATTR_CORE_OUT).unwrap_or(0),
            args.uhw().output.len(),
        ),
        uhw: args.uhw(),
    };
    run(state, file, &legacy)
}

/// `write(2)`.
pub(super) fn write(
    state: &mut State,
    file: FileId,
    command: &WriteCommand<'_>,
    faults: &ActiveFaults,
) -> Result<(), Errno> {
    if !state.profile.has_write() {
        return Err(Errno::ACCESS);
    }
    check_words(command)?;
    let legacy = Legacy {
        number: command.number(),
        request: command.request,
        room: (command.reply.len(), command.uhw.output.len()),
        uhw: &command.uhw,
    };
    let mut answer = run(state, file, &legacy)?;
    copy(
        UVERBS_ATTR_CORE_OUT,
        &answer.take(UVERBS_ATTR_CORE_OUT),
        command.reply,
        faults,
    );
    copy(
        UVERBS_ATTR_UHW_OUT,
        &answer.take(UVERBS_ATTR_UHW_OUT),
        command.uhw.output,
        faults,
    );
    Ok(())
}

/// Lengths are counted in words: of 4 bytes for plain commands, of 8 for extended ones.
fn check_words(command: &WriteCommand<'_>) -> Result<(), Errno> {
    let (request, reply, uhw) = (command.request.len(), command.reply.len(), &command.uhw);
    let whole = if command.extended {
        [request, reply, uhw.input.len(), uhw.output.len()]
            .iter()
            .all(|len| len % 8 == 0)
    } else {
        (request + uhw.input.len()) % 4 == 0 && (reply + uhw.output.len()) % 4 == 0
    };
    if whole { Ok(()) } else { Err(Errno::INVAL) }
}

/// Minimum sizes of a command's request and reply.
fn sizes(number: u32) -> Result<(usize, usize), Errno> {
    macro_rules! of {
        ($request:ty) => {
            (size_of::<$request>(), 0)
        };
        ($request:ty, $reply:ty) => {
            (size_of::<$request>(), size_of::<$reply>())
        };
    }
    const EX_QUERY_DEVICE: u32 = EXTENDED | IB_USER_VERBS_EX_CMD_QUERY_DEVICE;
    const EX_CREATE_CQ: u32 = EXTENDED | IB_USER_VERBS_EX_CMD_CREATE_CQ;
    const EX_CREATE_QP: u32 = EXTENDED | IB_USER_VERBS_EX_CMD_CREATE_QP;
    const EX_MODIFY_QP: u32 = EXTENDED | IB_USER_VERBS_EX_CMD_MODIFY_QP;
    Ok(match number {
        IB_USER_VERBS_CMD_GET_CONTEXT => of!(ib_uverbs_get_context, ib_uverbs_get_context_resp),
        IB_USER_VERBS_CMD_QUERY_DEVICE => of!(ib_uverbs_query_device, ib_uverbs_query_device_resp),
        IB_USER_VERBS_CMD_QUERY_PORT => of!(ib_uverbs_query_port, ib_uverbs_query_port_resp),
        IB_USER_VERBS_CMD_ALLOC_PD => of!(ib_uverbs_alloc_pd, ib_uverbs_alloc_pd_resp),
        IB_USER_VERBS_CMD_DEALLOC_PD => of!(ib_uverbs_dealloc_pd),
        IB_USER_VERBS_CMD_CREATE_AH => of!(ib_uverbs_create_ah, ib_uverbs_create_ah_resp),
        IB_USER_VERBS_CMD_DESTROY_AH => of!(ib_uverbs_destroy_ah),
        IB_USER_VERBS_CMD_REG_MR => of!(ib_uverbs_reg_mr, ib_uverbs_reg_mr_resp),
        IB_USER_VERBS_CMD_REREG_MR => of!(ib_uverbs_rereg_mr, ib_uverbs_rereg_mr_resp),
        IB_USER_VERBS_CMD_DEREG_MR => of!(ib_uverbs_dereg_mr),
        IB_USER_VERBS_CMD_ALLOC_MW => of!(ib_uverbs_alloc_mw, ib_uverbs_alloc_mw_resp),
        IB_USER_VERBS_CMD_DEALLOC_MW => of!(ib_uverbs_dealloc_mw),
        IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL => {
            of!(
                ib_uverbs_create_comp_channel,
                ib_uverbs_create_comp_channel_resp
            )
        }
        IB_USER_VERBS_CMD_CREATE_CQ => of!(ib_uverbs_create_cq, ib_uverbs_create_cq_resp),
        IB_USER_VERBS_CMD_RESIZE_CQ => of!(ib_uverbs_resize_cq, ib_uverbs_resize_cq_resp),
        IB_USER_VERBS_CMD_DESTROY_CQ => of!(ib_uverbs_destroy_cq, ib_uverbs_destroy_cq_resp),
        IB_USER_VERBS_CMD_REQ_NOTIFY_CQ => of!(ib_uverbs_req_notify_cq),
        IB_USER_VERBS_CMD_CREATE_QP => of!(ib_uverbs_create_qp, ib_uverbs_create_qp_resp),
        IB_USER_VERBS_CMD_QUERY_QP => of!(ib_uverbs_query_qp, ib_uverbs_query_qp_resp),
        IB_USER_VERBS_CMD_MODIFY_QP => of!(ib_uverbs_modify_qp),
        IB_USER_VERBS_CMD_DESTROY_QP => of!(ib_uverbs_destroy_qp, ib_uverbs_destroy_qp_resp),
        IB_USER_VERBS_CMD_POST_SEND => of!(ib_uverbs_post_send, ib_uverbs_post_send_resp),
        IB_USER_VERBS_CMD_ATTACH_MCAST | IB_USER_VERBS_CMD_DETACH_MCAST => {
            of!(ib_uverbs_attach_mcast)
        }
        IB_USER_VERBS_CMD_CREATE_SRQ => of!(ib_uverbs_create_srq, ib_uverbs_create_srq_resp),
        IB_USER_VERBS_CMD_MODIFY_SRQ => of!(ib_uverbs_modify_srq),
        IB_USER_VERBS_CMD_QUERY_SRQ => of!(ib_uverbs_query_srq, ib_uverbs_query_srq_resp),
        IB_USER_VERBS_CMD_DESTROY_SRQ => of!(ib_uverbs_destroy_srq, ib_uverbs_destroy_srq_resp),
        // An extended reply must at least include its response length.
        EX_QUERY_DEVICE => (size_of::<ib_uverbs_ex_query_device>(), 184),
        EX_CREATE_CQ => (
            size_of::<ib_uverbs_ex_create_cq>(),
            size_of::<ib_uverbs_ex_create_cq_resp>(),
        ),
        EX_CREATE_QP => (52, 40),
        EX_MODIFY_QP => (size_of::<ib_uverbs_modify_qp>(), 8),
        plain if plain & EXTENDED == 0 && plain > IB_USER_VERBS_CMD_OPEN_QP => {
            return Err(Errno::INVAL);
        }
        // Commands for objects that rxe does not have.
        _ => return Err(Errno::OPNOTSUPP),
    })
}

fn run(state: &mut State, file: FileId, legacy: &Legacy<'_>) -> Result<Answer, Errno> {
    let has_extended = device::has_extended(state);
    if legacy.number & EXTENDED != 0 && !has_extended {
        return Err(Errno::OPNOTSUPP);
    }
    let (least_request, least_reply) = sizes(legacy.number)?;
    if legacy.request.len() < least_request || legacy.room.0 < least_reply {
        return Err(Errno::NOSPC);
    }
    if let Some(after) = state.removed
        && (after == AfterRemoval::DestroyFails || destroyed(legacy.number).is_none())
    {
        return Err(Errno::IO);
    }
    if let Some(kind) = destroyed(legacy.number) {
        return destroy(state, file, kind, legacy);
    }
    if legacy.number == IB_USER_VERBS_CMD_GET_CONTEXT {
        device::get_context(state, file)?;
        let events = device::new_events(state, file).inspect_err(|_| {
            state.contexts.remove(&file);
        })?;
        return Ok(core(&ib_uverbs_get_context_resp {
            async_fd: events.into_raw_fd().cast_unsigned(),
            num_comp_vectors: device::vectors(state),
        })
        .with(UVERBS_ATTR_UHW_OUT, device::context_data(state)));
    }
    state.context(file)?;
    queries(state, file, legacy).unwrap_or_else(|| objects(state, file, legacy))
}

fn core<T: IntoBytes + zerocopy::Immutable>(reply: &T) -> Answer {
    Answer::default().with(UVERBS_ATTR_CORE_OUT, reply)
}

/// The kind of object that a destroy command destroys.
fn destroyed(number: u32) -> Option<Kind> {
    Some(match number {
        IB_USER_VERBS_CMD_DEALLOC_PD => Kind::Pd,
        IB_USER_VERBS_CMD_DESTROY_AH => Kind::Ah,
        IB_USER_VERBS_CMD_DEREG_MR => Kind::Mr,
        IB_USER_VERBS_CMD_DEALLOC_MW => Kind::Mw,
        IB_USER_VERBS_CMD_DESTROY_CQ => Kind::Cq,
        IB_USER_VERBS_CMD_DESTROY_QP => Kind::Qp,
        IB_USER_VERBS_CMD_DESTROY_SRQ => Kind::Srq,
        _ => return None,
    })
}

fn destroy(
    state: &mut State,
    file: FileId,
    kind: Kind,
    legacy: &Legacy<'_>,
) -> Result<Answer, Errno> {
    // Commands with a reply start with the address for it.
    let at = if matches!(kind, Kind::Cq | Kind::Qp | Kind::Srq) {
        8
    } else {
        0
    };
    let handle: u32 = request(legacy.request.get(at..).unwrap_or_default())?;
    let counts = state.destroy(file, kind, handle)?;
    Ok(match kind {
        Kind::Cq => core(&ib_uverbs_destroy_cq_resp {
            comp_events_reported: counts.completions,
            async_events_reported: counts.asynchronous,
        }),
        _ => core(&counts.asynchronous),
    })
}

/// Commands that only query.
fn queries(state: &mut State, file: FileId, legacy: &Legacy<'_>) -> Option<Result<Answer, Errno>> {
    const EX_QUERY_DEVICE: u32 = EXTENDED | IB_USER_VERBS_EX_CMD_QUERY_DEVICE;
    Some(match legacy.number {
        IB_USER_VERBS_CMD_QUERY_DEVICE => {
            Ok(core(&device::device(state)).with(UVERBS_ATTR_UHW_OUT, device::device_data(state)))
        }
        EX_QUERY_DEVICE => request::<ib_uverbs_ex_query_device>(legacy.request).and_then(|input| {
            if input.comp_mask != 0 || input.reserved != 0 {
                return Err(Errno::INVAL);
            }
            Ok(core(&device::device_ex(state, legacy.room.0))
                .with(UVERBS_ATTR_UHW_OUT, device::device_data(state)))
        }),
        IB_USER_VERBS_CMD_QUERY_PORT => request::<ib_uverbs_query_port>(legacy.request)
            .and_then(|input| Ok(core(&device::port(state, input.port_num)?.legacy_resp))),
        IB_USER_VERBS_CMD_QUERY_QP => request::<ib_uverbs_query_qp>(legacy.request)
            .and_then(|input| qp::query(state, file, input.qp_handle))
            .map(|reply| core(&reply)),
        IB_USER_VERBS_CMD_QUERY_SRQ => request::<ib_uverbs_query_srq>(legacy.request)
            .and_then(|input| srq::query(state, file, input.srq_handle))
            .map(|(max_wr, max_sge, srq_limit)| {
                core(&ib_uverbs_query_srq_resp {
                    max_wr,
                    max_sge,
                    srq_limit,
                    reserved: 0,
                })
            }),
        _ => return None,
    })
}

/// Commands that create or modify objects.
fn objects(state: &mut State, file: FileId, legacy: &Legacy<'_>) -> Result<Answer, Errno> {
    const EX_CREATE_CQ: u32 = EXTENDED | IB_USER_VERBS_EX_CMD_CREATE_CQ;
    const EX_CREATE_QP: u32 = EXTENDED | IB_USER_VERBS_EX_CMD_CREATE_QP;
    const EX_MODIFY_QP: u32 = EXTENDED | IB_USER_VERBS_EX_CMD_MODIFY_QP;
    let bytes = legacy.request;
    match legacy.number {
        IB_USER_VERBS_CMD_ALLOC_PD => Ok(core(&ib_uverbs_alloc_pd_resp {
            pd_handle: pd::alloc(state, file)?,
        })),
        IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL => {
            let (_, fd) = state.files.open(Role::Channel(file))?;
            Ok(core(&ib_uverbs_create_comp_channel_resp {
                fd: fd.into_raw_fd().cast_unsigned(),
            }))
        }
        IB_USER_VERBS_CMD_REG_MR | IB_USER_VERBS_CMD_REREG_MR => memory(state, file, legacy),
        IB_USER_VERBS_CMD_ALLOC_MW => {
            let input: ib_uverbs_alloc_mw = request(bytes)?;
            let (mw_handle, rkey) = mw::alloc(state, file, input.pd_handle, input.mw_type)?;
            Ok(core(&ib_uverbs_alloc_mw_resp { mw_handle, rkey }))
        }
        IB_USER_VERBS_CMD_CREATE_AH => {
            let input: ib_uverbs_create_ah = request(bytes)?;
            let (ah_handle, ah_num) = ah::create(state, file, input.pd_handle, &input.attr)?;
            let answer = core(&ib_uverbs_create_ah_resp { ah_handle });
            if !state.profile.has(Feature::AddressNumbers) {
                return Ok(answer);
            }
            let number = rxe_create_ah_resp {
                ah_num,
                reserved: 0,
            };
            Ok(answer.with(UVERBS_ATTR_UHW_OUT, &number))
        }
        IB_USER_VERBS_CMD_CREATE_CQ | EX_CREATE_CQ => create_cq(state, file, legacy),
        IB_USER_VERBS_CMD_RESIZE_CQ => {
            let (cqe, mi) = cq::resize(state, file, &request(bytes)?, legacy.room.1)?;
            Ok(core(&ib_uverbs_resize_cq_resp { cqe, reserved: 0 })
                .with(UVERBS_ATTR_UHW_OUT, &rxe_resize_cq_resp { mi }))
        }
        IB_USER_VERBS_CMD_REQ_NOTIFY_CQ => {
            let input: ib_uverbs_req_notify_cq = request(bytes)?;
            cq::request_notification(state, file, input.cq_handle, input.solicited_only != 0)?;
            Ok(Answer::default())
        }
        IB_USER_VERBS_CMD_CREATE_QP | EX_CREATE_QP => create_qp(state, file, legacy),
        IB_USER_VERBS_CMD_MODIFY_QP => modify_qp(state, file, legacy),
        EX_MODIFY_QP => Ok(modify_qp(state, file, legacy)?.with(
            UVERBS_ATTR_CORE_OUT,
            &ib_uverbs_ex_modify_qp_resp {
                comp_mask: 0,
                response_length: 8,
            },
        )),
        IB_USER_VERBS_CMD_POST_SEND => {
            let input: ib_uverbs_post_send = request(bytes)?;
            engine::doorbell(state, file, &input)?;
            Ok(core(&ib_uverbs_post_send_resp { bad_wr: 0 }))
        }
        IB_USER_VERBS_CMD_ATTACH_MCAST => {
            let input: ib_uverbs_attach_mcast = request(bytes)?;
            qp::attach(state, file, input.qp_handle, (input.gid, input.mlid))
                .map(|()| Answer::default())
        }
        IB_USER_VERBS_CMD_DETACH_MCAST => {
            let input: ib_uverbs_detach_mcast = request(bytes)?;
            qp::detach(state, file, input.qp_handle, (input.gid, input.mlid))
                .map(|()| Answer::default())
        }
        IB_USER_VERBS_CMD_CREATE_SRQ | IB_USER_VERBS_CMD_MODIFY_SRQ => {
            shared_receive(state, file, legacy)
        }
        _ => Err(Errno::OPNOTSUPP),
    }
}

fn memory(state: &mut State, file: FileId, legacy: &Legacy<'_>) -> Result<Answer, Errno> {
    if legacy.number == IB_USER_VERBS_CMD_REREG_MR {
        let key = mr::reregister(state, file, &request(legacy.request)?)?;
        return Ok(core(&ib_uverbs_rereg_mr_resp {
            lkey: key,
            rkey: key,
        }));
    }
    let input: ib_uverbs_reg_mr = request(legacy.request)?;
    let range = mr::Range {
        start: input.start,
        length: input.length,
        iova: input.hca_va,
    };
    let (mr_handle, key) = mr::register(state, file, input.pd_handle, range, input.access_flags)?;
    Ok(core(&ib_uverbs_reg_mr_resp {
        mr_handle,
        lkey: key,
        rkey: key,
    }))
}

fn create_cq(state: &mut State, file: FileId, legacy: &Legacy<'_>) -> Result<Answer, Errno> {
    let extended = legacy.number & EXTENDED != 0;
    let input: ib_uverbs_ex_create_cq = if extended {
        request(legacy.request)?
    } else {
        let plain: ib_uverbs_create_cq = request(legacy.request)?;
        ib_uverbs_ex_create_cq {
            user_handle: plain.user_handle,
            cqe: plain.cqe,
            comp_vector: plain.comp_vector,
            comp_channel: plain.comp_channel,
            ..Default::default()
        }
    };
    if input.comp_mask != 0 || input.reserved != 0 {
        return Err(Errno::INVAL);
    }
    let channel = match input.comp_channel {
        negative if negative < 0 => None,
        raw => Some(event_file(state, file, raw, true)?),
    };
    let create = cq::Create {
        user_handle: input.user_handle,
        cqe: input.cqe,
        vector: input.comp_vector,
        flags: input.flags,
        channel,
        events: None,
        room: legacy.room.1,
    };
    let (cq_handle, cqe, mi) = cq::create(state, file, &create)?;
    let base = ib_uverbs_create_cq_resp { cq_handle, cqe };
    let answer = if extended {
        core(&ib_uverbs_ex_create_cq_resp {
            base,
            comp_mask: 0,
            response_length: 16,
        })
    } else {
        core(&base)
    };
    Ok(answer.with(UVERBS_ATTR_UHW_OUT, &rxe_create_cq_resp { mi }))
}

fn create_qp(state: &mut State, file: FileId, legacy: &Legacy<'_>) -> Result<Answer, Errno> {
    let extended = legacy.number & EXTENDED != 0;
    let mut input = ib_uverbs_ex_create_qp::default();
    // The plain request is the first part of the extended one, after the address for the reply.
    let from = legacy
        .request
        .get(if extended { 0 } else { 8 }..)
        .unwrap_or_default();
    let plain = size_of::<ib_uverbs_create_qp>() - 8;
    let len = from
        .len()
        .min(if extended { size_of_val(&input) } else { plain });
    if let (Some(to), Some(from)) = (input.as_mut_bytes().get_mut(..len), from.get(..len)) {
        to.copy_from_slice(from);
    }
    if input.comp_mask != 0 {
        return Err(Errno::OPNOTSUPP);
    }
    let create = qp::Create {
        pd: input.pd_handle,
        send_cq: Some(input.send_cq_handle),
        recv_cq: Some(input.recv_cq_handle),
        srq: (input.is_srq != 0).then_some(input.srq_handle),
        user_handle: input.user_handle,
        cap: ib_uverbs_qp_cap {
            max_send_wr: input.max_send_wr,
            max_recv_wr: input.max_recv_wr,
            max_send_sge: input.max_send_sge,
            max_recv_sge: input.max_recv_sge,
            max_inline_data: input.max_inline_data,
        },
        qp_type: u32::from(input.qp_type),
        sig_all: input.sq_sig_all != 0,
        flags: input.create_flags,
        events: None,
        driver: (legacy.uhw.input.len(), legacy.room.1),
    };
    let created = qp::create(state, file, &create)?;
    let base = ib_uverbs_create_qp_resp {
        qp_handle: created.handle,
        qpn: created.qpn,
        max_send_wr: created.cap.max_send_wr,
        max_recv_wr: created.cap.max_recv_wr,
        max_send_sge: created.cap.max_send_sge,
        max_recv_sge: created.cap.max_recv_sge,
        max_inline_data: created.cap.max_inline_data,
        reserved: 0,
    };
    let answer = if extended {
        core(&ib_uverbs_ex_create_qp_resp {
            base,
            comp_mask: 0,
            response_length: 40,
        })
    } else {
        core(&base)
    };
    Ok(answer.with(UVERBS_ATTR_UHW_OUT, &created.driver))
}

fn modify_qp(state: &mut State, file: FileId, legacy: &Legacy<'_>) -> Result<Answer, Errno> {
    super::modify::modify(state, file, &request(legacy.request)?).map(|()| Answer::default())
}

fn shared_receive(state: &mut State, file: FileId, legacy: &Legacy<'_>) -> Result<Answer, Errno> {
    if legacy.number == IB_USER_VERBS_CMD_MODIFY_SRQ {
        let place = srq::modify(
            state,
            file,
            &request(legacy.request)?,
            legacy.uhw.input.len(),
        )?;
        // rxe writes this one reply through an address inside the request.
        if let (Some(place), Some(Pointer { buffer, .. })) = (place, &legacy.uhw.pointer) {
            for (cell, byte) in buffer.iter().zip(place.as_bytes()) {
                cell.set(*byte);
            }
        }
        return Ok(Answer::default());
    }
    let input: ib_uverbs_create_srq = request(legacy.request)?;
    let create = srq::Create {
        pd: input.pd_handle,
        user_handle: input.user_handle,
        max_wr: input.max_wr,
        max_sge: input.max_sge,
        limit: input.srq_limit,
        events: None,
        room: legacy.room.1,
    };
    let created = srq::create(state, file, &create)?;
    Ok(core(&ib_uverbs_create_srq_resp {
        srq_handle: created.handle,
        max_wr: created.max_wr,
        max_sge: created.max_sge,
        srqn: 0,
    })
    .with(UVERBS_ATTR_UHW_OUT, &created.driver))
}
