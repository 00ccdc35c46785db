//! The core of the verbs on kernels of every version, and the tables of `docs/guide/kernels.md`
//! derived from it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod guide;
mod heart;
mod lacking;

use fake_tests::thinned;
use uverbs::error::Op;
use uverbs_fake::Profile;

use crate::heart::heart;

#[test]
fn the_core_verbs_work_on_every_kernel() {
    for profile in thinned(Profile::ALL, 3) {
        let ways = heart(*profile);
        let way = |op: Op| {
            let place = Op::ALL.iter().position(|other| *other == op).unwrap();
            ways.get(&place).map(String::as_str)
        };
        // Determined once more from the kernels' sources, by hand.
        let (legacy, wanted) = match profile.version() {
            (4, _) => ("`write`", ["`write`"; 4]),
            (5, 4) => (
                "`INVOKE_WRITE`",
                [
                    "`INVOKE_WRITE`",
                    "`INVOKE_WRITE`",
                    "`INVOKE_WRITE`",
                    "method",
                ],
            ),
            _ => ("`INVOKE_WRITE`", ["method"; 4]),
        };
        let groups = [
            Op::GetContext,
            Op::CreateQueuePair,
            Op::CreateCompletionQueue,
            Op::DeregisterMemory,
        ];
        let version = profile.version();
        assert_eq!(groups.map(way), wanted.map(Some), "{version:?}");
        for op in [
            Op::QueryDevice,
            Op::AllocProtectionDomain,
            Op::RegisterMemory,
            Op::ModifyQueuePair,
            Op::CreateAddressHandle,
        ] {
            assert_eq!(way(op), Some(legacy), "{version:?} {op:?}");
        }
        assert_eq!(way(Op::PostSend), Some("`write`"), "{version:?}");
        let gids = (version >= (5, 10)).then_some("method");
        assert_eq!(way(Op::QueryGidTable), gids, "{version:?}");
    }
}
