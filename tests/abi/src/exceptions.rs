//! Differences that were reviewed and are correct.

/// A macro of a mirrored header that has no value to compare.
#[derive(Clone, Copy, Debug)]
pub struct Skipped {
    /// The macro.
    pub name: &'static str,
    /// Why it is not mirrored as a constant.
    pub reason: &'static str,
}

const GUARD: &str = "guards against double inclusion";
const FUNCTION: &str = "takes an argument: a `const fn` in Rust, with a test of its own";

/// Macros of the newest headers that are not mirrored. One that no longer exists must be removed
/// from this list.
pub const SKIPPED: &[Skipped] = &[
    Skipped {
        name: "IB_USER_IOCTL_CMDS_H",
        reason: GUARD,
    },
    Skipped {
        name: "IB_USER_IOCTL_VERBS_H",
        reason: GUARD,
    },
    Skipped {
        name: "IB_USER_SA_H",
        reason: GUARD,
    },
    Skipped {
        name: "IB_USER_VERBS_H",
        reason: GUARD,
    },
    Skipped {
        name: "MLX5_ABI_USER_H",
        reason: GUARD,
    },
    Skipped {
        name: "MLX5_USER_IOCTL_CMDS_H",
        reason: GUARD,
    },
    Skipped {
        name: "MLX5_USER_IOCTL_VERBS_H",
        reason: GUARD,
    },
    Skipped {
        name: "RDMA_USER_CM_H",
        reason: GUARD,
    },
    Skipped {
        name: "RDMA_USER_IOCTL_CMDS_H",
        reason: GUARD,
    },
    Skipped {
        name: "RDMA_USER_IOCTL_H",
        reason: GUARD,
    },
    Skipped {
        name: "RDMA_USER_RXE_H",
        reason: GUARD,
    },
    Skipped {
        name: "_RDMA_NETLINK_H",
        reason: GUARD,
    },
    Skipped {
        name: "RDMA_NL_GET_CLIENT",
        reason: FUNCTION,
    },
    Skipped {
        name: "RDMA_NL_GET_OP",
        reason: FUNCTION,
    },
    Skipped {
        name: "RDMA_NL_GET_TYPE",
        reason: FUNCTION,
    },
    Skipped {
        name: "mlx5_ib_clock_info",
        reason: "the older name of a struct: a type alias in Rust",
    },
    Skipped {
        name: "RDMA_UAPI_PTR",
        reason: "declares a pointer field: a plain `u64` in Rust",
    },
];

/// Prefixes of field names that exist only for C compilers.
pub const SKIPPED_FIELDS: &[&str] = &[
    // `__DECLARE_FLEX_ARRAY` puts an empty struct before the array.
    "__empty_",
];

/// An item of an older header that is different today.
#[derive(Clone, Copy, Debug)]
pub struct Changed {
    /// `NAME` of a constant, `struct.field` of a field.
    pub name: &'static str,
    /// What happened to it.
    pub reason: &'static str,
}

const LAST: &str = "counts what stands before it, so every addition moves it";

const DROPPED: &str = "replaced by UVERBS_ID_DRIVER_NS";

/// Permitted differences between older headers and this crate.
pub const CHANGED: &[Changed] = &[
    Changed {
        name: "RDMA_NLDEV_ATTR_MAX",
        reason: LAST,
    },
    Changed {
        name: "RDMA_NLDEV_NUM_OPS",
        reason: LAST,
    },
    Changed {
        name: "RDMA_NL_NUM_GROUPS",
        reason: LAST,
    },
    Changed {
        name: "UVERBS_UDATA_DRIVER_DATA_NS",
        reason: DROPPED,
    },
    Changed {
        name: "UVERBS_UDATA_DRIVER_DATA_FLAG",
        reason: DROPPED,
    },
    Changed {
        name: "ib_uverbs_query_port_resp_ex.reserved",
        reason: "its last four bytes became active_speed_ex",
    },
];

/// Structs that have a different tag today: the old one and the new one. In Rust the old name is an
/// alias of the new type.
pub const RENAMED: &[(&str, &str)] = &[("mlx5_ib_clock_info", "ib_uverbs_clock_info")];
