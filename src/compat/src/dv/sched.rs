//! `mlx5dv_sched_…`: the tree that distributes a function's send rate; and ports of the switch.
//!
//! # Safety
//!
//! Exports names of the library that this one stands for.
#![allow(unsafe_code, reason = "exports names")]

use std::ffi::c_int;

use uverbs_any::Of;
use uverbs_core::contract::Qp as _;
use uverbs_mlx5::sched::{Attachable, ElementAttr, Leaf, Leaves, Node, Scheduler};
use uverbs_mlx5::{QueuePair, SwitchPort};

use super::abi::{
    mlx5dv_port, mlx5dv_reg, mlx5dv_sched_attr, mlx5dv_sched_leaf, mlx5dv_sched_node,
};
use super::devx::firmware;
use super::held::Held;
use super::own;
use crate::answer::{Answer, number, pointer};
use crate::context::Context;
use crate::errno::Code;
use crate::pointer::{Handle, In, Out};
use crate::qp::Qp;

type Nodes = Held<mlx5dv_sched_node, Node>;
type Leafs = Held<mlx5dv_sched_leaf, Leaf>;

/// `enum mlx5dv_sched_elem_attr_flags`.
const SHARE: u32 = 1;
const MAX_AVERAGE: u32 = 2;

fn parameters(attr: &mlx5dv_sched_attr) -> Answer<ElementAttr> {
    if attr.comp_mask != 0 || attr.flags & !(SHARE | MAX_AVERAGE) != 0 {
        return Err(Code::UNSUPPORTED);
    }
    let mut wanted = ElementAttr::new();
    if attr.flags & SHARE != 0 {
        wanted = wanted.share(attr.bw_share);
    }
    if attr.flags & MAX_AVERAGE != 0 {
        wanted = wanted.max_mbps(attr.max_avg_bw);
    }
    Ok(wanted)
}

/// Without a parent it is a root, which has neither share nor limit.
#[unsafe(no_mangle)]
extern "C" fn mlx5dv_sched_node_create(
    context: Handle<Context>,
    attr: In<mlx5dv_sched_attr>,
) -> *mut mlx5dv_sched_node {
    pointer(|| {
        let devx = firmware(context)?;
        let attr = attr.get()?;
        let wanted = parameters(attr)?;
        let node = if attr.parent.is_null() {
            if attr.flags != 0 {
                return Err(Code::INVALID);
            }
            Scheduler::new(devx)?.create_root()?
        } else {
            let parent = Handle::<Nodes>::of(attr.parent).get()?;
            parent.with(|parent| Ok(parent.create_node(&wanted)?))?
        };
        Nodes::give(context, mlx5dv_sched_node::default(), node)
    })
}

#[unsafe(no_mangle)]
extern "C" fn mlx5dv_sched_leaf_create(
    context: Handle<Context>,
    attr: In<mlx5dv_sched_attr>,
) -> *mut mlx5dv_sched_leaf {
    pointer(|| {
        own(context.get()?)?;
        let attr = attr.get()?;
        let wanted = parameters(attr)?;
        let parent = Handle::<Nodes>::of(attr.parent).get()?;
        let leaf = parent.with(|parent| Ok(parent.create_leaf(&wanted)?))?;
        Leafs::give(context, mlx5dv_sched_leaf::default(), leaf)
    })
}

#[unsafe(no_mangle)]
extern "C" fn mlx5dv_sched_node_modify(node: Handle<Nodes>, attr: In<mlx5dv_sched_attr>) -> c_int {
    number(|| {
        let wanted = parameters(attr.get()?)?;
        node.get()?.with(|node| Ok(node.modify(&wanted)?))
    })
}

#[unsafe(no_mangle)]
extern "C" fn mlx5dv_sched_leaf_modify(leaf: Handle<Leafs>, attr: In<mlx5dv_sched_attr>) -> c_int {
    number(|| {
        let wanted = parameters(attr.get()?)?;
        leaf.get()?.with(|leaf| Ok(leaf.modify(&wanted)?))
    })
}

#[unsafe(no_mangle)]
extern "C" fn mlx5dv_sched_node_destroy(node: Handle<Nodes>) -> c_int {
    number(|| node.get()?.end(Node::destroy))
}

#[unsafe(no_mangle)]
extern "C" fn mlx5dv_sched_leaf_destroy(leaf: Handle<Leafs>) -> c_int {
    number(|| leaf.get()?.end(Leaf::destroy))
}

/// A leaf that may be absent.
fn leaf_of(leaf: Handle<Leafs>) -> Answer<Option<Leaf>> {
    let leaf = leaf.optional();
    leaf.map(|leaf| leaf.with(|leaf| Ok(leaf.clone())))
        .transpose()
}

#[unsafe(no_mangle)]
extern "C" fn mlx5dv_modify_qp_sched_elem(
    qp: Handle<Qp>,
    requestor: Handle<Leafs>,
    responder: Handle<Leafs>,
) -> c_int {
    number(|| {
        let pair = qp.get()?;
        let scheduler = Scheduler::new(firmware(pair.context_handle())?)?;
        let (requestor, responder) = (leaf_of(requestor)?, leaf_of(responder)?);
        pair.queue.with(|queue| {
            let raw: Option<&QueuePair> = queue.of();
            let raw = raw.and_then(QueuePair::raw_numbers);
            let base = queue.base();
            let attachable = Attachable {
                object: &base.object,
                kind: base.kind,
                state: base.state,
                number: base.number,
                send_queue: raw.map(|numbers| numbers.sqn),
            };
            let leaves = Leaves {
                requestor: requestor.as_ref(),
                responder: responder.as_ref(),
            };
            Ok(scheduler.attach(&attachable, leaves)?)
        })
    })
}

/// Bits of `flags` of `mlx5dv_port`.
const VPORT: u64 = 1;
const VHCA: u64 = 2;
const RECEIVE: u64 = 4;
const TRANSMIT: u64 = 8;
const REGISTER_C0: u64 = 16;
const OWNER: u64 = 32;

fn port(found: &SwitchPort) -> mlx5dv_port {
    let bit = |is_there: bool, bit: u64| if is_there { bit } else { 0 };
    mlx5dv_port {
        flags: bit(found.vport.is_some(), VPORT)
            | bit(found.vhca_id.is_some(), VHCA)
            | bit(found.switch_owner_vhca_id.is_some(), OWNER)
            | bit(found.receive_icm.is_some(), RECEIVE)
            | bit(found.transmit_icm.is_some(), TRANSMIT)
            | bit(found.register_c0.is_some(), REGISTER_C0),
        vport: found.vport.unwrap_or(0),
        vport_vhca_id: found.vhca_id.unwrap_or(0),
        esw_owner_vhca_id: found.switch_owner_vhca_id.unwrap_or(0),
        rsvd0: 0,
        vport_steering_icm_rx: found.receive_icm.unwrap_or(0),
        vport_steering_icm_tx: found.transmit_icm.unwrap_or(0),
        reg_c0: mlx5dv_reg {
            value: found.register_c0.unwrap_or_default().value,
            mask: found.register_c0.unwrap_or_default().mask,
        },
    }
}

#[unsafe(no_mangle)]
extern "C" fn _mlx5dv_query_port(
    context: Handle<Context>,
    which: u32,
    into: Out<mlx5dv_port>,
    length: usize,
) -> c_int {
    number(|| {
        let opened = context.get()?;
        own(opened)?;
        into.put_bytes(&port(&SwitchPort::query(opened.file(), which)?), length)
    })
}
