//! Nonsense from the guest: whatever is written, the model answers, returns and continues.

use proptest::prelude::*;

use super::host::{FREE, RAM, connected, fabric};
use crate::Options;
use crate::layout::command::op;
use crate::layout::{put, word};
use crate::memory::GuestMemory;
use crate::objects::Service;

/// Mostly opcodes that exist, so that not everything stops at the dispatcher.
fn opcode() -> impl Strategy<Value = u16> {
    let known: Vec<u16> = (0x100..0xb20)
        .filter(|code| op::name(*code) != "UNKNOWN")
        .collect();
    prop_oneof![9 => prop::sample::select(known), 1 => any::<u16>()]
}

fn words(count: usize) -> impl Strategy<Value = Vec<u32>> {
    // Small numbers name existing objects and legal sizes; the others are arbitrary.
    let word =
        prop_oneof![4 => Just(0u32), 3 => 0u32..0x100, 1 => any::<u32>(), 1 => Just(FREE as u32)];
    prop::collection::vec(word, 0..count)
}

fn bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_commands(commands in prop::collection::vec((opcode(), words(160)), 1..24)) {
        let (mut fabric, mut hosts) = fabric(1, Options::default());
        connected(&mut fabric, &mut hosts, Service::Rc);
        for (opcode, words) in commands {
            let mut input = hosts[0].input(opcode);
            input.extend(bytes(&words));
            word(4).set(&mut input, words.first().copied().unwrap_or(0));
            let reply = hosts[0].run(&mut fabric, &input, 0x200);
            prop_assert_eq!(reply.len(), 0x200);
        }
        fabric.advance(1 << 40);
        hosts[0].run(&mut fabric, &hosts[0].input(op::QUERY_ISSI), 0x70);
    }

    #[test]
    fn any_slots_and_mailboxes(entry in prop::collection::vec(any::<u8>(), 64), block in words(144), vector: u32) {
        let (mut fabric, hosts) = fabric(1, Options::default());
        let mut entry = entry;
        entry[0] = 7;
        entry[0x3f] |= 1;
        word(4).set(&mut entry, vector & 0x1fff);
        for half in [0x08, 0x30] {
            put(&mut entry, half, &(0x10_0000u64).to_be_bytes());
        }
        // A mailbox whose chain loops back to itself.
        let mut block = bytes(&block);
        block.resize(576, 0);
        put(&mut block, 0x230, &(0x10_0000u64).to_be_bytes());
        hosts[0].ram.write(0x10_0000, &block).unwrap();
        hosts[0].ram.write(0x1000, &entry).unwrap();
        fabric.mmio_write(0, 0x18, &vector.to_be_bytes());
        fabric.mmio_write(0, 0x18, &1u32.to_be_bytes());
        prop_assert_eq!(hosts[0].bytes(0x103f, 1)[0] & 1, 0);
    }

    #[test]
    fn any_register_access(accesses in prop::collection::vec((any::<u64>(), prop::collection::vec(any::<u8>(), 0..80)), 1..64)) {
        let (mut fabric, mut hosts) = fabric(1, Options::default());
        connected(&mut fabric, &mut hosts, Service::Rc);
        for (offset, data) in accesses {
            for offset in [offset, offset & 0xffff, offset & 0x1ff_ffff, (offset & 0xf00) | 0x4000] {
                fabric.mmio_write(0, offset, &data);
                fabric.mmio_read(0, offset, &mut data.clone());
                fabric.config_write(0, offset & 0xfff, &data);
                fabric.config_read(0, offset, &mut data.clone());
            }
        }
        fabric.advance(1 << 40);
    }

    #[test]
    fn any_work_requests(service in 0usize..3, ring in words(1024), producer: u16, receives: u16, opcodes in prop::collection::vec(any::<u8>(), 64)) {
        let (mut fabric, mut hosts) = fabric(2, Options::default());
        let service = [Service::Rc, Service::Uc, Service::Ud][service];
        let (a, b) = connected(&mut fabric, &mut hosts, service);
        hosts[0].all_rights(&mut fabric);
        let mut ring = bytes(&ring);
        ring.resize(5120, 0);
        for (block, opcode) in ring[1024..].chunks_mut(64).zip(opcodes) {
            // Plausible control segments in front of arbitrary bytes.
            block[3] = [0x0a, 0x08, 0x10, 0x11, 0x25, 0x0b, opcode][usize::from(opcode % 7)];
            block[7] = block[7] & 0xc0 | opcode % 0x14;
            block[11] |= 8;
        }
        hosts[0].ram.write(a.buffer, &ring).unwrap();
        hosts[1].ram.write(b.buffer, &ring[..1024]).unwrap();
        hosts[1].ram.write(b.record, &u32::from(receives).to_be_bytes()).unwrap();
        hosts[0].ram.write(a.record + 4, &u32::from(producer).to_be_bytes()).unwrap();
        let mut bell = [0; 8];
        word(4).set(&mut bell, a.qpn << 8 | 1);
        let page = u64::from(hosts[0].uar) << 12;
        fabric.mmio_write(0, page + 0x800, &bell);
        for step in 1..64u64 {
            fabric.advance(step << 32);
        }
        prop_assert!(hosts[0].bytes(RAM as u64 - 1, 1).len() == 1);
    }
}
