//! Two devices of one network namespace that talk over the wire.
//!
//! Ordinarily packets to an address of the same namespace take the loopback interface, where rxe
//! does not see them. rxe asks for routes by output device, so rules for that device send its
//! packets to the wire; everything else stays as it is.

use super::links::Links;
use crate::error::{Doing as _, Error};
use rtnetlink::RouteMessageBuilder;
use rtnetlink::packet_route::route::RouteScope;
use rtnetlink::packet_route::rule::RuleAction;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Before any other rule.
const DEVICE_PRIORITY: u32 = 10;
/// Where the rule for local addresses goes: behind those for devices.
const LOCAL_PRIORITY: u32 = 20;
/// The table of local addresses.
const LOCAL_TABLE: u8 = 255;
/// The routing tables of the hosts' interfaces: this and the number of the host.
pub(crate) const HOST_TABLES: u8 = 100;
/// The routing tables of PCI functions' interfaces: this and the number of the function.
pub(crate) const FUNCTION_TABLES: u8 = 110;

/// An interface with the addresses it is to have, and the routing table that is to be its own.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) link: String,
    pub(crate) table: u8,
    pub(crate) addresses: Vec<(IpAddr, u8)>,
}

/// Takes interfaces up that are joined by a wire, so that what is bound to one of them reaches the
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

/// Lets an interface receive packets that come from addresses of this very host, and answer for its
/// own address alone.
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

/// Sends what is bound to an interface and meant for the other end out through it, although that is
/// a local address too. What is meant for its own address stays where it is.
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

/// Moves the rule for local addresses, which comes first of all, behind those for devices.
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
