//! Rules of a matcher, and the destinations of matching packets.

use std::sync::Arc;

use uverbs_core::cmd::{new_object_handle, new_object_slot};
use uverbs_core::kind::{Counts, Kind, Legacy};
use uverbs_core::sys::{Attr, Uhw, Value};
use uverbs_core::{Errno, Error, Object, Op, Result, UverbsFile};
use uverbs_uapi::ib_user_ioctl_cmds::UVERBS_OBJECT_FLOW;
use uverbs_uapi::mlx5_user_ioctl_cmds::{
    MLX5_IB_ATTR_CREATE_FLOW_ARR_COUNTERS_DEVX, MLX5_IB_ATTR_CREATE_FLOW_ARR_COUNTERS_DEVX_OFFSET,
    MLX5_IB_ATTR_CREATE_FLOW_ARR_FLOW_ACTIONS, MLX5_IB_ATTR_CREATE_FLOW_DEST_DEVX,
    MLX5_IB_ATTR_CREATE_FLOW_DEST_QP, MLX5_IB_ATTR_CREATE_FLOW_FLAGS,
    MLX5_IB_ATTR_CREATE_FLOW_FLAGS_DEFAULT_MISS, MLX5_IB_ATTR_CREATE_FLOW_FLAGS_DROP,
    MLX5_IB_ATTR_CREATE_FLOW_HANDLE, MLX5_IB_ATTR_CREATE_FLOW_MATCH_VALUE,
    MLX5_IB_ATTR_CREATE_FLOW_MATCHER, MLX5_IB_ATTR_CREATE_FLOW_TAG,
    MLX5_IB_ATTR_DESTROY_FLOW_HANDLE, MLX5_IB_METHOD_CREATE_FLOW, MLX5_IB_METHOD_DESTROY_FLOW,
};

use super::{FlowAction, FlowMatcher, MatchParameters};
use crate::devx::DevxObject;

/// The most actions of one rule (`MLX5_IB_CREATE_FLOW_MAX_FLOW_ACTIONS`).
const MAX_ACTIONS: usize = 2;
/// Tags have 24 bits.
const MAX_TAG: u32 = (1 << 24) - 1;

/// The destination of matching packets, other than a queue pair (`QueuePair::steer` of `uverbs`).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum FlowTarget<'a> {
    /// A flow table, or a receive transport (TIR), that a firmware command created
    /// (`MLX5DV_FLOW_ACTION_DEST_DEVX`).
    Devx(&'a DevxObject),
    /// None: packets are dropped (`MLX5DV_FLOW_ACTION_DROP`).
    Drop,
    /// Whatever follows these tables, as if nothing had matched
    /// (`MLX5DV_FLOW_ACTION_DEFAULT_MISS`).
    DefaultMiss,
    /// Out of the port: in tables of outgoing packets.
    Onward,
}

/// A counter of packets and bytes.
#[derive(Clone, Copy, Debug)]
pub struct FlowCounter<'a> {
    /// A counter, or a bulk of them, that a firmware command created (`ALLOC_FLOW_COUNTER`).
    pub counter: &'a DevxObject,
    /// Its index in a bulk.
    pub offset: Option<u32>,
}

/// What a rule matches, and its actions besides its destination.
#[derive(Clone, Copy, Debug)]
pub struct MatchRule<'a> {
    /// The field values of a matching packet; no bit outside of the matcher's mask.
    pub value: &'a MatchParameters,
    /// The actions on the packet; at most two.
    pub actions: &'a [&'a FlowAction],
    /// A number that completions carry, 24 bits.
    pub tag: Option<u32>,
    /// Its counter.
    pub counter: Option<FlowCounter<'a>>,
}

impl<'a> MatchRule<'a> {
    /// A rule with a destination only.
    pub const fn new(value: &'a MatchParameters) -> Self {
        Self {
            value,
            actions: &[],
            tag: None,
            counter: None,
        }
    }
}

/// `ibv_flow` of a matcher: it lasts until it is destroyed or dropped, and keeps its destination
/// alive.
#[derive(Debug)]
pub struct MatchedFlow {
    object: Object,
}

/// Destroyed by mlx5's own method, as it was created by one.
static KIND: Kind = Kind {
    name: "MatchedFlow",
    op: Op::DestroyFlow,
    object: UVERBS_OBJECT_FLOW,
    method: MLX5_IB_METHOD_DESTROY_FLOW,
    attr: MLX5_IB_ATTR_DESTROY_FLOW_HANDLE,
    counts: Counts::None,
    legacy: Legacy::None,
};

/// The destination of a rule, as encoded for the kernel.
#[derive(Clone, Copy)]
enum Destination<'a> {
    QueuePair(&'a Object),
    Other(FlowTarget<'a>),
}

impl FlowMatcher {
    /// `mlx5dv_create_flow`—creates a rule whose destination is not a queue pair.
    ///
    /// One system call, since 4.19; it waits for the firmware.
    ///
    /// # Errors
    /// | errno | cause |
    /// |---|---|
    /// | – | a value with bits outside of the mask, more than two actions, a tag of more than 24 bits, an object of another context |
    /// | EPERM | no `CAP_NET_RAW` |
    /// | EINVAL | a destination that the table does not support, actions that exclude each other, an object that is neither table nor transport, a counter that is not one |
    /// | EOPNOTSUPP | a kind of table, or a field, that device or kernel do not support; a matcher that is not normal |
    /// | ENOMEM, ENOSPC | memory, a priority that the kernel does not have (above 15), or the device's tables are full |
    #[doc(alias = "mlx5dv_create_flow")]
    pub fn create_flow(&self, target: FlowTarget<'_>, rule: &MatchRule<'_>) -> Result<MatchedFlow> {
        let object = self.create_rule(Destination::Other(target), rule)?;
        Ok(MatchedFlow { object })
    }

    /// `mlx5dv_create_flow`—creates a rule that directs frames to a raw packet queue pair, which
    /// must outlive the rule.
    ///
    /// # Errors
    /// As [`create_flow`](Self::create_flow); EINVAL for a queue pair of another transport.
    #[doc(alias = "mlx5dv_create_flow")]
    #[doc(hidden)] // Users have no such handle: the facade calls it.
    pub fn steer(&self, qp: &Object, rule: &MatchRule<'_>) -> Result<Object> {
        self.create_rule(Destination::QueuePair(qp), rule)
    }

    /// `mlx5dv_create_flow`—[`create_flow`](Self::create_flow) for the owner of the opened device,
    /// who gets the kernel object: whoever drops it ends the rule.
    ///
    /// # Errors
    /// As [`create_flow`](Self::create_flow); a matcher of another context.
    #[doc(alias = "mlx5dv_create_flow")]
    #[doc(hidden)] // Users have no such file: the library for C programs calls it.
    pub fn direct(
        &self,
        file: &Arc<UverbsFile>,
        target: FlowTarget<'_>,
        rule: &MatchRule<'_>,
    ) -> Result<Object> {
        if !Arc::ptr_eq(file, self.object().file()) {
            return Err(Error::invalid(Op::CreateMatchedFlow, "matcher")
                .hint("it belongs to another context"));
        }
        self.create_rule(Destination::Other(target), rule)
    }

    fn create_rule(&self, to: Destination<'_>, rule: &MatchRule<'_>) -> Result<Object> {
        let op = Op::CreateMatchedFlow;
        self.check(op, to, rule)?;
        let file = self.object().file();
        let handle = new_object_slot();
        let (qp, devx, flags) = match to {
            Destination::QueuePair(qp) => (Some(qp.handle()), None, None),
            Destination::Other(FlowTarget::Devx(devx)) => (None, Some(devx), None),
            Destination::Other(FlowTarget::Drop) => {
                (None, None, Some(MLX5_IB_ATTR_CREATE_FLOW_FLAGS_DROP))
            }
            Destination::Other(FlowTarget::DefaultMiss) => (
                None,
                None,
                Some(MLX5_IB_ATTR_CREATE_FLOW_FLAGS_DEFAULT_MISS),
            ),
            Destination::Other(FlowTarget::Onward) => (None, None, None),
        };
        let actions: Vec<u32> = rule
            .actions
            .iter()
            .map(|action| action.object().handle())
            .collect();
        let counter = rule
            .counter
            .map(|counter| [counter.counter.object().handle()]);
        let offset = rule.counter.and_then(|counter| counter.offset);
        // As long as the mask: the rest of a longer value would be zero.
        let used = self.mask().used().len();
        let value = rule.value.as_bytes();
        let attrs = [
            Attr::new_object(MLX5_IB_ATTR_CREATE_FLOW_HANDLE, &handle),
            Attr::input(
                MLX5_IB_ATTR_CREATE_FLOW_MATCH_VALUE,
                value.get(..used).unwrap_or(value),
            ),
            Attr::object(MLX5_IB_ATTR_CREATE_FLOW_MATCHER, self.object().handle()),
            Attr::maybe(qp, MLX5_IB_ATTR_CREATE_FLOW_DEST_QP, Attr::object),
            Attr::maybe(
                devx.map(|devx| devx.object().handle()),
                MLX5_IB_ATTR_CREATE_FLOW_DEST_DEVX,
                Attr::object,
            ),
            Attr::maybe(
                (!actions.is_empty()).then_some(actions.as_slice()),
                MLX5_IB_ATTR_CREATE_FLOW_ARR_FLOW_ACTIONS,
                objects,
            ),
            Attr::maybe(rule.tag.as_ref(), MLX5_IB_ATTR_CREATE_FLOW_TAG, Attr::input),
            Attr::maybe(
                counter.as_ref().map(<[u32; 1]>::as_slice),
                MLX5_IB_ATTR_CREATE_FLOW_ARR_COUNTERS_DEVX,
                objects,
            ),
            Attr::maybe(
                offset.as_ref(),
                MLX5_IB_ATTR_CREATE_FLOW_ARR_COUNTERS_DEVX_OFFSET,
                Attr::input,
            ),
            Attr::maybe(flags, MLX5_IB_ATTR_CREATE_FLOW_FLAGS, Attr::constant),
        ];
        let create = || {
            file.ioctl(
                op,
                UVERBS_OBJECT_FLOW,
                MLX5_IB_METHOD_CREATE_FLOW,
                &attrs,
                &Uhw::NONE,
            )
        };
        // A kernel that only lacks these attributes has the method.
        let created = if flags.is_some() || counter.is_some() {
            create()
        } else {
            file.ioctl_only(op, create)
        };
        created.map_err(explain)?;
        let handle = new_object_handle(op, &handle)?;
        let parents = [self.object()]
            .into_iter()
            .chain(devx.map(DevxObject::object))
            .chain(rule.actions.iter().map(|action| action.object()))
            .chain(rule.counter.map(|counter| counter.counter.object()))
            .map(Arc::clone);
        Ok(Object::new(file, &KIND, handle, parents))
    }

    /// Detects errors before the system call, for which the kernel would only return EINVAL.
    fn check(&self, op: Op, to: Destination<'_>, rule: &MatchRule<'_>) -> Result<()> {
        if let Some(at) = rule.value.beyond(self.mask()) {
            return Err(Error::invalid(op, "value")
                .fact("byte", at)
                .hint("a value may only have bits that its matcher's mask has"));
        }
        if rule.actions.len() > MAX_ACTIONS {
            let requested = rule.actions.len() as u64;
            return Err(Error::limit(op, "actions", requested, MAX_ACTIONS as u64));
        }
        if let Some(tag) = rule.tag.filter(|tag| *tag > MAX_TAG) {
            return Err(Error::limit(op, "tag", tag.into(), MAX_TAG.into()));
        }
        let target = match to {
            Destination::QueuePair(qp) => Some(qp),
            Destination::Other(FlowTarget::Devx(devx)) => Some(&**devx.object()),
            Destination::Other(_) => None,
        };
        let actions = rule.actions.iter().map(|action| &**action.object());
        let counter = rule.counter.map(|counter| &**counter.counter.object());
        for object in target.into_iter().chain(actions).chain(counter) {
            if !Arc::ptr_eq(object.file(), self.object().file()) {
                return Err(Error::invalid(op, "object")
                    .fact("object", format!("{object:?}"))
                    .hint("it belongs to another context"));
            }
        }
        Ok(())
    }
}

fn objects(id: u16, handles: &[u32]) -> Attr<'_> {
    Attr::new(id, Value::Objects(handles))
}

fn explain(error: Error) -> Error {
    match error.errno() {
        Some(Errno::PERM) => error.hint("grant CAP_NET_RAW"),
        _ => error,
    }
}

impl MatchedFlow {
    /// `ibv_destroy_flow`—destroys the rule. One system call; it waits for the firmware.
    ///
    /// # Errors
    /// The kernel's errno.
    #[doc(alias = "ibv_destroy_flow")]
    pub fn destroy(self) -> Result<()> {
        self.object.destroy().map(|_| ())
    }
}
