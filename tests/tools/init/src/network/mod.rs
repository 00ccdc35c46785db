//! The network of the guest: veth pairs, addresses, namespaces, rxe devices.

pub(crate) mod devices;
mod links;
pub(crate) mod namespace;
mod rdma;
mod wire;

use crate::error::Error;
use crate::modules;
use guest_init::Topology;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A function that exists only in an rxe driver that supports network namespaces.
const NAMESPACE_AWARE: (&str, &[u8]) = ("rdma_rxe", b"rxe_namespace_init");

/// The result of the configuration.
#[derive(Debug, Default)]
pub(crate) struct Network {
    pub(crate) separate_namespaces: bool,
}

/// One of the two hosts.
#[derive(Debug)]
struct Host {
    namespace: &'static str,
    link: &'static str,
    rxe: &'static str,
    /// The last byte of its addresses.
    number: u8,
}

const HOSTS: [Host; 2] = [
    Host {
        namespace: "a",
        link: "v0",
        rxe: "rxe_a",
        number: 1,
    },
    Host {
        namespace: "b",
        link: "v1",
        rxe: "rxe_b",
        number: 2,
    },
];

/// Sets the network up.
pub(crate) fn set_up(topology: Topology) -> Result<Network, Error> {
    links::quiet_defaults();
    links::run(async |links| links.up("lo").await)?;
    match topology {
        Topology::Bare => Ok(Network::default()),
        Topology::OneHost => one_host(),
        Topology::TwoHosts if modules::has_symbol(NAMESPACE_AWARE.0, NAMESPACE_AWARE.1) => {
            two_namespaces()
        }
        Topology::TwoHosts => two_devices(),
    }
}

fn one_host() -> Result<Network, Error> {
    let [host, other] = &HOSTS;
    links::run(async |links| {
        links.add_pair(host.link, other.link).await?;
        links.add_addresses(host.link, &host.addresses()).await?;
        links.up(host.link).await?;
        links.up(other.link).await
    })?;
    rdma::add_rxe("rxe0", host.link)?;
    Ok(Network::default())
}

fn two_namespaces() -> Result<Network, Error> {
    let [first, second] = &HOSTS;
    links::run(async |links| links.add_pair(first.link, second.link).await)?;
    for host in &HOSTS {
        let namespace = namespace::create(host.namespace)?;
        links::run(async |links| links.give_away(host.link, &namespace).await)?;
    }
    for host in &HOSTS {
        namespace::inside(host.namespace, || {
            links::run(async |links| {
                links.up("lo").await?;
                links.add_addresses(host.link, &host.addresses()).await?;
                links.up(host.link).await
            })?;
            rdma::add_rxe(host.rxe, host.link)
        })?;
    }
    Ok(Network {
        separate_namespaces: true,
    })
}

/// Sets up both devices in the initial namespace, the only one in which this kernel's rxe sends and
/// receives.
fn two_devices() -> Result<Network, Error> {
    let [first, second] = &HOSTS;
    let ends = [first, second].map(|host| wire::End {
        link: host.link.to_owned(),
        table: wire::HOST_TABLES + host.number,
        addresses: host.addresses().into(),
    });
    links::run(async |links| {
        links.add_pair(first.link, second.link).await?;
        wire::join(links, &ends).await
    })?;
    for host in &HOSTS {
        namespace::alias_of_initial(host.namespace)?;
        rdma::add_rxe(host.rxe, host.link)?;
    }
    Ok(Network::default())
}

impl Host {
    /// Its addresses with their prefix lengths.
    fn addresses(&self) -> [(IpAddr, u8); 2] {
        let v4 = Ipv4Addr::new(10, 1, 0, self.number);
        let v6 = Ipv6Addr::new(0xfd00, 1, 0, 0, 0, 0, 0, self.number.into());
        [(v4.into(), 24), (v6.into(), 64)]
    }
}
