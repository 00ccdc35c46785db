//! The common part of all providers' handles.

use std::sync::Arc;

use crate::cmd;
use crate::file::UverbsFile;
use crate::object::Object;
use crate::types::{DeviceAttr, QpCaps, QpState, QpType};

/// The common part of every opened device.
#[derive(Debug)]
pub struct ContextBase {
    /// The opened device.
    pub file: Arc<UverbsFile>,
    /// The kernel's reply when the context was opened.
    pub opened: cmd::context::Context,
    /// The device's attributes, queried when it was opened.
    pub device: DeviceAttr,
}

/// The common part of every queue pair.
#[derive(Debug)]
pub struct QpBase {
    /// The kernel object.
    pub object: Object,
    /// The device's number for it, 24 bits.
    pub number: u32,
    /// Its transport.
    pub kind: QpType,
    /// Its sizes, as the device granted them.
    pub caps: QpCaps,
    /// Its last known state. A device may move a queue pair into an error state on its own.
    pub state: QpState,
    /// A reset was started and is not known to have finished: the device may have reset the queues,
    /// while the rings here were not. Only another reset leaves this condition.
    pub reset_unconfirmed: bool,
    /// The device's limit of outstanding reads and atomics.
    pub max_rd_atomic: u32,
}

impl QpBase {
    /// The base of a newly created queue pair, in RESET.
    pub fn new(
        object: Object,
        number: u32,
        kind: QpType,
        caps: QpCaps,
        device: &DeviceAttr,
    ) -> Self {
        Self {
            object,
            number,
            kind,
            caps,
            state: QpState::Reset,
            reset_unconfirmed: false,
            max_rd_atomic: device.max_qp_rd_atom,
        }
    }
}
