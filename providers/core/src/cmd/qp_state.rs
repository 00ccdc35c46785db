//! Modifies and queries queue pairs.

use uverbs_uapi::ib_user_verbs::{
    IB_USER_VERBS_CMD_MODIFY_QP, IB_USER_VERBS_CMD_QUERY_QP, IB_USER_VERBS_EX_CMD_MODIFY_QP,
    ib_uverbs_ex_modify_qp, ib_uverbs_ex_modify_qp_resp, ib_uverbs_modify_qp, ib_uverbs_query_qp,
    ib_uverbs_query_qp_resp,
};

use super::address::{address_vector, qp_dest};
use super::legacy::Legacy;
use crate::error::{Errno, Error, ErrorKind, Op, Result};
use crate::file::UverbsFile;
use crate::sys::Uhw;
use crate::types::{
    AccessFlags, AckTimeout, AlternatePath, MigrationState, Mtu, Psn, QpAttr, QpAttrMask, QpCaps,
    QpInfo, QpState, RetryCount, RnrRetry, RnrTimer, SigMode,
};

/// Queue pair numbers have 24 bits on the wire.
const MAX_QPN: u32 = 0x00ff_ffff;

/// The highest attribute bit that the plain command accepts.
const LAST_PLAIN_BIT: u32 = 24;

/// Checks what [`modify`] checks before the system call: values have names, and numbers fit their
/// fields.
///
/// No system call. For providers that use the attributes before the kernel does.
///
/// # Errors
/// [`InvalidInput`](ErrorKind::InvalidInput), [`LimitExceeded`](ErrorKind::LimitExceeded), as those
/// of [`modify`].
pub fn check(attr: &QpAttr) -> Result<()> {
    encode(Op::ModifyQueuePair, 0, attr).map(|_| ())
}

/// `ibv_modify_qp`—sets attributes of a queue pair: those that are present in `attr`.
///
/// One system call: `MODIFY_QP`, or the extended one when an attribute lies above bit 24 (the rate
/// limit) or the driver has data. The kernel's structs have no room for [`QpAttr::caps`]; no driver
/// resizes queue pairs.
///
/// # Errors
/// [`InvalidInput`](ErrorKind::InvalidInput): a value without a name, such as a state or an MTU
/// that this version does not know. [`LimitExceeded`](ErrorKind::LimitExceeded): a number that does
/// not fit its field. EINVAL: an attribute is missing or not allowed for the transition. EPERM: a
/// privileged queue key without `CAP_NET_RAW`. EOPNOTSUPP: an attribute the kernel does not know.
/// ETIMEDOUT: the peer has no Ethernet address (RoCE).
#[doc(alias = "ibv_modify_qp")]
#[doc(alias = "ibv_modify_qp_rate_limit")]
pub fn modify(file: &UverbsFile, qp: u32, attr: &QpAttr, uhw: &Uhw<'_>) -> Result<()> {
    let op = Op::ModifyQueuePair;
    if attr.caps.is_some() {
        return Err(Error::new(op, ErrorKind::Unsupported)
            .fact("argument", "caps")
            .hint("the kernel's interface has no field for it"));
    }
    let base = encode(op, qp, attr)?;
    let needs_extended = base.attr_mask >> (LAST_PLAIN_BIT + 1) != 0
        || !uhw.input.is_empty()
        || !uhw.output.is_empty();
    let result = if needs_extended {
        let command = ib_uverbs_ex_modify_qp {
            base,
            rate_limit: attr.rate_limit_kbps.unwrap_or(0),
            reserved: 0,
        };
        Legacy::extended(op, IB_USER_VERBS_EX_CMD_MODIFY_QP)
            .call(file, &command, ib_uverbs_ex_modify_qp_resp::default(), uhw)
            .map(|_| ())
    } else {
        Legacy::plain(op, IB_USER_VERBS_CMD_MODIFY_QP).call_without_reply(file, &base, uhw)
    };
    result.map_err(|error| explain(error, attr))
}

fn explain(mut error: Error, attr: &QpAttr) -> Error {
    if let Some(state) = attr.state {
        error = error.fact("to_state", state.to_string());
    }
    if let Some(route) = attr.av.and_then(|av| av.grh) {
        error = error
            .fact("dgid", route.dgid.to_string())
            .fact("sgid_index", route.sgid_index);
    }
    error = error.fact("attributes", attr.mask().to_string());
    match error.errno() {
        Some(Errno::PERM) => error.hint("a queue key with its highest bit set needs CAP_NET_RAW"),
        _ => error,
    }
}

/// Encodes an attribute; 0 if it is absent.
fn encode_or_zero<T, R: Default>(
    attr: Option<T>,
    encode: impl FnOnce(T) -> Result<R>,
) -> Result<R> {
    attr.map_or_else(|| Ok(R::default()), encode)
}

fn encode(op: Op, qp: u32, attr: &QpAttr) -> Result<ib_uverbs_modify_qp> {
    let alt = attr.alt_path.unwrap_or_default();
    let alt_dest = encode_or_zero(attr.alt_path, |path| qp_dest(op, &path.av))?;
    let dest_qpn = attr.dest_qpn.unwrap_or(0);
    if dest_qpn > MAX_QPN {
        return Err(Error::limit(
            op,
            "dest_qpn",
            dest_qpn.into(),
            MAX_QPN.into(),
        ));
    }
    Ok(ib_uverbs_modify_qp {
        dest: encode_or_zero(attr.av, |av| qp_dest(op, &av))?,
        alt_dest,
        qp_handle: qp,
        attr_mask: attr.mask().checked(op, "attributes")?,
        qkey: attr.qkey.unwrap_or(0),
        rq_psn: attr.rq_psn.map_or(0, Psn::raw),
        sq_psn: attr.sq_psn.map_or(0, Psn::raw),
        dest_qp_num: dest_qpn,
        qp_access_flags: encode_or_zero(attr.access, |access| access.checked(op, "access"))?,
        pkey_index: attr.pkey_index.unwrap_or(0),
        alt_pkey_index: attr.alt_path.map_or(0, |path| path.pkey_index),
        qp_state: encode_or_zero(attr.state, |state| state.checked(op, "state"))?,
        cur_qp_state: encode_or_zero(attr.cur_state, |state| state.checked(op, "cur_state"))?,
        path_mtu: encode_or_zero(attr.path_mtu, |mtu| mtu.checked(op, "path_mtu"))?,
        path_mig_state: encode_or_zero(attr.migration, |state| state.checked(op, "migration"))?,
        en_sqd_async_notify: attr.sqd_async_notify.unwrap_or(false).into(),
        max_rd_atomic: attr.max_rd_atomic.unwrap_or(0),
        max_dest_rd_atomic: attr.max_dest_rd_atomic.unwrap_or(0),
        min_rnr_timer: attr.min_rnr_timer.map_or(0, RnrTimer::raw),
        port_num: attr.port.unwrap_or(0),
        timeout: attr.timeout.map_or(0, AckTimeout::raw),
        retry_cnt: attr.retry_count.map_or(0, RetryCount::raw),
        rnr_retry: attr.rnr_retry.map_or(0, RnrRetry::raw),
        alt_port_num: alt_dest.port_num,
        alt_timeout: attr.alt_path.map_or(0, |_| alt.timeout.raw()),
        reserved: [0; 2],
    })
}

/// `ibv_query_qp`—queries the attributes in `mask`; the driver may return others, too.
///
/// One system call, the legacy command.
///
/// # Errors
/// [`InvalidInput`](ErrorKind::InvalidInput): an attribute without a name. EINVAL, ENOENT: there is
/// no such queue pair. Others are the driver's.
#[doc(alias = "ibv_query_qp")]
pub fn query(file: &UverbsFile, qp: u32, mask: QpAttrMask) -> Result<QpInfo> {
    let op = Op::QueryQueuePair;
    let command = ib_uverbs_query_qp {
        response: 0,
        qp_handle: qp,
        attr_mask: mask.checked(op, "attributes")?,
    };
    let reply = Legacy::plain(op, IB_USER_VERBS_CMD_QUERY_QP).call(
        file,
        &command,
        ib_uverbs_query_qp_resp::default(),
        &Uhw::NONE,
    )?;
    let mut alt_av = address_vector(&reply.alt_dest);
    if reply.alt_port_num != 0 {
        alt_av.port = reply.alt_port_num;
    }
    Ok(QpInfo {
        state: QpState::from_raw(reply.qp_state),
        cur_state: QpState::from_raw(reply.cur_qp_state),
        path_mtu: Mtu::from_raw(reply.path_mtu),
        migration: MigrationState::from_raw(reply.path_mig_state),
        qkey: reply.qkey,
        rq_psn: Psn::from_raw(reply.rq_psn),
        sq_psn: Psn::from_raw(reply.sq_psn),
        dest_qpn: reply.dest_qp_num,
        access: AccessFlags::from_bits_retain(reply.qp_access_flags),
        av: address_vector(&reply.dest),
        alt_path: AlternatePath {
            av: alt_av,
            pkey_index: reply.alt_pkey_index,
            timeout: AckTimeout::from_raw(reply.alt_timeout),
        },
        caps: QpCaps {
            max_send_wr: reply.max_send_wr,
            max_recv_wr: reply.max_recv_wr,
            max_send_sge: reply.max_send_sge,
            max_recv_sge: reply.max_recv_sge,
            max_inline_data: reply.max_inline_data,
        },
        pkey_index: reply.pkey_index,
        sq_draining: reply.sq_draining != 0,
        max_rd_atomic: reply.max_rd_atomic,
        max_dest_rd_atomic: reply.max_dest_rd_atomic,
        min_rnr_timer: RnrTimer::from_raw(reply.min_rnr_timer),
        port: reply.port_num,
        timeout: AckTimeout::from_raw(reply.timeout),
        retry_count: RetryCount::from_raw(reply.retry_cnt),
        rnr_retry: RnrRetry::from_raw(reply.rnr_retry),
        sig_mode: SigMode::from_raw(reply.sq_sig_all),
    })
}
