//! What providers' handles have in common.

use std::sync::Arc;

use crate::cmd;
use crate::file::UverbsFile;
use crate::object::Object;
use crate::types::{DeviceAttr, QpCaps, QpState, QpType};

/// What every opened device has.
#[derive(Debug)]
pub struct ContextBase {
    /// The device behind it.
    pub file: Arc<UverbsFile>,
    /// What the kernel said when the context was opened.
    pub opened: cmd::context::Context,
    /// What the device can do, asked when it was opened.
    pub device: DeviceAttr,
}

/// What every queue pair has.
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
    /// The state it was last seen in. A device moves a queue pair into an error state on its own.
    pub state: QpState,
    /// A reset was begun, and is not known to have ended: the device may have started over, and the
    /// rings here have not. Nothing but another reset leads on.
    pub adrift: bool,
    /// The device's limit of reads and atomics under way.
    pub max_rd_atomic: u32,
}

impl QpBase {
    /// A queue pair as it is when it was created: in RESET.
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
            adrift: false,
            max_rd_atomic: device.max_qp_rd_atom,
        }
    }
}
