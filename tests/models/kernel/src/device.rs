//! The device itself: context, attributes, port, GIDs.
#![allow(clippy::wildcard_imports, reason = "a table of the header's own names")]

use std::os::fd::OwnedFd;

use uverbs_uapi::ib_user_ioctl_cmds::*;
use uverbs_uapi::ib_user_ioctl_verbs::{
    IB_UVERBS_CORE_SUPPORT_OPTIONAL_MR_ACCESS, IB_UVERBS_CORE_SUPPORT_ROBUST_UDATA,
    IB_UVERBS_GID_TYPE_ROCE_V2, IB_UVERBS_QPF_GRH_REQUIRED, ib_uverbs_gid_entry,
    ib_uverbs_query_port_resp_ex,
};
use uverbs_uapi::ib_user_verbs::{
    ib_uverbs_ex_query_device_resp, ib_uverbs_query_device_resp, ib_uverbs_query_port_resp,
};
use zerocopy::IntoBytes;

use crate::args::{Answer, Args};
use crate::device_profile::gid_type;
use crate::feature::Feature;
use crate::files::{FileId, Role};
use crate::profile::Profile;
use crate::state::{Context, Kind, State};
use uverbs_core::error::Errno;

/// Completion vectors: rxe has one per possible processor.
const COMP_VECTORS: u32 = 2;
/// `DEFAULT_MAX_VALUE` of newer drivers.
const MILLION: u32 = 1 << 20;
/// Scatter/gather entries of a work request.
pub(super) const MAX_SGE: u32 = 32;
/// Scatter/gather entries of a shared receive queue's request.
pub(super) const MAX_SRQ_SGE: u32 = 27;
/// Entries of a completion queue.
pub(super) const MAX_CQE: u32 = (1 << 15) - 1;
/// Reads and atomics in flight.
pub(super) const MAX_READS: u8 = 128;
/// The port supports `IB_MTU_4096`; an Ethernet MTU of 1500 bytes allows `IB_MTU_1024`.
const MTU_1024: u8 = 3;
const MTU_4096: u8 = 5;
/// Entries of the GID table, most of them empty.
const GID_TABLE: u32 = 1024;

pub(super) const GUID: [u8; 8] = [0x02, 0xfa, 0xce, 0xff, 0xfe, 0x00, 0x00, 0x01];

/// The GIDs: a link-local address and an IPv4 one, both RoCE v2.
pub(super) const GIDS: [[u8; 16]; 2] = [
    [
        0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0x02, 0xfa, 0xce, 0xff, 0xfe, 0x00, 0x00, 0x01,
    ],
    [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1],
];

/// Work requests of a queue.
pub(super) const fn max_wr(profile: Profile) -> u32 {
    if profile.has(Feature::LargeLimits) {
        MILLION
    } else {
        0x4000
    }
}

/// Inline bytes of a work request.
pub(super) const fn max_inline(profile: Profile) -> u32 {
    if profile.has(Feature::LongInline) {
        MAX_SGE * 16
    } else {
        400
    }
}

/// Bytes of a message.
pub(super) const fn max_message(profile: Profile) -> u32 {
    if profile.has(Feature::LongMessages) {
        1 << 31
    } else {
        0x0080_0000
    }
}

/// The GID at an index.
///
/// # Errors
/// ENODATA for an empty entry; EINVAL beyond the table.
pub(super) fn gid(index: u32) -> Result<[u8; 16], Errno> {
    match GIDS.get(index as usize) {
        Some(gid) => Ok(*gid),
        None if index < GID_TABLE => Err(Errno::NODATA),
        None => Err(Errno::INVAL),
    }
}

fn gid_entry(state: &State, port_num: u8, index: u32) -> Result<ib_uverbs_gid_entry, Errno> {
    let port = port(state, port_num)?;
    if index >= port.legacy_resp.gid_tbl_len {
        return Err(Errno::INVAL);
    }
    let gid = gid(index)?;
    Ok(ib_uverbs_gid_entry {
        gid: zerocopy::transmute!(gid),
        gid_index: index,
        port_num: port_num.into(),
        gid_type: gid_type(&port, IB_UVERBS_GID_TYPE_ROCE_V2),
        netdev_ifindex: 7,
    })
}

/// GET_CONTEXT, without an event file.
///
/// # Errors
/// EINVAL for a second one; the recorded errnos of the imitated device for the first attempts.
pub(super) fn get_context(state: &mut State, file: FileId) -> Result<(), Errno> {
    if state.contexts.contains_key(&file) {
        return Err(Errno::INVAL);
    }
    if let Some(device) = &state.device {
        let refused = state.refused.entry(file).or_default();
        if let Some(errno) = device.refusals.get(*refused) {
            *refused += 1;
            return Err(*errno);
        }
    }
    state.contexts.insert(file, Context::default());
    Ok(())
}

/// Creates an event file; the objects of a context report to the first one.
pub(super) fn new_events(state: &mut State, file: FileId) -> Result<OwnedFd, Errno> {
    state.context(file)?;
    let (id, fd) = state.files.open(Role::Events(file))?;
    if let Some(context) = state.contexts.get_mut(&file) {
        context.events.get_or_insert(id);
    }
    Ok(fd)
}

/// Completion vectors.
pub(super) fn vectors(state: &State) -> u32 {
    let device = state.device.as_ref();
    device.map_or(COMP_VECTORS, |device| device.comp_vectors)
}

/// The driver data of a context; rxe has none.
pub(super) fn context_data(state: &State) -> &[u8] {
    let device = state.device.as_ref();
    device.map_or(&[], |device| &device.context_data)
}

/// The driver data of the device; rxe has none.
pub(super) fn device_data(state: &State) -> &[u8] {
    let device = state.device.as_ref();
    device.map_or(&[], |device| &device.device_data)
}

fn core_support(state: &State) -> u64 {
    if let Some(device) = &state.device {
        return device.core_support;
    }
    let optional = u64::from(IB_UVERBS_CORE_SUPPORT_OPTIONAL_MR_ACCESS);
    if state.profile.has(Feature::RobustUdata) {
        optional | u64::from(IB_UVERBS_CORE_SUPPORT_ROBUST_UDATA)
    } else {
        optional
    }
}

/// The ioctl methods of `UVERBS_OBJECT_DEVICE`.
pub(super) fn ioctl(
    state: &mut State,
    file: FileId,
    method: u16,
    args: &Args<'_>,
) -> Result<Answer, Errno> {
    let answer = Answer::default();
    match method {
        UVERBS_METHOD_GET_CONTEXT => {
            get_context(state, file)?;
            Ok(answer
                .with(UVERBS_ATTR_GET_CONTEXT_NUM_COMP_VECTORS, &vectors(state))
                .with(UVERBS_ATTR_GET_CONTEXT_CORE_SUPPORT, &core_support(state))
                .with(UVERBS_ATTR_UHW_OUT, context_data(state)))
        }
        UVERBS_METHOD_INFO_HANDLES => info_handles(state, file, args),
        _ => {
            state.context(file)?;
            queries(state, method, args)
        }
    }
}

fn queries(state: &State, method: u16, args: &Args<'_>) -> Result<Answer, Errno> {
    let answer = Answer::default();
    match method {
        UVERBS_METHOD_QUERY_PORT => {
            let number = port_number(args, UVERBS_ATTR_QUERY_PORT_PORT_NUM)?;
            Ok(answer.with(UVERBS_ATTR_QUERY_PORT_RESP, &port(state, number)?))
        }
        UVERBS_METHOD_QUERY_GID_ENTRY => {
            let port = port_number(args, UVERBS_ATTR_QUERY_GID_ENTRY_PORT)?;
            if args.number(UVERBS_ATTR_QUERY_GID_ENTRY_FLAGS) != Some(0) {
                return Err(Errno::INVAL);
            }
            let index = args.number32(UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX)?;
            let entry = gid_entry(state, port, index)?;
            Ok(answer.with(UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY, &entry))
        }
        UVERBS_METHOD_QUERY_GID_TABLE => gid_table(state, args),
        // The methods exist, but rxe does not implement them.
        _ => Err(Errno::OPNOTSUPP),
    }
}

fn gid_table(state: &State, args: &Args<'_>) -> Result<Answer, Errno> {
    let size = args
        .number(UVERBS_ATTR_QUERY_GID_TABLE_ENTRY_SIZE)
        .and_then(|size| usize::try_from(size).ok());
    let size = size.filter(|size| *size != 0).ok_or(Errno::INVAL)?;
    let room = args
        .room(UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES)
        .unwrap_or(0);
    if room == 0
        || !room.is_multiple_of(size)
        || args.number(UVERBS_ATTR_QUERY_GID_TABLE_FLAGS).unwrap_or(0) != 0
    {
        return Err(Errno::INVAL);
    }
    let mut bytes = Vec::new();
    let mut count = 0_u64;
    let entries = (0_u32..).take(GIDS.len());
    let entries = entries.filter_map(|index| gid_entry(state, 1, index).ok());
    for entry in entries.take(room / size) {
        let mut entry = entry.as_bytes().to_vec();
        entry.resize(size, 0);
        bytes.extend(entry);
        count += 1;
    }
    Ok(Answer::default()
        .with(UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES, bytes.as_slice())
        .with(UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES, &count))
}

/// INFO_HANDLES needs a list to fill, and answers even after the device was removed.
fn info_handles(state: &State, file: FileId, args: &Args<'_>) -> Result<Answer, Errno> {
    let room = args.room(UVERBS_ATTR_INFO_HANDLES_LIST).unwrap_or(0);
    if room == 0 || !room.is_multiple_of(4) {
        return Err(Errno::INVAL);
    }
    let object = args
        .number(UVERBS_ATTR_INFO_OBJECT_ID)
        .and_then(|id| u16::try_from(id).ok())
        .ok_or(Errno::INVAL)?;
    let kind = Kind::of_object(object).ok_or(Errno::INVAL)?;
    let mut handles = state.handles_of(file, kind);
    handles.truncate(room / 4);
    let total = u32::try_from(handles.len()).unwrap_or(u32::MAX);
    Ok(Answer::default()
        .with(UVERBS_ATTR_INFO_HANDLES_LIST, handles.as_slice())
        .with(UVERBS_ATTR_INFO_TOTAL_HANDLES, &total))
}

/// A port's number in an attribute.
///
/// # Errors
/// EINVAL for one that no port has.
fn port_number(args: &Args<'_>, id: u16) -> Result<u8, Errno> {
    u8::try_from(args.number32(id)?).map_err(|_| Errno::INVAL)
}

/// A port's attributes.
///
/// # Errors
/// EINVAL if there is no such port, or, for an imitated device, if it was not recorded.
pub(super) fn port(state: &State, number: u8) -> Result<ib_uverbs_query_port_resp_ex, Errno> {
    match &state.device {
        Some(device) => device.ports.get(&number).copied().ok_or(Errno::INVAL),
        None if number == 1 => Ok(own_port(state)),
        None => Err(Errno::INVAL),
    }
}

fn own_port(state: &State) -> ib_uverbs_query_port_resp_ex {
    ib_uverbs_query_port_resp_ex {
        legacy_resp: ib_uverbs_query_port_resp {
            port_cap_flags: 1 << 16,
            max_msg_sz: max_message(state.profile),
            gid_tbl_len: GID_TABLE,
            pkey_tbl_len: 1,
            state: 4,
            max_mtu: MTU_4096,
            active_mtu: MTU_1024,
            max_vl_num: 1,
            active_width: 1,
            active_speed: 1,
            phys_state: 5,
            link_layer: 2,
            flags: u8::try_from(IB_UVERBS_QPF_GRH_REQUIRED).unwrap_or(1),
            ..Default::default()
        },
        port_cap_flags2: 0,
        reserved: [0; 2],
        active_speed_ex: u32::from(state.profile.has(Feature::SpeedEx)),
    }
}

/// Bits of `IB_DEVICE_*` that rxe sets.
fn capabilities(state: &State) -> u64 {
    // BAD_PKEY_CNTR, BAD_QKEY_CNTR, AUTO_PATH_MIG, CHANGE_PHY_PORT, UD_AV_PORT_ENFORCE,
    // SYS_IMAGE_GUID, RC_RNR_NAK_GEN, PORT_ACTIVE_EVENT, SRQ_RESIZE, MEM_MGT_EXTENSIONS.
    let all = [1, 2, 4, 5, 6, 10, 11, 12, 13, 21];
    // MEM_WINDOW, MEM_WINDOW_TYPE_2B.
    let windows = [17, 24].map(|bit| (Feature::MemoryWindows, bit));
    let flush = [38, 39, 40].map(|bit| (Feature::Flush, bit));
    let some = windows.iter().chain(&flush);
    let some = some.filter(|(feature, _)| state.profile.has(*feature));
    let bits = all.iter().chain(some.map(|(_, bit)| bit));
    bits.fold(0, |mask, bit| mask | 1_u64 << bit)
}

/// The legacy device attributes.
#[expect(
    clippy::cast_possible_truncation,
    reason = "the legacy reply has the low half of the capabilities"
)]
pub(super) fn device(state: &State) -> ib_uverbs_query_device_resp {
    if let Some(device) = &state.device {
        return device.device.base;
    }
    let max_wr = max_wr(state.profile);
    let large = state.profile.has(Feature::LargeLimits);
    let windows = state.profile.has(Feature::MemoryWindows);
    ib_uverbs_query_device_resp {
        node_guid: u64::from_be_bytes(GUID).into(),
        sys_image_guid: u64::from_be_bytes(GUID).into(),
        max_mr_size: u64::MAX,
        page_size_cap: 0xffff_f000,
        vendor_id: 0x00ff_ffff,
        max_qp: if large { MILLION - 16 } else { 0x1_0000 },
        max_qp_wr: max_wr,
        device_cap_flags: capabilities(state) as u32,
        max_sge: MAX_SGE,
        max_sge_rd: MAX_SGE,
        max_cq: max_wr,
        max_cqe: MAX_CQE,
        max_mr: match (large, windows) {
            (true, _) => (MILLION >> 1) - 1,
            (false, true) => 0x1000,
            (false, false) => 0x4_0000,
        },
        max_pd: if large { MILLION } else { 0x7ffc },
        max_qp_rd_atom: u32::from(MAX_READS),
        max_res_rd_atom: 0x3_f000,
        max_qp_init_rd_atom: u32::from(MAX_READS),
        atomic_cap: 1,
        max_mw: match (large, windows) {
            (true, _) => (MILLION >> 1) - 1,
            (false, true) => 0x1000,
            (false, false) => 0,
        },
        max_mcast_grp: 8192,
        max_mcast_qp_attach: 56,
        max_total_mcast_qp_attach: 0x7_0000,
        max_ah: (1 << 15) - 1,
        max_srq: if large { MILLION - 0x2_0001 } else { 960 },
        max_srq_wr: max_wr,
        max_srq_sge: MAX_SRQ_SGE,
        max_pkeys: 64,
        local_ca_ack_delay: 15,
        phys_port_cnt: 1,
        ..Default::default()
    }
}

/// Whether the driver allows extended commands: an imitated device's driver does if its attributes
/// were recorded by one, whose reply contains a length.
pub(super) fn has_extended(state: &State) -> bool {
    match &state.device {
        Some(device) => device.device.response_length != 0,
        None => state.profile.has(Feature::ExtendedOfRxe),
    }
}

/// The extended device attributes.
pub(super) fn device_ex(state: &State, room: usize) -> ib_uverbs_ex_query_device_resp {
    let whole = size_of::<ib_uverbs_ex_query_device_resp>();
    if let Some(device) = &state.device {
        let length = device.device.response_length;
        return ib_uverbs_ex_query_device_resp {
            response_length: u32::try_from(room).map_or(length, |room| length.min(room)),
            ..device.device
        };
    }
    ib_uverbs_ex_query_device_resp {
        base: device(state),
        response_length: u32::try_from(whole.min(room)).unwrap_or(u32::MAX),
        device_cap_flags_ex: capabilities(state),
        ..Default::default()
    }
}
