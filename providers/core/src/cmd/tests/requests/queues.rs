//! Completion queues, shared receive queues, work queues and their tables.

use uverbs_uapi::ib_user_verbs::*;
use zerocopy::IntoBytes as _;

use super::super::{Bench, Script};
use super::{NOTHING, issue, same};
use crate::cmd::{cq, ind_table, srq, wq};
use crate::file::CommandPath;
use crate::sys::Uhw;
use crate::types::SrqModify;

#[test]
fn completion_queues() {
    let request = cq::Create {
        entries: 21,
        vector: 22,
        user_handle: 23,
        ..cq::Create::new(0, 0)
    };
    let reply = ib_uverbs_create_cq_resp {
        cq_handle: 31,
        cqe: 32,
    };
    let (made, sent) = issue("18", &reply, |file| cq::create(file, &request, &Uhw::NONE));
    assert_eq!((made.handle, made.entries), (31, 32));
    let expected = ib_uverbs_create_cq {
        user_handle: 23,
        cqe: 21,
        comp_vector: 22,
        comp_channel: -1,
        ..ib_uverbs_create_cq::default()
    };
    same(&sent, &expected);

    let flags = crate::types::CqCreateFlags::TIMESTAMP_COMPLETION;
    let request = cq::Create { flags, ..request };
    let reply = ib_uverbs_ex_create_cq_resp {
        base: reply,
        ..ib_uverbs_ex_create_cq_resp::default()
    };
    let (made, sent) = issue("x18", &reply, |file| cq::create(file, &request, &Uhw::NONE));
    assert_eq!((made.handle, made.entries), (31, 32));
    let expected = ib_uverbs_ex_create_cq {
        user_handle: 23,
        cqe: 21,
        comp_vector: 22,
        comp_channel: -1,
        flags: flags.bits(),
        ..ib_uverbs_ex_create_cq::default()
    };
    same(&sent, &expected);

    let reply = ib_uverbs_resize_cq_resp {
        cqe: 77,
        reserved: 0,
    };
    let (entries, sent) = issue("19", &reply, |file| cq::resize(file, 5, 64, &Uhw::NONE));
    assert_eq!(entries, 77);
    let expected = ib_uverbs_resize_cq {
        response: 0,
        cq_handle: 5,
        cqe: 64,
    };
    same(&sent, &expected);

    let ((), sent) = issue("x57", &NOTHING, |file| cq::modify(file, 5, 6, 7));
    let expected = ib_uverbs_ex_modify_cq {
        cq_handle: 5,
        attr_mask: 1,
        attr: ib_uverbs_cq_moderation {
            cq_count: 6,
            cq_period: 7,
        },
        reserved: 0,
    };
    same(&sent, &expected);
}

#[test]
fn shared_receive_queues() {
    let request = |kind| srq::Create {
        pd: 21,
        kind,
        max_wr: 22,
        max_sge: 23,
        limit: 24,
        user_handle: 25,
        event_fd: None,
    };
    let reply = ib_uverbs_create_srq_resp {
        srq_handle: 31,
        max_wr: 32,
        max_sge: 33,
        srqn: 34,
    };
    let basic = request(srq::Kind::Basic);
    let (made, sent) = issue("32", &reply, |file| srq::create(file, &basic, &Uhw::NONE));
    assert_eq!((made.handle, made.max_wr, made.max_sge), (31, 32, 33));
    assert_eq!(made.srq_num, None);
    let expected = ib_uverbs_create_srq {
        user_handle: 25,
        pd_handle: 21,
        max_wr: 22,
        max_sge: 23,
        srq_limit: 24,
        ..ib_uverbs_create_srq::default()
    };
    same(&sent, &expected);

    let plain = ib_uverbs_create_xsrq {
        user_handle: 25,
        pd_handle: 21,
        max_wr: 22,
        max_sge: 23,
        srq_limit: 24,
        ..ib_uverbs_create_xsrq::default()
    };
    let xrc = request(srq::Kind::Xrc { xrcd: 26, cq: 27 });
    let (made, sent) = issue("39", &reply, |file| srq::create(file, &xrc, &Uhw::NONE));
    assert_eq!(made.srq_num, Some(34));
    let expected = ib_uverbs_create_xsrq {
        srq_type: 1,
        xrcd_handle: 26,
        cq_handle: 27,
        ..plain
    };
    same(&sent, &expected);
    let tags = request(srq::Kind::TagMatching {
        cq: 28,
        max_num_tags: 29,
    });
    let (_, sent) = issue("39", &reply, |file| srq::create(file, &tags, &Uhw::NONE));
    let expected = ib_uverbs_create_xsrq {
        srq_type: 2,
        cq_handle: 28,
        max_num_tags: 29,
        ..plain
    };
    same(&sent, &expected);

    for (change, mask, max_wr, limit) in [
        (SrqModify::new().max_wr(41), 1, 41, 0),
        (SrqModify::new().limit(42), 2, 0, 42),
        (SrqModify::new().max_wr(43).limit(44), 3, 43, 44),
    ] {
        let ((), sent) = issue("33", &NOTHING, |file| {
            srq::modify(file, 5, &change, &Uhw::NONE)
        });
        let expected = ib_uverbs_modify_srq {
            srq_handle: 5,
            attr_mask: mask,
            max_wr,
            srq_limit: limit,
        };
        same(&sent, &expected);
    }
    let reply = ib_uverbs_query_srq_resp {
        max_wr: 51,
        max_sge: 52,
        srq_limit: 53,
        reserved: 0,
    };
    let (found, sent) = issue("34", &reply, |file| srq::query(file, 5));
    assert_eq!((found.max_wr, found.max_sge, found.limit), (51, 52, 53));
    let expected = ib_uverbs_query_srq {
        srq_handle: 5,
        ..ib_uverbs_query_srq::default()
    };
    same(&sent, &expected);
}

#[test]
fn work_queues_and_their_tables() {
    let request = wq::Create {
        pd: 21,
        cq: 22,
        max_wr: 23,
        max_sge: 24,
        flags: wq::Flags::SCATTER_FCS,
        user_handle: 25,
        event_fd: None,
    };
    let reply = ib_uverbs_ex_create_wq_resp {
        comp_mask: 0,
        response_length: 24,
        wq_handle: 31,
        max_wr: 32,
        max_sge: 33,
        wqn: 34,
    };
    let (made, sent) = issue("x52", &reply, |file| wq::create(file, &request, &Uhw::NONE));
    assert_eq!((made.handle, made.wq_num), (31, 34));
    assert_eq!((made.max_wr, made.max_sge), (32, 33));
    let expected = ib_uverbs_ex_create_wq {
        comp_mask: 0,
        wq_type: 0,
        user_handle: 25,
        pd_handle: 21,
        cq_handle: 22,
        max_wr: 23,
        max_sge: 24,
        create_flags: 2,
        reserved: 0,
    };
    same(&sent, &expected);

    for (state, current, raw) in [
        (wq::State::Reset, wq::State::Ready, (0, 1)),
        (wq::State::Ready, wq::State::Error, (1, 2)),
        (wq::State::Error, wq::State::Reset, (2, 0)),
    ] {
        let change = wq::Modify {
            state: Some(state),
            current: Some(current),
            flags: None,
        };
        let ((), sent) = issue("x53", &NOTHING, |file| {
            wq::modify(file, 5, &change, &Uhw::NONE)
        });
        let sent: ib_uverbs_ex_modify_wq = sent;
        assert_eq!((sent.wq_state, sent.curr_wq_state), raw);
    }

    let reply = ib_uverbs_ex_create_rwq_ind_table_resp {
        comp_mask: 0,
        response_length: 16,
        ind_tbl_handle: 31,
        ind_tbl_num: 32,
    };
    for (count, log) in [(1_u32, 0_u32), (2, 1), (8, 3)] {
        let wqs: Vec<u32> = (0..count).map(|at| 60 + at).collect();
        let script = Script::new().replying("x55", reply.as_bytes());
        let bench = Bench::on_path(script, CommandPath::Write);
        let made = ind_table::create(&bench.file, &wqs, &Uhw::NONE).unwrap();
        assert_eq!((made.handle, made.number), (31, 32));
        let words: Vec<u32> = bench
            .request()
            .chunks_exact(4)
            .map(|word| u32::from_ne_bytes(word.try_into().unwrap()))
            .collect();
        assert_eq!(words[..2], [0, log]);
        assert_eq!(words[2..][..wqs.len()], wqs);
    }
}
