//! Two devices in one network namespace that communicate over the wire.
//!
//! Packets to an address of the same namespace normally take the loopback interface, where rxe does
//! not see them. rxe looks up routes by output device, so rules for that device send its packets
//! over the wire; everything else stays unchanged.

use super::links::Links;
use crate::error::{Doing as _, Error};
use rtnetlink::RouteMessageBuilder;
use rtnetlink::packet_route::route::RouteScope;
use rtnetlink::packet_route::rule::RuleAction;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Before any other rule.
const DEVICE_PRIORITY: u32 = 10;
/// The priority of the rule for local addresses: after those for devices.
const LOCAL_PRIORITY: u32 = 20;
/// The table of local addresses.
const LOCAL_TABLE: u8 = 255;
/// Routing tables of the hosts' interfaces: this plus the number of the host.
pub(crate) const HOST_TABLES: u8 = 100;
/// Routing tables of PCI functions' interfaces: this plus the number of the function.
pub(crate) const FUNCTION_TABLES: u8 = 110;

/// An interface with the addresses it is to have and the number of its own routing table.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) link: String,
    pub(crate) table: u8,
    pub(crate) addresses: Vec<(IpAddr, u8)>,
}

/// Brings up interfaces that are joined by a wire, so that packets bound to one of them reach the
/// others over it.
pub(crate) async fn join(links: &Links, ends: &[End]) -> Result<(), Error> {
    for end in ends {
        accept_own_addresses(&end.link)?;
        links.add_addresses(&end.link, &end.addresses).await?;
        links.up(&end.link).await?;
    }
    if ends.len() < 2 {
        return Ok(());
    }
    for end in ends {
        let mut others = Vec::new();
        for other in ends.iter().filter(|other| other.link != end.link) {
            others.extend(other.addresses.iter().map(|(address, _)| *address));
            others.push(links.link_local(&other.link).await?.into());
        }
        bind_to_device(links, &end.link, end.table, &others).await?;
    }
    move_local_rule(links).await
}

/// Lets an interface receive packets that come from addresses of this same host, and answer ARP
/// only for its own address.
fn accept_own_addresses(link: &str) -> Result<(), Error> {
    for (scope, name, value) in [
        ("all", "rp_filter", "0"),
        (link, "rp_filter", "0"),
        (link, "accept_local", "1"),
        (link, "arp_ignore", "1"),
        (link, "arp_announce", "2"),
    ] {
        let path = format!("/proc/sys/net/ipv4/conf/{scope}/{name}");
        fs::write(&path, value).doing(|| format!("writing {path}"))?;
    }
    Ok(())
}

/// Routes packets that are bound to an interface and addressed to the other end out through it,
/// although that is a local address too. Packets for its own address stay local.
async fn bind_to_device(
    links: &Links,
    link: &str,
    table: u8,
    others: &[IpAddr],
) -> Result<(), Error> {
    let doing = || format!("routing what is bound to {link}");
    let index = links.index(link).await?;
    for other in others {
        let route = match *other {
            IpAddr::V4(other) => RouteMessageBuilder::<Ipv4Addr>::new()
                .destination_prefix(other, 32)
                .output_interface(index)
                .scope(RouteScope::Link)
                .table_id(table.into())
                .build(),
            IpAddr::V6(other) => RouteMessageBuilder::<Ipv6Addr>::new()
                .destination_prefix(other, 128)
                .output_interface(index)
                .table_id(table.into())
                .build(),
        };
        links.0.route().add(route).execute().await.doing(doing)?;
    }
    let rule = || {
        let rule = links
            .0
            .rule()
            .add()
            .output_interface(link)
            .priority(DEVICE_PRIORITY);
        rule.table_id(table.into()).action(RuleAction::ToTable)
    };
    rule().v4().execute().await.doing(doing)?;
    rule().v6().execute().await.doing(doing)
}

/// Moves the rule for local addresses, which normally comes first, after those for devices.
async fn move_local_rule(links: &Links) -> Result<(), Error> {
    let doing = || "moving the rule for local addresses".to_owned();
    let rule = |priority| {
        links
            .0
            .rule()
            .add()
            .priority(priority)
            .table_id(LOCAL_TABLE.into())
            .action(RuleAction::ToTable)
    };
    let mut first_v4 = rule(0).v4();
    let mut first_v6 = rule(0).v6();
    rule(LOCAL_PRIORITY).v4().execute().await.doing(doing)?;
    rule(LOCAL_PRIORITY).v6().execute().await.doing(doing)?;
    links
        .0
        .rule()
        .del(first_v4.message_mut().clone())
        .execute()
        .await
        .doing(doing)?;
    links
        .0
        .rule()
        .del(first_v6.message_mut().clone())
        .execute()
        .await
        .doing(doing)
}
