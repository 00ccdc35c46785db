#![allow(clippy::unwrap_used, reason = "tests")]

use std::cell::Cell;
use std::collections::VecDeque;

use super::*;
use conversation::number::{
    IFLA_ADDRESS, IFLA_INFO_DATA, IFLA_INFO_KIND, IFLA_LINKINFO, IFLA_VLAN_ID, NDA_DST, NDA_LLADDR,
    NUD_FAILED, RTA_GATEWAY, RTN_BLACKHOLE, RTN_LOCAL,
};

/// The answers to come, one datagram each; sequence numbers are filled in.
#[derive(Debug, Default)]
struct Script {
    answers: VecDeque<Vec<u8>>,
    sequence: u32,
}

impl NetlinkTransport for Script {
    fn send(&mut self, datagram: &[u8]) -> Result<(), Errno> {
        let (length, sequence) = (datagram[..4].try_into(), datagram[8..12].try_into());
        assert_eq!(u32::from_ne_bytes(length.unwrap()) as usize, datagram.len());
        self.sequence = u32::from_ne_bytes(sequence.unwrap());
        Ok(())
    }

    fn receive(&mut self, buffer: &mut [u8], lengths: &mut [usize]) -> Result<usize, Errno> {
        let mut answer = self.answers.pop_front().ok_or(Errno::TIMEDOUT)?;
        if answer.len() >= 16 {
            answer[8..12].copy_from_slice(&self.sequence.to_ne_bytes());
        }
        buffer[..answer.len()].copy_from_slice(&answer);
        lengths[0] = answer.len();
        Ok(1)
    }
}

fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut all = Vec::from(u16::try_from(4 + value.len()).unwrap().to_ne_bytes());
    all.extend(kind.to_ne_bytes());
    all.extend(value);
    all.resize(all.len().next_multiple_of(4), 0);
    all
}

fn message(kind: u16, flags: u16, body: &[&[u8]]) -> Vec<u8> {
    let body = body.concat();
    let mut all = Vec::from(u32::try_from(16 + body.len()).unwrap().to_ne_bytes());
    all.extend(kind.to_ne_bytes());
    all.extend(flags.to_ne_bytes());
    all.extend([0; 8]);
    all.extend(body);
    all
}

const DEVICE: u32 = 7;
const OWN: [u8; 6] = [2, 0, 0, 0, 0, 1];
const THEIRS: [u8; 6] = [2, 0, 0, 0, 0, 2];
const MULTI: u16 = 2;
const DONE: u16 = 3;

fn link(vlan: Option<u16>) -> Vec<u8> {
    let mut information = attribute(IFLA_INFO_KIND, b"vlan\0");
    if let Some(vlan) = vlan {
        let data = attribute(IFLA_VLAN_ID, &vlan.to_ne_bytes());
        information.extend(attribute(IFLA_INFO_DATA, &data));
    }
    let (address, information) = (
        attribute(IFLA_ADDRESS, &OWN),
        attribute(IFLA_LINKINFO, &information),
    );
    message(16, 0, &[&[0; 16], &address, &information])
}

fn route(kind: u8, gateway: Option<[u8; 4]>) -> Vec<u8> {
    let mut fixed = [0; 12];
    fixed[7] = kind;
    let gateway = gateway.map(|gateway| attribute(RTA_GATEWAY, &gateway));
    message(24, 0, &[&fixed, &gateway.unwrap_or_default()])
}

fn neighbours(all: &[([u8; 4], u32, u16)]) -> Vec<u8> {
    let mut datagram = Vec::new();
    for (address, device, state) in all {
        let mut fixed = [0; 12];
        fixed[4..8].copy_from_slice(&device.to_ne_bytes());
        fixed[8..10].copy_from_slice(&state.to_ne_bytes());
        let (address, mac) = (attribute(NDA_DST, address), attribute(NDA_LLADDR, &THEIRS));
        datagram = message(28, MULTI, &[&fixed, &address, &mac]);
    }
    datagram
}

const REACHABLE: u16 = 2;

fn found(answers: Vec<Vec<u8>>, peer: &str) -> Result<EthernetPeer, Errno> {
    let script = Script {
        answers: answers.into(),
        sequence: 0,
    };
    let source = "10.0.0.1".parse().unwrap();
    find(script, source, DEVICE, peer.parse().unwrap(), |_| Ok(()))
}

#[test]
fn a_neighbour_is_found_behind_its_router() {
    let done = || message(DONE, MULTI, &[&[0; 4]]);
    let of = |address| vec![neighbours(&[(address, DEVICE, REACHABLE)]), done()];
    let mut answers = vec![link(Some(42)), route(1, Some([10, 0, 0, 254]))];
    answers.extend(of([10, 0, 0, 254]));
    let expected = EthernetPeer {
        address: THEIRS,
        vlan: Some(42),
    };
    assert_eq!(found(answers, "192.0.2.1"), Ok(expected));

    let mut answers = vec![link(None), route(1, None)];
    answers.extend(of([10, 0, 0, 2]));
    let peer = found(answers, "10.0.0.2").unwrap();
    assert_eq!((peer.address, peer.vlan), (THEIRS, None));
}

#[test]
fn what_is_not_a_neighbour_yet_is_asked_for() {
    let done = || message(DONE, MULTI, &[&[0; 4]]);
    let mut answers = vec![link(None), route(1, None)];
    // Another device, one that failed, another address: not the one.
    for other in [
        ([10, 0, 0, 2], 8, REACHABLE),
        ([10, 0, 0, 2], DEVICE, NUD_FAILED),
        ([10, 0, 0, 3], DEVICE, REACHABLE),
        ([10, 0, 0, 2], DEVICE, REACHABLE),
    ] {
        answers.extend([neighbours(&[other]), done()]);
    }
    let asked = Cell::new(0);
    let script = Script {
        answers: answers.into(),
        sequence: 0,
    };
    let [source, peer] = ["10.0.0.1", "10.0.0.2"].map(|text| text.parse().unwrap());
    let peer = find(script, source, DEVICE, peer, |_| {
        asked.set(asked.get() + 1);
        Ok(())
    });
    assert_eq!(peer.map(|peer| peer.address), Ok(THEIRS));
    assert_eq!(asked.get(), 1);
}

#[test]
fn some_addresses_need_no_neighbour() {
    let peer = found(vec![link(None), route(RTN_LOCAL, None)], "10.0.0.1");
    assert_eq!(peer.map(|peer| peer.address), Ok(OWN));
    let peer = found(vec![link(None), route(5, None)], "239.1.2.3");
    assert_eq!(peer.map(|peer| peer.address), Ok([1, 0, 0x5e, 1, 2, 3]));
}

#[test]
fn no_way_to_a_peer_is_an_error() {
    let unreachable = Err(Errno::HOSTUNREACH);
    let no_route = message(2, 0, &[&(-101_i32).to_ne_bytes(), &[0; 16]]);
    assert_eq!(found(vec![link(None), no_route], "10.9.9.9"), unreachable);
    assert_eq!(
        found(vec![link(None), route(RTN_BLACKHOLE, None)], "10.9.9.9"),
        unreachable
    );
    let no_device = message(2, 0, &[&(-19_i32).to_ne_bytes(), &[0; 16]]);
    assert_eq!(found(vec![no_device], "10.0.0.2"), Err(Errno::NODEV));
    assert_eq!(found(vec![], "fd00::1"), Err(Errno::INVAL));
}

#[test]
fn bytes_that_no_kernel_sends_are_an_error() {
    for broken in [
        vec![0; 3],
        vec![0; 16],
        message(16, 0, &[&[0; 3]]),
        message(16, 0, &[&[0; 16], &[1, 0, 1, 0]]),
        message(2, 0, &[&[0; 2]]),
    ] {
        assert_eq!(found(vec![broken], "10.0.0.2"), Err(Errno::BADMSG));
    }
    let strange = vec![link(Some(0xffff)), route(RTN_LOCAL, None)];
    assert_eq!(found(strange, "10.0.0.1").map(|peer| peer.vlan), Ok(None));
}

#[test]
fn the_kernel_of_this_machine_knows_its_loopback() {
    let loopback: IpAddr = "127.0.0.1".parse().unwrap();
    match ethernet_peer(loopback, 1, loopback) {
        Ok(peer) => assert_eq!((peer.address, peer.vlan), ([0; 6], None)),
        // Under Miri, and in sandboxes.
        Err(errno) => assert_eq!(errno, Errno::PROTONOSUPPORT),
    }
}
