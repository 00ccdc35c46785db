//! The fabric: several functions, their pending work and the passing of time.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::device::Device;
use crate::device_memory::bus_address;
use crate::engine::send::Step;
use crate::engine::shaper::Shaper;
use crate::engine::uar::Pages;
use crate::init_segment;
use crate::layout::be32;
use crate::memory::{GuestMemory, Interrupts};
use crate::memory_operation::is_window;
use crate::objects::QpState;
use crate::profile::FunctionConfig;
use crate::subnet::{SM_LID, Subnet};
use crate::trace::Trace;

/// Number of work requests that one access may process before it returns; the rest is left to
/// [`Fabric::advance`].
const BUDGET: usize = 2048;
const UAR_SHIFT: u64 = 12;
const FIRST_UAR: u64 = 4;

/// Number of a function in its fabric.
pub type FunctionId = usize;

/// Configuration of a fabric.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How many times faster than in the standard retry and RNR timers run; 1 is real time.
    pub time_divisor: u64,
    /// Whether rate limits and bandwidth caps of scheduling elements take effect.
    pub shaper: bool,
    /// Rate of every port in bits per second, in effect with the shaper.
    pub link_rate: u64,
    /// Whether InfiniBand ports have a subnet manager, whose administrator answers queries; see
    /// [`Fabric::set_subnet_administrator`].
    pub subnet_administrator: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            time_divisor: 1,
            shaper: false,
            link_rate: 10_000_000_000,
            subnet_administrator: false,
        }
    }
}

/// Functions joined by a lossless switch. It holds all of the model's state; nothing happens
/// outside calls to it, and time passes only when the caller says so, so that tests are repeatable.
#[derive(Debug)]
pub struct Fabric {
    pub(crate) devices: Vec<Device>,
    pub(super) options: Options,
    pub(super) now: u64,
    pub(super) shaper: Shaper,
    ready: VecDeque<(usize, u32)>,
    waiting: BTreeMap<(usize, u32), u64>,
    pub(super) pages: Pages,
    /// What the subnet's administrator knows, if there is one and it answers.
    pub(super) subnet: Option<Subnet>,
    /// Which reports are expected at present, and what was reported while expected.
    expected: Vec<String>,
    excused: BTreeMap<&'static str, u64>,
    trace: Arc<Trace>,
}

impl Fabric {
    /// A fabric without functions.
    #[must_use]
    pub fn new(options: Options, trace: Arc<Trace>) -> Self {
        Self {
            devices: Vec::new(),
            options,
            now: 1,
            shaper: Shaper::default(),
            ready: VecDeque::new(),
            waiting: BTreeMap::new(),
            pages: Pages::default(),
            subnet: options.subnet_administrator.then(Subnet::default),
            expected: Vec::new(),
            excused: BTreeMap::new(),
            trace,
        }
    }

    /// Adds a function and returns its number.
    pub fn add_function(
        &mut self,
        config: FunctionConfig,
        memory: Arc<dyn GuestMemory>,
        interrupts: Arc<dyn Interrupts>,
    ) -> FunctionId {
        let index = self.devices.len();
        let trace = Arc::clone(&self.trace);
        let mut device = Device::new(index, config, memory, interrupts, trace);
        if self.subnet.is_some() && !device.config.kind.is_ethernet() {
            device.sm_lid = SM_LID;
        }
        self.devices.push(device);
        index
    }

    /// Reads PCI configuration space.
    pub fn config_read(&self, function: FunctionId, offset: u64, data: &mut [u8]) {
        match self.devices.get(function) {
            Some(device) if !device.removed => device.pci.read(offset, data),
            _ => data.fill(0xff),
        }
    }

    /// Writes PCI configuration space.
    pub fn config_write(&mut self, function: FunctionId, offset: u64, data: &[u8]) {
        if let Some(device) = self.devices.get_mut(function) {
            device.pci.write(offset, data);
        }
    }

    /// Reads BAR0.
    pub fn mmio_read(&self, function: FunctionId, offset: u64, data: &mut [u8]) {
        data.fill(0);
        if self
            .devices
            .get(function)
            .is_some_and(|device| device.removed)
        {
            data.fill(0xff);
        } else if let Some(device) = self.devices.get(function)
            && offset < init_segment::LEN
        {
            device.init.read(self.now, offset, data);
        } else if let Some(device) = self.devices.get(function)
            && let Some(address) = bus_address(offset)
            && device.memory.read(address, data).is_err()
        {
            data.fill(0);
        } else if let Some(device) = self.devices.get(function)
            && is_window(offset)
        {
            let memory = &*device.memory;
            device
                .operations
                .read(&device.memory_taken, memory, offset, data);
        }
    }

    /// Writes BAR0: registers, command doorbell, and the doorbells of queues.
    pub fn mmio_write(&mut self, function: FunctionId, offset: u64, data: &[u8]) {
        if self
            .devices
            .get(function)
            .is_none_or(|device| device.removed)
        {
            return;
        }
        if let Some(address) = bus_address(offset) {
            let device = self.devices.get(function);
            // A write beyond the end is lost.
            let _ = device.map(|device| device.memory.write(address, data));
            return;
        }
        if is_window(offset) {
            if let Some(device) = self.devices.get(function) {
                let memory = &*device.memory;
                device
                    .operations
                    .write(&device.memory_taken, memory, offset, data);
            }
            return;
        }
        if offset < FIRST_UAR << UAR_SHIFT {
            // A command may reset a queue whose doorbell was rung before it.
            self.end_copies_of(function);
            self.write_registers(function, offset, data);
        } else {
            self.write_uar(function, offset, data);
        }
        self.run();
    }

    fn write_registers(&mut self, function: usize, offset: u64, data: &[u8]) {
        let Some(device) = self.devices.get_mut(function) else {
            return;
        };
        device.now = self.now;
        for (i, bytes) in data.chunks_exact(4).enumerate() {
            let at = offset.saturating_add(i as u64 * 4);
            let value = be32(bytes, 0);
            if at == init_segment::COMMAND_DOORBELL {
                device.ring_commands(value);
            } else {
                device.init.write(at, value);
            }
        }
    }

    /// Sets the time without processing what has become due; see [`Fabric::advance`].
    pub fn set_time(&mut self, now: u64) {
        self.now = self.now.max(now);
        for device in &mut self.devices {
            device.now = self.now;
        }
    }

    /// Lets time pass up to `now` (nanoseconds, never backwards) and processes what has become due.
    pub fn advance(&mut self, now: u64) {
        self.set_time(now);
        for device in &mut self.devices {
            if !device.deferred.is_empty() {
                device.end_deferred();
            }
        }
        self.end_copies();
        let due: Vec<_> = self
            .waiting
            .iter()
            .filter(|(_, at)| **at <= self.now)
            .map(|(key, _)| *key)
            .collect();
        for key in due {
            self.waiting.remove(&key);
            self.ready.push_back(key);
        }
        // Receives posted to a stopped queue pair ring no doorbell.
        for (index, device) in self.devices.iter().enumerate() {
            for (number, pair) in device
                .qps
                .iter()
                .filter(|(_, pair)| pair.state == QpState::Error)
            {
                if pair.recv.entries != 0
                    && device
                        .read_be32(pair.doorbell)
                        .is_some_and(|at| at as u16 != pair.recv.consumer)
                {
                    self.ready.push_back((index, number));
                }
            }
        }
        self.run();
    }

    /// Whether [`Fabric::advance`] has work right now, or else when it will have some next.
    #[must_use]
    pub fn next_deadline(&self) -> Option<u64> {
        if self.ready.is_empty() {
            let commands = self
                .devices
                .iter()
                .flat_map(|device| &device.deferred)
                .map(|(at, _)| at);
            self.waiting
                .values()
                .chain(commands)
                .copied()
                .chain(self.pages.next_deadline())
                .min()
        } else {
            Some(self.now)
        }
    }

    /// Function-level reset.
    pub fn reset(&mut self, function: FunctionId) {
        if let Some(device) = self.devices.get_mut(function) {
            device.reset();
        }
        self.ready.retain(|(owner, _)| *owner != function);
        self.waiting.retain(|(owner, _), _| *owner != function);
        self.pages.reset(function);
        self.shaper.reset(function);
        self.leave_subnet(function);
        self.enter_subnet(function);
    }

    /// How often each kind of incorrect use was seen, over all functions.
    #[must_use]
    pub fn reports(&self) -> BTreeMap<&'static str, u64> {
        let mut sum = BTreeMap::new();
        for (kind, count) in self.devices.iter().flat_map(|device| &device.reports) {
            *sum.entry(*kind).or_insert(0) += count;
        }
        sum
    }

    /// Permits reports whose kind contains these words from now on (`*`: all of them), for callers
    /// that provoke them; without words none is permitted any more. Permitted reports are still
    /// counted.
    pub fn expect_reports(&mut self, words: &str) {
        if !words.is_empty() {
            self.expected.push(words.to_owned());
            return;
        }
        for (kind, count) in self.reports() {
            if self.is_expected(kind) {
                self.excused.insert(kind, count);
            }
        }
        self.expected.clear();
    }

    /// Reports that were not expected.
    #[must_use]
    pub fn unexpected_reports(&self) -> BTreeMap<&'static str, u64> {
        let mut reports = self.reports();
        reports.retain(|kind, count| {
            *count > self.excused.get(kind).copied().unwrap_or(0) && !self.is_expected(kind)
        });
        reports
    }

    fn is_expected(&self, kind: &str) -> bool {
        let mut expected = self.expected.iter();
        expected.any(|words| words == "*" || kind.contains(words))
    }

    /// The time in nanoseconds, and how many bytes each send queue of a function has carried, by
    /// queue number.
    #[must_use]
    pub fn served(&self, function: FunctionId) -> (u64, BTreeMap<u32, u64>) {
        let bytes = self.devices.get(function).map(|device| &device.served);
        (self.now, bytes.cloned().unwrap_or_default())
    }

    /// How often a function asked the kernel for absent pages.
    #[must_use]
    pub fn page_faults(&self, function: FunctionId) -> u64 {
        let device = self.devices.get(function);
        device.map_or(0, |device| device.page_faults_requested)
    }

    /// Enables or disables rate limits, bandwidth caps and shares from now on.
    pub fn set_shaper(&mut self, on: bool) {
        self.options.shaper = on;
    }

    /// Number of objects of each kind that a function holds. Where the kernel registers memory by
    /// work requests, it keeps memory keys free for later use and creates more in the background;
    /// those are not counted.
    #[must_use]
    pub fn census(&self, function: FunctionId) -> Vec<(&'static str, usize)> {
        let Some(device) = self.devices.get(function) else {
            return Vec::new();
        };
        let mut census = device.census();
        if device.config.umr {
            for (_, count) in census.iter_mut().filter(|(kind, _)| *kind == "mkey") {
                *count -= device.free_keys();
            }
        }
        census
    }

    /// Processes the work list in turn until it is empty or the budget is used up.
    fn run(&mut self) {
        self.collect();
        for _ in 0..BUDGET {
            let Some((function, number)) = self.ready.pop_front() else {
                break;
            };
            self.set_queued(function, number, false);
            let raw = self
                .devices
                .get(function)
                .is_some_and(|device| device.sqs.get(number).is_some());
            let step = if raw {
                self.step_raw(function, number)
            } else {
                self.step(function, number)
            };
            match step {
                Step::Idle => {}
                Step::Progress => self.enqueue(function, number),
                Step::Wait(until) => {
                    self.waiting.insert((function, number), until);
                }
            }
            self.collect();
        }
        self.end_waiting();
    }

    fn collect(&mut self) {
        for function in 0..self.devices.len() {
            for number in std::mem::take(&mut self.devices[function].kicked) {
                self.enqueue(function, number);
            }
        }
    }

    fn enqueue(&mut self, function: usize, number: u32) {
        if !self.set_queued(function, number, true) {
            self.ready.push_back((function, number));
        }
    }

    /// Marks whether a queue is in the work list; returns the previous mark.
    fn set_queued(&mut self, function: usize, number: u32, value: bool) -> bool {
        let Some(device) = self.devices.get_mut(function) else {
            return true;
        };
        if let Some(pair) = device.qps.get_mut(number) {
            std::mem::replace(&mut pair.queued, value)
        } else if let Some(queue) = device.sqs.get_mut(number) {
            std::mem::replace(&mut queue.queued, value)
        } else {
            true
        }
    }
}
