//! Paths as a subnet's administrator describes them: of `infiniband/sa.h`, in network byte order.

use std::ffi::c_int;

use super::{ibv_gid, structs};

structs! {
    pub const PATHS;
    #[derive(Clone, Copy, Debug, Eq, PartialEq)]
    struct ibv_sa_path_rec {
        dgid: ibv_gid,
        sgid: ibv_gid,
        dlid: u16,
        slid: u16,
        raw_traffic: c_int,
        flow_label: u32,
        hop_limit: u8,
        traffic_class: u8,
        reversible: c_int,
        numb_path: u8,
        pkey: u16,
        sl: u8,
        mtu_selector: u8,
        mtu: u8,
        rate_selector: u8,
        rate: u8,
        packet_life_time_selector: u8,
        packet_life_time: u8,
        preference: u8,
    }
}
