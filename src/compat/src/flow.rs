//! Flow rules, and counters of what they match.

use std::ffi::c_int;
use std::sync::{Mutex, PoisonError};

use uverbs_core::Object as KernelObject;
use uverbs_core::contract::Qp as _;
use uverbs_core::contract::flow::{self, Flags, Kind, Rule};

use crate::abi::{
    ibv_context, ibv_counter_attach_attr, ibv_counters, ibv_counters_init_attr, ibv_flow,
    ibv_flow_attr,
};
use crate::answer::{Answer, number, pointer};
use crate::context::Context;
use crate::dv;
use crate::errno::Code;
use crate::lock::Locked;
use crate::pointer::{Handle, In, Object, items, items_mut};
use crate::qp::Qp;
use crate::users::Users;

/// A rule.
#[repr(C)]
pub(crate) struct Flow {
    c: ibv_flow,
    object: Locked<KernelObject>,
    counters: Vec<Handle<Counters>>,
    /// What it does to packets, which cannot be destroyed before it.
    actions: Vec<dv::FlowAction>,
}

impl Object for Flow {
    type C = ibv_flow;
}

impl Flow {
    /// Makes a rule known to C.
    pub(crate) fn give(
        context: Handle<Context>,
        object: KernelObject,
        counters: Vec<Handle<Counters>>,
        actions: Vec<dv::FlowAction>,
    ) -> Answer<*mut ibv_flow> {
        for counters in &counters {
            counters.get()?.users.add();
        }
        context.get()?.users.add();
        let flow = Self {
            c: ibv_flow {
                comp_mask: 0,
                context: context.raw(),
                handle: object.handle(),
            },
            object: Locked::new(object, true),
            counters,
            actions,
        };
        Ok(Self::to_c(Box::into_raw(Box::new(flow))))
    }
}

/// `IBV_FLOW_SPEC_…`.
mod spec {
    pub(super) const IPV4: u32 = 0x30;
    pub(super) const IPV4_WHOLE: u32 = 0x32;
    /// Of the header inside a tunnel; a bit.
    pub(super) const INNER: u32 = 0x100;
    pub(super) const TAG: u32 = 0x1000;
    pub(super) const DROP: u32 = 0x1001;
    pub(super) const ACTION: u32 = 0x1002;
    pub(super) const COUNT: u32 = 0x1003;
}

/// Where the value of a header's specification begins in the program's struct, with the mask behind
/// it; how many bytes each has there, and in the kernel's.
fn shape(kind: u32) -> Option<(usize, usize, usize)> {
    Some(match kind {
        // Ethernet.
        0x20 => (6, 16, 16),
        // The old one has only the addresses.
        spec::IPV4 => (8, 8, 12),
        spec::IPV4_WHOLE => (8, 12, 12),
        // IPv6.
        0x31 => (8, 40, 40),
        // TCP, UDP.
        0x40 | 0x41 => (6, 4, 4),
        // VXLAN, MPLS.
        0x50 | 0x60 => (8, 4, 4),
        // IPsec, GRE.
        0x34 | 0x51 => (8, 8, 8),
        _ => return None,
    })
}

/// Adds a specification of the kernel's: its header, then `parts`, each in the given number of
/// bytes.
fn add(out: &mut Vec<u8>, kind: u32, parts: &[(&[u8], usize)]) -> Answer<()> {
    let bytes: usize = parts.iter().map(|(_, length)| length).sum();
    let size = u16::try_from(8 + bytes).map_err(|_| Code::INVALID)?;
    out.extend_from_slice(&kind.to_ne_bytes());
    out.extend_from_slice(&size.to_ne_bytes());
    out.extend_from_slice(&[0; 2]);
    for (part, length) in parts {
        let end = out.len() + length;
        out.extend_from_slice(part);
        out.resize(end, 0);
    }
    Ok(())
}

/// A number that C wrote, wherever that is.
fn word<const N: usize>(bytes: &[u8], at: usize) -> Answer<[u8; N]> {
    let bytes = bytes.get(at..at + N).ok_or(Code::INVALID)?;
    bytes.try_into().map_err(|_| Code::INVALID)
}

/// The object that a specification names.
fn named<T: Object>(one: &[u8]) -> Answer<Handle<T>> {
    let address = usize::from_ne_bytes(word(one, 8)?);
    Ok(Handle::of(std::ptr::with_exposed_provenance_mut(address)))
}

/// The kernel's specifications of the ones that C wrote back to back, and the objects among them.
#[derive(Default)]
struct Converted {
    specs: Vec<u8>,
    counters: Vec<Handle<Counters>>,
    actions: Vec<dv::FlowAction>,
}

fn converted(mut specs: &[u8], count: u8) -> Answer<Converted> {
    let mut all = Converted::default();
    let out = &mut all.specs;
    for _ in 0..count {
        let kind = u32::from_ne_bytes(word(specs, 0)?);
        let size = usize::from(u16::from_ne_bytes(word(specs, 4)?));
        let one = specs.get(..size).ok_or(Code::INVALID)?;
        specs = specs.get(size..).ok_or(Code::INVALID)?;
        match kind {
            spec::TAG => add(out, kind, &[(&word::<4>(one, 8)?, 8)])?,
            spec::DROP => add(out, kind, &[])?,
            spec::ACTION => {
                let action = dv::action(named(one)?)?;
                let handle = action.handle().to_ne_bytes();
                add(out, kind, &[(&handle, 8)])?;
                all.actions.push(action);
            }
            spec::COUNT => {
                let of = named::<Counters>(one)?;
                let handle = of.get()?.handle();
                all.counters.push(of);
                add(out, kind, &[(&handle.to_ne_bytes(), 8)])?;
            }
            _ => {
                let inner = kind & spec::INNER;
                let (start, length, known) = shape(kind & !inner).ok_or(Code::UNSUPPORTED)?;
                let value = one.get(start..start + length).ok_or(Code::INVALID)?;
                let mask = one.get(start + length..start + 2 * length);
                let mask = mask.ok_or(Code::INVALID)?;
                // The kernel has one of IPv4.
                let kind = match kind & !inner {
                    spec::IPV4_WHOLE => spec::IPV4 | inner,
                    _ => kind,
                };
                add(out, kind, &[(value, known), (mask, known)])?;
            }
        }
    }
    Ok(all)
}

fn kind(raw: u32) -> Answer<Kind> {
    match raw {
        0 => Ok(Kind::Normal),
        1 => Ok(Kind::AllDefault),
        2 => Ok(Kind::MulticastDefault),
        3 => Ok(Kind::Sniffer),
        _ => Err(Code::INVALID),
    }
}

/// Bytes of the attributes, which specifications follow at once.
const ATTRIBUTES: usize = size_of::<ibv_flow_attr>();
/// Bytes of a specification's type and size.
const HEAD: usize = 6;

/// The specifications behind the attributes: each says how long it is, while programs do not agree
/// on what the size in the attributes is.
fn listed(attr: In<ibv_flow_attr>, count: u8) -> Answer<Vec<u8>> {
    let mut all = Vec::new();
    for _ in 0..count {
        let start = attr.raw().cast::<u8>().wrapping_add(ATTRIBUTES + all.len());
        let size = usize::from(u16::from_ne_bytes(word(items(start, HEAD)?, 4)?));
        if size < HEAD {
            return Err(Code::INVALID);
        }
        all.extend_from_slice(items(start, size)?);
    }
    Ok(all)
}

/// The slot.
pub(crate) extern "C" fn create(qp: Handle<Qp>, attr: In<ibv_flow_attr>) -> *mut ibv_flow {
    pointer(|| {
        let own = qp.get()?;
        let (whole, attr) = (attr, *attr.get()?);
        let specs = listed(whole, attr.num_of_specs)?;
        let Converted {
            specs,
            counters,
            actions,
        } = converted(&specs, attr.num_of_specs)?;
        let context = own.context()?;
        let counted = counters
            .iter()
            .map(|counters| Ok(counters.get()?.attached()))
            .collect::<Answer<Vec<_>>>()?;
        let data = dv::counters_of_rule(context, &counted)?;
        let object = own.queue.with(|queue| {
            let rule = Rule {
                qp: queue.base().object.handle(),
                kind: kind(attr.r#type)?,
                priority: attr.priority,
                port: attr.port,
                flags: Flags::from_bits_retain(attr.flags),
                specs: &specs,
            };
            Ok::<_, Code>(flow::create(context.file(), &rule, &data)?)
        })?;
        Flow::give(own.context_handle(), object, counters, actions)
    })
}

/// The slot.
pub(crate) extern "C" fn destroy(flow: Handle<Flow>) -> c_int {
    number(|| {
        let own = flow.get()?;
        own.object.with(KernelObject::try_destroy)?;
        for counters in &own.counters {
            counters.get()?.users.remove();
        }
        let context: *mut ibv_context = own.c.context;
        Handle::<Context>::of(context).get()?.leave();
        own.free();
        Ok(())
    })
}

/// A set of counters.
#[repr(C)]
pub(crate) struct Counters {
    c: ibv_counters,
    object: Locked<KernelObject>,
    /// What is counted: packets or bytes, and the place of the count.
    attached: Mutex<Vec<[u32; 2]>>,
    /// Rules that are counted.
    users: Users,
}

impl Object for Counters {
    type C = ibv_counters;
}

impl Counters {
    fn handle(&self) -> u32 {
        self.object.with(|object| object.handle())
    }

    fn attached(&self) -> Vec<[u32; 2]> {
        let attached = self.attached.lock().unwrap_or_else(PoisonError::into_inner);
        attached.clone()
    }
}

/// The slot.
pub(crate) extern "C" fn create_counters(
    context: Handle<Context>,
    attr: In<ibv_counters_init_attr>,
) -> *mut ibv_counters {
    pointer(|| {
        let opened = context.get()?;
        if attr.get().is_ok_and(|attr| attr.comp_mask != 0) {
            return Err(Code::UNSUPPORTED);
        }
        let object = flow::create_counters(opened.file())?;
        opened.users.add();
        let counters = Counters {
            c: ibv_counters {
                context: context.raw(),
            },
            object: Locked::new(object, true),
            attached: Mutex::default(),
            users: Users::new(),
        };
        Ok(Counters::to_c(Box::into_raw(Box::new(counters))))
    })
}

/// The slot. Refused (EBUSY) while a rule is counted.
pub(crate) extern "C" fn destroy_counters(counters: Handle<Counters>) -> c_int {
    number(|| {
        let own = counters.get()?;
        own.users.none()?;
        own.object.with(KernelObject::try_destroy)?;
        let context: *mut ibv_context = own.c.context;
        Handle::<Context>::of(context).get()?.leave();
        own.free();
        Ok(())
    })
}

/// `IBV_COUNTER_PACKETS` and `IBV_COUNTER_BYTES` are below.
const KINDS: u32 = 2;

/// The slot. Only before the first rule with these counters, and so without one.
pub(crate) extern "C" fn attach_counters(
    counters: Handle<Counters>,
    attr: In<ibv_counter_attach_attr>,
    flow: Handle<Flow>,
) -> c_int {
    number(|| {
        let (own, attr) = (counters.get()?, attr.get()?);
        if flow.get().is_ok() || attr.comp_mask != 0 {
            return Err(Code::UNSUPPORTED);
        }
        if attr.counter_desc >= KINDS {
            return Err(Code::INVALID);
        }
        own.users.none()?;
        let mut attached = own.attached.lock().unwrap_or_else(PoisonError::into_inner);
        if attached.iter().any(|[_, index]| *index == attr.index) {
            return Err(Code::INVALID);
        }
        attached.push([attr.counter_desc, attr.index]);
        Ok(())
    })
}

/// `IBV_READ_COUNTERS_ATTR_PREFER_CACHED`.
const CACHED: u32 = 1;

/// The slot.
pub(crate) extern "C" fn read_counters(
    counters: Handle<Counters>,
    values: *mut u64,
    count: u32,
    flags: u32,
) -> c_int {
    number(|| {
        let own = counters.get()?;
        if flags & !CACHED != 0 {
            return Err(Code::INVALID);
        }
        let values = items_mut(values, count as usize)?;
        own.object
            .with(|object| flow::read_counters(object, values, flags & CACHED != 0))?;
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A specification as C writes it.
    fn wrote(kind: u32, size: u16, fields: &[u8]) -> Vec<u8> {
        let mut bytes = [&kind.to_ne_bytes()[..], &size.to_ne_bytes(), fields].concat();
        bytes.resize(size.into(), 0);
        bytes
    }

    #[test]
    fn specifications_become_the_kernels() {
        // TCP: ports of the value and of the mask, right behind the size.
        let ports = wrote(0x40, 16, &[1, 2, 3, 4, 5, 6, 7, 8]);
        // IPv4 with all fields, inside a tunnel: two bytes of padding first.
        let mut fields = vec![0; 2];
        fields.extend(10..34);
        let inner = wrote(0x132, 32, &fields);
        let tag = wrote(spec::TAG, 12, &[0, 0, 9, 0, 0, 0]);
        let specs = [ports, inner, tag].concat();
        let Converted {
            specs: out,
            counters,
            ..
        } = converted(&specs, 3).unwrap();
        assert!(counters.is_empty());
        let head =
            |kind: u32, size: u16| [&kind.to_ne_bytes()[..], &size.to_ne_bytes(), &[0; 2]].concat();
        let whole: Vec<u8> = (10..34).collect();
        let expected = [
            head(0x40, 16),
            vec![1, 2, 3, 4, 5, 6, 7, 8],
            head(0x130, 32),
            whole,
            head(0x1000, 16),
            vec![9, 0, 0, 0, 0, 0, 0, 0],
        ];
        assert_eq!(out, expected.concat());
    }

    #[test]
    fn the_old_ipv4_has_only_addresses() {
        let mut fields = vec![0; 2];
        fields.extend([1, 1, 1, 1, 2, 2, 2, 2, 255, 255, 255, 255, 0, 0, 0, 0]);
        let out = converted(&wrote(spec::IPV4, 24, &fields), 1).unwrap().specs;
        assert_eq!(out.len(), 32);
        assert_eq!(out[8..20], [1, 1, 1, 1, 2, 2, 2, 2, 0, 0, 0, 0]);
        assert_eq!(out[20..], [255, 255, 255, 255, 0, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn what_is_short_or_unknown_is_refused() {
        assert!(converted(&[], 1).is_err());
        assert!(converted(&wrote(0x20, 20, &[]), 1).is_err());
        let unknown = converted(&wrote(0x77, 16, &[]), 1);
        assert_eq!(unknown.err(), Some(Code::UNSUPPORTED));
    }
}
