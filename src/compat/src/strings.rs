//! Names of numbers, and conversions of rates.
//!
//! # Safety
//!
//! Exports names of the library that this one stands for.
#![allow(unsafe_code, reason = "exports names")]

use std::ffi::{CStr, c_char, c_int};

use uverbs_core::types::Rate;

/// Texts for C, in the order of their numbers.
type Texts = &'static [(u32, &'static CStr)];

const NODES: Texts = &[
    (1, c"InfiniBand channel adapter"),
    (2, c"InfiniBand switch"),
    (3, c"InfiniBand router"),
    (4, c"iWARP NIC"),
    (5, c"usNIC"),
    (6, c"usNIC UDP"),
    (7, c"unspecified"),
];

const PORTS: Texts = &[
    (0, c"no state change (NOP)"),
    (1, c"down"),
    (2, c"init"),
    (3, c"armed"),
    (4, c"active"),
    (5, c"active defer"),
];

const EVENTS: Texts = &[
    (0, c"CQ error"),
    (1, c"local work queue catastrophic error"),
    (2, c"invalid request local work queue error"),
    (3, c"local access violation work queue error"),
    (4, c"communication established"),
    (5, c"send queue drained"),
    (6, c"path migrated"),
    (7, c"path migration request error"),
    (8, c"local catastrophic error"),
    (9, c"port active"),
    (10, c"port error"),
    (11, c"LID change"),
    (12, c"P_Key change"),
    (13, c"SM change"),
    (14, c"SRQ catastrophic error"),
    (15, c"SRQ limit reached"),
    (16, c"last WQE reached"),
    (17, c"client reregistration"),
    (18, c"GID table change"),
    (19, c"WQ fatal"),
];

const STATUSES: Texts = &[
    (0, c"success"),
    (1, c"local length error"),
    (2, c"local QP operation error"),
    (3, c"local EE context operation error"),
    (4, c"local protection error"),
    (5, c"Work Request Flushed Error"),
    (6, c"memory management operation error"),
    (7, c"bad response error"),
    (8, c"local access error"),
    (9, c"remote invalid request error"),
    (10, c"remote access error"),
    (11, c"remote operation error"),
    (12, c"transport retry counter exceeded"),
    (13, c"RNR retry counter exceeded"),
    (14, c"local RDD violation error"),
    (15, c"remote invalid RD request"),
    (16, c"aborted error"),
    (17, c"invalid EE context number"),
    (18, c"invalid EE context state"),
    (19, c"fatal error"),
    (20, c"response timeout error"),
    (21, c"general error"),
    (22, c"TM error"),
    (23, c"TM software rendezvous"),
];

fn find(texts: Texts, number: c_int) -> *const c_char {
    let wanted = number.cast_unsigned();
    let found = texts.iter().find(|(number, _)| *number == wanted);
    found.map_or(c"unknown", |(_, text)| *text).as_ptr()
}

#[unsafe(no_mangle)]
extern "C" fn ibv_node_type_str(number: c_int) -> *const c_char {
    find(NODES, number)
}

#[unsafe(no_mangle)]
extern "C" fn ibv_port_state_str(number: c_int) -> *const c_char {
    find(PORTS, number)
}

#[unsafe(no_mangle)]
extern "C" fn ibv_event_type_str(number: c_int) -> *const c_char {
    find(EVENTS, number)
}

#[unsafe(no_mangle)]
extern "C" fn ibv_wc_status_str(number: c_int) -> *const c_char {
    find(STATUSES, number)
}

/// `IBV_RATE_MAX`, for what has no rate.
fn number(rate: Option<Rate>) -> c_int {
    rate.unwrap_or(Rate::Max).raw().into()
}

fn rate(number: c_int) -> Option<Rate> {
    u8::try_from(number).ok().map(Rate::from_raw)
}

fn or_minus_one(value: Option<u32>) -> c_int {
    value.map_or(-1, u32::cast_signed)
}

#[unsafe(no_mangle)]
extern "C" fn ibv_rate_to_mult(number: c_int) -> c_int {
    or_minus_one(rate(number).and_then(Rate::multiplier))
}

#[unsafe(no_mangle)]
extern "C" fn mult_to_ibv_rate(mult: c_int) -> c_int {
    number(u32::try_from(mult).ok().and_then(Rate::from_multiplier))
}

#[unsafe(no_mangle)]
extern "C" fn ibv_rate_to_mbps(number: c_int) -> c_int {
    or_minus_one(rate(number).and_then(Rate::mbps))
}

#[unsafe(no_mangle)]
extern "C" fn mbps_to_ibv_rate(mbps: c_int) -> c_int {
    number(u32::try_from(mbps).ok().and_then(Rate::from_mbps))
}

#[cfg(test)]
mod tests {
    use super::*;
    use uverbs_core::types::{AsyncEventType, NodeType, PortState, WcStatus};

    fn text(pointer: *const c_char) -> String {
        // SAFETY: a constant of this file.
        unsafe { CStr::from_ptr(pointer) }
            .to_string_lossy()
            .into_owned()
    }

    #[test]
    fn texts_are_those_of_the_vocabulary() {
        for value in NodeType::ALL {
            assert_eq!(text(ibv_node_type_str(value.raw().into())), value.ibv_str());
        }
        for value in PortState::ALL {
            assert_eq!(
                text(ibv_port_state_str(value.raw().into())),
                value.ibv_str()
            );
        }
        for value in WcStatus::ALL {
            assert_eq!(
                text(ibv_wc_status_str(value.raw().cast_signed())),
                value.ibv_str()
            );
        }
        for value in AsyncEventType::ALL.iter().filter(|value| value.raw() < 20) {
            assert_eq!(
                text(ibv_event_type_str(value.raw().cast_signed())),
                value.ibv_str()
            );
        }
        assert_eq!(text(ibv_event_type_str(1000)), "unknown");
    }
}
