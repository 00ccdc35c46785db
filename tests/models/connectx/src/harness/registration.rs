//! Memory keys whose pages are loaded by work requests, as the kernel registers memory.

use super::host::{FREE, Host, Pair, connected, fabric, remote_bytes, segment_bytes};
use crate::Options;
use crate::engine::Fabric;
use crate::layout::command::{self, CTX, PAS, op};
use crate::layout::queue::mkey;
use crate::layout::{Field, Wide, put, word};
use crate::memory::GuestMemory;
use crate::objects::Service;

const UMR: u8 = 0x25;
const WRITE: u8 = 0x08;
/// Fail if the key is not free; the offset is valid.
const FROM_FREE: u8 = 1 << 5;
const WITH_OFFSET: u8 = 1 << 4;
/// Length, page size, start, domain, key, the four rights, atomics and the free state.
const ALL: u64 = 1 | 1 << 1 | 1 << 6 | 1 << 7 | 1 << 13 | 0x1f << 17 | 1 << 29;
const LIST: u64 = FREE + 0x8000;

/// Creates a free key with room for 16 pages; returns its number.
fn free_key(fabric: &mut Fabric, host: &Host) -> u32 {
    let mut input = host.input(op::CREATE_MKEY);
    input.resize(PAS, 0);
    mkey::FREE.at(CTX).set(&mut input, 1);
    mkey::MODE_LOW.at(CTX).set(&mut input, 1);
    mkey::QPN.at(CTX).set(&mut input, 0xff_ffff);
    mkey::KEY.at(CTX).set(&mut input, 0x42);
    mkey::OCTOWORDS.at(CTX).set(&mut input, 8);
    command::NUMBER.get(&host.ok(fabric, &input, 16))
}

/// The body of a request that loads `pages` from entry `first` on and enables a key of `length`
/// bytes at `start`.
fn load(host: &Host, list: u32, pages: &[u64], first: u16, mask: u64, length: u64) -> Vec<u8> {
    let bytes: Vec<u8> = pages
        .iter()
        .flat_map(|page| (page | 3).to_be_bytes())
        .collect();
    host.ram.write(LIST, &bytes).unwrap();
    let mut body = vec![0; 48 + mkey::LEN];
    body[0] = WITH_OFFSET | if mask & 1 << 29 != 0 { FROM_FREE } else { 0 };
    put(&mut body, 4, &(bytes.len() as u16 / 16).to_be_bytes());
    put(&mut body, 6, &(first / 2).to_be_bytes());
    Wide(8).set(&mut body, mask);
    let context: [(Field, u32); 5] = [
        (mkey::LOCAL_READ, 1),
        (mkey::LOCAL_WRITE, 1),
        (mkey::PD, host.pd),
        (mkey::KEY, 0x77),
        (mkey::LOG_PAGE, 12),
    ];
    for (field, value) in context {
        field.at(48).set(&mut body, value);
    }
    Wide(48 + 0x10).set(&mut body, 0x7000_0000);
    Wide(48 + 0x18).set(&mut body, length);
    body.extend(segment_bytes(&[(bytes.len() as u32, list, LIST)]));
    body
}

struct Registering {
    fabric: Fabric,
    hosts: Vec<Host>,
    a: Pair,
    umr: Pair,
    keys: [u32; 2],
    key: u32,
}

fn setup() -> Registering {
    let (mut fabric, mut hosts) = fabric(2, Options::default());
    let (a, _) = connected(&mut fabric, &mut hosts, Service::Rc);
    let keys = [
        hosts[0].all_rights(&mut fabric),
        hosts[1].all_rights(&mut fabric),
    ];
    let umr = hosts[0].create_qp(&mut fabric, 0xc);
    hosts[0].connect(&mut fabric, &umr, 0, 0);
    let key = free_key(&mut fabric, &hosts[0]);
    Registering {
        fabric,
        hosts,
        a,
        umr,
        keys,
        key,
    }
}

impl Registering {
    /// Posts a request and returns the syndrome of its completion.
    fn register(&mut self, pages: &[u64], first: u16, mask: u64, length: u64) -> u8 {
        let body = load(&self.hosts[0], self.keys[0], pages, first, mask, length);
        let host = &self.hosts[0];
        host.post_send(
            &mut self.fabric,
            &mut self.umr,
            UMR,
            self.key << 8 | 0x42,
            &body,
        );
        let done = host.poll(&mut self.umr.cq).unwrap();
        if done.opcode == 0 { 0 } else { done.syndrome }
    }

    /// Writes through the key to the other host and returns the syndrome.
    fn write(&mut self, at: u64, length: u32) -> u8 {
        let mut body = remote_bytes(FREE, self.keys[1]);
        body.extend(segment_bytes(&[(length, self.key << 8 | 0x77, at)]));
        let host = &self.hosts[0];
        host.post_send(&mut self.fabric, &mut self.a, WRITE, 0, &body);
        let done = host.poll(&mut self.a.cq).unwrap();
        if done.opcode == 0 { 0 } else { done.syndrome }
    }
}

#[test]
fn pages_are_loaded_in_parts_and_the_key_is_then_used() {
    let mut r = setup();
    // Pages in no particular order, loaded by two requests, the last of which enables the key.
    let pages: Vec<u64> = (0..10)
        .map(|i| FREE + 0x1_0000 + (i * 7 % 10) * 0x1000)
        .collect();
    for (i, page) in pages.iter().enumerate() {
        r.hosts[0].ram.write(*page, &[i as u8 + 1; 4096]).unwrap();
    }
    assert_eq!(r.register(&pages[..8], 0, 0, 0), 0);
    assert_eq!(r.register(&pages[8..], 8, ALL, 10 * 4096), 0);
    assert_eq!(r.write(0x7000_0ff0, 0x8020), 0);
    let got = r.hosts[1].bytes(FREE, 0x8020);
    assert_eq!((got[0x0f], got[0x10], got[0x1010]), (1, 2, 3));
    assert_eq!((got[0x800f], got[0x8010]), (9, 10));
    assert!(r.fabric.reports().is_empty(), "{:?}", r.fabric.reports());
}

#[test]
fn a_key_holds_no_more_pages_than_it_has_room_for() {
    let mut r = setup();
    let pages = [FREE; 8];
    assert_eq!(r.register(&pages, 16, ALL, 4096), 0x06);
    assert_eq!(
        r.fabric.reports().get("memory registration request"),
        Some(&1)
    );
    // The key is still free.
    assert_eq!(r.write(0x7000_0000, 8), 0x04);
}

#[test]
fn a_key_in_use_is_not_enabled_again_and_can_be_freed() {
    let mut r = setup();
    assert_eq!(r.register(&[FREE; 4], 0, ALL, 4096), 0);
    assert_eq!(r.register(&[FREE; 4], 0, ALL, 4096), 0x06);
    let mut r = setup();
    assert_eq!(r.register(&[FREE; 4], 0, ALL, 4096), 0);
    let mut body = vec![0; 48 + mkey::LEN];
    Wide(8).set(&mut body, 1 << 29);
    mkey::FREE.at(48).set(&mut body, 1);
    word(0).set(&mut body, 0);
    r.hosts[0].post_send(&mut r.fabric, &mut r.umr, UMR, r.key << 8 | 0x77, &body);
    assert_eq!(r.hosts[0].poll(&mut r.umr.cq).unwrap().opcode, 0);
    assert_eq!(r.write(0x7000_0000, 8), 0x04);
}
