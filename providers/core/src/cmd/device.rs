//! Queries of a device and its ports (`UVERBS_OBJECT_DEVICE`).

use std::mem::offset_of;

use uverbs_uapi::ib_user_ioctl_cmds::{
    UVERBS_ATTR_INFO_HANDLES_LIST, UVERBS_ATTR_INFO_OBJECT_ID, UVERBS_ATTR_INFO_TOTAL_HANDLES,
    UVERBS_ATTR_QUERY_PORT_PORT_NUM, UVERBS_ATTR_QUERY_PORT_RESP,
    UVERBS_ATTR_QUERY_PORT_SPEED_PORT_NUM, UVERBS_ATTR_QUERY_PORT_SPEED_RESP,
    UVERBS_METHOD_INFO_HANDLES, UVERBS_METHOD_QUERY_PORT, UVERBS_METHOD_QUERY_PORT_SPEED,
    UVERBS_OBJECT_DEVICE,
};
use uverbs_uapi::ib_user_ioctl_verbs::ib_uverbs_query_port_resp_ex;
use uverbs_uapi::ib_user_verbs::{
    IB_USER_VERBS_CMD_QUERY_DEVICE, IB_USER_VERBS_CMD_QUERY_PORT,
    IB_USER_VERBS_EX_CMD_QUERY_DEVICE, ib_uverbs_ex_query_device, ib_uverbs_ex_query_device_resp,
    ib_uverbs_query_device, ib_uverbs_query_device_resp, ib_uverbs_query_port,
    ib_uverbs_query_port_resp,
};
use zerocopy::IntoBytes;

use super::legacy::Legacy;
use crate::error::{Errno, Error, Op, Result};
use crate::file::UverbsFile;
use crate::sys::{Attr, Uhw, cells, slice_cells};
use crate::types::{
    AtomicCap, CqModerationCaps, DeviceAttr, DeviceCaps, FirmwareVersion, Guid, LinkLayer,
    LinkSpeed, LinkWidth, Mtu, OdpCaps, OdpGeneralCaps, OdpTransportCaps, PhysicalState, PortAttr,
    PortCaps, PortCaps2, PortFlags, PortState, RawPacketCaps, RssCaps, TagMatchingCaps,
    TagMatchingFlags, VirtualLanes,
};

/// `ibv_query_device_ex`—queries the identity and the limits of the device.
///
/// One system call: the extended `QUERY_DEVICE`. If the kernel or the driver does not have it
/// (EOPNOTSUPP, ENOSYS), a second one: the plain command, which cannot carry driver data. Fields
/// that the kernel does not report are zero.
///
/// # Errors
/// The driver's. [`BadReply`](crate::ErrorKind::BadReply) if the length of the reply is impossible.
#[doc(alias = "ibv_query_device")]
#[doc(alias = "ibv_query_device_ex")]
pub fn query(file: &UverbsFile, uhw: &Uhw<'_>) -> Result<DeviceAttr> {
    match query_extended(file, uhw) {
        Err(error) if matches!(error.errno(), Some(Errno::OPNOTSUPP | Errno::NOSYS)) => {
            query_plain(file)
        }
        result => result,
    }
}

fn query_extended(file: &UverbsFile, uhw: &Uhw<'_>) -> Result<DeviceAttr> {
    let op = Op::QueryDevice;
    let mut reply = Legacy::extended(op, IB_USER_VERBS_EX_CMD_QUERY_DEVICE).call(
        file,
        &ib_uverbs_ex_query_device::default(),
        ib_uverbs_ex_query_device_resp::default(),
        uhw,
    )?;
    let known = reply.response_length as usize;
    let bytes = reply.as_mut_bytes();
    let (Some(unknown), true) = (
        bytes.get_mut(known..),
        known >= offset_of!(ib_uverbs_ex_query_device_resp, odp_caps),
    ) else {
        return Err(Error::bad_reply(op, "an impossible length").fact("bytes", known));
    };
    unknown.fill(0);
    Ok(extended_attr(&reply, known))
}

fn query_plain(file: &UverbsFile) -> Result<DeviceAttr> {
    let reply = Legacy::plain(Op::QueryDevice, IB_USER_VERBS_CMD_QUERY_DEVICE).call(
        file,
        &ib_uverbs_query_device::default(),
        ib_uverbs_query_device_resp::default(),
        &Uhw::NONE,
    )?;
    Ok(plain_attr(&reply))
}

fn plain_attr(reply: &ib_uverbs_query_device_resp) -> DeviceAttr {
    DeviceAttr {
        fw_ver: FirmwareVersion::from_raw(reply.fw_ver),
        node_guid: Guid::from_u64(reply.node_guid.get()),
        sys_image_guid: Guid::from_u64(reply.sys_image_guid.get()),
        max_mr_size: reply.max_mr_size,
        page_size_cap: reply.page_size_cap,
        vendor_id: reply.vendor_id,
        vendor_part_id: reply.vendor_part_id,
        hw_ver: reply.hw_ver,
        max_qp: reply.max_qp,
        max_qp_wr: reply.max_qp_wr,
        caps: DeviceCaps::from_bits_retain(reply.device_cap_flags.into()),
        max_sge: reply.max_sge,
        max_sge_rd: reply.max_sge_rd,
        max_cq: reply.max_cq,
        max_cqe: reply.max_cqe,
        max_mr: reply.max_mr,
        max_pd: reply.max_pd,
        max_qp_rd_atom: reply.max_qp_rd_atom,
        max_ee_rd_atom: reply.max_ee_rd_atom,
        max_res_rd_atom: reply.max_res_rd_atom,
        max_qp_init_rd_atom: reply.max_qp_init_rd_atom,
        max_ee_init_rd_atom: reply.max_ee_init_rd_atom,
        atomic_cap: AtomicCap::from_raw(reply.atomic_cap),
        max_ee: reply.max_ee,
        max_rdd: reply.max_rdd,
        max_mw: reply.max_mw,
        max_raw_ipv6_qp: reply.max_raw_ipv6_qp,
        max_raw_ethy_qp: reply.max_raw_ethy_qp,
        max_mcast_grp: reply.max_mcast_grp,
        max_mcast_qp_attach: reply.max_mcast_qp_attach,
        max_total_mcast_qp_attach: reply.max_total_mcast_qp_attach,
        max_ah: reply.max_ah,
        max_fmr: reply.max_fmr,
        max_map_per_fmr: reply.max_map_per_fmr,
        max_srq: reply.max_srq,
        max_srq_wr: reply.max_srq_wr,
        max_srq_sge: reply.max_srq_sge,
        max_pkeys: reply.max_pkeys,
        local_ca_ack_delay: reply.local_ca_ack_delay,
        phys_port_cnt: reply.phys_port_cnt,
        ..DeviceAttr::default()
    }
}

/// The attributes in a reply of which the kernel wrote the first `known` bytes.
fn extended_attr(reply: &ib_uverbs_ex_query_device_resp, known: usize) -> DeviceAttr {
    let plain = plain_attr(&reply.base);
    let all_caps = offset_of!(ib_uverbs_ex_query_device_resp, rss_caps);
    let odp = &reply.odp_caps.per_transport_caps;
    DeviceAttr {
        caps: if known >= all_caps {
            DeviceCaps::from_bits_retain(reply.device_cap_flags_ex)
        } else {
            plain.caps
        },
        odp: OdpCaps {
            general: OdpGeneralCaps::from_bits_retain(reply.odp_caps.general_caps),
            rc: OdpTransportCaps::from_bits_retain(odp.rc_odp_caps),
            uc: OdpTransportCaps::from_bits_retain(odp.uc_odp_caps),
            ud: OdpTransportCaps::from_bits_retain(odp.ud_odp_caps),
            xrc: OdpTransportCaps::from_bits_retain(reply.xrc_odp_caps),
        },
        completion_timestamp_mask: reply.timestamp_mask,
        hca_core_clock_khz: reply.hca_core_clock,
        rss: RssCaps {
            supported_qp_types: reply.rss_caps.supported_qpts,
            max_indirection_tables: reply.rss_caps.max_rwq_indirection_tables,
            max_indirection_table_size: reply.rss_caps.max_rwq_indirection_table_size,
        },
        max_wq_type_rq: reply.max_wq_type_rq,
        raw_packet: RawPacketCaps::from_bits_retain(reply.raw_packet_caps),
        tag_matching: TagMatchingCaps {
            max_rndv_hdr_size: reply.tm_caps.max_rndv_hdr_size,
            max_num_tags: reply.tm_caps.max_num_tags,
            flags: TagMatchingFlags::from_bits_retain(reply.tm_caps.flags),
            max_ops: reply.tm_caps.max_ops,
            max_sge: reply.tm_caps.max_sge,
        },
        cq_moderation: CqModerationCaps {
            max_count: reply.cq_moderation_caps.max_cq_moderation_count,
            max_period_us: reply.cq_moderation_caps.max_cq_moderation_period,
        },
        max_dm_size: reply.max_dm_size,
        ..plain
    }
}

/// `ibv_query_port`—queries the state and the limits of a port, numbered from 1.
///
/// One system call; `DEVICE/QUERY_PORT` since 5.0, else `QUERY_PORT`. Only the former returns the
/// second capability mask, and only kernels later than 6.1 return speeds beyond 8 bits.
///
/// # Errors
/// EINVAL: there is no such port.
#[doc(alias = "ibv_query_port")]
pub fn query_port(file: &UverbsFile, port: u32) -> Result<PortAttr> {
    let op = Op::QueryPort;
    let Ok(port_num) = u8::try_from(port) else {
        return Err(Error::limit(op, "port", port.into(), u8::MAX.into()));
    };
    let by_ioctl = || {
        let mut reply = ib_uverbs_query_port_resp_ex::default();
        file.ioctl(
            op,
            UVERBS_OBJECT_DEVICE,
            UVERBS_METHOD_QUERY_PORT,
            &[
                Attr::constant(UVERBS_ATTR_QUERY_PORT_PORT_NUM, port_num),
                Attr::output(UVERBS_ATTR_QUERY_PORT_RESP, cells(&mut reply)),
            ],
            &Uhw::NONE,
        )?;
        Ok(reply)
    };
    let by_legacy = || {
        let request = ib_uverbs_query_port {
            port_num,
            ..ib_uverbs_query_port::default()
        };
        let legacy_resp = Legacy::plain(op, IB_USER_VERBS_CMD_QUERY_PORT).call(
            file,
            &request,
            ib_uverbs_query_port_resp::default(),
            &Uhw::NONE,
        )?;
        Ok(ib_uverbs_query_port_resp_ex {
            legacy_resp,
            ..ib_uverbs_query_port_resp_ex::default()
        })
    };
    let reply = file
        .dispatch(op, by_ioctl, by_legacy)
        .map_err(|error| error.fact("port", port))?;
    Ok(port_attr(&reply))
}

fn port_attr(reply: &ib_uverbs_query_port_resp_ex) -> PortAttr {
    let base = &reply.legacy_resp;
    let active_speed = match reply.active_speed_ex {
        0 => base.active_speed.into(),
        speed => speed,
    };
    PortAttr {
        state: PortState::from_raw(base.state),
        phys_state: PhysicalState::from_raw(base.phys_state),
        link_layer: LinkLayer::from_raw(base.link_layer),
        max_mtu: Mtu::from_raw(base.max_mtu),
        active_mtu: Mtu::from_raw(base.active_mtu),
        gid_tbl_len: base.gid_tbl_len,
        pkey_tbl_len: base.pkey_tbl_len,
        caps: PortCaps::from_bits_retain(base.port_cap_flags),
        caps2: PortCaps2::from_bits_retain(reply.port_cap_flags2),
        flags: PortFlags::from_bits_retain(base.flags),
        max_msg_sz: base.max_msg_sz,
        bad_pkey_cntr: base.bad_pkey_cntr,
        qkey_viol_cntr: base.qkey_viol_cntr,
        lid: base.lid,
        sm_lid: base.sm_lid,
        lmc: base.lmc,
        max_vl_num: VirtualLanes::from_raw(base.max_vl_num),
        sm_sl: base.sm_sl,
        subnet_timeout: base.subnet_timeout,
        init_type_reply: base.init_type_reply,
        active_width: LinkWidth::from_raw(base.active_width),
        active_speed: LinkSpeed::from_raw(active_speed),
    }
}

/// `ibv_query_port_speed`—queries the total bandwidth of a port, all lanes and bonded ports
/// together, in units of 100 Mb/s.
///
/// One system call, in kernels after 6.19.
///
/// # Errors
/// EINVAL: there is no such port. EOPNOTSUPP: the driver does not report it.
#[doc(alias = "ibv_query_port_speed")]
pub fn query_port_speed(file: &UverbsFile, port: u32) -> Result<u64> {
    let op = Op::QueryPortSpeed;
    let mut speed = 0_u64;
    file.ioctl_only(op, || {
        let attrs = [
            Attr::constant(UVERBS_ATTR_QUERY_PORT_SPEED_PORT_NUM, port),
            Attr::output(UVERBS_ATTR_QUERY_PORT_SPEED_RESP, cells(&mut speed)),
        ];
        file.ioctl(
            op,
            UVERBS_OBJECT_DEVICE,
            UVERBS_METHOD_QUERY_PORT_SPEED,
            &attrs,
            &Uhw::NONE,
        )
    })
    .map_err(|error| error.fact("port", port))?;
    Ok(speed)
}

/// The most handles that one [`info_handles`] can return: an attribute has at most 65535 bytes.
pub const MAX_INFO_HANDLES: usize = u16::MAX as usize / size_of::<u32>();

/// The handles of all objects of one kind (`UVERBS_OBJECT_*`, or a driver-specific kind) in this
/// context.
///
/// At most `capacity` of them, and at most [`MAX_INFO_HANDLES`]. One system call, since 5.0.
///
/// # Errors
/// ENOENT: the device has no such kind of object.
pub fn info_handles(file: &UverbsFile, object: u16, capacity: usize) -> Result<Vec<u32>> {
    let op = Op::QueryHandles;
    let mut handles = vec![0_u32; capacity.clamp(1, MAX_INFO_HANDLES)];
    let room = handles.len();
    let mut total = 0_u32;
    file.ioctl_only(op, || {
        let attrs = [
            Attr::constant(UVERBS_ATTR_INFO_OBJECT_ID, object),
            Attr::output(UVERBS_ATTR_INFO_TOTAL_HANDLES, cells(&mut total)),
            Attr::output(UVERBS_ATTR_INFO_HANDLES_LIST, slice_cells(&mut handles)),
        ];
        file.ioctl(
            op,
            UVERBS_OBJECT_DEVICE,
            UVERBS_METHOD_INFO_HANDLES,
            &attrs,
            &Uhw::NONE,
        )
    })
    .map_err(|error| error.fact("object", object))?;
    let count = total as usize;
    if count > room {
        return Err(
            Error::bad_reply(op, "more handles than there was room for").fact("handles", total)
        );
    }
    handles.truncate(count.min(capacity));
    Ok(handles)
}
