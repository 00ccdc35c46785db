//! The device and its node.

use std::ffi::CStr;
use std::sync::{Arc, LazyLock};

use adversary::device::Device as _;
use adversary::mlx5::Cards;
use uverbs_core::sys::Kernel;

/// The node that programs open.
const NODE: &CStr = c"/dev/infiniband/uverbs0";

/// What is opened in its place: a character device, of which any part can be mapped. Nothing
/// listens to doorbells, so a page of them is ordinary memory.
const STAND_IN: &CStr = c"/dev/zero";

/// The version of completions that carry the number which the library chose.
const CQE_VERSION: u8 = 1;

static CARDS: LazyLock<Cards> = LazyLock::new(|| Cards::new(CQE_VERSION));

/// The path that is opened for a path.
pub fn opened(path: &CStr) -> &CStr {
    if path == NODE { STAND_IN } else { path }
}

/// The kernel of the device, which takes calls on any descriptor.
pub fn kernel() -> Arc<dyn Kernel> {
    CARDS.kernel(0)
}

/// Lets the device carry out what has been posted.
pub fn work() {
    CARDS.run();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_node_is_replaced() {
        assert_eq!(opened(NODE), STAND_IN);
        for other in [c"/dev/infiniband/uverbs1", c"/dev/infiniband", c""] {
            assert_eq!(opened(other), other);
        }
    }
}
