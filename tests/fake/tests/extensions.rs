//! Vendor-specific parts of a request, used with another vendor's device.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use fake_tests::Bench;
use uverbs::mlx5::{Entries, EntrySize, Streams};
use uverbs::typed::vendor::Rxe;
use uverbs::{ErrorKind, QpType};

#[test]
fn a_queue_pair_with_a_strangers_extension_is_refused() {
    let bench = Bench::newest();
    let context = bench.context().unwrap();
    let (pd, cq) = (context.alloc_pd().unwrap(), context.create_cq(8).unwrap());
    let srq = pd.create_srq(8, 1).unwrap();
    let before = bench.fake.objects().total();
    let streams = Streams {
        log_concurrent: 1,
        log_errored: 0,
    };
    let initiator = pd.dc_initiator(&cq).dci_streams(streams).untyped();
    let framed = pd.queue_pair(QpType::Ud, &cq, &cq).max_tso_header(64);
    let target = pd.dc_target(&srq, &cq, 0xfeed).untyped();
    for (builder, kind) in [
        (initiator, QpType::Driver),
        (target, QpType::Driver),
        (framed, QpType::Ud),
    ] {
        let error = builder.gid_index(1).build().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        let text = error.to_string();
        assert!(text.contains(&kind.to_string()), "{text}");
    }
    // Without it the same request is accepted.
    let plain = pd.queue_pair(QpType::Ud, &cq, &cq).gid_index(1).build();
    drop(plain.unwrap());
    assert_eq!(bench.fake.objects().total(), before);
}

#[test]
fn a_completion_queue_with_a_strangers_extension_is_refused() {
    let bench = Bench::newest();
    let context = bench.context().unwrap();
    let usual = Entries::default();
    let long = Entries {
        size: EntrySize::Long,
        ..usual
    };
    let builder = || context.completion_queue(8);
    let error = builder().entries_of_mlx5(long).build().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    // The last choice counts, and every device supports the usual format.
    let builder = builder().entries_of_mlx5(long).entries_of_mlx5(usual);
    builder.build().unwrap().destroy().unwrap();
}

#[test]
fn a_queue_pair_with_a_shared_receive_queue_has_no_typed_receiving_end() {
    let bench = Bench::newest();
    let context = bench.context().unwrap();
    let (pd, cq) = (context.alloc_pd().unwrap(), context.create_cq(8).unwrap());
    let srq = pd.create_srq(8, 1).unwrap();
    let builder = || pd.queue_pair(QpType::Ud, &cq, &cq).gid_index(1);
    let mut own = builder().build().unwrap().activate().unwrap();
    assert!(own.receiver::<Rxe>().is_ok());
    let shared = builder().srq(&srq).build().unwrap();
    let mut shared = shared.activate().unwrap();
    let error = shared.receiver::<Rxe>().err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(shared.sender::<Rxe>().is_ok());
}
