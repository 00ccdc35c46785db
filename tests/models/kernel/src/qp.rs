//! Queue pairs (`drivers/infiniband/sw/rxe/rxe_qp.c`).

use uverbs_uapi::ib_user_ioctl_verbs::{
    IB_UVERBS_QPT_RC, IB_UVERBS_QPT_UC, IB_UVERBS_QPT_UD, ib_uverbs_qp_cap,
};
use uverbs_uapi::ib_user_verbs::{ib_uverbs_modify_qp, ib_uverbs_query_qp_resp};
use uverbs_uapi::rdma_user_rxe::{rxe_create_qp_resp, rxe_recv_wqe, rxe_send_wqe, rxe_sge};

use crate::device::{MAX_SGE, max_inline, max_wr};
use crate::feature::Feature;
use crate::files::FileId;
use crate::profile::Profile;
use crate::ring::{Ring, Side};
use crate::state::{Counts, Kind, State};
use uverbs_core::error::Errno;

/// `IB_QPS_*`.
pub(super) mod qps {
    pub(crate) const RESET: u8 = 0;
    pub(crate) const INIT: u8 = 1;
    pub(crate) const RTR: u8 = 2;
    pub(crate) const RTS: u8 = 3;
    pub(crate) const SQD: u8 = 4;
    pub(crate) const SQE: u8 = 5;
    pub(crate) const ERR: u8 = 6;
}

/// The transport of a queue pair.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Transport {
    Rc,
    Uc,
    Ud,
}

/// A multicast group that a queue pair joined: GID and LID.
pub(super) type Group = ([u8; 16], u16);

/// A queue pair. Its id is its number.
#[derive(Debug)]
pub(super) struct Qp {
    pub(super) pd: u32,
    pub(super) send_cq: u32,
    pub(super) recv_cq: u32,
    pub(super) srq: Option<u32>,
    pub(super) transport: Transport,
    pub(super) sig_all: bool,
    pub(super) user_handle: u64,
    pub(super) events: Option<FileId>,
    pub(super) sq: Ring,
    pub(super) rq: Option<Ring>,
    pub(super) cap: ib_uverbs_qp_cap,
    /// Everything `modify_qp` set, in the fields of its request.
    pub(super) attr: ib_uverbs_modify_qp,
    /// Remaining retries of the request at the head of the send queue, once it found the receiver
    /// not ready.
    pub(super) rnr_left: Option<u8>,
    pub(super) groups: Vec<Group>,
    pub(super) counts: Counts,
}

impl Qp {
    pub(super) fn state(&self) -> u8 {
        self.attr.qp_state
    }
}

/// The parameters of a new queue pair.
#[derive(Clone, Copy, Debug)]
pub(super) struct Create {
    pub(super) pd: u32,
    pub(super) send_cq: Option<u32>,
    pub(super) recv_cq: Option<u32>,
    pub(super) srq: Option<u32>,
    pub(super) user_handle: u64,
    pub(super) cap: ib_uverbs_qp_cap,
    pub(super) qp_type: u32,
    pub(super) sig_all: bool,
    pub(super) flags: u32,
    pub(super) events: Option<FileId>,
    /// Sizes of the driver's request and of the buffer for its reply.
    pub(super) driver: (usize, usize),
}

/// The result of a creation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Created {
    pub(super) handle: u32,
    pub(super) qpn: u32,
    pub(super) cap: ib_uverbs_qp_cap,
    pub(super) driver: rxe_create_qp_resp,
}

/// `create_qp`.
pub(super) fn create(state: &mut State, file: FileId, create: &Create) -> Result<Created, Errno> {
    let default = state.context(file)?.events;
    let pd = state.lookup(file, Kind::Pd, create.pd)?;
    let cq = |handle: Option<u32>| state.lookup(file, Kind::Cq, handle.ok_or(Errno::INVAL)?);
    let (send_cq, recv_cq) = (cq(create.send_cq)?, cq(create.recv_cq)?);
    let srq = create
        .srq
        .map(|handle| state.lookup(file, Kind::Srq, handle))
        .transpose()?;
    let transport = check(create, srq.is_some(), state.profile)?;

    let mut cap = create.cap;
    let (sq, rq) = queues(&mut cap, srq.is_some(), state.profile)?;
    let driver = rxe_create_qp_resp {
        rq_mi: rq
            .as_ref()
            .map(|rq| state.announce(file, &rq.memory))
            .unwrap_or_default(),
        sq_mi: state.announce(file, &sq.memory),
    };
    let qpn = state.fresh_id(Kind::Qp)?;
    state.qps.insert(
        qpn,
        Qp {
            pd,
            send_cq,
            recv_cq,
            srq,
            transport,
            sig_all: create.sig_all,
            user_handle: create.user_handle,
            events: create.events.or(default),
            sq,
            rq,
            cap,
            attr: ib_uverbs_modify_qp {
                path_mtu: 1,
                ..Default::default()
            },
            rnr_left: None,
            groups: Vec::new(),
            counts: Counts::default(),
        },
    );
    Ok(Created {
        handle: state.new_handle(file, Kind::Qp, qpn),
        qpn,
        cap,
        driver,
    })
}

fn check(create: &Create, has_srq: bool, profile: Profile) -> Result<Transport, Errno> {
    let cap = &create.cap;
    if create.driver.0 != 0 || create.driver.1 < size_of::<rxe_create_qp_resp>() {
        return Err(Errno::INVAL);
    }
    let transport = match create.qp_type {
        IB_UVERBS_QPT_RC => Transport::Rc,
        IB_UVERBS_QPT_UC => Transport::Uc,
        IB_UVERBS_QPT_UD => Transport::Ud,
        8..=10 | 255 => return Err(Errno::OPNOTSUPP),
        _ => return Err(Errno::INVAL),
    };
    if create.flags != 0 {
        return Err(Errno::OPNOTSUPP);
    }
    let max_wr = max_wr(profile);
    let receive = !has_srq && (cap.max_recv_wr > max_wr || cap.max_recv_sge > MAX_SGE);
    if receive
        || cap.max_send_wr > max_wr
        || cap.max_send_sge > MAX_SGE
        || cap.max_inline_data > max_inline(profile)
    {
        return Err(Errno::INVAL);
    }
    Ok(transport)
}

/// Creates the queues, and raises `cap` to their sizes, as far as the kernel reports them.
fn queues(
    cap: &mut ib_uverbs_qp_cap,
    has_srq: bool,
    profile: Profile,
) -> Result<(Ring, Option<Ring>), Errno> {
    let sge = size_of::<rxe_sge>();
    let data = (cap.max_send_sge as usize * sge).max(cap.max_inline_data as usize);
    let sq = Ring::new(
        cap.max_send_wr,
        size_of::<rxe_send_wqe>() + data,
        Side::Consumer,
    )?;
    // Older drivers create the same queues, but report the requested sizes.
    if profile.has(Feature::LongInline) {
        cap.max_send_sge = u32::try_from(data / sge).unwrap_or(u32::MAX);
        cap.max_inline_data = u32::try_from(data).unwrap_or(u32::MAX);
    }
    let reports_sizes = profile.has(Feature::QueueSizes);
    if reports_sizes {
        cap.max_send_wr = sq.capacity();
    }
    if has_srq {
        (cap.max_recv_wr, cap.max_recv_sge) = (0, 0);
        return Ok((sq, None));
    }
    let size = size_of::<rxe_recv_wqe>() + cap.max_recv_sge as usize * sge;
    let rq = Ring::new(cap.max_recv_wr, size, Side::Consumer)?;
    if reports_sizes {
        cap.max_recv_wr = rq.capacity();
    }
    Ok((sq, Some(rq)))
}

/// `query_qp`.
pub(super) fn query(
    state: &State,
    file: FileId,
    handle: u32,
) -> Result<ib_uverbs_query_qp_resp, Errno> {
    let id = state.lookup(file, Kind::Qp, handle)?;
    let qp = state.qps.get(&id).ok_or(Errno::NOENT)?;
    let (attr, cap) = (&qp.attr, &qp.cap);
    Ok(ib_uverbs_query_qp_resp {
        dest: attr.dest,
        alt_dest: attr.alt_dest,
        max_send_wr: cap.max_send_wr,
        max_recv_wr: cap.max_recv_wr,
        max_send_sge: cap.max_send_sge,
        max_recv_sge: cap.max_recv_sge,
        max_inline_data: cap.max_inline_data,
        qkey: attr.qkey,
        rq_psn: attr.rq_psn,
        sq_psn: attr.sq_psn,
        dest_qp_num: attr.dest_qp_num,
        qp_access_flags: attr.qp_access_flags,
        pkey_index: attr.pkey_index,
        alt_pkey_index: attr.alt_pkey_index,
        qp_state: attr.qp_state,
        cur_qp_state: attr.qp_state,
        path_mtu: attr.path_mtu,
        path_mig_state: attr.path_mig_state,
        sq_draining: 0,
        max_rd_atomic: attr.max_rd_atomic,
        max_dest_rd_atomic: attr.max_dest_rd_atomic,
        min_rnr_timer: attr.min_rnr_timer,
        port_num: attr.port_num,
        timeout: attr.timeout,
        retry_cnt: attr.retry_cnt,
        rnr_retry: attr.rnr_retry,
        alt_port_num: attr.alt_port_num,
        alt_timeout: attr.alt_timeout,
        sq_sig_all: u8::from(qp.sig_all),
        reserved: [0; 5],
    })
}

/// `attach_mcast`. Attaching twice has the same effect as attaching once.
pub(super) fn attach(
    state: &mut State,
    file: FileId,
    handle: u32,
    group: Group,
) -> Result<(), Errno> {
    let qp = datagram(state, file, handle, group)?;
    if !qp.groups.contains(&group) {
        qp.groups.push(group);
    }
    Ok(())
}

/// `detach_mcast`.
pub(super) fn detach(
    state: &mut State,
    file: FileId,
    handle: u32,
    group: Group,
) -> Result<(), Errno> {
    let qp = datagram(state, file, handle, group)?;
    let at = qp
        .groups
        .iter()
        .position(|joined| *joined == group)
        .ok_or(Errno::INVAL)?;
    qp.groups.remove(at);
    Ok(())
}

fn datagram(state: &mut State, file: FileId, handle: u32, group: Group) -> Result<&mut Qp, Errno> {
    let id = state.lookup(file, Kind::Qp, handle)?;
    let qp = state.qps.get_mut(&id).ok_or(Errno::NOENT)?;
    if !is_multicast(&group.0) || qp.transport != Transport::Ud {
        return Err(Errno::INVAL);
    }
    Ok(qp)
}

/// Whether a GID is that of a group: of InfiniBand or IPv6, or an IPv4 one mapped into IPv6.
pub(super) fn is_multicast(gid: &[u8; 16]) -> bool {
    let ip = std::net::Ipv6Addr::from(*gid);
    ip.is_multicast() || ip.to_ipv4_mapped().is_some_and(|ip| ip.is_multicast())
}
