//! The devices of ids: opened when the first id needs them, and kept open, as programs expect of
//! contexts that this library hands out.

use std::sync::{Mutex, MutexGuard, PoisonError};

use uverbs_compat_base::abi::{ibv_context, ibv_device, ibv_pd, ibv_xrcd};
use uverbs_core::cm::BoundDevice;

use crate::answer::Answer;
use crate::errno::Code;
use crate::failure::NO_DEVICE;
use crate::verbs::{self, DeviceList};

/// The ranges of a device that connections are checked against.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Limits {
    pub(crate) initiator_depth: u8,
    pub(crate) responder_resources: u8,
}

/// A device that an id has. Dropping it lets the device's domains go with the last id.
#[derive(Debug)]
pub(crate) struct Device {
    key: u64,
    context: Address,
    pd: Address,
    pub(crate) limits: Limits,
    is_infiniband: Vec<bool>,
}

/// An object of libibverbs, which any thread may use.
#[derive(Clone, Copy, Debug, Default)]
struct Address(usize);

impl Address {
    fn of<T>(pointer: *mut T) -> Self {
        Self(pointer.expose_provenance())
    }

    fn get<T>(self) -> *mut T {
        std::ptr::with_exposed_provenance_mut(self.0)
    }

    fn is_none(self) -> bool {
        self.0 == 0
    }
}

/// One device that libibverbs lists, or that ids still have.
#[derive(Debug)]
struct Entry {
    key: u64,
    device: Address,
    /// Its index for netlink; negative if it is not known.
    index: i32,
    guid: u64,
    opened: Option<Opened>,
    pd: Address,
    xrcd: Address,
    /// Ids, and lists of programs, that have it.
    references: usize,
    /// It is no longer listed, or cannot be opened.
    is_gone: bool,
}

#[derive(Debug)]
struct Opened {
    context: Address,
    limits: Limits,
    is_infiniband: Vec<bool>,
}

#[derive(Debug)]
struct Table {
    /// Keeps the devices that it lists.
    list: Option<DeviceList>,
    /// In the order of their indexes.
    entries: Vec<Entry>,
    next: u64,
}

static TABLE: Mutex<Table> = Mutex::new(Table {
    list: None,
    entries: Vec::new(),
    next: 0,
});

fn table() -> MutexGuard<'static, Table> {
    TABLE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Checks that there is a device at all.
///
/// # Errors
/// ENODEV.
pub(crate) fn some() -> Answer<()> {
    let mut table = table();
    if table.list.is_none() {
        table.refresh()?;
    }
    Ok(())
}

/// The device that the kernel names, opened, with a protection domain.
///
/// # Errors
/// ENODEV: there is none; what opening it says.
pub(crate) fn of(bound: &BoundDevice) -> Answer<Device> {
    let mut table = table();
    let guid = u64::from_ne_bytes(bound.node_guid.to_bytes());
    let at = if let Some(at) = table.find(bound.index, guid) {
        at
    } else {
        table.refresh()?;
        table.find(bound.index, guid).ok_or(NO_DEVICE)?
    };
    let entry = table.entries.get_mut(at).ok_or(Code::INVALID)?;
    entry.open()?;
    if entry.pd.is_none() {
        entry.pd = Address::of(verbs::alloc_pd(entry.context())?);
    }
    entry.references += 1;
    let opened = entry.opened.as_ref().ok_or(Code::INVALID)?;
    Ok(Device {
        key: entry.key,
        context: opened.context,
        pd: entry.pd,
        limits: opened.limits,
        is_infiniband: opened.is_infiniband.clone(),
    })
}

/// All devices that can be opened, each with a reference.
///
/// # Errors
/// ENODEV: there is none.
pub(crate) fn take_all() -> Answer<Vec<*mut ibv_context>> {
    let mut table = table();
    table.refresh()?;
    let mut all = Vec::new();
    for entry in table.entries.iter_mut().filter(|entry| !entry.is_gone) {
        if entry.open().is_err() {
            entry.is_gone = true;
            continue;
        }
        entry.references += 1;
        all.push(entry.context());
    }
    Ok(all)
}

/// Gives back a reference to each of these.
pub(crate) fn give_back(contexts: &[*mut ibv_context]) {
    let mut table = table();
    for context in contexts {
        let same = |entry: &Entry| entry.opened.is_some() && entry.context() == *context;
        if let Some(at) = table.entries.iter().position(same) {
            table.give_back(at);
        }
    }
}

impl Device {
    pub(crate) fn context(&self) -> *mut ibv_context {
        self.context.get()
    }

    pub(crate) fn pd(&self) -> *mut ibv_pd {
        self.pd.get()
    }

    /// Whether the port is on InfiniBand, and not on Ethernet.
    pub(crate) fn is_infiniband(&self, port: u8) -> bool {
        let at = usize::from(port).checked_sub(1);
        at.and_then(|at| self.is_infiniband.get(at)) == Some(&true)
    }

    /// The device's XRC domain for ids.
    pub(crate) fn xrcd(&self) -> Answer<*mut ibv_xrcd> {
        let mut table = table();
        let same = |entry: &&mut Entry| entry.key == self.key;
        let entry = table.entries.iter_mut().find(same).ok_or(Code::INVALID)?;
        if entry.xrcd.is_none() {
            entry.xrcd = Address::of(verbs::open_xrcd(self.context())?);
        }
        Ok(entry.xrcd.get())
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        let mut table = table();
        let at = table.entries.iter().position(|entry| entry.key == self.key);
        if let Some(at) = at {
            table.give_back(at);
        }
    }
}

impl Table {
    fn find(&self, index: u32, guid: u64) -> Option<usize> {
        let index = i32::try_from(index).unwrap_or(-1);
        let is = |entry: &Entry| !entry.is_gone && entry.is(index, guid);
        self.entries.iter().position(is)
    }

    /// Asks for the devices that there are now.
    fn refresh(&mut self) -> Answer<()> {
        let list = DeviceList::new().map_err(|_| NO_DEVICE)?;
        let now: Vec<*mut ibv_device> = list.all().collect();
        if now.is_empty() {
            return Err(NO_DEVICE);
        }
        let listed = |entry: &Entry| now.contains(&entry.device.get());
        for at in (0..self.entries.len()).rev() {
            if self.entries.get(at).is_some_and(|entry| !listed(entry)) {
                self.remove(at);
            }
        }
        for device in now {
            if self
                .entries
                .iter()
                .any(|entry| entry.device.get::<ibv_device>() == device)
            {
                continue;
            }
            let entry = Entry::new(self.next, device);
            self.next += 1;
            let before = |other: &Entry| other.order() <= entry.order();
            let at = self.entries.partition_point(before);
            self.entries.insert(at, entry);
        }
        // The former one is given back only now: the devices that are in both keep their addresses.
        self.list = Some(list);
        Ok(())
    }

    /// Takes back a reference; the last one takes the domains along.
    fn give_back(&mut self, at: usize) {
        let Some(entry) = self.entries.get_mut(at) else {
            return;
        };
        entry.references = entry.references.saturating_sub(1);
        if entry.references > 0 {
            return;
        }
        entry.drop_domains();
        if entry.is_gone {
            self.remove(at);
        }
    }

    /// Removes a device, or marks it so that its last reference does.
    fn remove(&mut self, at: usize) {
        let Some(entry) = self.entries.get_mut(at) else {
            return;
        };
        entry.is_gone = true;
        if entry.references > 0 {
            return;
        }
        entry.drop_domains();
        if entry.opened.is_some() {
            // Nothing is known of objects that the program has left in it.
            let _ = verbs::close_device(entry.context());
        }
        self.entries.remove(at);
    }
}

impl Entry {
    fn new(key: u64, device: *mut ibv_device) -> Self {
        Self {
            key,
            device: Address::of(device),
            index: verbs::device_index(device),
            guid: verbs::device_guid(device),
            opened: None,
            pd: Address::default(),
            xrcd: Address::default(),
            references: 0,
            is_gone: false,
        }
    }

    fn order(&self) -> (i32, u64) {
        (self.index, u64::from_be(self.guid))
    }

    /// Whether it is the device that the kernel names. A device that was removed and came back has
    /// its GUID, and another index.
    fn is(&self, index: i32, guid: u64) -> bool {
        if index < 0 || self.index < 0 {
            return self.guid == guid;
        }
        self.index == index
    }

    fn context(&self) -> *mut ibv_context {
        self.opened
            .as_ref()
            .map_or(std::ptr::null_mut(), |opened| opened.context.get())
    }

    fn open(&mut self) -> Answer<()> {
        if self.opened.is_some() {
            return Ok(());
        }
        let context = verbs::open_device(self.device.get())?;
        match Opened::new(context) {
            Ok(opened) => {
                self.opened = Some(opened);
                Ok(())
            }
            Err(code) => {
                let _ = verbs::close_device(context);
                Err(code)
            }
        }
    }

    fn drop_domains(&mut self) {
        let pd = std::mem::take(&mut self.pd);
        if !pd.is_none() {
            // A domain that the program still uses stays, and is lost with the reference to it.
            let _ = verbs::dealloc_pd(pd.get());
        }
        let xrcd = std::mem::take(&mut self.xrcd);
        if !xrcd.is_none() {
            let _ = verbs::close_xrcd(self.context(), xrcd.get());
        }
    }
}

impl Opened {
    fn new(context: *mut ibv_context) -> Answer<Self> {
        // `IBV_LINK_LAYER_INFINIBAND`.
        const INFINIBAND: u8 = 1;
        let attr = verbs::query_device(context)?;
        let mut is_infiniband = Vec::new();
        for port in 1..=attr.phys_port_cnt {
            let about = verbs::query_port(context, port);
            is_infiniband.push(about.is_ok_and(|port| port.link_layer == INFINIBAND));
        }
        let most = |number: i32| u8::try_from(number.max(0)).unwrap_or(u8::MAX);
        Ok(Self {
            context: Address::of(context),
            limits: Limits {
                initiator_depth: most(attr.max_qp_init_rd_atom),
                responder_resources: most(attr.max_qp_rd_atom),
            },
            is_infiniband,
        })
    }
}
