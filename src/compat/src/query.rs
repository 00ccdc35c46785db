//! What devices and ports say about themselves.
//!
//! # Safety
//!
//! Exports names of the library that this one stands for.
#![allow(unsafe_code, reason = "exports names")]

use std::ffi::c_int;

use uverbs_core::contract;
use uverbs_core::types::{DeviceAttr, GidEntry, GidType, PortAttr};

use crate::abi::{
    ibv_cq_moderation_caps, ibv_device_attr, ibv_device_attr_ex, ibv_gid, ibv_gid_entry,
    ibv_odp_caps, ibv_packet_pacing_caps, ibv_pci_atomic_caps, ibv_port_attr, ibv_rss_caps,
    ibv_tm_caps, ibv_tso_caps,
};
use crate::answer::{Answer, minus_one, negative, number};
use crate::context::Context;
use crate::device::text;
use crate::dv;
use crate::errno::Code;
use crate::pointer::{Handle, Out};

/// The kernel keeps counts in 32 bits; the header has signed ones.
fn count(value: u32) -> c_int {
    value.cast_signed()
}

fn plain(context: &Context) -> ibv_device_attr {
    let device: &DeviceAttr = &context.provider().base().device;
    let bits = device.caps.bits();
    ibv_device_attr {
        fw_ver: text(&context.provider().firmware_version()),
        node_guid: u64::from_ne_bytes(device.node_guid.to_bytes()),
        sys_image_guid: u64::from_ne_bytes(device.sys_image_guid.to_bytes()),
        max_mr_size: device.max_mr_size,
        page_size_cap: device.page_size_cap,
        vendor_id: device.vendor_id,
        vendor_part_id: device.vendor_part_id,
        hw_ver: device.hw_ver,
        max_qp: count(device.max_qp),
        max_qp_wr: count(device.max_qp_wr),
        device_cap_flags: u32::try_from(bits & u64::from(u32::MAX)).unwrap_or(u32::MAX),
        max_sge: count(device.max_sge),
        max_sge_rd: count(device.max_sge_rd),
        max_cq: count(device.max_cq),
        max_cqe: count(device.max_cqe),
        max_mr: count(device.max_mr),
        max_pd: count(device.max_pd),
        max_qp_rd_atom: count(device.max_qp_rd_atom),
        max_ee_rd_atom: count(device.max_ee_rd_atom),
        max_res_rd_atom: count(device.max_res_rd_atom),
        max_qp_init_rd_atom: count(device.max_qp_init_rd_atom),
        max_ee_init_rd_atom: count(device.max_ee_init_rd_atom),
        atomic_cap: device.atomic_cap.raw(),
        max_ee: count(device.max_ee),
        max_rdd: count(device.max_rdd),
        max_mw: count(device.max_mw),
        max_raw_ipv6_qp: count(device.max_raw_ipv6_qp),
        max_raw_ethy_qp: count(device.max_raw_ethy_qp),
        max_mcast_grp: count(device.max_mcast_grp),
        max_mcast_qp_attach: count(device.max_mcast_qp_attach),
        max_total_mcast_qp_attach: count(device.max_total_mcast_qp_attach),
        max_ah: count(device.max_ah),
        max_fmr: count(device.max_fmr),
        max_map_per_fmr: count(device.max_map_per_fmr),
        max_srq: count(device.max_srq),
        max_srq_wr: count(device.max_srq_wr),
        max_srq_sge: count(device.max_srq_sge),
        max_pkeys: device.max_pkeys,
        local_ca_ack_delay: device.local_ca_ack_delay,
        phys_port_cnt: device.phys_port_cnt,
    }
}

fn whole(context: &Context) -> ibv_device_attr_ex {
    let device = &context.provider().base().device;
    let odp = &device.odp;
    let tags = &device.tag_matching;
    ibv_device_attr_ex {
        orig_attr: plain(context),
        comp_mask: 0,
        odp_caps: ibv_odp_caps {
            general_caps: odp.general.bits(),
            per_transport_caps: [odp.rc.bits(), odp.uc.bits(), odp.ud.bits()],
        },
        completion_timestamp_mask: device.completion_timestamp_mask,
        hca_core_clock: device.hca_core_clock_khz,
        device_cap_flags_ex: device.caps.bits(),
        tso_caps: ibv_tso_caps::default(),
        rss_caps: ibv_rss_caps {
            supported_qpts: device.rss.supported_qp_types,
            max_rwq_indirection_tables: device.rss.max_indirection_tables,
            max_rwq_indirection_table_size: device.rss.max_indirection_table_size,
            ..ibv_rss_caps::default()
        },
        max_wq_type_rq: device.max_wq_type_rq,
        packet_pacing_caps: ibv_packet_pacing_caps::default(),
        raw_packet_caps: device.raw_packet.bits(),
        tm_caps: ibv_tm_caps {
            max_rndv_hdr_size: tags.max_rndv_hdr_size,
            max_num_tags: tags.max_num_tags,
            flags: tags.flags.bits(),
            max_ops: tags.max_ops,
            max_sge: tags.max_sge,
        },
        cq_mod_caps: ibv_cq_moderation_caps {
            max_cq_count: device.cq_moderation.max_count,
            max_cq_period: device.cq_moderation.max_period_us,
        },
        max_dm_size: device.max_dm_size,
        pci_atomic_caps: ibv_pci_atomic_caps::default(),
        xrc_odp_caps: odp.xrc.bits(),
        phys_port_cnt_ex: context.info.ports.unwrap_or(device.phys_port_cnt.into()),
    }
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn ibv_query_device(
    context: Handle<Context>,
    attr: Out<ibv_device_attr>,
) -> c_int {
    number(|| attr.put(plain(context.get()?)))
}

/// The slot. Programs with an older header have a shorter struct.
pub(crate) extern "C" fn query_device_ex(
    context: Handle<Context>,
    input: *const u32,
    attr: Out<ibv_device_attr_ex>,
    size: usize,
) -> c_int {
    number(|| {
        let asked = crate::pointer::items(input, usize::from(!input.is_null()))?;
        if asked.iter().any(|mask| *mask != 0) || size < size_of::<ibv_device_attr>() {
            return Err(Code::INVALID);
        }
        let context = context.get()?;
        let mut all = whole(context);
        dv::add_to(context, &mut all);
        attr.put_bytes(&all, size)
    })
}

fn port(attr: &PortAttr) -> ibv_port_attr {
    let speed = attr.active_speed.raw();
    ibv_port_attr {
        state: attr.state.raw().into(),
        max_mtu: attr.max_mtu.raw().into(),
        active_mtu: attr.active_mtu.raw().into(),
        gid_tbl_len: count(attr.gid_tbl_len),
        port_cap_flags: attr.caps.bits(),
        max_msg_sz: attr.max_msg_sz,
        bad_pkey_cntr: attr.bad_pkey_cntr,
        qkey_viol_cntr: attr.qkey_viol_cntr,
        pkey_tbl_len: attr.pkey_tbl_len,
        lid: attr.lid,
        sm_lid: attr.sm_lid,
        lmc: attr.lmc,
        max_vl_num: attr.max_vl_num.raw(),
        sm_sl: attr.sm_sl,
        subnet_timeout: attr.subnet_timeout,
        init_type_reply: attr.init_type_reply,
        active_width: attr.active_width.raw(),
        // The old field ends with NDR.
        active_speed: u8::try_from(speed).unwrap_or(NDR),
        phys_state: attr.phys_state.raw(),
        link_layer: attr.link_layer.raw(),
        flags: attr.flags.bits(),
        port_cap_flags2: attr.caps2.bits(),
        active_speed_ex: speed,
    }
}

/// `IB_SPEED_NDR`, as far as the old field goes.
const NDR: u8 = 128;

/// What programs from before `port_cap_flags2` have room for.
const OLD_PORT: usize = 48;

#[unsafe(no_mangle)]
pub(crate) extern "C" fn ibv_query_port(
    context: Handle<Context>,
    number: u8,
    attr: Out<ibv_port_attr>,
) -> c_int {
    query_port(context, number, attr, OLD_PORT)
}

/// The slot.
pub(crate) extern "C" fn query_port(
    context: Handle<Context>,
    which: u8,
    attr: Out<ibv_port_attr>,
    size: usize,
) -> c_int {
    number(|| {
        let found = contract::query_port(context.get()?.file(), which)?;
        attr.put_bytes(&port(&found), size)
    })
}

#[unsafe(no_mangle)]
extern "C" fn ibv_query_port_speed(context: Handle<Context>, port: u32, speed: Out<u64>) -> c_int {
    number(|| {
        let port = u8::try_from(port).map_err(|_| Code::INVALID)?;
        speed.put(contract::query_port_speed(context.get()?.file(), port)?)
    })
}

pub(crate) fn gid(context: &Context, port: u32, index: u32) -> Answer<Option<GidEntry>> {
    let port = u8::try_from(port).map_err(|_| Code::INVALID)?;
    Ok(context.gids().entry(port, index)?)
}

fn entry(found: &GidEntry) -> ibv_gid_entry {
    ibv_gid_entry {
        gid: ibv_gid {
            raw: found.gid.to_bytes(),
        },
        gid_index: found.index,
        port_num: found.port,
        gid_type: found.gid_type.raw(),
        ndev_ifindex: found.netdev.map_or(0, Into::into),
    }
}

/// An empty entry is a GID of zeros.
#[unsafe(no_mangle)]
extern "C" fn ibv_query_gid(
    context: Handle<Context>,
    port: u8,
    index: c_int,
    into: Out<ibv_gid>,
) -> c_int {
    minus_one(|| {
        let index = u32::try_from(index).map_err(|_| Code::INVALID)?;
        let found = gid(context.get()?, port.into(), index)?;
        into.put(found.map_or_else(ibv_gid::default, |found| entry(&found).gid))?;
        Ok(0)
    })
}

/// Entries of programs with an older or newer header are of another size, at least this.
fn check_entry(size: usize) -> Answer<()> {
    match size {
        ENTRY => Ok(()),
        _ => Err(Code::INVALID),
    }
}

const ENTRY: usize = size_of::<ibv_gid_entry>();

#[unsafe(no_mangle)]
extern "C" fn _ibv_query_gid_ex(
    context: Handle<Context>,
    port: u32,
    index: u32,
    into: Out<ibv_gid_entry>,
    flags: u32,
    size: usize,
) -> c_int {
    number(|| {
        check_entry(size)?;
        if flags != 0 {
            return Err(Code::UNSUPPORTED);
        }
        let found = gid(context.get()?, port, index)?.ok_or(Code::NO_DATA)?;
        into.put(entry(&found))
    })
}

/// The number of entries, or a negative errno; EINVAL if there are more than there is room for.
#[unsafe(no_mangle)]
extern "C" fn _ibv_query_gid_table(
    context: Handle<Context>,
    into: Out<ibv_gid_entry>,
    room: usize,
    flags: u32,
    size: usize,
) -> isize {
    let mut found = Vec::new();
    let failed = negative(|| {
        check_entry(size)?;
        if flags != 0 {
            return Err(Code::UNSUPPORTED);
        }
        context.get()?.gids().each(|gid| found.push(gid))?;
        if found.len() > room {
            return Err(Code::INVALID);
        }
        for (at, gid) in found.iter().enumerate() {
            into.after(at).put(entry(gid))?;
        }
        Ok(())
    });
    match failed {
        0 => found.len().cast_signed(),
        failed => isize::try_from(failed).unwrap_or(-1),
    }
}

/// `IBV_GID_TYPE_SYSFS_IB_ROCE_V1` and `IBV_GID_TYPE_SYSFS_ROCE_V2`.
fn gid_type(context: Handle<Context>, port: u8, index: u32, into: Out<u32>) -> c_int {
    minus_one(|| {
        let context = context.get()?;
        let found = match gid(context, port.into(), index)? {
            Some(found) => found.gid_type,
            None => GidType::Ib,
        };
        into.put(u32::from(found == GidType::RoceV2))?;
        Ok(0)
    })
}

macro_rules! gid_types {
    ($($(#[$exported:meta])* $name:ident;)*) => {
        $(
            $(#[$exported])*
            extern "C" fn $name(
                context: Handle<Context>,
                port: u8,
                index: u32,
                into: Out<u32>,
            ) -> c_int {
                gid_type(context, port, index, into)
            }
        )*
    };
}

gid_types! {
    #[cfg_attr(
        feature = "shared",
        unsafe(export_name = "ibv_query_gid_type@@IBVERBS_PRIVATE_34")
    )]
    #[cfg_attr(not(feature = "shared"), unsafe(no_mangle))]
    ibv_query_gid_type;
    #[cfg(feature = "shared")]
    #[unsafe(export_name = "ibv_query_gid_type@IBVERBS_PRIVATE_65")]
    newer_query_gid_type;
}

/// In network byte order.
#[unsafe(no_mangle)]
extern "C" fn ibv_query_pkey(
    context: Handle<Context>,
    port: u8,
    index: c_int,
    into: Out<u16>,
) -> c_int {
    minus_one(|| {
        let context = context.get()?;
        let index = u32::try_from(index).map_err(|_| Code::INVALID)?;
        let key = context
            .sysfs
            .pkey(&context.info.name, port.into(), index)
            .map_err(|_| Code::INVALID)?;
        into.put(key.to_be())?;
        Ok(0)
    })
}

#[unsafe(no_mangle)]
extern "C" fn ibv_get_pkey_index(context: Handle<Context>, port: u8, key: u16) -> c_int {
    minus_one(|| {
        let context = context.get()?;
        let keys = context.sysfs.pkeys(&context.info.name, port.into());
        let keys = keys.map_err(|_| Code::INVALID)?;
        let at = keys.iter().position(|one| one.to_be() == key);
        let at = at.ok_or(Code::INVALID)?;
        c_int::try_from(at).map_err(|_| Code::INVALID)
    })
}
