//! An opened mlx5 device.

pub(crate) mod ah;
pub mod caps;
pub(crate) mod clock;
pub(crate) mod config;
mod pd;
#[cfg(test)]
mod tests;
mod thread;
mod vport;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use uverbs_core::contract::{self, ContextBase};
use uverbs_core::hw::{PagePool, Records};
use uverbs_core::types::{DeviceAttr, LinkLayer, LocalKey};
use uverbs_core::{Result, UverbsFile, cmd};

use crate::doorbell::{Doorbells, Uars};
use crate::tracker::table::Trackers;
use caps::Caps;
use clock::Clocks;
pub use clock::{Clock, ClockInfo};
use config::Config;
pub use pd::ProtectionDomain;
pub use thread::ThreadDomain;
pub use vport::{RegisterBits, SwitchPort};

/// An opened mlx5 device.
#[derive(Debug)]
pub struct Context {
    pub(crate) base: ContextBase,
    caps: Caps,
    config: Config,
    uars: Uars,
    pool: PagePool,
    records: Records,
    trackers: Arc<Trackers>,
    clocks: Clocks,
    /// The links of the ports that have been queried.
    links: Mutex<BTreeMap<u8, PortLink>>,
}

/// What address handles need to know about a port.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PortLink {
    pub(crate) is_ethernet: bool,
    /// Packets without a global route do not reach a peer.
    pub(crate) needs_route: bool,
}

impl Context {
    /// Opens a user context. Two system calls: one opens the context, the other queries the
    /// device's limits, against which later calls are checked.
    pub(crate) fn with_doorbells(file: Arc<UverbsFile>, doorbells: Doorbells) -> Result<Self> {
        let opened = config::open(&file, doorbells)?;
        Self::of(file, opened)
    }

    /// `ibv_import_device`—a user context that is open already: another process opened the file, or
    /// another part of this one. Both can use it. Two system calls, since 5.9.
    ///
    /// # Errors
    /// EINVAL: the file has no context. Unsupported on older kernels.
    #[doc(alias = "ibv_import_device")]
    pub fn import(file: Arc<UverbsFile>) -> Result<Self> {
        let opened = config::query(&file)?;
        Self::of(file, opened)
    }

    fn of(file: Arc<UverbsFile>, opened: (cmd::context::Context, Config)) -> Result<Self> {
        let (opened, config) = opened;
        let (device, caps) = Caps::query(&file)?;
        let pool = PagePool::default();
        Ok(Self {
            uars: Uars::new(&file, config.uar),
            records: Records::new(config.cache_line as usize, &pool),
            pool,
            trackers: Arc::default(),
            clocks: Clocks::default(),
            links: Mutex::default(),
            base: ContextBase {
                file,
                opened,
                device,
            },
            caps,
            config,
        })
    }

    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    pub(crate) fn uars(&self) -> &Uars {
        &self.uars
    }

    /// The pages of queues that have no memory of the program's.
    pub(crate) fn pool(&self) -> &PagePool {
        &self.pool
    }

    pub(crate) fn records(&self) -> &Records {
        &self.records
    }

    pub(crate) fn clocks(&self) -> &Clocks {
        &self.clocks
    }

    pub(crate) fn trackers(&self) -> &Arc<Trackers> {
        &self.trackers
    }

    /// The attributes that the device's driver reports beyond the general ones.
    pub fn caps(&self) -> &Caps {
        &self.caps
    }

    /// `ibv_alloc_null_mr`—the key of the device's null memory region: data written there is
    /// discarded. `None` if the device or the kernel does not have one.
    #[doc(alias = "ibv_alloc_null_mr")]
    pub fn null_key(&self) -> Option<LocalKey> {
        self.config.null_key
    }

    /// How completions name their queue (`cqe_version` of the kernel's reply): 1 by the number that
    /// it was created with, 0 by the device's own.
    pub fn completion_version(&self) -> u8 {
        self.config.cqe_version
    }

    /// Whether requests can be written into the device's registers (BlueFlame).
    pub fn has_blueflame(&self) -> bool {
        self.config.uar.register_size > 0
    }

    /// How many doorbells the context may have beyond those that it was opened with.
    pub fn extra_doorbells(&self) -> u32 {
        self.config.uar.extra
    }

    /// Whether timestamps can be the time of day, as the device keeps it.
    pub fn has_real_time(&self) -> bool {
        self.config.clock.real_time
    }

    /// Whether firmware commands may be sent in this context.
    pub fn has_devx(&self) -> bool {
        self.config.devx
    }

    pub(crate) fn file(&self) -> &Arc<UverbsFile> {
        &self.base.file
    }

    pub(crate) fn device(&self) -> &DeviceAttr {
        &self.base.device
    }

    /// The kind of link of a port. One system call per port.
    pub(crate) fn link(&self, port: u8) -> Result<PortLink> {
        if let Some(link) = self.links().get(&port) {
            return Ok(*link);
        }
        let attr = contract::query_port(self.file(), port)?;
        let link = PortLink {
            is_ethernet: attr.link_layer == LinkLayer::Ethernet,
            needs_route: attr.needs_grh(),
        };
        self.links().insert(port, link);
        Ok(link)
    }

    fn links(&self) -> MutexGuard<'_, BTreeMap<u8, PortLink>> {
        self.links.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
