//! An opened mlx5 device.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use uverbs_core::contract::{self, ContextBase, CqInit, Gids, OpenInit, QpInit, SrqInit};
use uverbs_core::hw::Records;
use uverbs_core::types::{Address, AddressVector, DeviceAttr, LinkLayer, LocalKey};
use uverbs_core::{Object, Result, UverbsFile};

use crate::caps::Caps;
use crate::clock::Clocks;
use crate::config::{self, Config};
use crate::pd::ProtectionDomain;
use crate::tracker::table::Trackers;
use crate::uar::Uars;
use crate::{CompletionQueue, QpExtra, QueuePair, SharedReceiveQueue, ah};

/// An opened mlx5 device.
#[derive(Debug)]
pub struct Context {
    base: ContextBase,
    caps: Caps,
    config: Config,
    uars: Uars,
    records: Arc<Records>,
    trackers: Arc<Trackers>,
    clocks: Clocks,
    /// Those of the ports that were asked about.
    links: Mutex<HashMap<u8, PortLink>>,
}

/// What addresses have to know of a port.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PortLink {
    pub(crate) is_ethernet: bool,
    /// Packets without a global route lead nowhere.
    pub(crate) needs_route: bool,
}

impl Context {
    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    pub(crate) fn uars(&self) -> &Uars {
        &self.uars
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

    /// What the device's driver adds to the general attributes.
    pub fn caps(&self) -> &Caps {
        &self.caps
    }

    /// `ibv_alloc_null_mr`—the key of the device's region that is nowhere: what is written there is gone. `None` where the device, or
    /// the kernel, has none.
    #[doc(alias = "ibv_alloc_null_mr")]
    pub fn null_key(&self) -> Option<LocalKey> {
        self.config.null_key
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

    /// What kind of link a port has. One system call per port.
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

    fn links(&self) -> MutexGuard<'_, HashMap<u8, PortLink>> {
        self.links.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl contract::Context for Context {
    type Pd = ProtectionDomain;
    type Cq = CompletionQueue;
    type Qp = QueuePair;
    type Srq = SharedReceiveQueue;

    /// Two system calls: the context, and the device's limits, which later calls are checked
    /// against. What is added may be [`Doorbells`](crate::Doorbells).
    fn open(file: Arc<UverbsFile>, init: &OpenInit<'_>) -> Result<Self> {
        let doorbells = init.extra().copied().unwrap_or_default();
        let (opened, config) = config::open(&file, doorbells)?;
        let (device, caps) = Caps::query(&file)?;
        Ok(Self {
            uars: Uars::new(&file, config.uar),
            records: Arc::new(Records::new(config.cache_line as usize)),
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

    fn base(&self) -> &ContextBase {
        &self.base
    }

    fn base_mut(&mut self) -> &mut ContextBase {
        &mut self.base
    }

    fn alloc_pd(&self) -> Result<Self::Pd> {
        ProtectionDomain::alloc(self.file())
    }

    fn pd_object(pd: &Self::Pd) -> &Arc<Object> {
        pd.object()
    }

    /// What is added may be [`Entries`](crate::Entries).
    fn create_cq(&self, init: &CqInit<'_>) -> Result<Self::Cq> {
        let entries = init.extra()?.copied().unwrap_or_default();
        CompletionQueue::create(self, init, entries)
    }

    fn create_srq(&self, pd: &Self::Pd, init: &SrqInit) -> Result<Self::Srq> {
        SharedReceiveQueue::create(self, pd, init)
    }

    /// What is added may be a [`QpExtra`].
    fn create_qp(&self, pd: &Self::Pd, init: &QpInit<'_>) -> Result<Self::Qp> {
        let extra = init.extra::<QpExtra>()?.cloned().unwrap_or_default();
        extra.create(self, pd, init)
    }

    fn create_address(
        &self,
        pd: &Self::Pd,
        vector: &AddressVector,
        gids: &Gids<'_>,
    ) -> Result<Address> {
        ah::create(self, pd.object(), vector, gids)
    }

    fn firmware_version(&self) -> String {
        let raw = self.device().fw_ver.raw();
        format!(
            "{}.{}.{:04}",
            raw >> 32 & 0xffff,
            raw >> 16 & 0xffff,
            raw & 0xffff
        )
    }
}
