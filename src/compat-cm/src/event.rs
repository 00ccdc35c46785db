//! Events as programs have them, and their acknowledgement.
//!
//! # Safety
//!
//! Exports names of the library that this one stands for.
#![allow(unsafe_code, reason = "exports names")]

use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;

use uverbs_compat_base::abi::{ibv_ah_attr, ibv_gid, ibv_global_route};
use uverbs_core::cm::EventKind;
use uverbs_core::cm::raw::{
    RDMA_MAX_PRIVATE_DATA, rdma_ucm_conn_param, rdma_ucm_event_resp, rdma_ucm_ud_param,
};
use zerocopy::{FromBytes as _, IntoBytes as _};

use crate::abi::{Param, rdma_cm_event, rdma_conn_param, rdma_ud_param};
use crate::answer::{Answer, minus_one};
use crate::multicast::Join;
use crate::pointer::{Handle, Object};
use crate::table::Owner;
use crate::verbs;

/// An event. It keeps its id until it is acknowledged.
#[repr(C)]
pub(crate) struct Event {
    pub(crate) c: rdma_cm_event,
    private_data: [u8; RDMA_MAX_PRIVATE_DATA],
    pub(crate) owner: Owner,
    pub(crate) join: Option<Arc<Join>>,
}

impl Object for Event {
    type C = rdma_cm_event;
}

impl Event {
    /// An event of an id, with what `raw` says about a connection, or a datagram service.
    pub(crate) fn new(owner: Owner, raw: &rdma_ucm_event_resp, is_datagram: bool) -> Box<Self> {
        let (param, private_data) = if is_datagram {
            datagram(raw)
        } else {
            connection(raw)
        };
        let mut event = Box::new(Self {
            c: rdma_cm_event {
                id: owner.id().raw(),
                listen_id: std::ptr::null_mut(),
                event: raw.event,
                status: raw.status.cast_signed(),
                param,
            },
            private_data,
            owner,
            join: None,
        });
        event.point_to_data();
        event
    }

    /// Has the parameters point to the data, if there is any.
    fn point_to_data(&mut self) {
        let data = self.private_data.as_ptr().cast::<c_void>();
        // SAFETY: both structs begin with the pointer and the length; zeros are none.
        let conn = unsafe { &mut self.c.param.conn };
        if conn.private_data_len > 0 {
            conn.private_data = data;
        }
    }

    /// What the peer sent with it.
    pub(crate) fn private_data(&self) -> &[u8] {
        let length = self.connection().private_data_len.into();
        self.private_data
            .get(..length)
            .unwrap_or(&self.private_data)
    }

    /// Has the parameters carry what the program gave when it joined a group.
    pub(crate) fn carry(&mut self, context: *mut c_void) {
        self.c.param.conn.private_data = context;
    }

    /// The parameters of a connection.
    pub(crate) fn connection(&self) -> rdma_conn_param {
        // SAFETY: any bytes are valid numbers.
        unsafe { self.c.param.conn }
    }

    /// The parameters of a datagram service.
    pub(crate) fn datagram(&self) -> rdma_ud_param {
        // SAFETY: any bytes are valid numbers.
        unsafe { self.c.param.ud }
    }

    /// Gives it to C.
    pub(crate) fn leak(self: Box<Self>) -> *mut rdma_cm_event {
        Self::to_c(Box::into_raw(self))
    }

    /// Counts it as dealt with.
    pub(crate) fn count(&self) {
        if let Some(join) = &self.join {
            join.shared.acknowledge();
        }
        self.owner.shared.acknowledge();
    }
}

/// Parameters that say nothing.
const NONE: rdma_ud_param = rdma_ud_param {
    private_data: std::ptr::null(),
    private_data_len: 0,
    ah_attr: NOWHERE,
    qp_num: 0,
    qkey: 0,
};

const NOWHERE: ibv_ah_attr = ibv_ah_attr {
    grh: ibv_global_route {
        dgid: ibv_gid { raw: [0; 16] },
        flow_label: 0,
        sgid_index: 0,
        hop_limit: 0,
        traffic_class: 0,
    },
    dlid: 0,
    sl: 0,
    src_path_bits: 0,
    static_rate: 0,
    is_global: 0,
    port_num: 0,
};

fn connection(raw: &rdma_ucm_event_resp) -> (Param, [u8; RDMA_MAX_PRIVATE_DATA]) {
    let mut param = Param { ud: NONE };
    let Ok((from, _)) = rdma_ucm_conn_param::read_from_prefix(raw.param.as_bytes()) else {
        return (param, [0; _]);
    };
    param.conn = rdma_conn_param {
        private_data: std::ptr::null(),
        private_data_len: from.private_data_len,
        responder_resources: from.responder_resources,
        initiator_depth: from.initiator_depth,
        flow_control: from.flow_control,
        retry_count: from.retry_count,
        rnr_retry_count: from.rnr_retry_count,
        srq: from.srq,
        qp_num: from.qp_num,
    };
    (param, from.private_data)
}

fn datagram(raw: &rdma_ucm_event_resp) -> (Param, [u8; RDMA_MAX_PRIVATE_DATA]) {
    let Ok((from, _)) = rdma_ucm_ud_param::read_from_prefix(raw.param.as_bytes()) else {
        return (Param { ud: NONE }, [0; _]);
    };
    let ud = rdma_ud_param {
        private_data: std::ptr::null(),
        private_data_len: from.private_data_len,
        ah_attr: verbs::ah_attr(&from.ah_attr),
        qp_num: from.qp_num,
        qkey: from.qkey,
    };
    (Param { ud }, from.private_data)
}

/// Acknowledges an event, and frees it.
pub(crate) fn acknowledge(event: Handle<Event>) -> Answer<()> {
    let event = event.get()?;
    event.count();
    event.free();
    Ok(())
}

#[unsafe(no_mangle)]
extern "C" fn rdma_ack_cm_event(event: Handle<Event>) -> c_int {
    minus_one(|| acknowledge(event).map(|()| 0))
}

/// Names of events for C, in the order of their numbers.
const NAMES: [&std::ffi::CStr; 20] = [
    c"RDMA_CM_EVENT_ADDR_RESOLVED",
    c"RDMA_CM_EVENT_ADDR_ERROR",
    c"RDMA_CM_EVENT_ROUTE_RESOLVED",
    c"RDMA_CM_EVENT_ROUTE_ERROR",
    c"RDMA_CM_EVENT_CONNECT_REQUEST",
    c"RDMA_CM_EVENT_CONNECT_RESPONSE",
    c"RDMA_CM_EVENT_CONNECT_ERROR",
    c"RDMA_CM_EVENT_UNREACHABLE",
    c"RDMA_CM_EVENT_REJECTED",
    c"RDMA_CM_EVENT_ESTABLISHED",
    c"RDMA_CM_EVENT_DISCONNECTED",
    c"RDMA_CM_EVENT_DEVICE_REMOVAL",
    c"RDMA_CM_EVENT_MULTICAST_JOIN",
    c"RDMA_CM_EVENT_MULTICAST_ERROR",
    c"RDMA_CM_EVENT_ADDR_CHANGE",
    c"RDMA_CM_EVENT_TIMEWAIT_EXIT",
    c"RDMA_CM_EVENT_ADDRINFO_RESOLVED",
    c"RDMA_CM_EVENT_ADDRINFO_ERROR",
    c"RDMA_CM_EVENT_USER",
    c"RDMA_CM_EVENT_INTERNAL",
];

#[unsafe(no_mangle)]
extern "C" fn rdma_event_str(event: u32) -> *const c_char {
    let at = usize::try_from(event).unwrap_or(usize::MAX);
    NAMES.get(at).unwrap_or(&c"UNKNOWN EVENT").as_ptr()
}

/// What an event says.
pub(crate) fn kind(raw: &rdma_ucm_event_resp) -> EventKind {
    EventKind::from_raw(raw.event)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_have_the_names_of_the_header() {
        for (number, name) in (0..).zip(NAMES) {
            let kind = EventKind::from_raw(number);
            assert_eq!(kind.c_name(), name.to_str().ok());
        }
        assert_eq!(EventKind::ALL.len(), NAMES.len());
    }
}
