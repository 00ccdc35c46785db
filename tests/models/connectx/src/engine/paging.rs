//! Page faults: what waits for pages that the kernel has to provide, and how it continues.
//!
//! A work request or a message that meets an absent page stays where it is, and an event with a
//! token notifies the kernel. When the kernel answers, everything is checked again from the start:
//! there may be another absent page, or the same one, dropped again.

use crate::device::Device;
use crate::engine::event;
use crate::engine::message::Message;

/// How long a requester waits before it checks whether its peer has the pages; this does not count
/// as a retry.
pub(super) const PAUSE: u64 = 250_000;
const TOKENS: u32 = 1 << 24;

/// What needs a page, as events report it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// A request at the head of a send queue, accessing its own memory.
    Request {
        queue: u32,
        index: u16,
        /// Whether it returns data (reads and atomics).
        answered: bool,
    },
    /// A receive of a queue pair's own queue.
    Receive { queue: u32, index: u16 },
    /// A receive of a shared queue.
    SharedReceive { queue: u32, index: u16 },
    /// Memory that a peer reads or writes.
    Remote {
        key: u32,
        address: u64,
        length: u32,
        packet: u32,
        write: bool,
    },
}

impl Need {
    /// The type of page fault.
    pub(crate) fn kind(&self) -> u8 {
        match self {
            Self::SharedReceive { .. } => 0,
            Self::Request {
                answered: false, ..
            } => 1,
            Self::Receive { .. } => 2,
            Self::Request { answered: true, .. } => 3,
            Self::Remote { write: false, .. } => 4,
            Self::Remote { write: true, .. } => 6,
        }
    }
}

/// Which side of a queue waits: its requests, or what a peer sends, by the peer's port and queue
/// pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Requests,
    Messages(u16, u32),
}

impl Side {
    pub(super) fn of(message: &Message) -> Self {
        Self::Messages(message.source_lid, message.source_qpn)
    }
}

/// A page fault that was not answered, or whose answer was not used yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageFault {
    /// The queue pair or DC target that waits.
    waiting: u32,
    side: Side,
    /// The number that the kernel names in its answer.
    named: u32,
    failed: bool,
}

/// The page fault state of one side of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    Free,
    Waiting,
    /// The kernel could not provide the page.
    Failed,
}

/// Whether a side of a queue waits for a page. A failure is reported once.
pub(super) fn standing(device: &mut Device, queue: u32, side: Side) -> Standing {
    let found = device
        .page_faults
        .iter()
        .find(|(_, fault)| fault.waiting == queue && fault.side == side)
        .map(|(token, fault)| (*token, fault.failed));
    match found {
        None => Standing::Free,
        Some((_, false)) => Standing::Waiting,
        Some((token, true)) => {
            device.page_faults.remove(&token);
            Standing::Failed
        }
    }
}

/// Requests a page that `waiting` needs; `false` if no event queue would receive the event.
pub(super) fn request(device: &mut Device, waiting: u32, side: Side, need: Need) -> bool {
    if !device.config.paging || !event::hears_page_faults(device) {
        return false;
    }
    let mut token = device.next_page_fault;
    while device.page_faults.contains_key(&token) {
        token = (token + 1) % TOKENS;
    }
    device.next_page_fault = (token + 1) % TOKENS;
    let named = match need {
        Need::Request { queue, .. }
        | Need::Receive { queue, .. }
        | Need::SharedReceive { queue, .. } => queue,
        Need::Remote { .. } => token,
    };
    let fault = PageFault {
        waiting,
        side,
        named,
        failed: false,
    };
    device.page_faults.insert(token, fault);
    device.page_faults_requested += 1;
    event::page_fault(device, &need, token);
    true
}

/// The kernel's answer. An answer to a page fault that was destroyed with its queue pair is
/// ignored.
pub(crate) fn resume(device: &mut Device, token: u32, queue: u32, failed: bool) {
    let Some(fault) = device.page_faults.get_mut(&token) else {
        return;
    };
    if fault.named != queue {
        let named = fault.named;
        device.report(
            "page fault resumed for another queue",
            &format!("token {token:#x}: {queue:#x} instead of {named:#x}"),
        );
        return;
    }
    fault.failed = failed;
    let (waiting, side) = (fault.waiting, fault.side);
    if !failed {
        device.page_faults.remove(&token);
    }
    // A requester on another function checks by itself.
    if side == Side::Requests {
        device.kicked.push(waiting);
    }
}

impl Device {
    /// Drops all page faults that a queue waits for.
    pub(crate) fn forget_page_faults(&mut self, queue: u32) {
        self.page_faults.retain(|_, fault| fault.waiting != queue);
    }
}
