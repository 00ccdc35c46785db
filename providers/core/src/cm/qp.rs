//! The attributes to which the queue pair of a connection has to be moved.

use uverbs_uapi::ib_user_verbs::ib_uverbs_qp_attr;
use uverbs_uapi::rdma_user_cm::{RDMA_USER_CM_CMD_INIT_QP_ATTR, rdma_ucm_init_qp_attr};

use super::issue::Cm;
use crate::cmd::address_of_ah;
use crate::error::{Error, Op, Result};
use crate::file::CmFile;
use crate::types::{
    AccessFlags, AckTimeout, AlternatePath, MigrationState, Mtu, Psn, QpAttr, QpAttrMask, QpState,
    RetryCount, RnrRetry, RnrTimer,
};

/// `rdma_init_qp_attr`—the attributes for moving the id's queue pair to `state`, as the handshake
/// has them. The queue pair is moved by the caller, and its provider.
///
/// | state | when | what is missing |
/// |---|---|---|
/// | INIT | from the moment the id has a device | access rights: none before [`connect`](super::connect) |
/// | RTR, RTS | after the request (passive) or the response (active) | the RNR timer is 0, which is the longest, 655 ms |
///
/// On iWARP the driver moves the queue pair: the attributes of RTR are those of INIT, and RTS has
/// only the port. One system call, which does not wait.
///
/// # Errors
/// EINVAL: the id has no device, or its state does not have these attributes yet.
/// [`BadReply`](crate::ErrorKind::BadReply): the kernel returned those of another state, as it does
/// before [`connect`](super::connect). ENOENT: there is no such id.
#[doc(alias = "rdma_init_qp_attr")]
pub fn init_qp_attr(file: &CmFile, id: u32, state: QpState) -> Result<QpAttr> {
    let op = Op::CmInitQpAttr;
    let reply = init_qp_attr_raw(file, id, state)?;
    let attr = decode(&reply);
    let is_nothing = attr.mask() == QpAttrMask::PORT;
    if !is_nothing && (attr.state != Some(state) || !has_peer(&attr, state)) {
        return Err(Error::bad_reply(op, "attributes of another state")
            .fact("id", id)
            .fact("to_state", state.to_string())
            .fact("attributes", attr.mask().to_string())
            .hint("the handshake has not got that far"));
    }
    Ok(attr)
}

/// The same in the kernel's struct and without the check, for C programs: the kernel's reply may
/// have the attributes of another state.
///
/// # Errors
/// Those of [`init_qp_attr`] that the kernel reports.
pub fn init_qp_attr_raw(file: &CmFile, id: u32, state: QpState) -> Result<ib_uverbs_qp_attr> {
    let op = Op::CmInitQpAttr;
    let request = rdma_ucm_init_qp_attr {
        response: 0,
        id,
        qp_state: state.checked(op, "state")?.into(),
    };
    Cm::new(op, RDMA_USER_CM_CMD_INIT_QP_ATTR)
        .call(file, &request, ib_uverbs_qp_attr::default())
        .map_err(|error| error.fact("id", id).fact("to_state", state.to_string()))
}

/// Whether the attributes belong to the state: before there is a peer, the kernel answers any query
/// with those of INIT.
fn has_peer(attr: &QpAttr, state: QpState) -> bool {
    matches!(state, QpState::Init)
        || !attr
            .mask()
            .contains(QpAttrMask::PORT | QpAttrMask::PKEY_INDEX)
}

/// A number of which the kernel uses a byte; what does not fit is one without a name.
fn byte(number: u32) -> u8 {
    u8::try_from(number).unwrap_or(u8::MAX)
}

fn decode(raw: &ib_uverbs_qp_attr) -> QpAttr {
    let mask = QpAttrMask::from_bits_retain(raw.qp_attr_mask);
    let has = |bit: QpAttrMask| mask.contains(bit);
    let mut attr = QpAttr::new();
    attr.state = has(QpAttrMask::STATE).then(|| QpState::from_raw(byte(raw.qp_state)));
    attr.cur_state = has(QpAttrMask::CUR_STATE).then(|| QpState::from_raw(byte(raw.cur_qp_state)));
    attr.sqd_async_notify =
        has(QpAttrMask::EN_SQD_ASYNC_NOTIFY).then_some(raw.en_sqd_async_notify != 0);
    attr.access =
        has(QpAttrMask::ACCESS_FLAGS).then(|| AccessFlags::from_bits_retain(raw.qp_access_flags));
    attr.pkey_index = has(QpAttrMask::PKEY_INDEX).then_some(raw.pkey_index);
    attr.port = has(QpAttrMask::PORT).then_some(raw.port_num);
    attr.qkey = has(QpAttrMask::QKEY).then_some(raw.qkey);
    attr.av = has(QpAttrMask::AV).then(|| address_of_ah(&raw.ah_attr));
    attr.path_mtu = has(QpAttrMask::PATH_MTU).then(|| Mtu::from_raw(byte(raw.path_mtu)));
    attr.timeout = has(QpAttrMask::TIMEOUT).then(|| AckTimeout::from_raw(raw.timeout));
    attr.retry_count = has(QpAttrMask::RETRY_CNT).then(|| RetryCount::from_raw(raw.retry_cnt));
    attr.rnr_retry = has(QpAttrMask::RNR_RETRY).then(|| RnrRetry::from_raw(raw.rnr_retry));
    attr.rq_psn = has(QpAttrMask::RQ_PSN).then(|| Psn::from_raw(raw.rq_psn));
    attr.sq_psn = has(QpAttrMask::SQ_PSN).then(|| Psn::from_raw(raw.sq_psn));
    attr.max_rd_atomic = has(QpAttrMask::MAX_QP_RD_ATOMIC).then_some(raw.max_rd_atomic);
    attr.max_dest_rd_atomic = has(QpAttrMask::MAX_DEST_RD_ATOMIC).then_some(raw.max_dest_rd_atomic);
    attr.min_rnr_timer =
        has(QpAttrMask::MIN_RNR_TIMER).then(|| RnrTimer::from_raw(raw.min_rnr_timer));
    attr.migration =
        has(QpAttrMask::PATH_MIG_STATE).then(|| MigrationState::from_raw(byte(raw.path_mig_state)));
    attr.dest_qpn = has(QpAttrMask::DEST_QPN).then_some(raw.dest_qp_num);
    attr.alt_path = has(QpAttrMask::ALT_PATH).then(|| {
        let mut av = address_of_ah(&raw.alt_ah_attr);
        av.port = raw.alt_port_num;
        AlternatePath {
            av,
            pkey_index: raw.alt_pkey_index,
            timeout: AckTimeout::from_raw(raw.alt_timeout),
        }
    });
    attr
}
