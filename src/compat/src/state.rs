//! `ibv_modify_qp` and `ibv_query_qp`.
//!
//! # Safety
//!
//! Exports names of the library that this one stands for.
#![allow(unsafe_code, reason = "exports names")]

use std::ffi::c_int;

use uverbs_core::contract::Qp as _;
use uverbs_core::types::{
    AccessFlags, AckTimeout, AlternatePath, MigrationState, Mtu, OutOfRange, Psn, QpAttr,
    QpAttrMask, QpCaps, QpInfo, QpState, RetryCount, RnrRetry, RnrTimer,
};

use crate::abi::{ibv_qp_attr, ibv_qp_init_attr};
use crate::ah::{attributes, vector};
use crate::answer::{Answer, number};
use crate::errno::Code;
use crate::pointer::{Handle, In, Out};
use crate::qp::{Qp, caps_to_c};

fn byte(value: u32) -> Answer<u8> {
    u8::try_from(value).map_err(|_| Code::INVALID)
}

fn fits<T>(value: Result<T, OutOfRange>) -> Answer<T> {
    value.map_err(|_| Code::INVALID)
}

/// The attributes that `mask` selects.
fn wanted(attr: &ibv_qp_attr, mask: QpAttrMask) -> Answer<QpAttr> {
    let mut wanted = QpAttr::new();
    macro_rules! set {
        ($($bit:ident => $field:ident = $value:expr;)*) => {
            $(if mask.contains(QpAttrMask::$bit) {
                wanted.$field = Some($value);
            })*
        };
    }
    set! {
        STATE => state = QpState::from_raw(byte(attr.qp_state)?);
        CUR_STATE => cur_state = QpState::from_raw(byte(attr.cur_qp_state)?);
        EN_SQD_ASYNC_NOTIFY => sqd_async_notify = attr.en_sqd_async_notify != 0;
        ACCESS_FLAGS => access = AccessFlags::from_bits_retain(attr.qp_access_flags);
        PKEY_INDEX => pkey_index = attr.pkey_index;
        PORT => port = attr.port_num;
        QKEY => qkey = attr.qkey;
        AV => av = vector(&attr.ah_attr);
        PATH_MTU => path_mtu = Mtu::from_raw(byte(attr.path_mtu)?);
        TIMEOUT => timeout = fits(AckTimeout::code(attr.timeout))?;
        RETRY_CNT => retry_count = fits(RetryCount::new(attr.retry_cnt))?;
        RNR_RETRY => rnr_retry = fits(RnrRetry::new(attr.rnr_retry))?;
        RQ_PSN => rq_psn = Psn::from_raw(attr.rq_psn);
        MAX_QP_RD_ATOMIC => max_rd_atomic = attr.max_rd_atomic;
        ALT_PATH => alt_path = AlternatePath {
            av: vector(&attr.alt_ah_attr),
            pkey_index: attr.alt_pkey_index,
            timeout: fits(AckTimeout::code(attr.alt_timeout))?,
        };
        MIN_RNR_TIMER => min_rnr_timer = fits(RnrTimer::code(attr.min_rnr_timer))?;
        SQ_PSN => sq_psn = Psn::from_raw(attr.sq_psn);
        MAX_DEST_RD_ATOMIC => max_dest_rd_atomic = attr.max_dest_rd_atomic;
        PATH_MIG_STATE => migration = MigrationState::from_raw(byte(attr.path_mig_state)?);
        CAP => caps = QpCaps {
            max_send_wr: attr.cap.max_send_wr,
            max_recv_wr: attr.cap.max_recv_wr,
            max_send_sge: attr.cap.max_send_sge,
            max_recv_sge: attr.cap.max_recv_sge,
            max_inline_data: attr.cap.max_inline_data,
        };
        DEST_QPN => dest_qpn = attr.dest_qp_num;
        RATE_LIMIT => rate_limit_kbps = attr.rate_limit;
    }
    // The port of the alternate path is the address's.
    if let Some(path) = &mut wanted.alt_path {
        path.av.port = attr.alt_port_num;
    }
    Ok(wanted)
}

fn mask_of(bits: c_int) -> Answer<QpAttrMask> {
    QpAttrMask::from_bits(bits.cast_unsigned()).ok_or(Code::INVALID)
}

#[unsafe(no_mangle)]
extern "C" fn ibv_modify_qp(qp: Handle<Qp>, attr: In<ibv_qp_attr>, mask: c_int) -> c_int {
    number(|| {
        let own = qp.get()?;
        let attr = wanted(attr.get()?, mask_of(mask)?)?;
        own.queue.with(|queue| {
            queue.modify(&attr)?;
            own.set_state(queue);
            Ok::<_, Code>(())
        })?;
        if attr.state == Some(QpState::Reset) {
            own.forget_completions()?;
        }
        Ok(())
    })
}

fn attributes_of(info: &QpInfo, caps: &QpCaps) -> ibv_qp_attr {
    ibv_qp_attr {
        qp_state: info.state.raw().into(),
        cur_qp_state: info.cur_state.raw().into(),
        path_mtu: info.path_mtu.raw().into(),
        path_mig_state: info.migration.raw().into(),
        qkey: info.qkey,
        rq_psn: info.rq_psn.raw(),
        sq_psn: info.sq_psn.raw(),
        dest_qp_num: info.dest_qpn,
        qp_access_flags: info.access.bits(),
        cap: caps_to_c(caps),
        ah_attr: attributes(&info.av),
        alt_ah_attr: attributes(&info.alt_path.av),
        pkey_index: info.pkey_index,
        alt_pkey_index: info.alt_path.pkey_index,
        en_sqd_async_notify: 0,
        sq_draining: info.sq_draining.into(),
        max_rd_atomic: info.max_rd_atomic,
        max_dest_rd_atomic: info.max_dest_rd_atomic,
        min_rnr_timer: info.min_rnr_timer.raw(),
        port_num: info.port,
        timeout: info.timeout.raw(),
        retry_cnt: info.retry_count.raw(),
        rnr_retry: info.rnr_retry.raw(),
        alt_port_num: info.alt_path.av.port,
        alt_timeout: info.alt_path.timeout.raw(),
        rate_limit: 0,
    }
}

/// What is queried: bits without a name ask for nothing, as in rdma-core, where a query of rates is
/// not supported.
fn queried(bits: c_int) -> Answer<QpAttrMask> {
    let mask = QpAttrMask::from_bits_retain(bits.cast_unsigned());
    if mask.bits() >= QpAttrMask::RATE_LIMIT.bits() {
        return Err(Code::UNSUPPORTED);
    }
    Ok(mask & QpAttrMask::all())
}

#[unsafe(no_mangle)]
extern "C" fn ibv_query_qp(
    qp: Handle<Qp>,
    attr: Out<ibv_qp_attr>,
    mask: c_int,
    init: Out<ibv_qp_init_attr>,
) -> c_int {
    number(|| {
        let own = qp.get()?;
        let mask = queried(mask)?;
        let (info, caps) = own.queue.with(|queue| {
            let info = queue.query(mask)?;
            own.set_state(queue);
            Ok::<_, Code>((info, queue.base().caps))
        })?;
        attr.put(attributes_of(&info, &caps))?;
        init.put_if_any(own.created(&caps));
        Ok(())
    })
}
