//! Changes a network interface, by rtnetlink.
//!
//! Messages: `linux/netlink.h`, `linux/if_link.h`, `linux/if_addr.h`.

use std::net::Ipv4Addr;

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with,
};

const RTM_NEWLINK: u16 = 16;
const RTM_NEWADDR: u16 = 20;
const RTM_DELADDR: u16 = 21;
const REQUEST_AND_ACKNOWLEDGE: u16 = 1 | 4;
const CREATE: u16 = 0x400;
const NLMSG_ERROR: u16 = 2;
const IFF_UP: u32 = 1;
const IFA_LOCAL: u16 = 2;

/// Brings an interface up or down.
pub fn set_up(name: &str, up: bool) {
    let mut body = vec![0; 4];
    body.extend(index(name).to_ne_bytes());
    body.extend(if up { IFF_UP } else { 0 }.to_ne_bytes());
    body.extend(IFF_UP.to_ne_bytes());
    talk(RTM_NEWLINK, 0, &body);
}

/// Adds an address to an interface, or removes it.
pub fn set_address(name: &str, address: Ipv4Addr, there: bool) {
    // Family IPv4, prefix length 32, no flags, scope universe.
    let mut body = vec![2, 32, 0, 0];
    body.extend(index(name).to_ne_bytes());
    body.extend(8_u16.to_ne_bytes());
    body.extend(IFA_LOCAL.to_ne_bytes());
    body.extend(address.octets());
    if there {
        talk(RTM_NEWADDR, CREATE, &body);
    } else {
        talk(RTM_DELADDR, 0, &body);
    }
}

/// The index of an interface.
pub fn index(name: &str) -> u32 {
    let path = format!("/sys/class/net/{name}/ifindex");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    text.trim().parse().expect("a number")
}

pub(crate) fn talk(kind: u16, flags: u16, body: &[u8]) {
    // Protocol 0 is NETLINK_ROUTE.
    let socket = socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        None,
    )
    .expect("a netlink socket");
    let length = u32::try_from(16 + body.len()).expect("a short message");
    let mut message = Vec::new();
    message.extend(length.to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend((flags | REQUEST_AND_ACKNOWLEDGE).to_ne_bytes());
    message.extend([0; 8]);
    message.extend(body);
    sendto(
        &socket,
        &message,
        SendFlags::empty(),
        &SocketAddrNetlink::new(0, 0),
    )
    .expect("the kernel listens");
    let mut answer = [0; 4096];
    let (got, _) = recv(&socket, &mut answer, RecvFlags::empty()).expect("an answer");
    assert!(got >= 20, "an answer of {got} bytes");
    assert_eq!(
        u16::from_ne_bytes([answer[4], answer[5]]),
        NLMSG_ERROR,
        "not an acknowledgement"
    );
    let errno = i32::from_ne_bytes([answer[16], answer[17], answer[18], answer[19]]);
    assert_eq!(errno, 0, "the kernel refused message {kind}");
}
