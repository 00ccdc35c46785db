//! The miniature driver: memory, commands, queues.

use std::sync::Arc;

use crate::layout::command::{self, CTX, PAS, RING_CTX, op};
use crate::layout::queue::{cq, eq, mkey, ring, wq};
use crate::layout::{Field, Wide, be16, be32, part, put, qp, word};
use crate::memory::GuestMemory;
use crate::objects::Service;
use crate::{Counted, Fabric, FunctionConfig, FunctionKind, Options, Ram, Trace};

pub(super) const RAM: usize = 8 << 20;
const COMMANDS: u64 = 0x1000;
const MAILBOXES: u64 = 0x10_0000;
/// Memory that tests may use as they like.
pub(super) const FREE: u64 = 0x40_0000;

/// A function with its memory and an allocator of pages.
pub(super) struct Host {
    pub(super) function: usize,
    pub(super) ram: Arc<Ram>,
    pub(super) interrupts: Arc<Counted>,
    next_page: u64,
    pub(super) pd: u32,
    pub(super) uar: u32,
    pub(super) eqn: u32,
}

/// A queue pair from its user's point of view.
#[derive(Clone, Debug)]
pub(super) struct Pair {
    pub(super) qpn: u32,
    pub(super) buffer: u64,
    pub(super) record: u64,
    pub(super) posted: u16,
    pub(super) received: u16,
    pub(super) cq: Completions,
}

/// A completion queue from its user's point of view.
#[derive(Clone, Debug)]
pub(super) struct Completions {
    pub(super) cqn: u32,
    buffer: u64,
    pub(super) record: u64,
    taken: u32,
    log_size: u32,
}

impl Completions {
    /// The address of a slot of the ring.
    pub(super) fn slot(&self, at: u64) -> u64 {
        self.buffer + at * 64
    }
}

/// An event queue from its user's point of view.
#[derive(Debug)]
pub(super) struct Events {
    buffer: u64,
    taken: u64,
}

/// A fabric of `count` InfiniBand functions, each brought up by the commands of a driver.
pub(super) fn fabric(count: u16, options: Options) -> (Fabric, Vec<Host>) {
    fabric_of(FunctionKind::InfiniBand, count, options)
}

/// As [`fabric`], for functions of any kind.
pub(super) fn fabric_of(kind: FunctionKind, count: u16, options: Options) -> (Fabric, Vec<Host>) {
    let configs = (0..count).map(|index| FunctionConfig::numbered(kind, index));
    fabric_from(configs, options)
}

/// As [`fabric`], for functions with profiles of their own.
pub(super) fn fabric_from(
    configs: impl Iterator<Item = FunctionConfig>,
    options: Options,
) -> (Fabric, Vec<Host>) {
    let mut fabric = Fabric::new(options, Arc::new(Trace::silent(false)));
    let hosts = configs
        .map(|config| {
            let ram = Arc::new(Ram::new(RAM));
            let interrupts = Arc::new(Counted::default());
            let function = fabric.add_function(config, ram.clone(), interrupts.clone());
            let mut host = Host {
                function,
                ram,
                interrupts,
                next_page: FREE / 2,
                pd: 0,
                uar: 0,
                eqn: 0,
            };
            host.bring_up(&mut fabric);
            host
        })
        .collect();
    (fabric, hosts)
}

impl Host {
    fn bring_up(&mut self, fabric: &mut Fabric) {
        fabric.config_write(self.function, 4, &[6, 0]);
        fabric.mmio_write(self.function, 0x10, &0u32.to_be_bytes());
        fabric.mmio_write(self.function, 0x14, &(COMMANDS as u32).to_be_bytes());
        self.ok(fabric, &self.input(op::ENABLE_HCA), 16);
        self.ok(fabric, &self.input(op::INIT_HCA), 16);
        self.uar = self.number(fabric, op::ALLOC_UAR);
        self.pd = self.number(fabric, op::ALLOC_PD);
        self.eqn = self.create_eq(fabric, 0, 0);
    }

    #[expect(clippy::unused_self, reason = "a command is one host's")]
    pub(super) fn input(&self, opcode: u16) -> Vec<u8> {
        let mut input = vec![0; 16];
        command::OPCODE.set(&mut input, u32::from(opcode));
        input
    }

    /// Writes a command to slot 0 and rings the doorbell; returns where the output mailboxes are.
    pub(super) fn ring(&self, fabric: &mut Fabric, input: &[u8], length: usize) -> u64 {
        let mut entry = vec![0; 64];
        entry[0] = 7;
        word(0x04).set(&mut entry, input.len() as u32);
        put(&mut entry, 0x10, &input[..input.len().min(16)]);
        let blocks = |length: usize| length.saturating_sub(16).div_ceil(512) as u64;
        let output = MAILBOXES + blocks(input.len()) * 1024;
        Wide(0x08).set(&mut entry, if input.len() > 16 { MAILBOXES } else { 0 });
        Wide(0x30).set(&mut entry, if length > 16 { output } else { 0 });
        word(0x38).set(&mut entry, length as u32);
        entry[0x3c] = 0x5a;
        entry[0x3f] = 1;
        self.chain(
            MAILBOXES,
            blocks(input.len()),
            input.get(16..).unwrap_or(&[]),
        );
        self.chain(output, blocks(length), &[]);
        self.ram.write(COMMANDS, &entry).unwrap();
        fabric.mmio_write(self.function, 0x18, &1u32.to_be_bytes());
        output
    }

    /// Runs a command through slot 0 and returns its reply.
    pub(super) fn run(&self, fabric: &mut Fabric, input: &[u8], length: usize) -> Vec<u8> {
        let output = self.ring(fabric, input, length);
        let blocks = length.saturating_sub(16).div_ceil(512) as u64;
        let done = self.bytes(COMMANDS, 64);
        assert_eq!(done[0x3f], 0, "delivery status");
        let mut reply = done[0x20..0x20 + length.min(16)].to_vec();
        for block in 0..blocks {
            let take = (length - reply.len()).min(512);
            reply.extend(self.bytes(output + block * 1024, take));
        }
        reply
    }

    fn chain(&self, at: u64, blocks: u64, data: &[u8]) {
        for number in 0..blocks {
            let mut block = vec![0; 576];
            put(
                &mut block,
                0,
                data.get(number as usize * 512..)
                    .map_or(&[], |d| &d[..d.len().min(512)]),
            );
            let next = if number + 1 < blocks {
                at + (number + 1) * 1024
            } else {
                0
            };
            Wide(0x230).set(&mut block, next);
            word(0x238).set(&mut block, number as u32);
            block[0x23d] = 0x5a;
            self.ram.write(at + number * 1024, &block).unwrap();
        }
    }

    /// Runs a command that must succeed.
    pub(super) fn ok(&self, fabric: &mut Fabric, input: &[u8], length: usize) -> Vec<u8> {
        let reply = self.run(fabric, input, length);
        assert_eq!(
            reply[0],
            0,
            "{} syndrome {:#x}",
            op::name(be16(input, 0)),
            be32(&reply, 4)
        );
        reply
    }

    /// Runs a command that must be refused, and returns its status and syndrome.
    pub(super) fn refused(&self, fabric: &mut Fabric, input: &[u8]) -> (u8, u32) {
        let reply = self.run(fabric, input, 16);
        assert_ne!(reply[0], 0, "{} was not refused", op::name(be16(input, 0)));
        (reply[0], be32(&reply, 4))
    }

    pub(super) fn number(&self, fabric: &mut Fabric, opcode: u16) -> u32 {
        command::NUMBER.get(&self.ok(fabric, &self.input(opcode), 16))
    }

    pub(super) fn pages(&mut self, count: u64) -> u64 {
        let at = self.next_page;
        self.next_page += count * 4096;
        assert!(self.next_page <= FREE, "out of pages");
        at
    }

    pub(super) fn bytes(&self, at: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.ram.read(at, &mut bytes).unwrap();
        bytes
    }

    /// Creates an event queue for these types of event, in order of arrival.
    pub(super) fn create_events(&mut self, fabric: &mut Fabric, mask: u64) -> Events {
        let buffer = self.next_page;
        for slot in 0..64 {
            self.ram.write(buffer + slot * 64 + 63, &[1]).unwrap();
        }
        self.create_eq(fabric, 1, mask);
        Events { buffer, taken: 0 }
    }

    /// Takes the next event, if there is one: type, subtype and data.
    pub(super) fn next_event(&self, events: &mut Events) -> Option<(u8, u8, Vec<u8>)> {
        let entry = self.bytes(events.buffer + events.taken % 64 * 64, 64);
        if u64::from(entry[63] & 1) != events.taken / 64 % 2 {
            return None;
        }
        events.taken += 1;
        Some((entry[1], entry[3], part(&entry, 0x20, 0x1c)))
    }

    pub(super) fn create_eq(&mut self, fabric: &mut Fabric, vector: u32, mask: u64) -> u32 {
        let buffer = self.pages(1);
        let mut input = self.input(op::CREATE_EQ);
        input.resize(PAS + 8, 0);
        eq::LOG_SIZE.at(CTX).set(&mut input, 6);
        eq::UAR.at(CTX).set(&mut input, self.uar);
        eq::VECTOR.at(CTX).set(&mut input, vector);
        Wide(0x58).set(&mut input, mask);
        Wide(PAS).set(&mut input, buffer);
        command::NUMBER.get(&self.ok(fabric, &input, 16)) & 0xff
    }

    /// The command that creates a completion queue of 64-byte entries.
    pub(super) fn cq_input(&self, log_size: u32, buffer: u64, record: u64) -> Vec<u8> {
        let mut input = self.input(op::CREATE_CQ);
        input.resize(PAS, 0);
        cq::LOG_SIZE.at(CTX).set(&mut input, log_size);
        cq::UAR.at(CTX).set(&mut input, self.uar);
        cq::EQN.at(CTX).set(&mut input, self.eqn);
        cq::DBR_ADDR.at(CTX).set(&mut input, record);
        for page in 0..(64u64 << log_size).div_ceil(4096) {
            input.extend((buffer + page * 4096).to_be_bytes());
        }
        input
    }

    pub(super) fn create_cq(&mut self, fabric: &mut Fabric, log_size: u32) -> Completions {
        let buffer = self.pages((64u64 << log_size).div_ceil(4096));
        let record = self.pages(1);
        let input = self.cq_input(log_size, buffer, record);
        let cqn = command::NUMBER.get(&self.ok(fabric, &input, 16));
        for slot in 0..1u64 << log_size {
            self.ram.write(buffer + slot * 64 + 63, &[0xf0]).unwrap();
        }
        Completions {
            cqn,
            buffer,
            record,
            taken: 0,
            log_size,
        }
    }

    /// Registers all of memory: the key value serves as both lkey and rkey.
    pub(super) fn create_mkey(
        &self,
        fabric: &mut Fabric,
        start: u64,
        length: u64,
        rights: &[Field],
    ) -> u32 {
        let mut input = self.input(op::CREATE_MKEY);
        input.resize(PAS, 0);
        for right in rights {
            right.at(CTX).set(&mut input, 1);
        }
        mkey::MODE_LOW.at(CTX).set(&mut input, 1);
        mkey::QPN.at(CTX).set(&mut input, 0xff_ffff);
        mkey::KEY.at(CTX).set(&mut input, 0x42);
        mkey::PD.at(CTX).set(&mut input, self.pd);
        mkey::START.at(CTX).set(&mut input, start);
        mkey::LENGTH.at(CTX).set(&mut input, length);
        mkey::LOG_PAGE.at(CTX).set(&mut input, 12);
        let first = start & !0xfff;
        let count = (start + length - first).div_ceil(4096);
        command::mkey::ACTUAL_OCTOWORDS.set(&mut input, count.div_ceil(2) as u32);
        for page in 0..count.next_multiple_of(2) {
            input.extend((first + page * 4096 | 3).to_be_bytes());
        }
        command::NUMBER.get(&self.ok(fabric, &input, 16)) << 8 | 0x42
    }

    pub(super) fn all_rights(&self, fabric: &mut Fabric) -> u32 {
        let rights = [
            mkey::LOCAL_READ,
            mkey::LOCAL_WRITE,
            mkey::REMOTE_READ,
            mkey::REMOTE_WRITE,
            mkey::ATOMIC,
        ];
        self.create_mkey(fabric, FREE, RAM as u64 - FREE, &rights)
    }

    /// A queue pair with 16 receives of 4 segments and 64 send blocks.
    pub(super) fn create_qp(&mut self, fabric: &mut Fabric, service: u32) -> Pair {
        self.create_qp_with(fabric, service, &[])
    }

    /// As [`Host::create_qp`], with further fields of the context.
    pub(super) fn create_qp_with(
        &mut self,
        fabric: &mut Fabric,
        service: u32,
        set: &[(Field, u32)],
    ) -> Pair {
        let cq = self.create_cq(fabric, 8);
        let buffer = self.pages(2);
        let record = self.pages(1);
        let mut input = self.input(op::CREATE_QP);
        input.resize(PAS, 0);
        let at = command::qp::QPC;
        qp::SERVICE.at(at).set(&mut input, service);
        qp::PD.at(at).set(&mut input, self.pd);
        qp::UAR.at(at).set(&mut input, self.uar);
        qp::LOG_RQ_SIZE.at(at).set(&mut input, 4);
        qp::LOG_RQ_STRIDE.at(at).set(&mut input, 2);
        qp::LOG_SQ_SIZE.at(at).set(&mut input, 6);
        qp::CQN_SEND.at(at).set(&mut input, cq.cqn);
        qp::CQN_RECV.at(at).set(&mut input, cq.cqn);
        qp::USER_INDEX.at(at).set(&mut input, 0x77);
        qp::DBR_ADDR.at(at).set(&mut input, record);
        for (field, value) in set {
            field.at(at).set(&mut input, *value);
        }
        input.extend(buffer.to_be_bytes());
        input.extend((buffer + 4096).to_be_bytes());
        let qpn = command::NUMBER.get(&self.ok(fabric, &input, 16));
        Pair {
            qpn,
            buffer,
            record,
            posted: 0,
            received: 0,
            cq,
        }
    }

    pub(super) fn modify(&self, fabric: &mut Fabric, opcode: u16, qpn: u32, set: &[(Field, u32)]) {
        let reply = self.try_modify(fabric, opcode, qpn, set);
        assert_eq!(
            reply[0],
            0,
            "{} syndrome {:#x}",
            op::name(opcode),
            be32(&reply, 4)
        );
    }

    pub(super) fn try_modify(
        &self,
        fabric: &mut Fabric,
        opcode: u16,
        qpn: u32,
        set: &[(Field, u32)],
    ) -> Vec<u8> {
        let mut input = self.input(opcode);
        input.resize(PAS, 0);
        command::NUMBER.set(&mut input, qpn);
        for (field, value) in set {
            field.at(command::qp::QPC).set(&mut input, *value);
        }
        self.run(fabric, &input, 16)
    }

    /// Brings a queue pair to RTS, connected to `remote` at `lid`.
    pub(super) fn connect(&self, fabric: &mut Fabric, pair: &Pair, lid: u32, remote: u32) {
        let access = [
            (qp::READ_ENABLE, 1),
            (qp::WRITE_ENABLE, 1),
            (qp::ATOMIC_ENABLE, 1),
            (qp::QKEY, 0x1234),
        ];
        self.modify(fabric, op::RST2INIT_QP, pair.qpn, &access);
        let lid = (qp::path::LID.at(qp::PRIMARY), lid);
        self.modify(
            fabric,
            op::INIT2RTR_QP,
            pair.qpn,
            &[(qp::REMOTE_QPN, remote), lid, (qp::MIN_RNR_NAK, 1)],
        );
        let retry = [
            (qp::RETRY_COUNT, 2),
            (qp::RNR_RETRY, 2),
            (qp::path::ACK_TIMEOUT.at(qp::PRIMARY), 1),
        ];
        self.modify(fabric, op::RTR2RTS_QP, pair.qpn, &retry);
    }

    pub(super) fn post_recv(&self, pair: &mut Pair, segments: &[(u32, u32, u64)]) {
        let at = pair.buffer + u64::from(pair.received & 15) * 64;
        let mut entry = segment_bytes(segments);
        if segments.len() < 4 {
            entry.extend(segment_bytes(&[(0, 0x100, 0)]));
        }
        self.ram.write(at, &entry).unwrap();
        pair.received = pair.received.wrapping_add(1);
        self.ram
            .write(pair.record, &u32::from(pair.received).to_be_bytes())
            .unwrap();
    }

    /// Posts `body` behind a control segment that requests a completion, and rings the doorbell.
    pub(super) fn post_send(
        &self,
        fabric: &mut Fabric,
        pair: &mut Pair,
        opcode: u8,
        immediate: u32,
        body: &[u8],
    ) {
        let wqe = self.put_send(pair, opcode, immediate, body);
        fabric.mmio_write(self.function, self.page() + 0x800, &wqe[..8]);
    }

    /// Writes a work request to the ring and its index to the record, without ringing the doorbell.
    pub(super) fn put_send(
        &self,
        pair: &mut Pair,
        opcode: u8,
        immediate: u32,
        body: &[u8],
    ) -> Vec<u8> {
        let wqe = send_bytes(pair, opcode, immediate, body);
        let index = pair.posted;
        for (i, block) in wqe.chunks(64).enumerate() {
            let slot = u64::from(index.wrapping_add(i as u16) & 63);
            self.ram
                .write(pair.buffer + 1024 + slot * 64, block)
                .unwrap();
        }
        pair.posted = index.wrapping_add((wqe.len() / 64) as u16);
        self.ram
            .write(pair.record + 4, &u32::from(pair.posted).to_be_bytes())
            .unwrap();
        wqe
    }

    /// The address of the doorbell page.
    pub(super) fn page(&self) -> u64 {
        u64::from(self.uar) << 12
    }

    /// Takes the next completion, if there is one.
    pub(super) fn poll(&self, queue: &mut Completions) -> Option<Cqe> {
        let mask = (1u32 << queue.log_size) - 1;
        let entry = self.bytes(queue.buffer + u64::from(queue.taken & mask) * 64, 64);
        let owner = (queue.taken >> queue.log_size & 1) as u8;
        if entry[63] >> 4 == 0xf || entry[63] & 1 != owner {
            return None;
        }
        queue.taken = queue.taken.wrapping_add(1);
        self.ram
            .write(queue.record, &queue.taken.to_be_bytes())
            .unwrap();
        Some(Cqe {
            opcode: entry[63] >> 4,
            syndrome: entry[55],
            bytes: be32(&entry, 0x2c),
            entry,
        })
    }
}

/// A completion as read from memory.
#[derive(Clone, Debug)]
pub(super) struct Cqe {
    pub(super) opcode: u8,
    pub(super) syndrome: u8,
    pub(super) bytes: u32,
    pub(super) entry: Vec<u8>,
}

/// The next work request of a queue pair, in whole blocks.
pub(super) fn send_bytes(pair: &Pair, opcode: u8, immediate: u32, body: &[u8]) -> Vec<u8> {
    let units = 1 + body.len().div_ceil(16) as u32;
    let mut wqe = vec![0; 16];
    word(0).set(&mut wqe, u32::from(pair.posted) << 8 | u32::from(opcode));
    word(4).set(&mut wqe, pair.qpn << 8 | units);
    word(8).set(&mut wqe, 0x08);
    word(12).set(&mut wqe, immediate);
    wqe.extend_from_slice(body);
    wqe.resize(wqe.len().next_multiple_of(64), 0);
    wqe
}

/// Data segments of (length, key, address).
pub(super) fn segment_bytes(segments: &[(u32, u32, u64)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (length, key, address) in segments {
        bytes.extend(length.to_be_bytes());
        bytes.extend(key.to_be_bytes());
        bytes.extend(address.to_be_bytes());
    }
    bytes
}

/// A remote address segment.
pub(super) fn remote_bytes(address: u64, key: u32) -> Vec<u8> {
    let mut bytes = address.to_be_bytes().to_vec();
    bytes.extend(key.to_be_bytes());
    bytes.extend([0; 4]);
    bytes
}

/// Two connected queue pairs of a service type, on the first and the last host.
pub(super) fn connected(fabric: &mut Fabric, hosts: &mut [Host], service: Service) -> (Pair, Pair) {
    let code = match service {
        Service::Uc => 1,
        Service::Ud => 2,
        _ => 0,
    };
    let last = hosts.len() - 1;
    let a = hosts[0].create_qp(fabric, code);
    let b = hosts[last].create_qp(fabric, code);
    hosts[0].connect(fabric, &a, last as u32 + 1, b.qpn);
    hosts[last].connect(fabric, &b, 1, a.qpn);
    (a, b)
}

/// The context of an RMP, SQ or RQ command with its work queue.
pub(super) fn ring_input(
    host: &Host,
    opcode: u16,
    record: u64,
    buffer: u64,
    log_size: u32,
    log_stride: u32,
) -> Vec<u8> {
    let mut input = host.input(opcode);
    input.resize(PAS, 0);
    let at = RING_CTX + ring::WQ;
    wq::PD.at(at).set(&mut input, host.pd);
    wq::UAR.at(at).set(&mut input, host.uar);
    wq::DBR_ADDR.at(at).set(&mut input, record);
    wq::LOG_STRIDE.at(at).set(&mut input, log_stride);
    wq::LOG_SIZE.at(at).set(&mut input, log_size);
    input.extend(buffer.to_be_bytes());
    part(&input, 0, input.len())
}
