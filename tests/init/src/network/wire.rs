//! Two devices of one network namespace that talk over the wire.
//!
//! Ordinarily packets to an address of the same namespace take the loopback interface, where rxe does not see them. rxe
//! asks for routes by output device, so rules for that device send its packets to the wire; everything else stays as it is.

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
/// The tables of the devices: this and the number of the host.
pub(crate) const DEVICE_TABLES: u8 = 100;

/// Lets an interface receive packets that come from addresses of this very host, and answer for its own address alone.
pub(crate) fn accept_own_addresses(link: &str) -> Result<(), Error> {
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

/// Sends what is bound to an interface and meant for the other end out through it, although that is a local address too.
/// What is meant for its own address stays where it is.
pub(crate) async fn bind_to_device(
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
pub(crate) async fn move_local_rule(links: &Links) -> Result<(), Error> {
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
