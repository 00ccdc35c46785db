//! One ConnectX function: its identity, registers and object tables.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::buffer::Umem;
use crate::device_memory::{Allocations, DeviceMemory};
use crate::encryption::DataKey;
use crate::engine::Rung;
use crate::engine::paging::PageFault;
use crate::faults::Faults;
use crate::init_segment::InitSegment;
use crate::layout::queue::mkey;
use crate::memory::{GuestMemory, Interrupts};
use crate::memory_operation::Operations;
use crate::objects::{
    CompletionQueue, DcTarget, EventQueue, MemoryKey, Multicast, Psv, QpState, QueuePair, RawRing,
    SharedQueue,
};
use crate::pci::ConfigSpace;
use crate::profile::FunctionConfig;
use crate::qos::{PacingTable, Scheduler};
use crate::steering_memory::{self, Part};
use crate::table::Table;
use crate::trace::Trace;

/// First UAR page that may be allocated: lower pages hold the initialization segment and the MSI-X
/// table.
const FIRST_UAR: u32 = 4;

/// The first bytes of a GID that represents an IPv4 address.
pub(crate) const MAPPED: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];

/// One function.
#[derive(Debug)]
pub(crate) struct Device {
    pub(crate) index: usize,
    pub(crate) config: FunctionConfig,
    /// The guest's memory, and the function's own behind it.
    pub(crate) memory: Arc<dyn GuestMemory>,
    guest: Arc<dyn GuestMemory>,
    pub(crate) memory_taken: Allocations,
    /// Operations that the CPU performs on it.
    pub(crate) operations: Operations,
    /// Allocated memory for steering.
    pub(crate) steering_memory: Table<Part>,
    pub(crate) interrupts: Arc<dyn Interrupts>,
    pub(crate) trace: Arc<Trace>,
    pub(crate) pci: ConfigSpace,
    pub(crate) init: InitSegment,
    /// Capability pages as the driver last set them.
    pub(crate) set_caps: BTreeMap<u16, Vec<u8>>,
    pub(crate) hca_enabled: bool,
    pub(crate) link_up: bool,
    /// The LID of the subnet's manager; 0: none has set it.
    pub(crate) sm_lid: u16,
    pub(crate) cap_mask1: u32,
    pub(crate) roce_addresses: BTreeMap<u32, Vec<u8>>,
    pub(crate) nic_vport: Vec<u8>,
    pub(crate) pds: Table<()>,
    pub(crate) domains: Table<()>,
    pub(crate) xrcds: Table<()>,
    pub(crate) uars: Table<()>,
    pub(crate) contexts: Table<u32>,
    pub(crate) umems: Table<Umem>,
    pub(crate) mkeys: Table<MemoryKey>,
    pub(crate) eqs: Table<EventQueue>,
    pub(crate) cqs: Table<CompletionQueue>,
    /// Numbers of everything that a doorbell or a packet can name: QPs, DCTs, SQs and RQs.
    pub(crate) numbers: Table<()>,
    pub(crate) qps: Table<QueuePair>,
    pub(crate) dcts: Table<DcTarget>,
    pub(crate) sqs: Table<RawRing>,
    pub(crate) rqs: Table<RawRing>,
    pub(crate) shared: Table<SharedQueue>,
    pub(crate) tises: Table<Vec<u8>>,
    pub(crate) tirs: Table<Vec<u8>>,
    pub(crate) tables: Table<Vec<u8>>,
    pub(crate) psvs: Table<Psv>,
    pub(crate) data_keys: Table<DataKey>,
    pub(crate) counter_sets: Table<()>,
    pub(crate) flows: Table<crate::flow::Table>,
    pub(crate) roots: BTreeMap<u8, u32>,
    pub(crate) counters: Table<crate::flow::Counter>,
    pub(crate) multicast: Multicast,
    pub(crate) pacing: PacingTable,
    pub(crate) scheduler: Scheduler,
    /// Queue pairs and SQs that may have work, for the fabric to process.
    pub(crate) kicked: Vec<u32>,
    /// Completion queues with completions waiting to be written.
    pub(crate) waiting_cqs: BTreeSet<u32>,
    /// Page faults in progress, by token, and the next token.
    pub(crate) page_faults: BTreeMap<u32, PageFault>,
    pub(crate) next_page_fault: u32,
    pub(crate) page_faults_requested: u64,
    /// The last doorbell of each send queue, kept if work requests may be copied through doorbell
    /// pages.
    pub(crate) rung: BTreeMap<u32, Rung>,
    /// Bytes that each send queue has carried since it was created or the function was reset.
    pub(crate) served: BTreeMap<u32, u64>,
    /// What hardware would ignore or punish, counted by kind.
    pub(crate) reports: BTreeMap<&'static str, u64>,
    /// Faults requested by an operator.
    pub(crate) faults: Faults,
    /// Slow commands in progress: their completion time and slot.
    pub(crate) deferred: Vec<(u64, u32)>,
    /// Whether the function has been unplugged: every read returns all ones, and writes are lost.
    pub(crate) removed: bool,
    pub(crate) now: u64,
}

impl Device {
    /// A function in its power-on state.
    pub(crate) fn new(
        index: usize,
        config: FunctionConfig,
        memory: Arc<dyn GuestMemory>,
        interrupts: Arc<dyn Interrupts>,
        trace: Arc<Trace>,
    ) -> Self {
        let pci = ConfigSpace::new(&config);
        let steering = if config.extended_memory {
            steering_memory::LENGTH
        } else {
            0
        };
        Self {
            index,
            memory: Arc::new(DeviceMemory::new(Arc::clone(&memory), steering)),
            guest: memory,
            memory_taken: Allocations::default(),
            operations: Operations::default(),
            steering_memory: Table::new(1, 1 << 10),
            interrupts,
            trace,
            pci,
            init: InitSegment::default(),
            set_caps: BTreeMap::new(),
            hca_enabled: false,
            link_up: true,
            sm_lid: 0,
            cap_mask1: 0,
            roce_addresses: BTreeMap::new(),
            nic_vport: config.nic_vport(),
            pds: Table::new(1, 1 << 12),
            domains: Table::new(1, 1 << 8),
            xrcds: Table::new(1, 1 << 10),
            uars: Table::new(FIRST_UAR, 1 << 12),
            contexts: Table::new(1, 1 << 10),
            umems: Table::new(1, 1 << 16),
            mkeys: Table::new(2, 1 << 20),
            eqs: Table::new(0, 64),
            cqs: Table::new(1, 1 << 16),
            numbers: Table::new(0x80, 1 << 17),
            qps: Table::new(0, 0),
            dcts: Table::new(0, 0),
            sqs: Table::new(0, 0),
            rqs: Table::new(0, 0),
            shared: Table::new(1, 1 << 16),
            tises: Table::new(1, 1 << 12),
            tirs: Table::new(1, 1 << 12),
            tables: Table::new(1, 1 << 8),
            psvs: Table::new(1, 1 << 10),
            data_keys: Table::new(1, 1 << 10),
            counter_sets: Table::new(1, 256),
            flows: Table::new(1, 1 << 12),
            roots: BTreeMap::new(),
            counters: Table::new(1, 1 << 14),
            multicast: Multicast::new(),
            pacing: PacingTable::default(),
            scheduler: Scheduler::default(),
            kicked: Vec::new(),
            waiting_cqs: BTreeSet::new(),
            page_faults: BTreeMap::new(),
            next_page_fault: 1,
            page_faults_requested: 0,
            rung: BTreeMap::new(),
            served: BTreeMap::new(),
            reports: BTreeMap::new(),
            faults: Faults::default(),
            deferred: Vec::new(),
            removed: false,
            now: 0,
            config,
        }
    }

    /// Function-level reset: everything the driver created is gone; the identity and the PCI
    /// registers stay.
    pub(crate) fn reset(&mut self) {
        let mut fresh = Self::new(
            self.index,
            self.config.clone(),
            Arc::clone(&self.guest),
            Arc::clone(&self.interrupts),
            Arc::clone(&self.trace),
        );
        fresh.now = self.now;
        fresh.link_up = self.link_up;
        fresh.sm_lid = self.sm_lid;
        fresh.reports = std::mem::take(&mut self.reports);
        fresh.pci = std::mem::replace(&mut self.pci, ConfigSpace::new(&self.config));
        *self = fresh;
    }

    /// Reuses the numbers of destroyed objects at once.
    #[cfg(any(test, feature = "harness"))]
    pub(crate) fn reuse_numbers_early(&mut self) {
        self.pds.reuse_early();
        self.mkeys.reuse_early();
        self.cqs.reuse_early();
        self.numbers.reuse_early();
        self.shared.reuse_early();
    }

    /// Records something that a correct driver or program would not do.
    pub(crate) fn report(&mut self, kind: &'static str, detail: &str) {
        *self.reports.entry(kind).or_insert(0) += 1;
        self.trace.report(self.index, kind, detail);
    }

    /// Whether the port has this GID. The driver gives IPv4 addresses without the prefix of the
    /// mapped form.
    pub(crate) fn has_roce_address(&self, gid: &[u8; 16]) -> bool {
        self.roce_addresses.values().any(|entry| {
            entry.get(..16).is_some_and(|address| {
                address == gid
                    || gid[..12] == MAPPED && address[..12] == [0; 12] && address[12..] == gid[12..]
            })
        })
    }

    /// The GID a message is sent from: the port's own on InfiniBand, an entry of the address table
    /// on Ethernet.
    pub(crate) fn source_gid(&self, index: u32) -> [u8; 16] {
        if !self.config.kind.is_ethernet() {
            return self.config.gid();
        }
        let entry = self
            .roce_addresses
            .get(&index)
            .and_then(|entry| entry.first_chunk::<16>())
            .copied();
        let mut gid = entry.unwrap_or_default();
        if gid[..12] == [0; 12] {
            gid[..12].copy_from_slice(&MAPPED);
        }
        gid
    }

    /// Whether an entry of the address table is a RoCE v2 address. InfiniBand has none.
    pub(crate) fn sends_by_udp(&self, index: u32) -> bool {
        /// `roce_version` of `roce_addr_layout`.
        const VERSION: usize = 27;
        const ROCE_V2: u8 = 2;
        let entry = self.roce_addresses.get(&index);
        entry.and_then(|entry| entry.get(VERSION)) == Some(&ROCE_V2)
    }

    /// Whether commands and queues may reach guest memory.
    pub(crate) fn bus_master(&self) -> bool {
        self.pci.bus_master()
    }

    /// Reads a big-endian word of guest memory.
    pub(crate) fn read_be32(&self, address: u64) -> Option<u32> {
        let mut data = [0; 4];
        self.memory.read(address, &mut data).ok()?;
        Some(u32::from_be_bytes(data))
    }

    /// Stops a queue pair: moves it to the error state and requests that its work be flushed.
    pub(crate) fn fail_qp(&mut self, qpn: u32) {
        if let Some(qp) = self.qps.get_mut(qpn)
            && qp.state != QpState::Reset
        {
            qp.enter(QpState::Error);
            qp.blocked_until = 0;
            self.forget_page_faults(qpn);
            self.kicked.push(qpn);
        }
    }

    /// Number of memory keys in the free state.
    pub(crate) fn free_keys(&self) -> usize {
        let keys = self.mkeys.iter();
        keys.filter(|(_, key)| mkey::FREE.is_set(&key.context))
            .count()
    }

    /// Number of objects of each kind, for the leak check after a driver has been unbound.
    pub(crate) fn census(&self) -> Vec<(&'static str, usize)> {
        vec![
            ("pd", self.pds.len()),
            ("transport domain", self.domains.len()),
            ("xrcd", self.xrcds.len()),
            ("uar", self.uars.len()),
            ("uctx", self.contexts.len()),
            ("umem", self.umems.len()),
            ("mkey", self.mkeys.len()),
            ("psv", self.psvs.len()),
            ("key of data", self.data_keys.len()),
            ("device memory", self.memory_taken.len()),
            ("operation on device memory", self.operations.len()),
            ("memory for steering", self.steering_memory.len()),
            ("eq", self.eqs.len()),
            ("cq", self.cqs.len()),
            ("qp", self.qps.len()),
            ("dct", self.dcts.len()),
            ("sq", self.sqs.len()),
            ("rq", self.rqs.len()),
            ("srq", self.shared.len()),
            ("tis", self.tises.len()),
            ("tir", self.tirs.len()),
            ("rqt", self.tables.len()),
            ("scheduling element", self.scheduler.len()),
            ("rate", self.pacing.len()),
            ("flow table", self.flows.len()),
            ("flow counter", self.counters.len()),
            ("queue counter", self.counter_sets.len()),
        ]
    }
}
