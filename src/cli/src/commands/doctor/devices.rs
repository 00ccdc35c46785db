//! An opened device: its provider, its ports and addresses, memory, and a message to itself.

use uverbs::attr::PortAttr;
use uverbs::discover::Access;
use uverbs::discover::netlink;
use uverbs::gid::{GidEntry, GidType};
use uverbs::link::LinkLayer;
use uverbs::{Context, Device};

use super::finding::Finding;
use super::loopback;
use crate::failure::Failure;
use crate::session::Session;
use crate::units;

/// Sizes of memory regions that are registered as a test.
const TRIES: [usize; 4] = [1 << 16, 1 << 20, 1 << 23, 1 << 26];

pub(super) fn look(device: &Device, session: &Session) -> Vec<Finding> {
    if matches!(device.info().access, Access::Refused(_)) {
        // Already reported with the node.
        return Vec::new();
    }
    if let Err(error) = device.check_supported() {
        return vec![
            Finding::warn(
                "provider",
                format_args!("this library does not drive it: {error}"),
            )
            .about(device.name()),
        ];
    }
    let context = match session.open(Some(device.name())) {
        Ok(context) => context,
        Err(Failure::Said { message, hint, .. }) => {
            let finding = Finding::fail("open", message).about(device.name());
            return vec![match hint {
                Some(hint) => finding.fix(hint),
                None => finding,
            }];
        }
        Err(_) => return Vec::new(),
    };
    let mut findings = Vec::new();
    let mut usable = None;
    for port in 1..=context.device_attr().phys_port_cnt {
        let (found, works) = look_at_port(&context, port);
        findings.extend(found);
        if works {
            usable.get_or_insert(port);
        }
    }
    let registered = memory(&context);
    findings.push(registered.about(context.name()));
    if let Some(port) = usable {
        findings.push(loopback::look(&context, port).about(context.name()));
    }
    findings
}

/// The state of a port and its addresses, and whether messages can pass.
fn look_at_port(context: &Context, port: u8) -> (Vec<Finding>, bool) {
    let name = format!("{} port {port}", context.name());
    let attr = match context.query_port(port) {
        Ok(attr) => attr,
        Err(error) => return (vec![Finding::fail("port", error).about(name)], false),
    };
    let netdev = netdev(context, port);
    let mut findings = vec![state(&attr, netdev.as_deref()).about(&name)];
    let mut addressed = true;
    if attr.link_layer == LinkLayer::Ethernet {
        let table = match context.gid_table() {
            Ok(table) => table,
            Err(error) => {
                findings.push(Finding::fail("addresses", error).about(name));
                return (findings, false);
            }
        };
        let own: Vec<GidEntry> = table
            .into_iter()
            .filter(|entry| entry.port == u32::from(port))
            .collect();
        addressed = !own.is_empty();
        findings.push(addresses(&own, netdev.as_deref()).about(name));
    }
    (findings, attr.is_active() && addressed)
}

fn state(attr: &PortAttr, netdev: Option<&str>) -> Finding {
    const CHECK: &str = "port";
    let mtu = |mtu: uverbs::link::Mtu| mtu.bytes().unwrap_or(0);
    if !attr.is_active() {
        let finding = Finding::fail(
            CHECK,
            format_args!("{} (physical: {})", attr.state, attr.phys_state),
        );
        return match (attr.link_layer, netdev) {
            (LinkLayer::Ethernet, Some(netdev)) => {
                finding.fix(format_args!("ip link set {netdev} up; and check the cable"))
            }
            (LinkLayer::Ethernet, None) => finding.fix("bring its network interface up"),
            _ => finding.fix("check the cable, and that a subnet manager (opensm) runs"),
        };
    }
    let speed = attr
        .link_gbps()
        .map_or_else(String::new, |gbps| format!(", {gbps} Gb/s"));
    let (active, most) = (mtu(attr.active_mtu), mtu(attr.max_mtu));
    let finding = Finding::ok(
        CHECK,
        format_args!(
            "{}, {}{speed}, packets of {active} bytes",
            attr.state, attr.link_layer
        ),
    );
    match (attr.link_layer, netdev) {
        (LinkLayer::Ethernet, Some(netdev)) if active < most => finding.fix(format_args!(
            "for packets of {most} bytes: ip link set {netdev} mtu {} (on all hosts and switches)",
            most + 104
        )),
        _ => finding,
    }
}

fn addresses(entries: &[GidEntry], netdev: Option<&str>) -> Finding {
    const CHECK: &str = "addresses";
    let netdev = netdev.unwrap_or("INTERFACE");
    let v2 = entries
        .iter()
        .filter(|entry| entry.gid_type == GidType::RoceV2)
        .count();
    let routable = entries
        .iter()
        .filter(|entry| entry.gid_type == GidType::RoceV2 && !entry.gid.is_link_local())
        .count();
    if entries.is_empty() {
        return Finding::fail(CHECK, "no GID: nothing can be sent or received").fix(format_args!(
            "ip link set {netdev} up; ip address add 192.0.2.1/24 dev {netdev}"
        ));
    }
    if v2 == 0 {
        return Finding::warn(
            CHECK,
            format_args!("{} GIDs, none of RoCE v2", entries.len()),
        );
    }
    if routable == 0 {
        return Finding::warn(
            CHECK,
            format_args!(
                "{} GIDs, all link-local: peers on the same link only",
                entries.len()
            ),
        )
        .fix(format_args!("ip address add 192.0.2.1/24 dev {netdev}"));
    }
    Finding::ok(
        CHECK,
        format_args!(
            "{} GIDs, {routable} of RoCE v2 that others can reach",
            entries.len()
        ),
    )
}

/// How much memory can be registered.
fn memory(context: &Context) -> Finding {
    const CHECK: &str = "memory";
    let pd = match context.alloc_pd() {
        Ok(pd) => pd,
        Err(error) => return Finding::fail(CHECK, error),
    };
    let mut most = None;
    for size in TRIES {
        match pd.buffer_list(1, size) {
            Ok(_) => most = Some(size),
            Err(error) => {
                let size = units::bytes(size as u64);
                let message = match most {
                    None => format!("{size} cannot be registered: {error}"),
                    Some(most) => format!(
                        "{} can be registered, {size} not: {error}",
                        units::bytes(most as u64)
                    ),
                };
                let finding = if most.is_none() {
                    Finding::fail(CHECK, message)
                } else {
                    Finding::warn(CHECK, message)
                };
                return finding.fix("ulimit -l unlimited, see memlock above");
            }
        }
    }
    Finding::ok(
        CHECK,
        format_args!(
            "{} can be registered",
            units::bytes(most.unwrap_or_default() as u64)
        ),
    )
}

fn netdev(context: &Context, port: u8) -> Option<String> {
    let index = context.info().index?;
    let mut client = netlink::Client::connect().ok()?;
    client.port(index, port.into()).ok()?.netdev
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::super::finding::Status;
    use super::*;

    fn entry(gid: &str, gid_type: GidType) -> GidEntry {
        GidEntry {
            gid: gid.parse().unwrap(),
            index: 0,
            port: 1,
            gid_type,
            netdev: None,
        }
    }

    #[test]
    fn a_port_needs_an_address_that_others_can_reach() {
        let link_local = entry("fe80::1", GidType::RoceV2);
        let old = entry("::ffff:10.0.0.1", GidType::RoceV1);
        let good = entry("::ffff:10.0.0.1", GidType::RoceV2);
        for (table, status) in [
            (vec![], Status::Fail),
            (vec![old], Status::Warn),
            (vec![old, link_local], Status::Warn),
            (vec![link_local, good], Status::Ok),
        ] {
            assert_eq!(addresses(&table, None).status, status, "{table:?}");
        }
    }

    #[test]
    fn what_to_type_names_the_interface() {
        let finding = addresses(&[], Some("eth7"));
        assert!(finding.fix.unwrap().contains("ip link set eth7 up"));
    }
}
