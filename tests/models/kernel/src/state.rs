//! The fake's state: files, contexts, handles, and the objects of the device.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use uverbs_uapi::ib_user_ioctl_cmds::{
    UVERBS_OBJECT_AH, UVERBS_OBJECT_CQ, UVERBS_OBJECT_MR, UVERBS_OBJECT_MW, UVERBS_OBJECT_PD,
    UVERBS_OBJECT_QP, UVERBS_OBJECT_SRQ,
};

use crate::ah::Ah;
use crate::cm::{self, Manager};
use crate::cq::Cq;
use crate::device_profile::DeviceProfile;
use crate::event;
use crate::fault::Script;
use crate::files::{FileId, Files};
use crate::mr::Mr;
use crate::mw::Mw;
use crate::profile::Profile;
use crate::qp::Qp;
use crate::ring::Shared;
use crate::seen::Seen;
use crate::srq::Srq;
use crate::waiting::Event;
use uverbs_core::error::Errno;
use uverbs_core::types::DriverId;

/// The kind of object that a handle refers to.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum Kind {
    Pd,
    Mr,
    Mw,
    Cq,
    Qp,
    Srq,
    Ah,
}

impl Kind {
    /// The kind of a `UVERBS_OBJECT_*`.
    pub(super) fn of_object(object: u16) -> Option<Self> {
        Some(match object {
            UVERBS_OBJECT_PD => Self::Pd,
            UVERBS_OBJECT_MR => Self::Mr,
            UVERBS_OBJECT_MW => Self::Mw,
            UVERBS_OBJECT_CQ => Self::Cq,
            UVERBS_OBJECT_QP => Self::Qp,
            UVERBS_OBJECT_SRQ => Self::Srq,
            UVERBS_OBJECT_AH => Self::Ah,
            _ => return None,
        })
    }
}

/// What an event belongs to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Owner {
    /// A completion event of that completion queue.
    Completion(u32),
    /// An asynchronous event of that object.
    Asynchronous(Kind, u32),
    /// An event of that id of the connection manager.
    Id(u32),
    /// A request that a listener got, and the id for it.
    Request { listener: u32, child: u32 },
    /// An event of that multicast group.
    Join(u32),
}

/// One opened device with a context.
#[derive(Debug, Default)]
pub(super) struct Context {
    /// The first asynchronous event file, to which objects report unless they were created with
    /// another.
    pub(super) events: Option<FileId>,
}

/// An announced queue, which can be mapped once.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) file: FileId,
    pub(super) offset: u64,
    pub(super) size: u32,
    pub(super) memory: Arc<Shared>,
}

/// How the kernel behaves after the device was removed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum AfterRemoval {
    /// Destroy commands still succeed, as the uverbs core answers them.
    DestroySucceeds,
    /// Destroy commands fail with EIO like all others.
    DestroyFails,
}

/// The state behind one fake kernel.
#[derive(Debug)]
pub(super) struct State {
    pub(super) profile: Profile,
    /// The device that it imitates, if not its own rxe device.
    pub(super) device: Option<Arc<DeviceProfile>>,
    pub(super) script: Script,
    pub(super) calls: u64,
    pub(super) seen: Vec<Seen>,
    pub(super) removed: Option<AfterRemoval>,
    pub(super) frozen: bool,
    pub(super) files: Files,
    pub(super) contexts: BTreeMap<FileId, Context>,
    /// How often a file was refused a context so far, as the imitated device's kernel did.
    pub(super) refused: BTreeMap<FileId, usize>,
    handles: BTreeMap<(FileId, u32), (Kind, u32)>,
    /// Handles of a file below this one are all taken.
    taken: BTreeMap<FileId, u32>,
    pub(super) pending: Vec<Pending>,
    next_offset: u64,
    next_id: BTreeMap<Kind, u32>,
    pub(super) pds: BTreeSet<u32>,
    pub(super) mrs: BTreeMap<u32, Mr>,
    pub(super) mws: BTreeMap<u32, Mw>,
    pub(super) cqs: BTreeMap<u32, Cq>,
    pub(super) qps: BTreeMap<u32, Qp>,
    /// Queue pairs with a request that found its receiver not ready, and those that were one.
    pub(super) retrying: BTreeSet<u32>,
    pub(super) srqs: BTreeMap<u32, Srq>,
    pub(super) ahs: BTreeMap<u32, Ah>,
    pub(super) cm: Manager,
}

impl State {
    pub(super) fn new(profile: Profile) -> Self {
        Self {
            profile,
            device: None,
            script: Script::default(),
            calls: 0,
            seen: Vec::new(),
            removed: None,
            frozen: false,
            files: Files::default(),
            contexts: BTreeMap::new(),
            refused: BTreeMap::new(),
            handles: BTreeMap::new(),
            taken: BTreeMap::new(),
            pending: Vec::new(),
            next_offset: 4096,
            next_id: BTreeMap::new(),
            pds: BTreeSet::new(),
            mrs: BTreeMap::new(),
            mws: BTreeMap::new(),
            cqs: BTreeMap::new(),
            qps: BTreeMap::new(),
            retrying: BTreeSet::new(),
            srqs: BTreeMap::new(),
            ahs: BTreeMap::new(),
            cm: Manager::default(),
        }
    }

    pub(super) fn driver(&self) -> DriverId {
        self.device
            .as_ref()
            .map_or(DriverId::Rxe, |device| device.driver)
    }

    /// Like [`context`](Self::context), for objects with queues, which only rxe devices have.
    ///
    /// # Errors
    /// EOPNOTSUPP for a device of another driver.
    pub(super) fn context_with_queues(&self, file: FileId) -> Result<&Context, Errno> {
        let context = self.context(file)?;
        if self.driver() == DriverId::Rxe {
            Ok(context)
        } else {
            Err(Errno::OPNOTSUPP)
        }
    }

    /// # Errors
    /// EINVAL before GET_CONTEXT.
    pub(super) fn context(&self, file: FileId) -> Result<&Context, Errno> {
        self.contexts.get(&file).ok_or(Errno::INVAL)
    }

    /// A new number assigned by the device: queue pair numbers, key indexes and the like.
    ///
    /// # Errors
    /// ENOMEM: no number of the kind is left; numbers are not reused. Keys and numbers on the wire
    /// have 24 bits for them, and regions and windows share one number space.
    pub(super) fn fresh_id(&mut self, kind: Kind) -> Result<u32, Errno> {
        const FIRST_WINDOW: u32 = 0x0008_0001;
        const NUMBERS: u32 = 1 << 24;
        let (first, end) = match kind {
            Kind::Qp => (17, NUMBERS),
            Kind::Srq => (0x0002_0001, NUMBERS),
            Kind::Mr => (1, FIRST_WINDOW),
            Kind::Mw => (FIRST_WINDOW, NUMBERS),
            _ => (1, u32::MAX),
        };
        let next = self.next_id.entry(kind).or_insert(first);
        if *next >= end {
            return Err(Errno::NOMEM);
        }
        *next += 1;
        Ok(*next - 1)
    }

    /// Allocates the lowest free handle of a file; all kinds of objects share one handle space.
    pub(super) fn new_handle(&mut self, file: FileId, kind: Kind, id: u32) -> u32 {
        let lowest = self.taken.entry(file).or_default();
        let mut handle = *lowest;
        for (_, taken) in self
            .handles
            .range((file, handle)..=(file, u32::MAX))
            .map(|(key, _)| *key)
        {
            if taken != handle {
                break;
            }
            handle += 1;
        }
        *lowest = handle + 1;
        self.handles.insert((file, handle), (kind, id));
        handle
    }

    /// The object behind a handle.
    ///
    /// # Errors
    /// ENOENT if there is none; EINVAL if it is of another kind.
    pub(super) fn lookup(&self, file: FileId, kind: Kind, handle: u32) -> Result<u32, Errno> {
        match self.handles.get(&(file, handle)) {
            Some((found, id)) if *found == kind => Ok(*id),
            Some(_) => Err(Errno::INVAL),
            None => Err(Errno::NOENT),
        }
    }

    /// Destroys an object and frees its handle.
    ///
    /// # Errors
    /// EBUSY while something uses the object; those of [`lookup`](Self::lookup).
    pub(super) fn destroy(
        &mut self,
        file: FileId,
        kind: Kind,
        handle: u32,
    ) -> Result<Counts, Errno> {
        let id = self.lookup(file, kind, handle)?;
        if self.removed.is_none() && self.is_used(kind, id)? {
            return Err(Errno::BUSY);
        }
        let counts = self.release(kind, id);
        self.handles.remove(&(file, handle));
        if let Some(lowest) = self.taken.get_mut(&file) {
            *lowest = handle.min(*lowest);
        }
        Ok(counts)
    }

    fn is_used(&self, kind: Kind, id: u32) -> Result<bool, Errno> {
        Ok(match kind {
            Kind::Pd => {
                self.mrs.values().any(|mr| mr.pd == id)
                    || self.mws.values().any(|mw| mw.pd == id)
                    || self.qps.values().any(|qp| qp.pd == id)
                    || self.srqs.values().any(|srq| srq.pd == id)
                    || self.ahs.values().any(|ah| ah.pd == id)
            }
            Kind::Cq => self
                .qps
                .values()
                .any(|qp| qp.send_cq == id || qp.recv_cq == id),
            Kind::Srq => self.qps.values().any(|qp| qp.srq == Some(id)),
            Kind::Qp => self.qps.get(&id).is_some_and(|qp| !qp.groups.is_empty()),
            // rxe refuses with EINVAL rather than EBUSY while a window is bound.
            Kind::Mr if self.mws.values().any(|mw| mw.mr == Some(id)) => return Err(Errno::INVAL),
            Kind::Mr | Kind::Mw | Kind::Ah => false,
        })
    }

    /// Removes an object of the device, with its unread events.
    fn release(&mut self, kind: Kind, id: u32) -> Counts {
        let its = [Owner::Asynchronous(kind, id), Owner::Completion(id)];
        let its = if kind == Kind::Cq {
            &its[..]
        } else {
            &its[..1]
        };
        let mut read = Vec::new();
        for file in self.files.iter_mut() {
            let is_its = |event: &Event| event.owner.is_some_and(|owner| its.contains(&owner));
            read.extend(file.waiting.settle());
            read.extend(file.waiting.remove(is_its).read);
        }
        event::count_all(self, &read);
        match kind {
            Kind::Cq => self.cqs.remove(&id).map(|cq| cq.counts),
            Kind::Qp => self.qps.remove(&id).map(|qp| qp.counts),
            Kind::Srq => self.srqs.remove(&id).map(|srq| srq.counts),
            Kind::Pd => self.pds.remove(&id).then(Counts::default),
            Kind::Mr => self.mrs.remove(&id).map(|_| Counts::default()),
            Kind::Mw => self.mws.remove(&id).map(|_| Counts::default()),
            Kind::Ah => self.ahs.remove(&id).map(|_| Counts::default()),
        }
        .unwrap_or_default()
    }

    /// Announces a queue's memory for `mmap(2)`.
    pub(super) fn announce(
        &mut self,
        file: FileId,
        memory: &Arc<Shared>,
    ) -> uverbs_uapi::rdma_user_rxe::mminfo {
        let size = u32::try_from(memory.len()).unwrap_or(u32::MAX);
        let offset = self.next_offset;
        self.next_offset += u64::from(size);
        self.pending.push(Pending {
            file,
            offset,
            size,
            memory: Arc::clone(memory),
        });
        uverbs_uapi::rdma_user_rxe::mminfo {
            offset,
            size,
            pad: 0,
        }
    }

    /// The handles of one kind in a file.
    pub(super) fn handles_of(&self, file: FileId, kind: Kind) -> Vec<u32> {
        self.handles
            .range((file, 0)..=(file, u32::MAX))
            .filter(|(_, (found, _))| *found == kind)
            .map(|((_, handle), _)| *handle)
            .collect()
    }

    /// Releases files whose last descriptor was closed, as the kernel does.
    pub(super) fn reap(&mut self) {
        for file in self.files.reap() {
            cm::close_file(self, file);
            self.contexts.remove(&file);
            self.refused.remove(&file);
            self.taken.remove(&file);
            self.pending.retain(|pending| pending.file != file);
            let owned: Vec<_> = self
                .handles
                .range((file, 0)..=(file, u32::MAX))
                .map(|(key, what)| (*key, *what))
                .collect();
            for (key, (kind, id)) in owned {
                self.release(kind, id);
                self.handles.remove(&key);
            }
        }
    }
}

/// Events that were read, for the replies of destroy commands.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) completions: u32,
    pub(super) asynchronous: u32,
}
