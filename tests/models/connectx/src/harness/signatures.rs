//! Keys with signatures, as requests set them up and messages use them.

use super::host::{Cqe, FREE, Host, Pair, connected, fabric_from, remote_bytes, segment_bytes};
use crate::engine::Fabric;
use crate::layout::command::{self, CTX, PAS, op};
use crate::layout::queue::mkey;
use crate::layout::{Field, Wide, be16, be32, be64, field, put, word};
use crate::memory::GuestMemory;
use crate::objects::Service;
use crate::{FunctionConfig, FunctionKind, Options};

const UMR: u8 = 0x25;
const SET_PSV: u8 = 0x20;
const SEND: u8 = 0x0a;
const WRITE: u8 = 0x08;
const READ: u8 = 0x10;
/// The number of errors, signatures, the key, the rights, and the free state.
const MASK: u64 = 1 | 1 << 9 | 1 << 12 | 1 << 13 | 0xf << 18 | 1 << 29;
const HERE: u64 = FREE;
const THERE: u64 = FREE + 0x1_0000;
const SIGNATURE_ERROR: u8 = 0xc;

struct Signing {
    fabric: Fabric,
    hosts: Vec<Host>,
    a: Pair,
    b: Pair,
    keys: [u32; 2],
    /// A key with signatures of each host, and its PSVs.
    key: [u32; 2],
    psvs: [u32; 2],
    errors: u32,
}

fn create(fabric: &mut Fabric, host: &Host) -> u32 {
    let mut input = host.input(op::CREATE_MKEY);
    input.resize(PAS, 0);
    let set: [(Field, u32); 8] = [
        (mkey::FREE, 1),
        (mkey::MODE_LOW, 2),
        (mkey::LOCAL_READ, 1),
        (mkey::QPN, 0xff_ffff),
        (mkey::PD, host.pd),
        (mkey::SIGNED, 1),
        (mkey::BSF_OCTOWORDS, 4),
        (mkey::OCTOWORDS, 4),
    ];
    for (field, value) in set {
        field.at(CTX).set(&mut input, value);
    }
    command::NUMBER.get(&host.ok(fabric, &input, 16)) << 8
}

fn create_psv(fabric: &mut Fabric, host: &Host) -> u32 {
    let mut input = host.input(op::CREATE_PSV);
    word(8).set(&mut input, 1 << 28 | host.pd);
    field(0x10, 23, 0).get(&host.ok(fabric, &input, 32))
}

fn setup() -> Signing {
    let configs = (0..2).map(|index| FunctionConfig {
        signatures: true,
        ..FunctionConfig::numbered(FunctionKind::InfiniBand, index)
    });
    let (mut fabric, mut hosts) = fabric_from(configs, Options::default());
    let (a, b) = connected(&mut fabric, &mut hosts, Service::Rc);
    let keys = [0, 1].map(|at: usize| hosts[at].all_rights(&mut fabric));
    let key = [0, 1].map(|at: usize| create(&mut fabric, &hosts[at]));
    let psvs = [0, 1].map(|at: usize| create_psv(&mut fabric, &hosts[at]));
    Signing {
        fabric,
        hosts,
        a,
        b,
        keys,
        key,
        psvs,
        errors: 1,
    }
}

/// CRC32 behind each 512 bytes of memory (`which` is 1) or of the wire (0).
fn bsf(which: usize, psv: u32) -> Vec<u8> {
    let mut bytes = vec![0; 64];
    let selector = if which == 0 { 1 << 8 } else { 1 };
    word(0).set(&mut bytes, 2 << 30 | 0xf0 << 16 | selector);
    word(4).set(&mut bytes, u32::MAX);
    word(8 + 4 * which).set(&mut bytes, 0x22 << 24 | psv);
    bytes
}

impl Signing {
    fn pair(&mut self, host: usize) -> &mut Pair {
        if host == 0 { &mut self.a } else { &mut self.b }
    }

    fn post(&mut self, host: usize, opcode: u8, immediate: u32, body: &[u8]) {
        let mut pair = self.pair(host).clone();
        self.hosts[host].post_send(&mut self.fabric, &mut pair, opcode, immediate, body);
        *self.pair(host) = pair;
    }

    fn poll(&mut self, host: usize) -> Option<Cqe> {
        let mut pair = self.pair(host).clone();
        let found = self.hosts[host].poll(&mut pair.cq);
        *self.pair(host) = pair;
        found
    }

    fn done(&mut self, host: usize) {
        assert_eq!(self.poll(host).map(|done| done.opcode), Some(0));
    }

    /// Maps `length` bytes from `HERE` on by a host's key, with this byte stream format.
    fn map(&mut self, host: usize, length: u32, bsf: &[u8]) -> Option<Cqe> {
        let mut body = vec![0; 48 + mkey::LEN];
        body[0] = 1 << 7;
        put(&mut body, 4, &4_u16.to_be_bytes());
        put(&mut body, 6, &(bsf.len() as u16 / 16).to_be_bytes());
        Wide(8).set(&mut body, MASK);
        let set: [(Field, u32); 6] = [
            (mkey::LOCAL_WRITE, 1),
            (mkey::REMOTE_READ, 1),
            (mkey::REMOTE_WRITE, 1),
            (mkey::QPN, 0xff_ffff),
            (mkey::SIGNED, 1),
            (mkey::SIGNATURE_ERRORS, self.errors & 1),
        ];
        for (field, value) in set {
            field.at(48).set(&mut body, value);
        }
        Wide(48 + 0x18).set(&mut body, length.into());
        body.extend(segment_bytes(&[(length, self.keys[host], HERE)]));
        body.extend([0; 48]);
        body.extend(bsf);
        let key = self.key[host];
        self.post(host, UMR, key, &body);
        self.poll(host)
    }

    fn set_psv(&mut self, host: usize, value: u64) {
        let mut body = self.psvs[host].to_be_bytes().to_vec();
        body.extend([0; 4]);
        body.extend(value.to_be_bytes());
        self.post(host, SET_PSV, 0, &body);
        self.done(host);
    }

    /// CRC32 of memory or of the wire by a host's key.
    fn sign(&mut self, host: usize, which: usize, length: u32) {
        let bsf = bsf(which, self.psvs[host]);
        assert_eq!(
            self.map(host, length, &bsf).map(|done| done.opcode),
            Some(0)
        );
        self.set_psv(host, 0xffff_ffff << 32);
    }

    /// A write or read of the first host.
    fn message(&mut self, opcode: u8, local: (u32, u32, u64), remote: (u32, u64)) {
        let mut body = remote_bytes(remote.1, remote.0);
        body.extend(segment_bytes(&[local]));
        self.post(0, opcode, 0, &body);
    }
}

/// Blocks of 512 bytes with their CRC32, by another implementation than the model's.
fn signed(blocks: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for value in blocks {
        let mut crc = u32::MAX;
        for _ in 0..512 {
            crc ^= u32::from(*value);
            for _ in 0..8 {
                crc = crc >> 1 ^ if crc & 1 != 0 { 0xedb8_8320 } else { 0 };
            }
        }
        out.extend([*value; 512]);
        out.extend((!crc).to_be_bytes());
    }
    out
}

#[test]
fn signatures_of_memory_are_checked_and_stripped() {
    let mut s = setup();
    s.hosts[0].ram.write(HERE, &signed(&[7, 9])).unwrap();
    s.sign(0, 1, 2 * 516);
    let (key, there) = (s.key[0], (s.keys[1], THERE));
    s.message(WRITE, (1024, key, 0), there);
    s.done(0);
    let got = s.hosts[1].bytes(THERE, 1024);
    assert!(got[..512] == [7; 512] && got[512..] == [9; 512]);
    // From the second block on.
    s.message(WRITE, (512, key, 512), there);
    s.done(0);
    assert_eq!(s.hosts[1].bytes(THERE, 512), [9; 512]);
    assert!(s.fabric.reports().is_empty(), "{:?}", s.fabric.reports());
}

#[test]
fn a_wrong_signature_is_reported_once() {
    let mut s = setup();
    let mut bytes = signed(&[7, 9]);
    let right = be32(&bytes, 516 + 512);
    bytes[516 + 515] ^= 1;
    s.hosts[0].ram.write(HERE, &bytes).unwrap();
    s.sign(0, 1, 2 * 516);
    let (key, there) = (s.key[0], (s.keys[1], THERE));
    s.message(WRITE, (1024, key, 0), there);
    let found = s.poll(0).unwrap();
    assert_eq!(found.opcode, SIGNATURE_ERROR);
    let entry = &found.entry;
    assert_eq!((be32(entry, 0x10), be32(entry, 0x14)), (right ^ 1, right));
    assert_eq!((be16(entry, 0x20), be16(entry, 0x22)), (1 << 13, 1));
    assert_eq!((be32(entry, 0x24), be64(entry, 0x28)), (key, 516));
    // The message itself is done.
    s.done(0);
    s.message(WRITE, (1024, key, 0), there);
    s.done(0);
    // The report is counted.
    s.errors = 2;
    s.sign(0, 1, 2 * 516);
    s.message(WRITE, (1024, key, 0), there);
    assert_eq!(s.poll(0).unwrap().opcode, SIGNATURE_ERROR);
    s.done(0);
}

#[test]
fn signatures_of_memory_are_made_from_what_a_read_brings() {
    let mut s = setup();
    s.hosts[1].ram.write(THERE, &[5; 1024]).unwrap();
    s.sign(0, 1, 2 * 516);
    let (key, there) = (s.key[0], (s.keys[1], THERE));
    s.message(READ, (1024, key, 0), there);
    s.done(0);
    assert_eq!(s.hosts[0].bytes(HERE, 2 * 516), signed(&[5, 5]));
}

#[test]
fn the_wire_has_signatures_between_two_keys() {
    let mut s = setup();
    s.hosts[0].ram.write(HERE, &[3; 1024]).unwrap();
    for host in [0, 1] {
        s.sign(host, 0, 1024);
    }
    let keys = s.key;
    s.message(WRITE, (1032, keys[0], 0), (keys[1], 0));
    s.done(0);
    assert_eq!(s.hosts[1].bytes(HERE, 1024), [3; 1024]);
    // Without a key of its own, the peer finds them, and makes them.
    s.message(READ, (1032, s.keys[0], THERE), (keys[1], 0));
    s.done(0);
    assert_eq!(s.hosts[0].bytes(THERE, 1032), signed(&[3, 3]));
    s.hosts[0].ram.write(THERE, &[0; 1032]).unwrap();
    s.message(WRITE, (1032, s.keys[0], THERE), (keys[1], 0));
    s.done(0);
    let found = s.poll(1).unwrap();
    assert_eq!(found.opcode, SIGNATURE_ERROR);
    assert_eq!(
        (be16(&found.entry, 0x22), be32(&found.entry, 0x24)),
        (0, keys[1])
    );
}

#[test]
fn a_receive_gives_and_checks_signatures() {
    let mut s = setup();
    s.hosts[0].ram.write(THERE, &[8; 1024]).unwrap();
    s.sign(1, 1, 2 * 516);
    let mut pair = s.b.clone();
    s.hosts[1].post_recv(&mut pair, &[(1024, s.key[1], 0)]);
    s.b = pair;
    let body = segment_bytes(&[(1024, s.keys[0], THERE)]);
    s.post(0, SEND, 0, &body);
    s.done(0);
    assert_eq!(
        s.poll(1).map(|done| (done.opcode, done.bytes)),
        Some((2, 1024))
    );
    assert_eq!(s.hosts[1].bytes(HERE, 2 * 516), signed(&[8, 8]));
}

#[test]
fn a_key_is_used_once_its_psv_is_set() {
    let mut s = setup();
    let bsf = bsf(1, s.psvs[0]);
    s.map(0, 516, &bsf);
    let (key, there) = (s.key[0], (s.keys[1], THERE));
    s.message(WRITE, (512, key, 0), there);
    let done = s.poll(0).unwrap();
    assert_eq!((done.opcode, done.syndrome), (0xd, 0x04));
    assert_eq!(s.fabric.reports().get("memory key"), Some(&1));
    let mut s = setup();
    s.sign(0, 1, 516);
    s.set_psv(0, 1 << 32);
    s.message(WRITE, (512, s.key[0], 0), (s.keys[1], THERE));
    assert_eq!(s.poll(0).unwrap().opcode, 0xd);
}

#[test]
fn what_cannot_be_carried_out_is_refused_when_it_is_set_up() {
    let refused = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut s = setup();
        let mut bytes = bsf(1, s.psvs[0]);
        change(&mut bytes);
        let done = s.map(0, 516, &bytes).unwrap();
        assert_eq!((done.opcode, done.syndrome), (0xd, 0x06));
        let reports = s.fabric.reports();
        assert_eq!(reports.get("memory registration request"), Some(&1));
    };
    refused(&|bytes| bytes[0] |= 1);
    refused(&|bytes| bytes[12] = 0x32);
    refused(&|bytes| bytes.resize(128, 0));
    refused(&Vec::clear);
}

#[test]
fn keys_for_what_is_not_announced_are_refused() {
    for (signatures, encryption, octowords, encrypted, fits) in [
        (true, false, 4, 0, true),
        (false, true, 4, 0, false),
        (false, false, 4, 0, false),
        (true, false, 8, 0, false),
        (true, false, 4, 1, false),
        (false, true, 4, 1, true),
        (false, true, 8, 1, false),
        (true, true, 8, 1, true),
        (true, true, 4, 2, false),
    ] {
        let config = FunctionConfig {
            signatures,
            encryption,
            ..FunctionConfig::numbered(FunctionKind::InfiniBand, 0)
        };
        let (mut fabric, hosts) = fabric_from([config].into_iter(), Options::default());
        let mut input = hosts[0].input(op::CREATE_MKEY);
        input.resize(PAS, 0);
        let set: [(Field, u32); 5] = [
            (mkey::FREE, 1),
            (mkey::MODE_LOW, 2),
            (mkey::SIGNED, 1),
            (mkey::BSF_OCTOWORDS, octowords),
            (mkey::ENCRYPTED, encrypted),
        ];
        for (field, value) in set {
            field.at(CTX).set(&mut input, value);
        }
        let reply = hosts[0].run(&mut fabric, &input, 16);
        assert_eq!(
            reply[0] == 0,
            fits,
            "{signatures} {encryption} {octowords} {encrypted}"
        );
    }
}
