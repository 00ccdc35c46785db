//! Flow rules: the frames that a queue pair receives.

use std::net::{Ipv4Addr, Ipv6Addr};

use uverbs_core::sys::Uhw;
use uverbs_core::{Error, Object, Op, Result, cmd};
use uverbs_uapi::ib_user_verbs::{
    ib_uverbs_flow_eth_filter, ib_uverbs_flow_ipv4_filter, ib_uverbs_flow_ipv6_filter,
    ib_uverbs_flow_spec_action_drop, ib_uverbs_flow_spec_action_tag, ib_uverbs_flow_spec_eth,
    ib_uverbs_flow_spec_hdr, ib_uverbs_flow_spec_ipv4, ib_uverbs_flow_spec_ipv6,
    ib_uverbs_flow_spec_tcp_udp, ib_uverbs_flow_tcp_udp_filter,
};
use zerocopy::IntoBytes;

pub use uverbs_core::cmd::flow::{Flags, Kind};

/// The kernel's numbers of specifications (`enum ib_flow_spec_type`).
mod spec {
    pub(super) const ETHERNET: u32 = 0x20;
    pub(super) const IPV4: u32 = 0x30;
    pub(super) const IPV6: u32 = 0x31;
    pub(super) const TCP: u32 = 0x40;
    pub(super) const UDP: u32 = 0x41;
    pub(super) const TAG: u32 = 0x1000;
    pub(super) const DROP: u32 = 0x1001;
}

/// `ibv_flow_attr`—a rule: what it matches, and its priority.
#[doc(alias = "ibv_flow_attr")]
#[derive(Clone, Copy, Debug)]
pub struct FlowInit<'a> {
    /// The kind of rule, which decides what it matches.
    pub kind: Kind,
    /// Its priority among the rules; 0 is the first.
    pub priority: u16,
    /// The port, from 1.
    pub port: u8,
    /// The rule's flags.
    pub flags: Flags,
    /// The headers to match, from the outermost inwards; at most 10.
    pub specs: &'a [FlowSpec],
}

/// `ibv_flow_spec`—a header to match, or an action on the frame. Only the bits set in the mask are
/// compared with the value.
#[doc(alias = "ibv_flow_spec")]
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum FlowSpec {
    /// The Ethernet header: value and mask (`ibv_flow_spec_eth`).
    Ethernet(EthernetFields, EthernetFields),
    /// The IPv4 header (`ibv_flow_spec_ipv4_ext`).
    Ipv4(Ipv4Fields, Ipv4Fields),
    /// The IPv6 header (`ibv_flow_spec_ipv6`).
    Ipv6(Ipv6Fields, Ipv6Fields),
    /// The TCP header (`ibv_flow_spec_tcp_udp`).
    Tcp(PortFields, PortFields),
    /// The UDP header.
    Udp(PortFields, PortFields),
    /// Completions carry this number, 24 bits (`ibv_flow_spec_action_tag`).
    Tag(u32),
    /// The frame is dropped (`ibv_flow_spec_action_drop`).
    Drop,
}

/// `ibv_flow_eth_filter`—fields of an Ethernet header.
#[doc(alias = "ibv_flow_eth_filter")]
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct EthernetFields {
    /// The destination address.
    pub destination: [u8; 6],
    /// The source address.
    pub source: [u8; 6],
    /// The EtherType.
    pub ether_type: u16,
    /// Priority and VLAN ID.
    pub vlan_tag: u16,
}

/// `ibv_flow_ipv4_ext_filter`—fields of an IPv4 header.
#[doc(alias = "ibv_flow_ipv4_ext_filter")]
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Ipv4Fields {
    /// The source address.
    pub source: Ipv4Addr,
    /// The destination address.
    pub destination: Ipv4Addr,
    /// The protocol of the payload.
    pub protocol: u8,
    /// Type of service.
    pub service: u8,
    /// Time to live.
    pub ttl: u8,
    /// Fragment flags.
    pub flags: u8,
}

/// `ibv_flow_ipv6_filter`—fields of an IPv6 header.
#[doc(alias = "ibv_flow_ipv6_filter")]
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Ipv6Fields {
    /// The source address.
    pub source: Ipv6Addr,
    /// The destination address.
    pub destination: Ipv6Addr,
    /// The flow label, 20 bits.
    pub flow_label: u32,
    /// The protocol of the payload.
    pub next_header: u8,
    /// The traffic class.
    pub traffic_class: u8,
    /// The hop limit.
    pub hop_limit: u8,
}

/// `ibv_flow_tcp_udp_filter`—ports of a TCP or UDP header.
#[doc(alias = "ibv_flow_tcp_udp_filter")]
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct PortFields {
    /// The destination port.
    pub destination: u16,
    /// The source port.
    pub source: u16,
}

impl Default for Ipv4Fields {
    fn default() -> Self {
        Self {
            source: Ipv4Addr::UNSPECIFIED,
            destination: Ipv4Addr::UNSPECIFIED,
            protocol: 0,
            service: 0,
            ttl: 0,
            flags: 0,
        }
    }
}

impl Default for Ipv6Fields {
    fn default() -> Self {
        Self {
            source: Ipv6Addr::UNSPECIFIED,
            destination: Ipv6Addr::UNSPECIFIED,
            flow_label: 0,
            next_header: 0,
            traffic_class: 0,
            hop_limit: 0,
        }
    }
}

/// `ibv_create_flow`—creates a rule for a queue pair, which must outlive the rule. One system call.
///
/// # Errors
/// [`LimitExceeded`](uverbs_core::ErrorKind::LimitExceeded): a tag of more than 24 bits, a flow
/// label of more than 20. EPERM without `CAP_NET_RAW`; fields that the device cannot match; those
/// of [`cmd::flow::create`].
#[doc(alias = "ibv_create_flow")]
pub fn create(qp: &Object, init: &FlowInit<'_>) -> Result<Object> {
    let mut specs = Vec::new();
    for spec in init.specs {
        spec.check()?;
        spec.encode(&mut specs);
    }
    let request = cmd::flow::Create {
        qp: qp.handle(),
        kind: init.kind,
        priority: init.priority,
        port: init.port,
        flags: init.flags,
        specs: &specs,
    };
    let handle = cmd::flow::create(qp.file(), &request, &Uhw::NONE)?;
    Ok(Object::new(qp.file(), &cmd::flow::KIND, handle, []))
}

/// The start of a specification of type `T`.
fn header<T>(kind: u32) -> ib_uverbs_flow_spec_hdr {
    ib_uverbs_flow_spec_hdr {
        r#type: kind,
        // The largest specification has 88 bytes.
        size: u16::try_from(size_of::<T>()).unwrap_or(u16::MAX),
        reserved: 0,
    }
}

impl FlowSpec {
    /// Checks that its numbers fit their fields.
    fn check(&self) -> Result<()> {
        let (what, requested, max) = match self {
            Self::Ipv6(value, mask) => {
                let requested = value.flow_label.max(mask.flow_label);
                ("flow label", requested, 0xf_ffff)
            }
            Self::Tag(number) => ("tag", *number, 0xff_ffff),
            _ => return Ok(()),
        };
        if requested > max {
            return Err(Error::limit(
                Op::CreateFlow,
                what,
                requested.into(),
                max.into(),
            ));
        }
        Ok(())
    }

    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Ethernet(value, mask) => {
                let spec = ib_uverbs_flow_spec_eth {
                    hdr: header::<ib_uverbs_flow_spec_eth>(spec::ETHERNET),
                    val: value.spec(),
                    mask: mask.spec(),
                };
                out.extend_from_slice(spec.as_bytes());
            }
            Self::Ipv4(value, mask) => {
                let spec = ib_uverbs_flow_spec_ipv4 {
                    hdr: header::<ib_uverbs_flow_spec_ipv4>(spec::IPV4),
                    val: value.spec(),
                    mask: mask.spec(),
                };
                out.extend_from_slice(spec.as_bytes());
            }
            Self::Ipv6(value, mask) => {
                let spec = ib_uverbs_flow_spec_ipv6 {
                    hdr: header::<ib_uverbs_flow_spec_ipv6>(spec::IPV6),
                    val: value.spec(),
                    mask: mask.spec(),
                };
                out.extend_from_slice(spec.as_bytes());
            }
            Self::Tcp(value, mask) => ports(spec::TCP, *value, *mask, out),
            Self::Udp(value, mask) => ports(spec::UDP, *value, *mask, out),
            Self::Tag(number) => {
                let spec = ib_uverbs_flow_spec_action_tag {
                    hdr: header::<ib_uverbs_flow_spec_action_tag>(spec::TAG),
                    tag_id: *number,
                    reserved1: 0,
                };
                out.extend_from_slice(spec.as_bytes());
            }
            Self::Drop => {
                let spec = ib_uverbs_flow_spec_action_drop {
                    hdr: header::<ib_uverbs_flow_spec_action_drop>(spec::DROP),
                };
                out.extend_from_slice(spec.as_bytes());
            }
        }
    }
}

fn ports(kind: u32, value: PortFields, mask: PortFields, out: &mut Vec<u8>) {
    let spec = ib_uverbs_flow_spec_tcp_udp {
        hdr: header::<ib_uverbs_flow_spec_tcp_udp>(kind),
        val: value.spec(),
        mask: mask.spec(),
    };
    out.extend_from_slice(spec.as_bytes());
}

impl EthernetFields {
    fn spec(&self) -> ib_uverbs_flow_eth_filter {
        ib_uverbs_flow_eth_filter {
            dst_mac: self.destination,
            src_mac: self.source,
            ether_type: self.ether_type.into(),
            vlan_tag: self.vlan_tag.into(),
        }
    }
}

impl Ipv4Fields {
    fn spec(&self) -> ib_uverbs_flow_ipv4_filter {
        ib_uverbs_flow_ipv4_filter {
            src_ip: self.source.to_bits().into(),
            dst_ip: self.destination.to_bits().into(),
            proto: self.protocol,
            tos: self.service,
            ttl: self.ttl,
            flags: self.flags,
        }
    }
}

impl Ipv6Fields {
    fn spec(&self) -> ib_uverbs_flow_ipv6_filter {
        ib_uverbs_flow_ipv6_filter {
            src_ip: self.source.octets(),
            dst_ip: self.destination.octets(),
            flow_label: self.flow_label.into(),
            next_hdr: self.next_header,
            traffic_class: self.traffic_class,
            hop_limit: self.hop_limit,
            reserved: 0,
        }
    }
}

impl PortFields {
    fn spec(self) -> ib_uverbs_flow_tcp_udp_filter {
        ib_uverbs_flow_tcp_udp_filter {
            dst_port: self.destination.into(),
            src_port: self.source.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_fit_their_fields() {
        let label = |flow_label| Ipv6Fields {
            flow_label,
            ..Ipv6Fields::default()
        };
        for (spec, fits) in [
            (FlowSpec::Tag(0xff_ffff), true),
            (FlowSpec::Tag(1 << 24), false),
            (FlowSpec::Ipv6(label(0xf_ffff), label(0xf_ffff)), true),
            (FlowSpec::Ipv6(label(1 << 20), label(0)), false),
            (FlowSpec::Ipv6(label(0), label(u32::MAX)), false),
        ] {
            assert_eq!(spec.check().is_ok(), fits, "{spec:?}");
        }
    }

    /// The type of a specification, its length, and a reserved word.
    fn head(kind: u32, size: u16) -> [u8; 8] {
        let mut bytes = [0; 8];
        bytes[..4].copy_from_slice(&kind.to_ne_bytes());
        bytes[4..6].copy_from_slice(&size.to_ne_bytes());
        bytes
    }

    #[test]
    fn specifications_are_the_kernels() {
        let mut bytes = Vec::new();
        let value = PortFields {
            destination: 0x1234,
            source: 0,
        };
        let mask = PortFields {
            destination: 0xffff,
            source: 0,
        };
        FlowSpec::Udp(value, mask).encode(&mut bytes);
        assert_eq!(bytes[..8], head(0x41, 16));
        assert_eq!(bytes[8..], [0x12, 0x34, 0, 0, 0xff, 0xff, 0, 0]);
        let mut bytes = Vec::new();
        let value = Ipv4Fields {
            source: Ipv4Addr::new(10, 1, 2, 3),
            protocol: 17,
            ..Ipv4Fields::default()
        };
        FlowSpec::Ipv4(value, value).encode(&mut bytes);
        assert_eq!(bytes.len(), 32);
        assert_eq!(bytes[..8], head(0x30, 32));
        assert_eq!(bytes[8..17], [10, 1, 2, 3, 0, 0, 0, 0, 17]);
        for (spec, kind, size) in [
            (
                FlowSpec::Ethernet(EthernetFields::default(), EthernetFields::default()),
                0x20,
                40,
            ),
            (
                FlowSpec::Ipv6(Ipv6Fields::default(), Ipv6Fields::default()),
                0x31,
                88,
            ),
            (FlowSpec::Tcp(mask, mask), 0x40, 16),
        ] {
            let mut bytes = Vec::new();
            spec.encode(&mut bytes);
            assert_eq!(bytes[..8], head(kind, size));
            assert_eq!(bytes.len(), usize::from(size));
        }
        let mut bytes = Vec::new();
        FlowSpec::Tag(7).encode(&mut bytes);
        FlowSpec::Drop.encode(&mut bytes);
        let tag = [7_u32.to_ne_bytes(), [0; 4]].concat();
        assert_eq!(
            bytes,
            [&head(0x1000, 16)[..], &tag, &head(0x1001, 8)].concat()
        );
    }
}
