//! Conversions between the kernel's structs and the library's, which the connection manager's
//! library uses, and files of sysfs.
//!
//! # Safety
//!
//! Exports names of the library that this one stands for.
#![allow(unsafe_code, reason = "exports names")]

use std::ffi::{CString, c_char, c_int};
use std::sync::OnceLock;

use crate::abi::{
    ibv_ah_attr, ibv_gid, ibv_global_route, ibv_qp_attr, ibv_qp_cap, ibv_sa_path_rec,
};
use crate::answer::{Answer, minus_one};
use crate::env;
use crate::errno::Code;
use crate::pointer::{In, Out, text};

/// `struct ib_uverbs_ah_attr`.
#[derive(Clone, Copy)]
#[repr(C)]
struct KernelAddress {
    dgid: [u8; 16],
    flow_label: u32,
    sgid_index: u8,
    hop_limit: u8,
    traffic_class: u8,
    reserved: u8,
    dlid: u16,
    sl: u8,
    src_path_bits: u8,
    static_rate: u8,
    is_global: u8,
    port_num: u8,
    reserved2: u8,
}

/// `struct ib_uverbs_qp_attr`.
#[repr(C)]
struct KernelQueuePair {
    qp_attr_mask: u32,
    qp_state: u32,
    cur_qp_state: u32,
    path_mtu: u32,
    path_mig_state: u32,
    qkey: u32,
    rq_psn: u32,
    sq_psn: u32,
    dest_qp_num: u32,
    qp_access_flags: u32,
    ah_attr: KernelAddress,
    alt_ah_attr: KernelAddress,
    cap: [u32; 5],
    pkey_index: u16,
    alt_pkey_index: u16,
    en_sqd_async_notify: u8,
    sq_draining: u8,
    max_rd_atomic: u8,
    max_dest_rd_atomic: u8,
    min_rnr_timer: u8,
    port_num: u8,
    timeout: u8,
    retry_cnt: u8,
    rnr_retry: u8,
    alt_port_num: u8,
    alt_timeout: u8,
    reserved: [u8; 5],
}

/// `struct ib_user_path_rec`.
#[derive(Clone, Copy)]
#[repr(C)]
struct KernelPath {
    dgid: [u8; 16],
    sgid: [u8; 16],
    dlid: u16,
    slid: u16,
    raw_traffic: u32,
    flow_label: u32,
    reversible: u32,
    mtu: u32,
    pkey: u16,
    hop_limit: u8,
    traffic_class: u8,
    numb_path: u8,
    sl: u8,
    mtu_selector: u8,
    rate_selector: u8,
    rate: u8,
    packet_life_time_selector: u8,
    packet_life_time: u8,
    preference: u8,
}

const _: () = {
    assert!(size_of::<KernelAddress>() == 32);
    assert!(size_of::<KernelQueuePair>() == 144);
    assert!(size_of::<KernelPath>() == 64);
    assert!(size_of::<ibv_sa_path_rec>() == 64);
};

fn address(kernel: &KernelAddress) -> ibv_ah_attr {
    ibv_ah_attr {
        grh: ibv_global_route {
            dgid: ibv_gid { raw: kernel.dgid },
            flow_label: kernel.flow_label,
            sgid_index: kernel.sgid_index,
            hop_limit: kernel.hop_limit,
            traffic_class: kernel.traffic_class,
        },
        dlid: kernel.dlid,
        sl: kernel.sl,
        src_path_bits: kernel.src_path_bits,
        static_rate: kernel.static_rate,
        is_global: kernel.is_global,
        port_num: kernel.port_num,
    }
}

#[unsafe(no_mangle)]
extern "C" fn ibv_copy_ah_attr_from_kern(into: Out<ibv_ah_attr>, kernel: In<KernelAddress>) {
    if let Ok(kernel) = kernel.get() {
        into.put_if_any(address(kernel));
    }
}

#[unsafe(no_mangle)]
extern "C" fn ibv_copy_qp_attr_from_kern(into: Out<ibv_qp_attr>, kernel: In<KernelQueuePair>) {
    let Ok(kernel) = kernel.get() else { return };
    let [
        max_send_wr,
        max_recv_wr,
        max_send_sge,
        max_recv_sge,
        max_inline_data,
    ] = kernel.cap;
    into.put_if_any(ibv_qp_attr {
        qp_state: kernel.qp_state,
        cur_qp_state: kernel.cur_qp_state,
        path_mtu: kernel.path_mtu,
        path_mig_state: kernel.path_mig_state,
        qkey: kernel.qkey,
        rq_psn: kernel.rq_psn,
        sq_psn: kernel.sq_psn,
        dest_qp_num: kernel.dest_qp_num,
        qp_access_flags: kernel.qp_access_flags,
        cap: ibv_qp_cap {
            max_send_wr,
            max_recv_wr,
            max_send_sge,
            max_recv_sge,
            max_inline_data,
        },
        ah_attr: address(&kernel.ah_attr),
        alt_ah_attr: address(&kernel.alt_ah_attr),
        pkey_index: kernel.pkey_index,
        alt_pkey_index: kernel.alt_pkey_index,
        en_sqd_async_notify: kernel.en_sqd_async_notify,
        sq_draining: kernel.sq_draining,
        max_rd_atomic: kernel.max_rd_atomic,
        max_dest_rd_atomic: kernel.max_dest_rd_atomic,
        min_rnr_timer: kernel.min_rnr_timer,
        port_num: kernel.port_num,
        timeout: kernel.timeout,
        retry_cnt: kernel.retry_cnt,
        rnr_retry: kernel.rnr_retry,
        alt_port_num: kernel.alt_port_num,
        alt_timeout: kernel.alt_timeout,
        rate_limit: 0,
    });
}

#[unsafe(no_mangle)]
extern "C" fn ibv_copy_path_rec_from_kern(into: Out<ibv_sa_path_rec>, kernel: In<KernelPath>) {
    let Ok(kernel) = kernel.get() else { return };
    into.put_if_any(ibv_sa_path_rec {
        dgid: ibv_gid { raw: kernel.dgid },
        sgid: ibv_gid { raw: kernel.sgid },
        dlid: kernel.dlid,
        slid: kernel.slid,
        raw_traffic: kernel.raw_traffic.cast_signed(),
        flow_label: kernel.flow_label,
        hop_limit: kernel.hop_limit,
        traffic_class: kernel.traffic_class,
        reversible: kernel.reversible.cast_signed(),
        numb_path: kernel.numb_path,
        pkey: kernel.pkey,
        sl: kernel.sl,
        mtu_selector: kernel.mtu_selector,
        mtu: u8::try_from(kernel.mtu).unwrap_or(0),
        rate_selector: kernel.rate_selector,
        rate: kernel.rate,
        packet_life_time_selector: kernel.packet_life_time_selector,
        packet_life_time: kernel.packet_life_time,
        preference: kernel.preference,
    });
}

#[unsafe(no_mangle)]
extern "C" fn ibv_copy_path_rec_to_kern(into: Out<KernelPath>, path: In<ibv_sa_path_rec>) {
    let Ok(path) = path.get() else { return };
    into.put_if_any(KernelPath {
        dgid: path.dgid.raw,
        sgid: path.sgid.raw,
        dlid: path.dlid,
        slid: path.slid,
        raw_traffic: path.raw_traffic.cast_unsigned(),
        flow_label: path.flow_label,
        reversible: path.reversible.cast_unsigned(),
        mtu: path.mtu.into(),
        pkey: path.pkey,
        hop_limit: path.hop_limit,
        traffic_class: path.traffic_class,
        numb_path: path.numb_path,
        sl: path.sl,
        mtu_selector: path.mtu_selector,
        rate_selector: path.rate_selector,
        rate: path.rate,
        packet_life_time_selector: path.packet_life_time_selector,
        packet_life_time: path.packet_life_time,
        preference: path.preference,
    });
}

#[unsafe(no_mangle)]
extern "C" fn ibv_get_sysfs_path() -> *const c_char {
    static PATH: OnceLock<CString> = OnceLock::new();
    PATH.get_or_init(|| CString::new(env::sysfs()).unwrap_or_default())
        .as_ptr()
}

/// The number of bytes of the file's text, without the end of its last line.
#[unsafe(no_mangle)]
extern "C" fn ibv_read_sysfs_file(
    folder: *const c_char,
    file: *const c_char,
    into: Out<u8>,
    size: usize,
) -> c_int {
    minus_one(|| read(&format!("{}/{}", text(folder)?, text(file)?), into, size))
}

fn read(path: &str, into: Out<u8>, size: usize) -> Answer<c_int> {
    let contents = std::fs::read(path)
        .map_err(|error| Code::new(error.raw_os_error().unwrap_or(libc::EIO)))?;
    let line = contents.strip_suffix(b"\n").unwrap_or(&contents);
    let kept = line.len().min(size);
    for (at, byte) in line.iter().take(kept).enumerate() {
        into.after(at).put(*byte)?;
    }
    if kept < size {
        into.after(kept).put(0)?;
    }
    c_int::try_from(kept).map_err(|_| Code::INVALID)
}
