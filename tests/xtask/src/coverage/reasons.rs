//! Why something of the headers is not implemented, by hand.

/// How good a reason is.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum Kind {
    /// There is nothing to implement.
    Dead,
    /// The same is done by another way.
    Otherwise,
    /// It is missing.
    Missing,
}

impl Kind {
    pub(super) const ALL: [Self; 3] = [Self::Dead, Self::Otherwise, Self::Missing];

    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Dead => "nothing to implement",
            Self::Otherwise => "done otherwise",
            Self::Missing => "missing",
        }
    }
}

/// One reason. That of an object is also that of its methods, that of a method also that of its attributes.
pub(super) struct Reason {
    pub(super) kind: Kind,
    pub(super) why: &'static str,
    pub(super) names: &'static [&'static str],
}

/// All of them.
pub(super) const REASONS: &[Reason] = &[
    Reason {
        kind: Kind::Dead,
        why: "no kernel has ever carried it out",
        names: &[
            "IB_USER_VERBS_CMD_MODIFY_AH",
            "IB_USER_VERBS_CMD_QUERY_AH",
            "IB_USER_VERBS_CMD_REG_SMR",
            "IB_USER_VERBS_CMD_QUERY_MR",
            "IB_USER_VERBS_CMD_BIND_MW",
            "IB_USER_VERBS_CMD_PEEK_CQ",
        ],
    },
    Reason {
        kind: Kind::Dead,
        why: "actions for ESP left the kernel with 5.18",
        names: &[
            "UVERBS_ATTR_FLOW_ACTION_ESP_ENCAP",
            "MLX5_IB_ATTR_CREATE_FLOW_ACTION_FLAGS",
        ],
    },
    Reason {
        kind: Kind::Otherwise,
        why: "it has no methods; the command CREATE_COMP_CHANNEL makes one, and closing its descriptor destroys it",
        names: &["UVERBS_OBJECT_COMP_CHANNEL"],
    },
    Reason {
        kind: Kind::Otherwise,
        why: "the address of the buffer travels in the driver data, which every kernel takes; the descriptor is for memory \
              without an address",
        names: &[
            "UVERBS_ATTR_CREATE_CQ_BUF_UMEM",
            "UVERBS_ATTR_CREATE_QP_BUF_UMEM",
            "UVERBS_ATTR_CREATE_QP_RQ_BUF_UMEM",
            "UVERBS_ATTR_CREATE_QP_SQ_BUF_UMEM",
            "UVERBS_ATTR_CREATE_SRQ_BUF_UMEM",
            "MLX5_IB_ATTR_CREATE_CQ_DBR_BUF_UMEM",
            "MLX5_IB_ATTR_CREATE_QP_DBR_BUF_UMEM",
            "MLX5_IB_ATTR_CREATE_SRQ_DBR_BUF_UMEM",
        ],
    },
    Reason {
        kind: Kind::Otherwise,
        why: "the driver data of GET_CONTEXT says the same; this one is for a context that another process opened",
        names: &["MLX5_IB_ATTR_QUERY_CONTEXT_RESP_UCTX"],
    },
    Reason {
        kind: Kind::Otherwise,
        why: "a queue gets its UAR page in the driver data",
        names: &["MLX5_IB_ATTR_CREATE_CQ_UAR_INDEX"],
    },
    Reason {
        kind: Kind::Otherwise,
        why: "the driver data of ALLOC_PD says the number; this one is for a domain that another process made",
        names: &["MLX5_IB_METHOD_PD_QUERY"],
    },
    Reason {
        kind: Kind::Missing,
        why: "steering by the device's own match words",
        names: &[
            "MLX5_IB_OBJECT_FLOW_MATCHER",
            "MLX5_IB_METHOD_CREATE_FLOW",
            "MLX5_IB_METHOD_DESTROY_FLOW",
            "MLX5_IB_METHOD_FLOW_ACTION_CREATE_MODIFY_HEADER",
            "MLX5_IB_METHOD_FLOW_ACTION_CREATE_PACKET_REFORMAT",
            "MLX5_IB_OBJECT_STEERING_ANCHOR",
        ],
    },
    Reason {
        kind: Kind::Missing,
        why: "device memory of mlx5 for steering by software",
        names: &["MLX5_IB_ATTR_ALLOC_DM_REQ_TYPE"],
    },
    Reason {
        kind: Kind::Missing,
        why: "doorbell pages of emulated virtio devices",
        names: &["MLX5_IB_OBJECT_VAR"],
    },
    Reason {
        kind: Kind::Missing,
        why: "the port of a representor in the embedded switch",
        names: &["MLX5_IB_METHOD_QUERY_PORT"],
    },
    Reason {
        kind: Kind::Missing,
        why: "memory of another PCI device by the data-direct function",
        names: &[
            "MLX5_IB_METHOD_GET_DATA_DIRECT_SYSFS_PATH",
            "MLX5_IB_ATTR_REG_DMABUF_MR_ACCESS_FLAGS",
        ],
    },
];

/// The reason of a name itself.
pub(super) fn of(name: &str) -> Option<&'static Reason> {
    REASONS.iter().find(|reason| reason.names.contains(&name))
}
