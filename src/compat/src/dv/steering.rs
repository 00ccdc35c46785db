//! Matchers, rules of them, and steering anchors.
//!
//! # Safety
//!
//! Exports names of the library that this one stands for.
#![allow(unsafe_code, reason = "exports names")]

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use uverbs_core::contract::Qp as _;
use uverbs_core::{Object, UverbsFile};
use uverbs_mlx5::steering::{
    FlowCounter, FlowMatcher, FlowTarget, MatchKind, MatchParameters, MatchRule, MatcherInit,
    SteeringAnchor, TableKind,
};

use super::abi::{
    ibv_flow_action, mlx5dv_devx_obj, mlx5dv_flow_matcher, mlx5dv_flow_matcher_attr,
    mlx5dv_steering_anchor, mlx5dv_steering_anchor_attr,
};
use super::actions::Action;
use super::devx::{Made, firmware};
use super::held::Held;
use super::own;
use crate::abi::{ibv_flow, ibv_qp};
use crate::answer::{Answer, number, pointer};
use crate::context::Context;
use crate::errno::Code;
use crate::flow::Flow;
use crate::pointer::{Handle, In, items};
use crate::qp::Qp;

type Matcher = Held<mlx5dv_flow_matcher, FlowMatcher>;
type Anchor = Held<mlx5dv_steering_anchor, SteeringAnchor>;

/// A number of bytes, which follow.
#[repr(C)]
struct Parameters {
    size: usize,
}

fn parameters(of: In<Parameters>) -> Answer<MatchParameters> {
    let size = of.get()?.size;
    let whole = items(of.raw().cast::<u8>(), size_of::<Parameters>() + size)?;
    let bytes = whole.get(size_of::<Parameters>()..).unwrap_or_default();
    MatchParameters::from_bytes(bytes).ok_or(Code::INVALID)
}

/// `MLX5DV_FLOW_TABLE_TYPE_…`.
pub(super) fn table(raw: u32) -> Answer<TableKind> {
    Ok(match raw {
        0 => TableKind::NicReceive,
        1 => TableKind::NicTransmit,
        2 => TableKind::Switch,
        3 => TableKind::RdmaReceive,
        4 => TableKind::RdmaTransmit,
        5 => TableKind::RdmaTransportReceive,
        6 => TableKind::RdmaTransportTransmit,
        _ => return Err(Code::UNSUPPORTED),
    })
}

/// Bits of `comp_mask`, and of `flags`.
const HAS_TABLE: u64 = 1;
const HAS_PORT: u64 = 2;
const EGRESS: u32 = 1 << 2;
/// Where newer headers have `ib_port`.
const PORT_AT: usize = 36;

#[unsafe(no_mangle)]
extern "C" fn mlx5dv_create_flow_matcher(
    context: Handle<Context>,
    attr: In<mlx5dv_flow_matcher_attr>,
) -> *mut mlx5dv_flow_matcher {
    pointer(|| {
        let (opened, start, attr) = (context.get()?, attr.raw(), attr.get()?);
        own(opened)?;
        if attr.comp_mask & !(HAS_TABLE | HAS_PORT) != 0 {
            return Err(Code::UNSUPPORTED);
        }
        let mask = parameters(In::of(attr.match_mask.cast::<Parameters>().cast_const()))?;
        let kind = match attr.r#type {
            0 => MatchKind::Normal {
                priority: attr.priority,
            },
            1 => MatchKind::AllDefault,
            2 => MatchKind::MulticastDefault,
            3 => MatchKind::Sniffer,
            _ => return Err(Code::INVALID),
        };
        let table = match attr.comp_mask & HAS_TABLE {
            0 if attr.flags & EGRESS != 0 => TableKind::NicTransmit,
            0 => TableKind::NicReceive,
            _ => table(attr.ft_type)?,
        };
        // Behind the struct of older headers.
        let port = In::of(start.wrapping_byte_add(PORT_AT).cast::<u32>());
        let port = match attr.comp_mask & HAS_PORT {
            0 => None,
            _ => Some(*port.get()?),
        };
        let init = MatcherInit {
            mask: &mask,
            kind,
            table,
            ib_port: port,
        };
        let matcher = FlowMatcher::create(opened.file(), &init)?;
        Matcher::give(context, mlx5dv_flow_matcher::default(), matcher)
    })
}

#[unsafe(no_mangle)]
extern "C" fn mlx5dv_destroy_flow_matcher(matcher: Handle<Matcher>) -> c_int {
    number(|| matcher.get()?.end(FlowMatcher::destroy))
}

/// `MLX5DV_FLOW_ACTION_…`.
mod action {
    pub(super) const QUEUE_PAIR: u32 = 0;
    pub(super) const DROP: u32 = 1;
    pub(super) const OBJECT: u32 = 3;
    pub(super) const TAG: u32 = 4;
    pub(super) const FIRMWARE_OBJECT: u32 = 5;
    pub(super) const COUNTER: u32 = 6;
    pub(super) const MISS: u32 = 7;
    pub(super) const COUNTER_OF_BULK: u32 = 8;
}

/// What C lists: the kind of an action, and the union's first word. Newer headers have one more.
#[repr(C)]
#[derive(Clone, Copy)]
struct Listed {
    kind: u32,
    word: u64,
}

/// The struct of newer headers.
const NEWER: usize = 24;

/// What a rule does, as far as it is known.
#[derive(Default)]
struct Actions {
    qp: Option<Handle<Qp>>,
    to: Option<Handle<Made>>,
    counter: Option<(Handle<Made>, Option<u32>)>,
    tag: Option<u32>,
    /// Changes of headers, and tunnels.
    objects: Vec<Handle<Action>>,
    drops: bool,
    misses: bool,
}

/// An object, by its address in the union.
fn made(word: u64) -> Handle<Made> {
    let address = usize::try_from(word).unwrap_or(0);
    let made: *mut mlx5dv_devx_obj = std::ptr::with_exposed_provenance_mut(address);
    Handle::of(made)
}

impl Actions {
    fn read(first: *const c_void, count: usize, stride: usize) -> Answer<Self> {
        let mut all = Self::default();
        for at in 0..count {
            let one = first.wrapping_byte_add(at.checked_mul(stride).ok_or(Code::INVALID)?);
            all.add(*In::of(one.cast::<Listed>()).get()?, one, stride)?;
        }
        Ok(all)
    }

    fn add(&mut self, one: Listed, at: *const c_void, stride: usize) -> Answer<()> {
        // The low half of the union, wherever the processor has it.
        let [a, b, c, d, ..] = one.word.to_ne_bytes();
        let half = u32::from_ne_bytes([a, b, c, d]);
        match one.kind {
            action::QUEUE_PAIR => {
                let address = usize::try_from(one.word).unwrap_or(0);
                let qp: *mut ibv_qp = std::ptr::with_exposed_provenance_mut(address);
                self.qp = Some(Handle::of(qp));
            }
            action::OBJECT => {
                let address = usize::try_from(one.word).unwrap_or(0);
                let object: *mut ibv_flow_action = std::ptr::with_exposed_provenance_mut(address);
                self.objects.push(Handle::of(object));
            }
            action::DROP => self.drops = true,
            action::MISS => self.misses = true,
            action::TAG => self.tag = Some(half),
            action::FIRMWARE_OBJECT => self.to = Some(made(one.word)),
            action::COUNTER => self.counter = Some((made(one.word), None)),
            action::COUNTER_OF_BULK if stride >= NEWER => {
                let offset = at.wrapping_byte_add(size_of::<Listed>()).cast::<u32>();
                self.counter = Some((made(one.word), Some(*In::of(offset).get()?)));
            }
            _ => return Err(Code::UNSUPPORTED),
        }
        Ok(())
    }

    /// Creates the rule.
    fn carry_out(
        &self,
        file: &Arc<UverbsFile>,
        matcher: &FlowMatcher,
        value: &MatchParameters,
    ) -> Answer<Object> {
        let objects = self.objects.iter().map(|object| object.get()?.action());
        let objects = objects.collect::<Answer<Vec<_>>>()?;
        let objects: Vec<_> = objects.iter().collect();
        let mut rule = MatchRule::new(value);
        rule.actions = &objects;
        rule.tag = self.tag;
        match self.counter {
            None => self.steer(file, matcher, &rule),
            Some((counter, offset)) => counter.get()?.with(|counter| {
                let counter = Some(FlowCounter { counter, offset });
                self.steer(file, matcher, &MatchRule { counter, ..rule })
            }),
        }
    }

    fn steer(
        &self,
        file: &Arc<UverbsFile>,
        matcher: &FlowMatcher,
        rule: &MatchRule<'_>,
    ) -> Answer<Object> {
        let to = |target: FlowTarget<'_>| Ok(matcher.direct(file, target, rule)?);
        match (self.qp, self.to) {
            (Some(_), Some(_)) => Err(Code::INVALID),
            (Some(qp), None) => qp
                .get()?
                .queue
                .with(|queue| Ok(matcher.steer(&queue.base().object, rule)?)),
            (None, Some(made)) => made.get()?.with(|made| to(FlowTarget::Devx(made))),
            (None, None) if self.drops => to(FlowTarget::Drop),
            (None, None) if self.misses => to(FlowTarget::DefaultMiss),
            (None, None) => to(FlowTarget::Onward),
        }
    }
}

fn create(
    matcher: Handle<Matcher>,
    value: In<Parameters>,
    count: usize,
    first: *const c_void,
    stride: usize,
) -> Answer<*mut ibv_flow> {
    if stride < size_of::<Listed>() {
        return Err(Code::INVALID);
    }
    let held = matcher.get()?;
    let value = parameters(value)?;
    let actions = Actions::read(first, count, stride)?;
    let file = held.context().get()?.file();
    let object = held.with(|matcher| actions.carry_out(file, matcher, &value))?;
    Flow::give(held.context(), object, Vec::new(), Vec::new())
}

/// The rule is destroyed by `ibv_destroy_flow`.
#[unsafe(no_mangle)]
extern "C" fn mlx5dv_create_flow(
    matcher: Handle<Matcher>,
    value: In<Parameters>,
    count: usize,
    actions: *const c_void,
) -> *mut ibv_flow {
    pointer(|| create(matcher, value, count, actions, size_of::<Listed>()))
}

/// What newer headers call.
#[unsafe(no_mangle)]
extern "C" fn __mlx5dv_create_flow(
    matcher: Handle<Matcher>,
    value: In<Parameters>,
    count: usize,
    actions: *const c_void,
    stride: usize,
) -> *mut ibv_flow {
    pointer(|| create(matcher, value, count, actions, stride))
}

#[unsafe(no_mangle)]
extern "C" fn mlx5dv_create_steering_anchor(
    context: Handle<Context>,
    attr: In<mlx5dv_steering_anchor_attr>,
) -> *mut mlx5dv_steering_anchor {
    pointer(|| {
        let attr = attr.get()?;
        if attr.comp_mask != 0 {
            return Err(Code::UNSUPPORTED);
        }
        firmware(context)?;
        let file = context.get()?.file();
        let anchor = SteeringAnchor::create(file, table(attr.ft_type)?, attr.priority)?;
        let c = mlx5dv_steering_anchor {
            id: anchor.table_id(),
        };
        Anchor::give(context, c, anchor)
    })
}

#[unsafe(no_mangle)]
extern "C" fn mlx5dv_destroy_steering_anchor(anchor: Handle<Anchor>) -> c_int {
    number(|| anchor.get()?.end(SteeringAnchor::destroy))
}
