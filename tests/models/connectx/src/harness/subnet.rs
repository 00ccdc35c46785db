//! The subnet's administrator as ports reach it: by datagrams to its LID, and by what it does to
//! multicast.

use super::host::{FREE, Host, Pair, fabric, segment_bytes};
use crate::layout::command::{self, op};
use crate::layout::transport::hca_vport;
use crate::layout::{be16, be32, put, qp, word};
use crate::memory::GuestMemory;
use crate::subnet::{GENERAL_KEY, SM_LID};
use crate::{Fabric, Options};

const SEND: u8 = 0x0a;
/// The service type of queue pair 1.
const GENERAL_SERVICES: u32 = 8;
const PORT_CHANGE: u8 = 9;
const REREGISTER: u8 = 9;
const MEMBER: u16 = 0x38;

/// Two hosts with their general services, in a subnet with an administrator.
struct Bed {
    fabric: Fabric,
    hosts: Vec<Host>,
    services: Vec<Pair>,
    keys: Vec<u32>,
}

fn bed(subnet_administrator: bool) -> Bed {
    let options = Options {
        subnet_administrator,
        ..Options::default()
    };
    let (mut fabric, mut hosts) = fabric(2, options);
    let mut services = Vec::new();
    let mut keys = Vec::new();
    for host in &mut hosts {
        let pair = host.create_qp(&mut fabric, GENERAL_SERVICES);
        ready(&mut fabric, host, &pair, GENERAL_KEY);
        services.push(pair);
        keys.push(host.all_rights(&mut fabric));
    }
    Bed {
        fabric,
        hosts,
        services,
        keys,
    }
}

fn ready(fabric: &mut Fabric, host: &Host, pair: &Pair, key: u32) {
    host.modify(fabric, op::RST2INIT_QP, pair.qpn, &[(qp::QKEY, key)]);
    host.modify(fabric, op::INIT2RTR_QP, pair.qpn, &[]);
    host.modify(fabric, op::RTR2RTS_QP, pair.qpn, &[]);
}

/// A datagram of `bytes` bytes at [`FREE`], to a multicast group if there is one.
fn datagram(qpn: u32, lid: u32, key: u32, group: Option<[u8; 16]>, data: &[u8]) -> Vec<u8> {
    let mut body = vec![0; 48];
    word(0).set(&mut body, key);
    word(8).set(&mut body, 1 << 31 | qpn);
    word(12).set(&mut body, lid);
    if let Some(group) = group {
        body[28] = 0x40;
        put(&mut body, 32, &group);
    }
    body.extend(data);
    body
}

impl Bed {
    /// Sends a request from a host to the manager's port, and returns the answer, if there is one.
    fn ask(&mut self, host: usize, mad: &[u8]) -> Option<Vec<u8>> {
        self.ask_by(host, mad, 1, GENERAL_KEY)
    }

    fn ask_by(&mut self, host: usize, mad: &[u8], qpn: u32, key: u32) -> Option<Vec<u8>> {
        let (at, room) = (FREE, FREE + 0x1000);
        let (driver, pair) = (&self.hosts[host], &mut self.services[host]);
        driver.ram.write(at, mad).unwrap();
        driver.post_recv(pair, &[(296, self.keys[host], room)]);
        let data = segment_bytes(&[(mad.len() as u32, self.keys[host], at)]);
        let body = datagram(qpn, SM_LID.into(), key, None, &data);
        driver.post_send(&mut self.fabric, pair, SEND, 0, &body);
        // The answer may come before the request has completed.
        let mut answer = None;
        while let Some(done) = driver.poll(&mut pair.cq) {
            if done.opcode == 2 {
                assert_eq!((done.bytes, be32(&done.entry, 0x18)), (296, 1));
                assert_eq!(be16(&done.entry, 0x16), SM_LID, "the source");
                answer = Some(driver.bytes(room + 40, 256));
            }
        }
        answer
    }

    fn join(&mut self, host: usize, group: [u8; 16]) -> u16 {
        let mut record = vec![0; 52];
        record[..16].copy_from_slice(&group);
        record[16..32].copy_from_slice(&self.fabric.devices[host].config.gid());
        record[40..42].copy_from_slice(&[0xff, 0xff]);
        record[48] = 1;
        let mask = 0b11 | 1 << 2 | 1 << 6 | 1 << 7 | 1 << 12 | 1 << 13 | 1 << 16;
        let answer = self.ask(host, &request(2, MEMBER, mask, &record)).unwrap();
        assert_eq!(be16(&answer, 4), 0, "joined");
        be16(&answer, 56 + 36)
    }
}

fn request(method: u8, attribute: u16, mask: u64, record: &[u8]) -> Vec<u8> {
    let mut mad = vec![0; 256];
    mad[..4].copy_from_slice(&[1, 3, 2, method]);
    mad[16..18].copy_from_slice(&attribute.to_be_bytes());
    mad[48..56].copy_from_slice(&mask.to_be_bytes());
    put(&mut mad, 56, record);
    mad
}

fn class_port_info() -> Vec<u8> {
    request(1, 1, 0, &[])
}

fn manager(fabric: &mut Fabric, host: &Host) -> u16 {
    let reply = host.ok(fabric, &host.input(op::QUERY_HCA_VPORT_CONTEXT), 16 + 512);
    hca_vport::SM_LID.get(&reply[16..]) as u16
}

#[test]
fn a_port_knows_its_manager_and_is_answered() {
    let mut bed = bed(true);
    assert_eq!(manager(&mut bed.fabric, &bed.hosts[0]), SM_LID);
    let answer = bed.ask(0, &class_port_info()).unwrap();
    assert_eq!((answer[3], be16(&answer, 4)), (0x81, 0));
    // Not what is no management, of another queue pair, or with another key.
    assert_eq!(bed.ask(0, &[0; 255]), None);
    assert_eq!(bed.ask_by(0, &class_port_info(), 0, GENERAL_KEY), None);
    assert_eq!(bed.ask_by(0, &class_port_info(), 1, 0x1234), None);
    // What is lost is not answered, and what arrives twice is answered twice.
    bed.fabric.drop_messages(0, 1);
    assert_eq!(bed.ask(0, &class_port_info()), None);
    assert!(bed.ask(0, &class_port_info()).is_some());
    assert!(
        bed.fabric.reports().is_empty(),
        "{:?}",
        bed.fabric.reports()
    );
}

#[test]
fn a_manager_comes_and_goes() {
    let mut bed = bed(false);
    let mut events = bed.hosts[1].create_events(&mut bed.fabric, 1 << PORT_CHANGE);
    assert_eq!(manager(&mut bed.fabric, &bed.hosts[1]), 0);
    assert_eq!(bed.ask(1, &class_port_info()), None);
    bed.fabric.set_subnet_administrator(true);
    let event = bed.hosts[1].next_event(&mut events).unwrap();
    assert_eq!((event.0, event.1), (PORT_CHANGE, REREGISTER));
    assert_eq!(manager(&mut bed.fabric, &bed.hosts[1]), SM_LID);
    let group = [0xff, 0x12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9];
    assert_eq!(bed.join(1, group), 0xc001);
    bed.fabric.set_subnet_administrator(false);
    assert!(bed.hosts[1].next_event(&mut events).is_none());
    assert_eq!(manager(&mut bed.fabric, &bed.hosts[1]), SM_LID);
    assert_eq!(bed.ask(1, &class_port_info()), None);
    // The next one starts from nothing.
    bed.fabric.set_subnet_administrator(true);
    assert!(bed.hosts[1].next_event(&mut events).is_some());
    let find = request(1, MEMBER, 1, &group);
    assert_eq!(be16(&bed.ask(1, &find).unwrap(), 4), 0x0300);
}

#[test]
fn a_group_reaches_the_ports_that_joined() {
    let mut bed = bed(true);
    let group = [0xff, 0x12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7];
    let mut sender = bed.hosts[0].create_qp(&mut bed.fabric, 2);
    let mut listener = bed.hosts[1].create_qp(&mut bed.fabric, 2);
    ready(&mut bed.fabric, &bed.hosts[0], &sender, 0x1234);
    ready(&mut bed.fabric, &bed.hosts[1], &listener, 0x1234);
    let mut attach = bed.hosts[1].input(op::ATTACH_TO_MCG);
    attach.resize(32, 0);
    command::NUMBER.set(&mut attach, listener.qpn);
    attach[16..].copy_from_slice(&group);
    bed.hosts[1].ok(&mut bed.fabric, &attach, 16);
    let lid = bed.join(0, group);

    let mut send = |bed: &mut Bed, lid: u16| {
        let (key, peer) = (bed.keys[0], bed.keys[1]);
        bed.hosts[1].post_recv(&mut listener, &[(64, peer, FREE)]);
        let data = segment_bytes(&[(8, key, FREE)]);
        let body = datagram(0xff_ffff, lid.into(), 0x1234, Some(group), &data);
        bed.hosts[0].post_send(&mut bed.fabric, &mut sender, SEND, 0, &body);
        bed.hosts[1].poll(&mut listener.cq).is_some()
    };
    assert!(!send(&mut bed, lid), "its port has not joined");
    assert_eq!(bed.join(1, group), lid);
    assert!(send(&mut bed, lid));
    assert!(send(&mut bed, 0xc123), "no group of the administrator's");
    // Its port is forgotten when it goes down.
    bed.fabric.set_link(1, false);
    bed.fabric.set_link(1, true);
    assert!(!send(&mut bed, lid));
}
