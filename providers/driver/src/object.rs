//! A kernel object: destroyed once, after its children, or given up and counted.

mod stake;

use std::any::Any;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use self::stake::{Held, Stake};

use crate::channel::Channel;
use crate::cmd;
use crate::error::{Errno, Error, ErrorKind, Op, Result};
use crate::types::Gid;

/// What kind of kernel object a handle names.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum ObjectKind {
    /// `UVERBS_OBJECT_AH`.
    AddressHandle,
    /// `UVERBS_OBJECT_COMP_CNTR`.
    CompletionCounter,
    /// `UVERBS_OBJECT_CQ`.
    CompletionQueue,
    /// `UVERBS_OBJECT_COUNTERS`.
    Counters,
    /// `UVERBS_OBJECT_DM`.
    DeviceMemory,
    /// `UVERBS_OBJECT_DMAH`.
    DmaHandle,
    /// `UVERBS_OBJECT_FLOW`.
    Flow,
    /// `UVERBS_OBJECT_FLOW_ACTION`.
    FlowAction,
    /// `UVERBS_OBJECT_RWQ_IND_TBL`.
    IndirectionTable,
    /// `UVERBS_OBJECT_MR`.
    MemoryRegion,
    /// `UVERBS_OBJECT_MW`.
    MemoryWindow,
    /// `UVERBS_OBJECT_PD`.
    ProtectionDomain,
    /// `UVERBS_OBJECT_QP`.
    QueuePair,
    /// `UVERBS_OBJECT_SRQ`.
    SharedReceiveQueue,
    /// `UVERBS_OBJECT_WQ`.
    WorkQueue,
    /// `UVERBS_OBJECT_XRCD`.
    XrcDomain,
    /// An object in a driver's own namespace.
    Vendor(VendorKind),
}

/// What names, and ends, a kind of object that only one driver has.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct VendorKind {
    /// What users call it.
    pub name: &'static str,
    /// The driver's object id.
    pub object: u16,
    /// The method that destroys it.
    pub method: u16,
    /// The attribute of that method which takes the handle.
    pub attr: u16,
    /// The operation that the method is, for errors.
    pub op: Op,
}

/// How many events the kernel had handed out for an object when it was destroyed.
///
/// libibverbs blocks until the same number was acknowledged. Here events carry a generation instead,
/// so an event that nobody took holds up nothing, and one that was in flight is recognised as stale.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct EventCounts {
    /// Completion events.
    pub completions: u32,
    /// Asynchronous events.
    pub asynchronous: u32,
}

/// A kernel object of an opened device.
///
/// It holds its parents, so that they are destroyed after it whatever order handles are dropped
/// in, and the memory that a device may touch through it. Both are released only when the kernel
/// confirmed the destroy. A destroy that fails leaks them, counted in [`Channel::leaked`]: freeing
/// memory that a device can still write to would be worse.
pub struct Object {
    channel: Arc<Channel>,
    kind: ObjectKind,
    handle: u32,
    /// `None` once it was destroyed or given up.
    held: Option<Held>,
}

impl Object {
    /// Issues `command`, which creates an object on `parents` that may use `memory` from then on. `handle` says which
    /// handle is in its reply.
    ///
    /// Where nobody knows whether the object exists ([`Error::outcome_is_unknown`], or a panic), parents and memory are given
    /// up, which counts in [`Channel::leaked`]. After any other error they are released.
    ///
    /// # Errors
    /// Those of `command`.
    pub fn create<R>(
        channel: &Arc<Channel>,
        kind: ObjectKind,
        parents: impl IntoIterator<Item = Arc<Object>>,
        memory: impl Any + Send + Sync,
        command: impl FnOnce() -> Result<R>,
        handle: impl FnOnce(&R) -> u32,
    ) -> Result<(Self, R)> {
        // All that is allocated for it is allocated before the command.
        let stake = Stake::new(channel, Held::new(parents, memory));
        match command() {
            Ok(created) => {
                let object = Self {
                    channel: Arc::clone(channel),
                    kind,
                    handle: handle(&created),
                    held: stake.settled(),
                };
                Ok((object, created))
            }
            Err(error) => {
                if !error.outcome_is_unknown() {
                    drop(stake.settled());
                }
                Err(error)
            }
        }
    }

    /// Takes over the object that a create command returned. It has no memory yet: what is to have some is made by
    /// [`create`](Self::create).
    pub fn new(
        channel: &Arc<Channel>,
        kind: ObjectKind,
        handle: u32,
        parents: impl IntoIterator<Item = Arc<Object>>,
    ) -> Self {
        Self {
            channel: Arc::clone(channel),
            kind,
            handle,
            held: Some(Held::new(parents, ())),
        }
    }

    /// Keeps `memory`, too, until the kernel confirmed that the object is gone.
    pub fn keep(&self, memory: impl Any + Send + Sync) {
        let memory = stake::boxed(memory);
        match &self.held {
            Some(held) => held.keep(memory),
            // It was given up, and so is this.
            None => stake::forget(memory),
        }
    }

    /// `ibv_attach_mcast`—attaches a queue pair to a group, until [`leave`](Self::leave) or its destroy.
    ///
    /// # Errors
    /// Those of the command.
    pub(crate) fn join(&self, group: &Gid, lid: u16) -> Result<()> {
        // Noted before: leaving a group that it is not in does nothing.
        if let Some(held) = &self.held {
            lock(&held.groups).push((*group, lid));
        }
        cmd::mcast::attach(&self.channel, self.handle, group, lid).inspect_err(|error| {
            if !error.outcome_is_unknown() {
                self.forget_group(group, lid);
            }
        })
    }

    /// `ibv_detach_mcast`—ends that.
    ///
    /// # Errors
    /// Those of the command.
    pub(crate) fn leave(&self, group: &Gid, lid: u16) -> Result<()> {
        cmd::mcast::detach(&self.channel, self.handle, group, lid)?;
        self.forget_group(group, lid);
        Ok(())
    }

    fn forget_group(&self, group: &Gid, lid: u16) {
        if let Some(held) = &self.held {
            let mut groups = lock(&held.groups);
            if let Some(at) = groups.iter().position(|joined| *joined == (*group, lid)) {
                groups.swap_remove(at);
            }
        }
    }

    /// Issues `command`, which moves the object to another `parent`, to other `memory`, or both. It holds the new ones from
    /// before the command on, and the former ones until the command succeeded: nobody knows which it uses meanwhile.
    ///
    /// # Errors
    /// Those of `command`. If its outcome is unknown both are held until the object is gone.
    pub(crate) fn exchange<R>(
        &mut self,
        parent: Option<Arc<Object>>,
        memory: Option<impl Any + Send + Sync>,
        command: impl FnOnce(&Channel) -> Result<R>,
    ) -> Result<R> {
        let Some(held) = &mut self.held else {
            return command(&self.channel);
        };
        let former = held.take_too(parent, memory.map(stake::boxed));
        let done = command(&self.channel);
        match &done {
            Ok(_) => held.release_former(&former),
            Err(error) if error.outcome_is_unknown() => {}
            Err(_) => held.release_latter(&former),
        }
        done
    }

    /// Notes that a command made it use `other` as its `role`, in place of what it used before, or
    /// nothing any more. What it uses is destroyed after it.
    pub fn set_use(&self, role: &'static str, other: Option<Arc<Object>>) {
        let Some(held) = &self.held else { return };
        // What it used is released after the lock, because that may destroy it.
        let _former = {
            let mut uses = lock(&held.uses);
            let at = uses.iter().position(|(used_as, _)| *used_as == role);
            let former = at.map(|at| uses.swap_remove(at));
            uses.extend(other.map(|other| (role, other)));
            former
        };
    }

    /// What it uses as its `role`.
    pub fn used_as(&self, role: &str) -> Option<Arc<Object>> {
        let uses = lock(&self.held.as_ref()?.uses);
        let (_, other) = uses.iter().find(|(used_as, _)| *used_as == role)?;
        Some(Arc::clone(other))
    }

    /// The kernel's handle.
    pub fn handle(&self) -> u32 {
        self.handle
    }

    /// The device it lives on.
    pub fn channel(&self) -> &Arc<Channel> {
        &self.channel
    }

    /// What it is.
    pub fn kind(&self) -> ObjectKind {
        self.kind
    }

    /// Destroys the object and releases what it held.
    ///
    /// One system call, which waits until the device no longer uses the object.
    ///
    /// # Errors
    /// The kernel's errno, EBUSY above all (something else still uses the object). What it held is
    /// leaked then, and counted.
    pub fn destroy(mut self) -> Result<EventCounts> {
        self.destroy_once()
    }

    /// Destroys a shared object.
    ///
    /// # Errors
    /// [`ErrorKind::Busy`] while others share it (it lives on with them), else as [`destroy`](Self::destroy).
    pub fn destroy_shared(shared: Arc<Self>) -> Result<EventCounts> {
        match Arc::try_unwrap(shared) {
            Ok(object) => object.destroy(),
            Err(shared) => Err(shared.still_used()),
        }
    }

    /// Destroys a shared object, or gives it back, whole, with the reason.
    ///
    /// # Errors
    /// As [`destroy_shared`](Self::destroy_shared). Nothing is leaked: the object lives on. But where nobody knows whether it
    /// does ([`Error::outcome_is_unknown`]), its handle may be another object's by now: it was given up, and what comes back
    /// does nothing any more.
    pub fn try_destroy_shared(shared: Arc<Self>) -> Result<EventCounts, (Arc<Self>, Error)> {
        let mut object = match Arc::try_unwrap(shared) {
            Ok(object) => object,
            Err(shared) => {
                let error = shared.still_used();
                return Err((shared, error));
            }
        };
        let Some(held) = object.held.take() else {
            let error = Error::new(object.kind.destroy_op(), ErrorKind::InvalidState);
            return Err((Arc::new(object), error.hint("it was given up")));
        };
        let stake = Stake::new(&object.channel, held);
        match object.destroy_confirmed() {
            Ok(counts) => {
                drop(stake.settled());
                Ok(counts)
            }
            Err(error) => {
                if !error.outcome_is_unknown() {
                    object.held = stake.settled();
                }
                Err((Arc::new(object), error))
            }
        }
    }

    /// The error for an object that others share.
    pub fn still_used(self: &Arc<Self>) -> Error {
        Error::new(self.kind.destroy_op(), ErrorKind::Busy)
            .fact("users", Arc::strong_count(self) - 1)
    }

    fn destroy_once(&mut self) -> Result<EventCounts> {
        let Some(held) = self.held.take() else {
            return Ok(EventCounts::default());
        };
        // Without a confirmation, given up.
        let stake = Stake::new(&self.channel, held);
        for (group, lid) in stake.groups() {
            // Should this fail, the destroy fails too and says why.
            let _ = cmd::mcast::detach(&self.channel, self.handle, &group, lid);
        }
        let counts = self.destroy_confirmed()?;
        drop(stake.settled());
        Ok(counts)
    }

    /// Issues the destroy; a device that was taken away has no object any more.
    fn destroy_confirmed(&self) -> Result<EventCounts> {
        match self.destroy_command() {
            // By any other errno (ENOLINK) the device may still be there, and the object with it.
            Err(error) if error.errno() == Some(Errno::IO) && self.channel.confirm_removed() => {
                Ok(EventCounts::default())
            }
            result => result,
        }
    }

    fn destroy_command(&self) -> Result<EventCounts> {
        let mut tries = 0;
        loop {
            match cmd::destroy(&self.channel, self.kind, self.handle) {
                Err(error) if error.errno() == Some(Errno::INTR) && tries < MAX_INTERRUPTED => {
                    tries += 1;
                }
                result => return result,
            }
        }
    }
}

/// A panic under one of these locks is one of the allocator, before anything was changed.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A destroy that a signal interrupted did nothing and is issued again, but not for ever.
const MAX_INTERRUPTED: u32 = 16;

impl ObjectKind {
    /// The operation that ends such an object.
    pub const fn destroy_op(self) -> Op {
        match self {
            Self::AddressHandle => Op::DestroyAddressHandle,
            Self::CompletionCounter => Op::DestroyCompletionCounter,
            Self::CompletionQueue => Op::DestroyCompletionQueue,
            Self::Counters => Op::DestroyCounters,
            Self::DeviceMemory => Op::FreeDeviceMemory,
            Self::DmaHandle => Op::FreeDmaHandle,
            Self::Flow => Op::DestroyFlow,
            Self::FlowAction => Op::DestroyFlowAction,
            Self::IndirectionTable => Op::DestroyIndirectionTable,
            Self::MemoryRegion => Op::DeregisterMemory,
            Self::MemoryWindow => Op::DeallocMemoryWindow,
            Self::ProtectionDomain => Op::DeallocProtectionDomain,
            Self::QueuePair => Op::DestroyQueuePair,
            Self::SharedReceiveQueue => Op::DestroySharedReceiveQueue,
            Self::WorkQueue => Op::DestroyWorkQueue,
            Self::XrcDomain => Op::CloseXrcDomain,
            Self::Vendor(vendor) => vendor.op,
        }
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        // A failure is counted in the channel; there is nobody to tell here.
        let _ = self.destroy_once();
    }
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            ObjectKind::Vendor(vendor) => write!(f, "{}({})", vendor.name, self.handle),
            kind => write!(f, "{kind:?}({})", self.handle),
        }
    }
}
