//! Why parts of the headers are not implemented; maintained by hand.

/// The kind of a reason.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum Kind {
    /// There is nothing to implement.
    Dead,
    /// The same is done in another way.
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

/// One reason. An object's reason also applies to its methods, a method's also to its attributes.
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
            "RDMA_USER_CM_CMD_GET_OPTION",
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
        why: "the type of the table says the direction, and the kernel takes one of the two",
        names: &["MLX5_IB_ATTR_FLOW_MATCHER_FLOW_FLAGS"],
    },
];

/// The reason for a name itself.
pub(super) fn of(name: &str) -> Option<&'static Reason> {
    REASONS.iter().find(|reason| reason.names.contains(&name))
}
