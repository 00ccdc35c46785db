//! Address handles, and the conversion of addresses.
//!
//! # Safety
//!
//! Exports names of the library that this one stands for.
#![allow(unsafe_code, reason = "exports names; moves an address out of its box")]

use std::ffi::c_int;

use uverbs_core::discover::{EthernetPeer, ethernet_peer};
use uverbs_core::types::{
    Address, AddressVector, FlowLabel, Gid, GidType, GlobalRoute, Grh, IpVersion, Rate, WcFlags,
    WorkCompletion,
};

use crate::abi::{ibv_ah, ibv_ah_attr, ibv_gid, ibv_global_route, ibv_pd, ibv_wc};
use crate::answer::{Answer, minus_one, negative, number, pointer};
use crate::context::Context;
use crate::dv;
use crate::errno::Code;
use crate::pd::Pd;
use crate::pointer::{Handle, In, Object, Out};
use crate::query;

/// An address handle.
#[repr(C)]
pub(crate) struct Ah {
    c: ibv_ah,
    pub(crate) address: Address,
    /// What the vendor's header has made of it.
    pub(crate) mapping: dv::Mapping,
}

impl Object for Ah {
    type C = ibv_ah;
}

impl Ah {
    /// The opened device it is on.
    pub(crate) fn context(&self) -> Handle<Context> {
        Handle::of(self.c.context)
    }
}

/// An address as the provider takes it.
pub(crate) fn vector(attr: &ibv_ah_attr) -> AddressVector {
    let route = &attr.grh;
    let grh = (attr.is_global != 0).then(|| GlobalRoute {
        dgid: Gid::from_bytes(route.dgid.raw),
        flow_label: FlowLabel::from_raw(route.flow_label),
        sgid_index: route.sgid_index,
        hop_limit: route.hop_limit,
        traffic_class: route.traffic_class,
    });
    AddressVector {
        dlid: attr.dlid,
        sl: attr.sl,
        src_path_bits: attr.src_path_bits,
        static_rate: Rate::from_raw(attr.static_rate),
        port: attr.port_num,
        grh,
    }
}

/// An address as C knows it.
pub(crate) fn attributes(vector: &AddressVector) -> ibv_ah_attr {
    let grh = vector.grh.map(|route| ibv_global_route {
        dgid: ibv_gid {
            raw: route.dgid.to_bytes(),
        },
        flow_label: route.flow_label.raw(),
        sgid_index: route.sgid_index,
        hop_limit: route.hop_limit,
        traffic_class: route.traffic_class,
    });
    ibv_ah_attr {
        is_global: grh.is_some().into(),
        grh: grh.unwrap_or_default(),
        dlid: vector.dlid,
        sl: vector.sl,
        src_path_bits: vector.src_path_bits,
        static_rate: vector.static_rate.raw(),
        port_num: vector.port,
    }
}

fn create(pd: Handle<Pd>, attr: &ibv_ah_attr) -> Answer<*mut ibv_ah> {
    let domain = pd.get()?;
    let context = domain.context()?;
    let address =
        context
            .provider()
            .create_address(&*domain.domain()?, &vector(attr), &context.gids())?;
    domain.users.add();
    let ah = Ah {
        c: ibv_ah {
            context: domain.context_pointer(),
            pd: pd.raw(),
            handle: address.number(),
        },
        address,
        mapping: dv::Mapping::default(),
    };
    Ok(Ah::to_c(Box::into_raw(Box::new(ah))))
}

#[unsafe(no_mangle)]
extern "C" fn ibv_create_ah(pd: Handle<Pd>, attr: In<ibv_ah_attr>) -> *mut ibv_ah {
    pointer(|| create(pd, attr.get()?))
}

#[unsafe(no_mangle)]
extern "C" fn ibv_destroy_ah(ah: Handle<Ah>) -> c_int {
    number(|| {
        ah.get()?;
        // SAFETY: an object of this library, leaked from a box; the program gives it up.
        let own = *unsafe { Box::from_raw(ah.raw().cast::<Ah>()) };
        let pd: *mut ibv_pd = own.c.pd;
        drop(own.mapping);
        own.address.destroy()?;
        Handle::<Pd>::of(pd).get()?.users.remove();
        Ok(())
    })
}

/// How to answer the sender of a datagram, whose routing header C has.
fn reply(context: &Context, port: u8, wc: &ibv_wc, grh: In<[u8; Grh::LEN]>) -> Answer<ibv_ah_attr> {
    let done = WorkCompletion {
        slid: wc.slid,
        sl: wc.sl,
        dlid_path_bits: wc.dlid_path_bits,
        flags: WcFlags::from_bits_retain(wc.wc_flags) & WcFlags::GRH,
        ..WorkCompletion::default()
    };
    if !done.has_grh() {
        return Ok(attributes(&AddressVector::reply_to(port, &done, None, 0)));
    }
    let header = Grh::parse(grh.get()?).ok_or(Code::INVALID)?;
    let index = own_index(context, port, &header)?;
    let vector = AddressVector::reply_to(port, &done, Some(&header), index);
    Ok(attributes(&vector))
}

/// The next header of a routing header of InfiniBand, and of RoCE v1.
const IB_HEADER: u8 = 0x1b;

/// The index of the GID that the datagram was sent to.
fn own_index(context: &Context, port: u8, header: &Grh) -> Answer<u8> {
    let routed = header.version() == IpVersion::V4 || header.next_header() != IB_HEADER;
    let mut index = None;
    context.gids().each(|entry| {
        let fits = (entry.gid_type == GidType::RoceV2) == routed;
        if entry.port == port.into() && entry.gid == header.dgid() && fits && index.is_none() {
            index = Some(entry.index);
        }
    })?;
    let index = index.ok_or(Code::INVALID)?;
    u8::try_from(index).map_err(|_| Code::INVALID)
}

#[unsafe(no_mangle)]
extern "C" fn ibv_init_ah_from_wc(
    context: Handle<Context>,
    port: u8,
    wc: In<ibv_wc>,
    grh: In<[u8; Grh::LEN]>,
    attr: Out<ibv_ah_attr>,
) -> c_int {
    minus_one(|| {
        attr.put(reply(context.get()?, port, wc.get()?, grh)?)?;
        Ok(0)
    })
}

#[unsafe(no_mangle)]
extern "C" fn ibv_create_ah_from_wc(
    pd: Handle<Pd>,
    wc: In<ibv_wc>,
    grh: In<[u8; Grh::LEN]>,
    port: u8,
) -> *mut ibv_ah {
    pointer(|| {
        let attr = reply(pd.get()?.context()?, port, wc.get()?, grh)?;
        create(pd, &attr)
    })
}

/// What `vid` is for a network device that is no VLAN.
const NO_VLAN: u16 = 0xffff;

/// The Ethernet address and VLAN of frames to a peer.
fn resolve(context: &Context, attr: &ibv_ah_attr) -> Answer<EthernetPeer> {
    let index = attr.grh.sgid_index.into();
    let source = query::gid(context, attr.port_num.into(), index)?.ok_or(Code::INVALID)?;
    // None on InfiniBand.
    let netdev = source.netdev.ok_or(Code::INVALID)?;
    let peer = Gid::from_bytes(attr.grh.dgid.raw).to_ip();
    ethernet_peer(source.gid.to_ip(), netdev.get(), peer)
        .map_err(|errno| Code::new(errno.raw_os_error()))
}

#[unsafe(no_mangle)]
extern "C" fn ibv_resolve_eth_l2_from_gid(
    context: Handle<Context>,
    attr: In<ibv_ah_attr>,
    mac: Out<[u8; 6]>,
    vlan: Out<u16>,
) -> c_int {
    negative(|| {
        let place = mac.get()?;
        let found = resolve(context.get()?, attr.get()?)?;
        *place = found.address;
        // The program may not want it.
        if let Ok(place) = vlan.get() {
            *place = found.vlan.unwrap_or(NO_VLAN);
        }
        Ok(())
    })
}
