//! Queue pairs.

use uverbs_uapi::ib_user_verbs::*;

use super::{NOTHING, dest, issue, path, same};
use crate::cmd::qp;
use crate::sys::Uhw;
use crate::types::{
    AccessFlags, AckTimeout, AddressVector, AlternatePath, MigrationState, Mtu, Psn, QpAttr,
    QpAttrMask, QpCaps, QpCreateFlags, QpState, QpType, RetryCount, RnrRetry, RnrTimer, SigMode,
};

const CAPS: QpCaps = QpCaps {
    max_send_wr: 11,
    max_recv_wr: 12,
    max_send_sge: 13,
    max_recv_sge: 14,
    max_inline_data: 15,
};

#[test]
fn queue_pairs() {
    let request = qp::Create {
        send_cq: Some(21),
        recv_cq: Some(22),
        srq: Some(23),
        signal: SigMode::All,
        ..qp::Create::new(QpType::Uc, qp::Parent::Pd(24), 25, CAPS)
    };
    let reply = ib_uverbs_create_qp_resp {
        qp_handle: 31,
        qpn: 32,
        max_send_wr: 33,
        max_recv_wr: 34,
        max_send_sge: 35,
        max_recv_sge: 36,
        max_inline_data: 37,
        reserved: 0,
    };
    let found = QpCaps {
        max_send_wr: 33,
        max_recv_wr: 34,
        max_send_sge: 35,
        max_recv_sge: 36,
        max_inline_data: 37,
    };
    let (made, sent) = issue("24", &reply, |file| qp::create(file, &request, &Uhw::NONE));
    assert_eq!((made.handle, made.qp_num, made.caps), (31, 32, found));
    let expected = ib_uverbs_create_qp {
        user_handle: 25,
        pd_handle: 24,
        send_cq_handle: 21,
        recv_cq_handle: 22,
        srq_handle: 23,
        max_send_wr: 11,
        max_recv_wr: 12,
        max_send_sge: 13,
        max_recv_sge: 14,
        max_inline_data: 15,
        sq_sig_all: 1,
        qp_type: 3,
        is_srq: 1,
        ..ib_uverbs_create_qp::default()
    };
    same(&sent, &expected);

    let request = qp::Create {
        srq: None,
        ind_table: Some(26),
        flags: QpCreateFlags::CVLAN_STRIPPING,
        signal: SigMode::Requested,
        source_qpn: Some(27),
        ..request
    };
    let reply = ib_uverbs_ex_create_qp_resp {
        base: reply,
        ..ib_uverbs_ex_create_qp_resp::default()
    };
    let (made, sent) = issue("x24", &reply, |file| qp::create(file, &request, &Uhw::NONE));
    assert_eq!((made.handle, made.qp_num, made.caps), (31, 32, found));
    let expected = ib_uverbs_ex_create_qp {
        user_handle: 25,
        pd_handle: 24,
        send_cq_handle: 21,
        recv_cq_handle: 22,
        max_send_wr: 11,
        max_recv_wr: 12,
        max_send_sge: 13,
        max_recv_sge: 14,
        max_inline_data: 15,
        qp_type: 3,
        comp_mask: 1,
        create_flags: (QpCreateFlags::CVLAN_STRIPPING | QpCreateFlags::SOURCE_QPN).bits(),
        rwq_ind_tbl_handle: 26,
        source_qpn: 27,
        ..ib_uverbs_ex_create_qp::default()
    };
    same(&sent, &expected);

    let open = qp::Open {
        xrcd: 21,
        qp_num: 22,
        qp_type: QpType::XrcTarget,
        user_handle: 23,
    };
    let reply = ib_uverbs_create_qp_resp {
        qp_handle: 31,
        qpn: 32,
        ..ib_uverbs_create_qp_resp::default()
    };
    let (opened, sent) = issue("40", &reply, |file| qp::open(file, &open, &Uhw::NONE));
    assert_eq!((opened.handle, opened.qp_num), (31, 32));
    let expected = ib_uverbs_open_qp {
        user_handle: 23,
        pd_handle: 21,
        qpn: 22,
        qp_type: 10,
        ..ib_uverbs_open_qp::default()
    };
    same(&sent, &expected);
}

/// The path that a modify sets and a query finds, but for its port.
fn alt_path() -> AlternatePath {
    AlternatePath {
        av: path(80),
        pkey_index: 41,
        timeout: AckTimeout::from_raw(17),
    }
}

#[test]
fn a_modify_has_all_attributes() {
    let attr = QpAttr::to(QpState::SendQueueDrained)
        .cur_state(QpState::ReadyToSend)
        .path_mtu(Mtu::from_raw(4))
        .migration(MigrationState::from_raw(1))
        .qkey(42)
        .rq_psn(Psn::from_raw(43))
        .sq_psn(Psn::from_raw(44))
        .dest_qpn(45)
        .access(AccessFlags::REMOTE_READ)
        .av(path(60))
        .alt_path(alt_path())
        .pkey_index(46)
        .sqd_async_notify(true)
        .max_rd_atomic(47)
        .max_dest_rd_atomic(48)
        .min_rnr_timer(RnrTimer::from_raw(19))
        .port(2)
        .timeout(AckTimeout::from_raw(18))
        .retry_count(RetryCount::from_raw(5))
        .rnr_retry(RnrRetry::from_raw(6))
        .rate_limit_kbps(49);
    let ((), sent) = issue("x26", &NOTHING, |file| {
        qp::modify(file, 50, &attr, &Uhw::NONE)
    });
    let expected = ib_uverbs_ex_modify_qp {
        base: ib_uverbs_modify_qp {
            dest: dest(60),
            alt_dest: dest(80),
            qp_handle: 50,
            attr_mask: attr.mask().bits(),
            qkey: 42,
            rq_psn: 43,
            sq_psn: 44,
            dest_qp_num: 45,
            qp_access_flags: 4,
            pkey_index: 46,
            alt_pkey_index: 41,
            qp_state: 4,
            cur_qp_state: 3,
            path_mtu: 4,
            path_mig_state: 1,
            en_sqd_async_notify: 1,
            max_rd_atomic: 47,
            max_dest_rd_atomic: 48,
            min_rnr_timer: 19,
            port_num: 2,
            timeout: 18,
            retry_cnt: 5,
            rnr_retry: 6,
            alt_port_num: 86,
            alt_timeout: 17,
            reserved: [0; 2],
        },
        rate_limit: 49,
        reserved: 0,
    };
    same(&sent, &expected);
}

#[test]
fn a_query_reads_all_attributes() {
    let reply = ib_uverbs_query_qp_resp {
        dest: dest(60),
        alt_dest: dest(80),
        max_send_wr: 11,
        max_recv_wr: 12,
        max_send_sge: 13,
        max_recv_sge: 14,
        max_inline_data: 15,
        qkey: 42,
        rq_psn: 43,
        sq_psn: 44,
        dest_qp_num: 45,
        qp_access_flags: 4,
        pkey_index: 46,
        alt_pkey_index: 41,
        qp_state: 4,
        cur_qp_state: 3,
        path_mtu: 4,
        path_mig_state: 1,
        sq_draining: 1,
        max_rd_atomic: 47,
        max_dest_rd_atomic: 48,
        min_rnr_timer: 19,
        port_num: 2,
        timeout: 18,
        retry_cnt: 5,
        rnr_retry: 6,
        alt_port_num: 90,
        alt_timeout: 17,
        sq_sig_all: 1,
        reserved: [0; 5],
    };
    let mask = QpAttrMask::STATE | QpAttrMask::AV;
    let (found, sent) = issue("25", &reply, |file| qp::query(file, 50, mask));
    let expected = ib_uverbs_query_qp {
        response: 0,
        qp_handle: 50,
        attr_mask: mask.bits(),
    };
    same(&sent, &expected);
    assert_eq!(found.state, QpState::SendQueueDrained);
    assert_eq!(found.cur_state, QpState::ReadyToSend);
    assert_eq!((found.path_mtu.raw(), found.migration.raw()), (4, 1));
    assert_eq!((found.qkey, found.dest_qpn), (42, 45));
    assert_eq!((found.rq_psn.raw(), found.sq_psn.raw()), (43, 44));
    assert_eq!(found.access, AccessFlags::REMOTE_READ);
    assert_eq!(found.av, path(60));
    let other = AddressVector {
        port: 90,
        ..path(80)
    };
    assert_eq!(
        found.alt_path,
        AlternatePath {
            av: other,
            ..alt_path()
        }
    );
    assert_eq!(found.caps, CAPS);
    assert_eq!((found.pkey_index, found.sq_draining), (46, true));
    assert_eq!((found.max_rd_atomic, found.max_dest_rd_atomic), (47, 48));
    assert_eq!((found.min_rnr_timer.raw(), found.port), (19, 2));
    assert_eq!((found.timeout.raw(), found.retry_count.raw()), (18, 5));
    assert_eq!(found.rnr_retry.raw(), 6);
    assert_eq!(found.sig_mode, SigMode::All);
}
