//! Destroying objects, and the event counts that it returns.

use uverbs_uapi::ib_user_verbs::{
    ib_uverbs_close_xrcd, ib_uverbs_dealloc_mw, ib_uverbs_dealloc_pd, ib_uverbs_dereg_mr,
    ib_uverbs_destroy_ah, ib_uverbs_destroy_cq, ib_uverbs_destroy_flow, ib_uverbs_destroy_qp,
    ib_uverbs_destroy_srq, ib_uverbs_ex_destroy_rwq_ind_table, ib_uverbs_ex_destroy_wq,
};
use zerocopy::{Immutable, IntoBytes};

use super::encodings::check;
use super::{Bench, Script};
use crate::cmd::{
    ah, comp_cntr, counters, cq, dm, dmah, flow, flow_action, ind_table, mr, mw, pd, qp, srq, wq,
    xrcd,
};
use crate::file::CommandPath;
use crate::kind::{Kind, Legacy};
use crate::types::EventCounts;

#[test]
fn every_kind_of_object_is_destroyed_by_its_own_command() {
    let ways = [
        (&ah::KIND, "6/0 0:obj=5", Some("8 in4")),
        (&comp_cntr::KIND, "19/1 0:obj=5", None),
        (&cq::KIND, "3/1 0:obj=5 1:out8", Some("20 in16 out8")),
        (&counters::KIND, "15/1 0:obj=5", None),
        (&dm::KIND, "14/1 0:obj=5", None),
        (&dmah::KIND, "17/1 0:obj=5", None),
        (&flow::KIND, "9/0 0:obj=5", Some("x51 in8")),
        (&flow_action::KIND, "13/1 0:obj=5", None),
        (&ind_table::KIND, "11/0 0:obj=5", Some("x56 in8")),
        (&mr::KIND, "7/1 0:obj=5", Some("13 in4")),
        (&mw::KIND, "8/0 0:obj=5", Some("16 in4")),
        (&pd::KIND, "1/0 0:obj=5", Some("4 in4")),
        (&qp::KIND, "4/1 0:obj=5 1:out4", Some("27 in16 out4")),
        (&srq::KIND, "5/1 0:obj=5 1:out4", Some("35 in16 out4")),
        (&wq::KIND, "12/1 0:obj=5 1:out4", Some("x54 in8 out16")),
        (&xrcd::KIND, "10/0 0:obj=5", Some("38 in4")),
    ];
    for (kind, ioctl, legacy) in ways {
        let ioctl = format!("ioctl {ioctl}");
        let write = legacy.map_or_else(|| ioctl.clone(), |words| format!("write {words}"));
        check(|file| kind.destroy(file, 5), &ioctl, &write);
    }
}

#[track_caller]
fn sends(kind: &Kind, request: &(impl IntoBytes + Immutable)) {
    let bench = Bench::on_path(Script::new().with_zeros(), CommandPath::InvokeWrite);
    kind.destroy(&bench.file, 5).unwrap();
    assert_eq!(bench.request(), request.as_bytes(), "{kind}");
}

#[test]
fn legacy_destroys_are_the_kernels_structures() {
    sends(&ah::KIND, &ib_uverbs_destroy_ah { ah_handle: 5 });
    sends(&mr::KIND, &ib_uverbs_dereg_mr { mr_handle: 5 });
    sends(&mw::KIND, &ib_uverbs_dealloc_mw { mw_handle: 5 });
    sends(&pd::KIND, &ib_uverbs_dealloc_pd { pd_handle: 5 });
    sends(&xrcd::KIND, &ib_uverbs_close_xrcd { xrcd_handle: 5 });
    let counted = ib_uverbs_destroy_cq {
        cq_handle: 5,
        ..ib_uverbs_destroy_cq::default()
    };
    sends(&cq::KIND, &counted);
    let counted = ib_uverbs_destroy_qp {
        qp_handle: 5,
        ..ib_uverbs_destroy_qp::default()
    };
    sends(&qp::KIND, &counted);
    let counted = ib_uverbs_destroy_srq {
        srq_handle: 5,
        ..ib_uverbs_destroy_srq::default()
    };
    sends(&srq::KIND, &counted);
    let extended = ib_uverbs_destroy_flow {
        comp_mask: 0,
        flow_handle: 5,
    };
    sends(&flow::KIND, &extended);
    let extended = ib_uverbs_ex_destroy_rwq_ind_table {
        comp_mask: 0,
        ind_tbl_handle: 5,
    };
    sends(&ind_table::KIND, &extended);
    let extended = ib_uverbs_ex_destroy_wq {
        comp_mask: 0,
        wq_handle: 5,
    };
    sends(&wq::KIND, &extended);
}

/// Two kinds of one object id may be destroyed by different methods.
#[test]
fn kinds_compare_all_their_fields() {
    let other = Kind {
        method: 0x1001,
        attr: 0x1000,
        legacy: Legacy::None,
        ..flow::KIND
    };
    assert_ne!(other, flow::KIND);
    assert_eq!(qp::KIND.to_string(), "QueuePair");
}

#[test]
fn a_destroy_counts_events() {
    let counts = [3_u32.to_ne_bytes(), 2_u32.to_ne_bytes()].concat();
    let script = Script::new()
        .replying("3/1:1", counts)
        .replying("5/1:1", 4_u32.to_ne_bytes());
    let bench = Bench::new(script);
    let expected = EventCounts {
        completions: 3,
        asynchronous: 2,
    };
    assert_eq!(cq::KIND.destroy(&bench.file, 1).unwrap(), expected);
    assert_eq!(srq::KIND.destroy(&bench.file, 1).unwrap().asynchronous, 4);

    let extended = [
        0_u32.to_ne_bytes(),
        16_u32.to_ne_bytes(),
        6_u32.to_ne_bytes(),
    ]
    .concat();
    let bench = Bench::on_path(Script::new().replying("x54", extended), CommandPath::Write);
    assert_eq!(wq::KIND.destroy(&bench.file, 1).unwrap().asynchronous, 6);
}
