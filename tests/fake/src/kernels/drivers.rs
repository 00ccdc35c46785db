//! What is requested of mlx5's driver.

use super::{Requirement, Since, Tried};

/// Methods that are requested when they are used, and are `Unsupported` where the kernel has none.
const fn method(major: u8, minor: u8, what: &'static str) -> Requirement {
    Requirement {
        since: Since::Kernel(major, minor),
        what,
        without: "`Unsupported`",
        test: "methods_that_a_driver_lacks_are_unsupported",
        tried: Tried::MadeUp,
    }
}

/// The same, without a test.
const fn read(major: u8, minor: u8, what: &'static str) -> Requirement {
    Requirement {
        test: "",
        tried: Tried::Read,
        ..method(major, minor, what)
    }
}

/// mlx5's driver, oldest first.
pub const OF_MLX5: &[Requirement] = &[
    Requirement {
        since: Since::Kernel(4, 19),
        what: "contexts with firmware commands (`MLX5_IB_ALLOC_UCTX_DEVX`)",
        without: "a context without; what needs them is `Unsupported`",
        test: "queue_pairs_work_on_a_driver_without_methods",
        tried: Tried::MadeUp,
    },
    method(4, 19, "`DEVX`, `FLOW_MATCHER`"),
    read(4, 19, "`DEVX_OBJ`, `DEVX_UMEM`, flows"),
    method(4, 20, "`FLOW_ACTION`: packet reformat, header rewrite"),
    method(5, 2, "`DEVX_ASYNC_CMD_FD` (or 5.1)"),
    method(5, 3, "`DEVX_ASYNC_EVENT_FD`, subscriptions"),
    read(5, 3, "memory for steering (`DM_ALLOC` with a kind)"),
    method(5, 6, "`VAR`"),
    Requirement {
        since: Since::Kernel(5, 7),
        what: "`UAR`: pages of doorbells as needed",
        without: "the doorbells that a context has from the start",
        test: "queue_pairs_work_on_a_driver_without_methods",
        tried: Tried::MadeUp,
    },
    method(5, 7, "`PP`: packet pacing"),
    read(5, 9, "`PD/QUERY`"),
    read(5, 13, "`DM/QUERY`, `DM/MAP_OP_ADDR`"),
    method(5, 14, "`DEVICE/QUERY_PORT`"),
    method(6, 0, "`STEERING_ANCHOR`"),
    read(6, 1, "`DEVX_UMEM` of a dmabuf"),
    Requirement {
        since: Since::Kernel(6, 11),
        what: "a completion queue's page of registers by an attribute (`CREATE_CQ_UAR_INDEX`; not in 6.8)",
        without: "in the driver data, up to page 65 535; beyond, the queue is refused",
        test: "completion_queues_learn_of_pages_with_large_numbers",
        tried: Tried::MadeUp,
    },
    method(6, 12, "`GET_DATA_DIRECT_SYSFS_PATH`"),
];
