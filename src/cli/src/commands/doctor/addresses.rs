//! The connection manager, and the addresses at which it can be reached.

use std::fs;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use uverbs::cm::{self, EventChannel};
use uverbs::gid::GidType;
use uverbs::{Device, ErrorKind};

use super::finding::Finding;
use crate::session::Session;

const CHECK: &str = "rdma_cm";
const BACKLOG: &str = "/proc/sys/net/rdma_ucm/max_backlog";

pub(super) fn look(devices: &[Device], session: &Session) -> Vec<Finding> {
    let channel = match EventChannel::open() {
        Ok(channel) => channel,
        Err(error) => return vec![refused(&error)],
    };
    let backlog = fs::read_to_string(BACKLOG).unwrap_or_default();
    let backlog = match backlog.trim() {
        "" => String::new(),
        most => format!(", a listener keeps {most} requests at most ({BACKLOG})"),
    };
    let mut findings = vec![Finding::ok(
        CHECK,
        format_args!("the connection manager can be opened{backlog}"),
    )];
    for device in devices {
        let Ok(context) = session.open(Some(device.name())) else {
            // Said elsewhere.
            continue;
        };
        let table = context.gid_table().unwrap_or_default();
        let addresses = table
            .iter()
            .filter(|entry| entry.gid_type == GidType::RoceV2)
            .filter_map(|entry| address(Ipv6Addr::from(entry.gid.to_bytes())));
        findings.extend(addresses.map(|ip| reachable(ip, device.name(), &channel)));
    }
    findings
}

fn refused(error: &uverbs::Error) -> Finding {
    if error.kind() == ErrorKind::NotFound {
        return Finding::ok(
            CHECK,
            "there is none; it is for connecting by IP address (modprobe rdma_ucm)",
        );
    }
    let finding = Finding::warn(CHECK, error);
    match error.known_hint() {
        Some(hint) => finding.fix(hint),
        None => finding,
    }
}

/// The IP address that a GID is, if programs would use it.
fn address(gid: Ipv6Addr) -> Option<IpAddr> {
    match gid.to_ipv4_mapped() {
        Some(v4) => Some(v4.into()),
        None if gid.is_unicast_link_local() => None,
        None => Some(gid.into()),
    }
}

/// Whether the connection manager takes an address, and gives it to the device.
fn reachable(ip: IpAddr, device: &str, channel: &EventChannel) -> Finding {
    match cm::listen(SocketAddr::new(ip, 0)).channel(channel).build() {
        Ok(_) => Finding::ok(CHECK, format_args!("can be connected to over {device}")).about(ip),
        Err(error) => Finding::warn(
            CHECK,
            format_args!("is an address of {device}, but nobody can listen there: {error}"),
        )
        .about(ip),
    }
}
