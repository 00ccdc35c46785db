//! Atomics that look at some bits.

use mlx5_tests::raw as mlx5;
use uverbs::mlx5::MaskedAtomic;
use uverbs::{PostError, QpType, WcStatus};
use verbs_tests::{Pair, Registered, next};

const SWAP: MaskedAtomic = MaskedAtomic::CompareSwap {
    compare: 0x0000_00ff,
    compare_mask: 0x0000_00ff,
    swap: 0x1234_0000,
    swap_mask: 0xffff_0000,
};
const ADD: MaskedAtomic = MaskedAtomic::FetchAdd {
    add: 1,
    boundary: 0x8000_0000,
};

#[test]
fn a_device_without_masked_atomics_says_so_in_the_completion() {
    verbs_tests::requests_fail();
    mlx5_tests::model_may_report("malformed work request");

    for operation in [SWAP, ADD] {
        let mut pair = Pair::new(QpType::Rc);
        let answer = Registered::local(&pair.a.pd, 8);
        let word = Registered::remote_all(&pair.b.pd, 8);
        let piece = answer.sge(0, 8);
        mlx5::masked_atomic(&mut pair.a.qp, 6, word.remote(0), operation, &piece).unwrap();
        let done = next(&mut pair.a.cq);
        assert_eq!(
            (done.wr_id, done.status),
            (6, WcStatus::LocalQpOperation),
            "{done:?}"
        );
        assert_eq!((word.word(0), answer.word(0)), (0, 0));
    }
}

#[test]
fn ill_formed_masked_atomics_are_refused() {
    let mut pair = Pair::new(QpType::Rc);
    let answer = Registered::local(&pair.a.pd, 16);
    let word = Registered::remote_all(&pair.b.pd, 16);
    let (short, whole) = (answer.sge(0, 4), answer.sge(0, 8));
    for (at, piece) in [(0, &short), (4, &whole)] {
        let error = mlx5::masked_atomic(&mut pair.a.qp, 0, word.remote(at), ADD, piece);
        assert_eq!(error, Err(PostError::InvalidRequest));
    }
    let mut other = Pair::new(QpType::Uc);
    let error = mlx5::masked_atomic(&mut other.a.qp, 0, word.remote(0), ADD, &whole);
    assert_eq!(error, Err(PostError::UnsupportedOperation));
}
