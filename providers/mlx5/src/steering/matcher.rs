//! Matchers: the fields that rules compare.

use std::sync::Arc;

use uverbs_core::cmd::{new_object_handle, new_object_slot};
use uverbs_core::kind::{Counts, Kind, Legacy};
use uverbs_core::sys::{Attr, Uhw, Value};
use uverbs_core::{DestroyError, Errno, Error, Object, Op, Result, UverbsFile};
use uverbs_uapi::mlx5_user_ioctl_cmds::{
    MLX5_IB_ATTR_FLOW_MATCHER_CREATE_HANDLE, MLX5_IB_ATTR_FLOW_MATCHER_DESTROY_HANDLE,
    MLX5_IB_ATTR_FLOW_MATCHER_FLOW_TYPE, MLX5_IB_ATTR_FLOW_MATCHER_FT_TYPE,
    MLX5_IB_ATTR_FLOW_MATCHER_IB_PORT, MLX5_IB_ATTR_FLOW_MATCHER_MATCH_CRITERIA,
    MLX5_IB_ATTR_FLOW_MATCHER_MATCH_MASK, MLX5_IB_FLOW_TYPE_ALL_DEFAULT,
    MLX5_IB_FLOW_TYPE_MC_DEFAULT, MLX5_IB_FLOW_TYPE_NORMAL, MLX5_IB_FLOW_TYPE_SNIFFER,
    MLX5_IB_METHOD_FLOW_MATCHER_CREATE, MLX5_IB_METHOD_FLOW_MATCHER_DESTROY,
    MLX5_IB_OBJECT_FLOW_MATCHER,
};

use super::{MatchParameters, TableKind};

/// What a matcher's rules match (`enum mlx5_ib_flow_type`).
///
/// Kernels so far create only rules of [`Normal`](Self::Normal) matchers (EOPNOTSUPP for rules of
/// the others).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum MatchKind {
    /// Packets that match. The priority orders matchers; 0 is the first.
    Normal {
        /// The priority.
        priority: u16,
    },
    /// Copies of all packets.
    Sniffer,
    /// Everything that no other rule matches.
    AllDefault,
    /// All multicast that no other rule matches.
    MulticastDefault,
}

/// `mlx5dv_flow_matcher_attr`—a matcher to create.
#[doc(alias = "mlx5dv_flow_matcher_attr")]
#[derive(Clone, Copy, Debug)]
pub struct MatcherInit<'a> {
    /// The bits that its rules compare.
    pub mask: &'a MatchParameters,
    /// What they match.
    pub kind: MatchKind,
    /// The direction of packets.
    pub table: TableKind,
    /// The port, from 1, whose transport packets are steered ([`TableKind::RdmaTransportReceive`],
    /// [`TableKind::RdmaTransportTransmit`]); `None` for all other tables.
    pub ib_port: Option<u32>,
}

impl<'a> MatcherInit<'a> {
    /// A matcher of received frames, with the first priority.
    pub const fn new(mask: &'a MatchParameters) -> Self {
        Self {
            mask,
            kind: MatchKind::Normal { priority: 0 },
            table: TableKind::NicReceive,
            ib_port: None,
        }
    }
}

/// `mlx5dv_flow_matcher`—the fields that rules compare. Cheap to clone; its rules keep it alive.
#[doc(alias = "mlx5dv_flow_matcher")]
#[derive(Clone, Debug)]
pub struct FlowMatcher {
    object: Arc<Object>,
    mask: Arc<MatchParameters>,
}

static KIND: Kind = Kind {
    name: "FlowMatcher",
    op: Op::DestroyFlowMatcher,
    object: MLX5_IB_OBJECT_FLOW_MATCHER,
    method: MLX5_IB_METHOD_FLOW_MATCHER_DESTROY,
    attr: MLX5_IB_ATTR_FLOW_MATCHER_DESTROY_HANDLE,
    counts: Counts::None,
    legacy: Legacy::None,
};

impl FlowMatcher {
    /// `mlx5dv_create_flow_matcher`—creates a matcher.
    ///
    /// One system call, since 4.19. The kernel does not involve the device yet.
    ///
    /// # Errors
    /// EINVAL: [`TableKind::Switch`] where functions are not represented, or a port that does not
    /// exist or belongs to another table. EOPNOTSUPP: the context may not steer a port's transport.
    /// EPROTONOSUPPORT: the kernel does not support the port.
    #[doc(alias = "mlx5dv_create_flow_matcher")]
    #[doc(hidden)] // Users have no such handle: the facade calls it.
    pub fn create(file: &Arc<UverbsFile>, init: &MatcherInit<'_>) -> Result<Self> {
        let op = Op::CreateFlowMatcher;
        let handle = new_object_slot();
        let priority;
        let (element, payload): (u8, &[u8]) = match init.kind {
            MatchKind::Normal { priority: rank } => {
                priority = rank.to_ne_bytes();
                (number(MLX5_IB_FLOW_TYPE_NORMAL), &priority)
            }
            MatchKind::Sniffer => (number(MLX5_IB_FLOW_TYPE_SNIFFER), &[]),
            MatchKind::AllDefault => (number(MLX5_IB_FLOW_TYPE_ALL_DEFAULT), &[]),
            MatchKind::MulticastDefault => (number(MLX5_IB_FLOW_TYPE_MC_DEFAULT), &[]),
        };
        let criteria = init.mask.criteria();
        let attrs = [
            Attr::new_object(MLX5_IB_ATTR_FLOW_MATCHER_CREATE_HANDLE, &handle),
            Attr::input(MLX5_IB_ATTR_FLOW_MATCHER_MATCH_MASK, init.mask.used()),
            Attr::new(
                MLX5_IB_ATTR_FLOW_MATCHER_FLOW_TYPE,
                Value::Enum(element, payload),
            ),
            Attr::input(MLX5_IB_ATTR_FLOW_MATCHER_MATCH_CRITERIA, &criteria),
            Attr::constant(MLX5_IB_ATTR_FLOW_MATCHER_FT_TYPE, init.table.raw()),
            Attr::maybe(
                init.ib_port.as_ref(),
                MLX5_IB_ATTR_FLOW_MATCHER_IB_PORT,
                Attr::input,
            ),
        ];
        let create = || {
            file.ioctl(
                op,
                MLX5_IB_OBJECT_FLOW_MATCHER,
                MLX5_IB_METHOD_FLOW_MATCHER_CREATE,
                &attrs,
                &Uhw::NONE,
            )
        };
        // A kernel that only lacks the port has the method.
        let created = if init.ib_port.is_some() {
            create()
        } else {
            file.ioctl_only(op, create)
        };
        created.map_err(|error| explain(error, init))?;
        let handle = new_object_handle(op, &handle)?;
        Ok(Self {
            object: Arc::new(Object::new(file, &KIND, handle, [])),
            mask: Arc::new(init.mask.clone()),
        })
    }

    /// The kernel object.
    pub(crate) fn object(&self) -> &Arc<Object> {
        &self.object
    }

    /// The bits that its rules compare.
    pub fn mask(&self) -> &MatchParameters {
        &self.mask
    }

    /// `mlx5dv_destroy_flow_matcher`—destroys it. One system call. Dropping it does the same.
    ///
    /// # Errors
    /// [`Busy`](uverbs_core::ErrorKind::Busy) while clones, or rules of it, exist; it is returned.
    #[doc(alias = "mlx5dv_destroy_flow_matcher")]
    pub fn destroy(mut self) -> Result<(), DestroyError<Self>> {
        match Object::sole(&mut self.object).and_then(Object::try_destroy) {
            Ok(_) => Ok(()),
            Err(error) => Err(DestroyError::new(error, self)),
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "the kernel numbers these from 0"
)]
const fn number(kind: u32) -> u8 {
    kind as u8
}

fn explain(error: Error, init: &MatcherInit<'_>) -> Error {
    let error = error.fact("table", format!("{:?}", init.table));
    match (error.errno(), init.table, init.ib_port) {
        (Some(Errno::INVAL), TableKind::Switch, _) => {
            error.hint("the embedded switch has such tables only in switchdev mode")
        }
        (_, _, Some(port)) => error.fact("port", port),
        _ => error,
    }
}
