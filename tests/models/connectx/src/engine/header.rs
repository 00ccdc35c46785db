//! The network header at the start of a datagram's receive, and what its completion says about it.

use crate::device::{Device, MAPPED};
use crate::engine::message::{Message, Route};

/// Number of bytes reserved for the header at the start of a datagram's receive buffer.
pub(super) const GRH: usize = 40;

/// The global route header as it was on the wire, or for IPv4 the IP header in the second half;
/// zeros if there was none.
pub(super) fn of(message: &Message) -> Vec<u8> {
    let mut header = vec![0; GRH];
    let Some(route) = message.route else {
        return header;
    };
    let Route {
        from,
        to,
        class,
        udp,
    } = route;
    let length = message.payload.length() as u16;
    if udp && is_mapped(&to) {
        header[20] = 0x45;
        header[21] = class;
        header[22..24].copy_from_slice(&length.saturating_add(52).to_be_bytes());
        header[28] = 64;
        header[29] = 17;
        header[32..36].copy_from_slice(&from[12..]);
        header[36..40].copy_from_slice(&to[12..]);
    } else {
        header[..2].copy_from_slice(&(0x6000 | u16::from(class) << 4).to_be_bytes());
        header[4..6].copy_from_slice(&length.to_be_bytes());
        header[6] = if udp { 17 } else { 0x1b };
        header[7] = 64;
        header[8..24].copy_from_slice(&from);
        header[24..40].copy_from_slice(&to);
    }
    header
}

fn is_mapped(gid: &[u8; 16]) -> bool {
    gid[..12] == MAPPED
}

/// GRH presence, service level (on Ethernet the kind of IP header) and source queue pair.
pub(super) fn flags(device: &Device, message: &Message) -> u32 {
    let level = match message.route {
        Some(Route { udp: false, .. }) if device.config.kind.is_ethernet() => 0,
        Some(Route { to, .. }) if device.config.kind.is_ethernet() => 1 + u32::from(is_mapped(&to)),
        _ => message.service_level,
    };
    u32::from(message.route.is_some()) << 28 | level << 24 | message.source_qpn & 0xff_ffff
}
