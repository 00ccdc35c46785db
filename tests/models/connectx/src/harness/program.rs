//! Interprets bytes as a program of what a guest and an operator may do: commands, registers,
//! doorbells, work requests, memory, faults, time. The model must answer, return and continue.

use std::sync::OnceLock;

use super::host::{FREE, Host, Pair, RAM, connected, fabric_from, segment_bytes};
use crate::engine::Fabric;
use crate::layout::command::op;
use crate::layout::{put, word};
use crate::memory::GuestMemory;
use crate::objects::Service;
use crate::{FunctionConfig, FunctionKind, Options, Spoil};

/// The largest number of steps in a program.
const STEPS: usize = 256;
/// The longest input of a command after its header, in 32-bit words.
const WORDS: usize = 192;

/// Bytes that are consumed from the front, followed by zeros.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> u8 {
        match self.0.split_first() {
            Some((first, rest)) => {
                self.0 = rest;
                *first
            }
            None => 0,
        }
    }

    fn short(&mut self) -> u16 {
        u16::from_be_bytes([self.byte(), self.byte()])
    }

    fn word(&mut self) -> u32 {
        u32::from(self.short()) << 16 | u32::from(self.short())
    }

    /// A word that is often meaningful: a small number, an address, or an arbitrary value.
    fn value(&mut self) -> u32 {
        match self.byte() {
            low @ 0..=0x9f => u32::from(low),
            0xa0..=0xbf => u32::from(self.short()),
            0xc0..=0xcf => FREE as u32 + u32::from(self.short()),
            0xd0..=0xdf => u32::from(self.byte()) << 24 | u32::from(self.short()),
            _ => self.word(),
        }
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.byte()).collect()
    }
}

fn opcodes() -> &'static [u16] {
    static KNOWN: OnceLock<Vec<u16>> = OnceLock::new();
    KNOWN.get_or_init(|| {
        (0x100..0xb20)
            .filter(|code| op::name(*code) != "UNKNOWN")
            .collect()
    })
}

/// The machine that a program runs on.
struct Machine {
    fabric: Fabric,
    hosts: Vec<Host>,
    pairs: Vec<(Pair, Pair)>,
    keys: [u32; 2],
    now: u64,
}

impl Machine {
    fn new(choice: u8) -> Self {
        let kind = [
            FunctionKind::InfiniBand,
            FunctionKind::EthernetRaw,
            FunctionKind::Roce,
        ][usize::from(choice % 3)];
        let configs = (0..2).map(|index| FunctionConfig {
            blueflame: choice & 0x80 != 0,
            umr: choice & 0x20 != 0,
            signatures: choice & 0x10 != 0,
            encryption: choice & 0x10 != 0,
            ..FunctionConfig::numbered(kind, index)
        });
        let options = Options {
            shaper: choice & 0x40 != 0,
            ..Options::default()
        };
        let (mut fabric, mut hosts) = fabric_from(configs, options);
        let pairs = [Service::Rc, Service::Ud, Service::Uc]
            .map(|service| connected(&mut fabric, &mut hosts, service))
            .into();
        let keys = [
            hosts[0].all_rights(&mut fabric),
            hosts[1].all_rights(&mut fabric),
        ];
        Self {
            fabric,
            hosts,
            pairs,
            keys,
            now: 1,
        }
    }

    fn step(&mut self, input: &mut Input<'_>) {
        let function = usize::from(input.byte() & 1);
        match input.byte() % 16 {
            0..=4 => self.command(function, input),
            5 => self.slot(function, input),
            6 | 7 => self.access(function, input),
            8 | 9 => self.send(function, input),
            10 => self.receive(function, input),
            11 => self.overwrite(function, input),
            12 => {
                self.now = self.now.saturating_add(1 << (input.byte() & 0x2f));
                self.fabric.advance(self.now);
            }
            13 => self.ring(function, input),
            14 => self.fault(function, input),
            _ => {
                let offset = u64::from(input.short() & 0xfff);
                let data = input.bytes(4);
                self.fabric.config_write(function, offset, &data);
                self.fabric.config_read(function, offset, &mut [0; 4]);
            }
        }
    }

    fn command(&mut self, function: usize, input: &mut Input<'_>) {
        let opcode = match input.byte() {
            0xff => input.short(),
            index => {
                let known = opcodes();
                known[usize::from(index) % known.len()]
            }
        };
        let host = &self.hosts[function];
        let mut message = host.input(opcode);
        word(4).set(&mut message, u32::from(input.byte() & 7));
        let count = usize::from(input.byte()) % WORDS;
        for at in (8..16).step_by(4) {
            word(at).set(&mut message, input.value());
        }
        for _ in 0..count {
            message.extend(input.value().to_be_bytes());
        }
        host.ring(&mut self.fabric, &message, 0x200);
    }

    fn slot(&mut self, function: usize, input: &mut Input<'_>) {
        let mut entry = input.bytes(64);
        entry[0] = 7;
        word(4).set(&mut entry, u32::from(input.short() & 0x3fff));
        for half in [0x08, 0x30] {
            put(&mut entry, half, &0x10_0000u64.to_be_bytes());
        }
        let slot = u64::from(input.byte() & 0x1f);
        let ram = &self.hosts[function].ram;
        ram.write(0x1000 + slot * 64, &entry).unwrap();
        let vector = 1u32 << slot | input.word() & input.word();
        self.fabric
            .mmio_write(function, 0x18, &vector.to_be_bytes());
    }

    fn access(&mut self, function: usize, input: &mut Input<'_>) {
        let within = u64::from(input.short());
        let offset = match input.byte() % 4 {
            0 => within,
            1 => within & 0x1fff,
            2 => self.hosts[function].page() + (within & 0xfff),
            _ => u64::from(input.word()),
        };
        let length = [4, 8, 1, 64, 128, 256, 3, 16][usize::from(input.byte() % 8)];
        let data = input.bytes(length);
        self.fabric.mmio_write(function, offset, &data);
        self.fabric
            .mmio_read(function, offset, &mut vec![0; length]);
    }

    fn pair(&mut self, function: usize, choice: u8) -> (&Host, &mut Pair, &mut Fabric) {
        let index = usize::from(choice) % self.pairs.len();
        let (a, b) = &mut self.pairs[index];
        let pair = if function == 0 { a } else { b };
        (&self.hosts[function], pair, &mut self.fabric)
    }

    /// A work request with a plausible start, with a doorbell or a copy.
    fn send(&mut self, function: usize, input: &mut Input<'_>) {
        let choice = input.byte();
        let key = self.keys[usize::from(choice >> 7)];
        let (host, pair, fabric) = self.pair(function, choice);
        let opcode = match input.byte() {
            index @ 0..=0xdf => [0x0a, 0x08, 0x09, 0x10, 0x0b, 0x11, 0x12, 0x25, 0x00, 0x01]
                [usize::from(index) % 10],
            _ => input.byte(),
        };
        let mut body = Vec::new();
        for _ in 0..input.byte() % 12 {
            match input.byte() % 4 {
                0 => body.extend(segment_bytes(&[(
                    u32::from(input.short()),
                    key,
                    FREE + u64::from(input.short()),
                )])),
                1 => {
                    body.extend((FREE + u64::from(input.short())).to_be_bytes());
                    body.extend(u64::from(key).to_be_bytes());
                }
                2 => body.extend(input.bytes(16)),
                _ => {
                    for _ in 0..4 {
                        body.extend(input.value().to_be_bytes());
                    }
                }
            }
        }
        let mut wqe = host.put_send(pair, opcode, key, &body);
        let how = input.byte();
        if how & 1 != 0 {
            let at = usize::from(input.byte()) % wqe.len();
            wqe[at] = input.byte();
        }
        let length = match how >> 1 & 3 {
            0 | 1 => 8,
            2 => wqe.len(),
            _ => usize::from(input.byte()) % wqe.len(),
        };
        let buffer = host.page() + 0x800 + (u64::from(how >> 4) << 8 & 0x700);
        if how & 8 == 0 {
            fabric.mmio_write(function, buffer, &wqe[..length]);
        } else {
            for (chunk, at) in wqe[..length].chunks(8).zip((buffer..).step_by(8)) {
                fabric.mmio_write(function, at, chunk);
            }
        }
    }

    fn receive(&mut self, function: usize, input: &mut Input<'_>) {
        let choice = input.byte();
        let key = self.keys[function] ^ u32::from(choice & 0x40);
        let segment = (
            u32::from(input.short()),
            key,
            FREE + u64::from(input.short()),
        );
        let (host, pair, _) = self.pair(function, choice);
        for _ in 0..=input.byte() & 0x1f {
            host.post_recv(pair, &[segment]);
        }
    }

    /// Writes somewhere in memory: queues, records, key lists, slots.
    fn overwrite(&mut self, function: usize, input: &mut Input<'_>) {
        let place = input.word() as usize % (RAM - 256);
        let length = usize::from(input.byte());
        let data = input.bytes(length);
        self.hosts[function].ram.write(place as u64, &data).unwrap();
    }

    /// A doorbell for any queue, with its record anywhere.
    fn ring(&mut self, function: usize, input: &mut Input<'_>) {
        let choice = input.byte();
        let (host, pair, fabric) = self.pair(function, choice);
        let (qpn, record, page) = (pair.qpn, pair.record, host.page());
        if choice & 0x10 != 0 {
            pair.posted = input.short();
            let value = u32::from(pair.posted).to_be_bytes();
            host.ram.write(record + 4, &value).unwrap();
        }
        let number = if choice & 0x20 == 0 {
            qpn
        } else {
            u32::from(input.short())
        };
        let mut bell = input.bytes(8);
        word(4).set(&mut bell, number << 8 | u32::from(input.byte()));
        fabric.mmio_write(function, page + 0x800, &bell);
    }

    fn fault(&mut self, function: usize, input: &mut Input<'_>) {
        let count = u32::from(input.byte() & 0xf);
        let fabric = &mut self.fabric;
        match input.byte() % 11 {
            0 => fabric.drop_messages(function, count),
            1 => fabric.duplicate_messages(function, count),
            2 => fabric.lose_acknowledges(function, count),
            3 => {
                let kind = Spoil::ALL[usize::from(input.byte()) % Spoil::ALL.len()].1;
                fabric.spoil_completions(function, count, kind);
            }
            4 => {
                let opcode = input.short();
                fabric.fail_commands(function, opcode, count, count, input.byte());
            }
            5 => {
                let opcode = opcodes()[usize::from(input.byte()) % opcodes().len()];
                fabric.slow_commands(function, opcode, u64::from(input.short()));
            }
            6 => fabric.set_link(function, count & 1 != 0),
            7 => fabric.set_health(function, input.byte()),
            10 => {
                let names: Vec<_> = Fabric::event_names().collect();
                let name = names[usize::from(input.byte()) % names.len()];
                fabric.request_event(function, name, u32::from(input.byte()));
            }
            8 if count == 0 => fabric.remove(function),
            9 if count == 0 => fabric.reset(function),
            _ => {}
        }
    }
}

/// Runs `bytes` as a program.
///
/// # Panics
/// If the model does something that no guest may cause.
pub fn run(bytes: &[u8]) {
    let mut input = Input(bytes);
    let mut machine = Machine::new(input.byte());
    for _ in 0..STEPS {
        if input.0.is_empty() {
            break;
        }
        machine.step(&mut input);
    }
    machine.fabric.advance(1 << 44);
    // After a reset everything is gone, and a driver sets the function up again.
    for function in 0..2 {
        machine.fabric.reset(function);
        let left = machine.fabric.census(function);
        assert!(left.iter().all(|(_, count)| *count == 0), "{left:?}");
    }
    machine.fabric.advance(1 << 45);
    assert_eq!(
        machine.fabric.next_deadline(),
        None,
        "nothing is left to do"
    );
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use proptest::prelude::*;

    use super::run;

    fn seeds() -> Vec<Vec<u8>> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz/seeds/connectx");
        std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| std::fs::read(entry.unwrap().path()).unwrap())
            .collect()
    }

    #[test]
    fn every_seed() {
        let seeds = seeds();
        assert!(!seeds.is_empty());
        for seed in seeds {
            run(&seed);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_program(bytes in prop::collection::vec(any::<u8>(), 0..2048)) {
            run(&bytes);
        }

        #[test]
        fn changed_seeds(
            seed in prop::sample::select(seeds()),
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
        ) {
            let mut bytes = seed;
            for (at, byte) in changes {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            run(&bytes);
        }
    }
}
