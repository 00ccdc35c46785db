//! Masked atomics. Of the software ConnectX's functions, those on InfiniBand support them.

use mlx5_tests::raw as mlx5;
use uverbs::completion::WcOpcode;
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
    add: 0x0000_0001_0000_0001,
    boundary: 0x8000_0000,
};

/// The value of a word after an operation, and the operation's result.
struct Case {
    operation: MaskedAtomic,
    before: u64,
    after: u64,
}

const CASES: [Case; 5] = [
    // The compared bits are equal; bits outside the swap mask stay.
    Case {
        operation: SWAP,
        before: 0x5555_0000_aaaa_77ff,
        after: 0x5555_0000_1234_77ff,
    },
    // One of the compared bits differs.
    Case {
        operation: SWAP,
        before: 0x5555_0000_aaaa_77fe,
        after: 0x5555_0000_aaaa_77fe,
    },
    // The sum of the lower half overflows, and no carry reaches the upper half.
    Case {
        operation: ADD,
        before: 0x0000_0007_ffff_ffff,
        after: 0x0000_0008_0000_0000,
    },
    // Without a boundary it does.
    Case {
        operation: MaskedAtomic::FetchAdd {
            add: 0x0000_0001_0000_0001,
            boundary: 0,
        },
        before: 0x0000_0007_ffff_ffff,
        after: 0x0000_0009_0000_0000,
    },
    // Every bit a field of its own: exclusive or.
    Case {
        operation: MaskedAtomic::FetchAdd {
            add: 0xff00_ff00_ff00_ff00,
            boundary: u64::MAX,
        },
        before: 0xffff_0000_ffff_0000,
        after: 0x00ff_ff00_00ff_ff00,
    },
];

#[test]
fn ib_masked_atomics_change_what_their_masks_say() {
    let mut pair = Pair::new(QpType::Rc);
    let answer = Registered::local(&pair.a.pd, 8);
    let word = Registered::remote_all(&pair.b.pd, 16);
    let sge = answer.sge(0, 8);
    for (case, wr_id) in CASES.iter().zip(0..) {
        word.put(8, &case.before.to_ne_bytes());
        let operation = case.operation;
        mlx5::masked_atomic(&mut pair.a.qp, wr_id, word.remote(8), operation, &sge).unwrap();
        let done = next(&mut pair.a.cq);
        let expected = match operation {
            MaskedAtomic::CompareSwap { .. } => WcOpcode::CompareSwap,
            MaskedAtomic::FetchAdd { .. } => WcOpcode::FetchAdd,
        };
        assert_eq!(
            (done.wr_id, done.status, done.opcode),
            (wr_id, WcStatus::Success, expected),
            "{done:?}"
        );
        let found = (word.word(0), word.word(8), answer.word(0));
        assert_eq!(found, (0, case.after, case.before), "{operation:x?}");
    }
}

#[test]
fn roce_a_device_without_masked_atomics_says_so_in_the_completion() {
    verbs_tests::requests_fail();
    mlx5_tests::model_may_report("malformed work request");

    for operation in [SWAP, ADD] {
        let mut pair = Pair::new(QpType::Rc);
        let answer = Registered::local(&pair.a.pd, 8);
        let word = Registered::remote_all(&pair.b.pd, 8);
        let sge = answer.sge(0, 8);
        mlx5::masked_atomic(&mut pair.a.qp, 6, word.remote(0), operation, &sge).unwrap();
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
    for (at, sge) in [(0, &short), (4, &whole)] {
        let error = mlx5::masked_atomic(&mut pair.a.qp, 0, word.remote(at), ADD, sge);
        assert_eq!(error, Err(PostError::InvalidRequest));
    }
    let mut other = Pair::new(QpType::Uc);
    let error = mlx5::masked_atomic(&mut other.a.qp, 0, word.remote(0), ADD, &whole);
    assert_eq!(error, Err(PostError::UnsupportedOperation));
}
