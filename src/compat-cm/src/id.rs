//! Ids: a connection, a listener or a datagram service of a program.
//!
//! # Safety
//!
//! Exports names of the library that this one stands for.
#![allow(unsafe_code, reason = "exports names")]

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use uverbs_compat_base::abi::{ibv_qp_init_attr, ibv_sa_path_rec};
use uverbs_core::cm::{self, PortSpace};
use uverbs_core::types::{Ece, QpType};

use crate::abi::{
    Storage, port_space, qp_type, rdma_addr, rdma_cm_id, rdma_event_channel, rdma_ib_addr,
    rdma_route,
};
use crate::answer::{Answer, minus_one};
use crate::channel::{self, Channel};
use crate::device::Device;
use crate::errno::Code;
use crate::event;
use crate::failure::NO_DEVICE;
use crate::multicast::Join;
use crate::pointer::{Handle, Object, Out};
use crate::table::{Owner, Target, Uid};

/// An id.
#[repr(C)]
pub(crate) struct Id {
    pub(crate) c: rdma_cm_id,
    /// The kernel's number.
    number: AtomicU32,
    pub(crate) uid: Uid,
    pub(crate) shared: Arc<Shared>,
    state: Mutex<State>,
}

impl Object for Id {
    type C = rdma_cm_id;
}

/// What outlives an id until its last event is acknowledged.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    acknowledged: Mutex<u32>,
    changed: Condvar,
}

/// What only this library knows of an id.
#[derive(Default)]
pub(crate) struct State {
    /// Functions wait for their events, on a channel that nobody else has.
    pub(crate) is_synchronous: bool,
    /// Connecting has failed here: what the peer answers to that is not reported.
    pub(crate) has_failed: bool,
    pub(crate) initiator_depth: u8,
    pub(crate) responder_resources: u8,
    pub(crate) local_ece: Ece,
    pub(crate) remote_ece: Ece,
    pub(crate) device: Option<Arc<Device>>,
    /// What comes before the program's private data.
    pub(crate) connect_header: Vec<u8>,
    /// What `rdma_get_request` creates queue pairs with.
    pub(crate) qp_init: Option<ibv_qp_init_attr>,
    pub(crate) joins: Vec<Arc<Join>>,
    /// All paths that C was given: it may still read them.
    pub(crate) paths: Vec<Box<[Cell<ibv_sa_path_rec>]>>,
}

impl Shared {
    /// Counts an event that is dealt with.
    pub(crate) fn acknowledge(&self) {
        *self.count() += 1;
        self.changed.notify_all();
    }

    /// Waits until as many events are dealt with as the kernel has delivered.
    pub(crate) fn until_acknowledged(&self, delivered: u32) {
        let mut count = self.count();
        while *count < delivered {
            count = self
                .changed
                .wait(count)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn count(&self) -> MutexGuard<'_, u32> {
        self.acknowledged
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Id {
    /// An id that the kernel does not know yet, on a channel.
    pub(crate) fn new(
        channel: Handle<Channel>,
        context: *mut c_void,
        space: u32,
        qp_type: u32,
    ) -> Handle<Self> {
        let none = Storage([0; 128]);
        let c = rdma_cm_id {
            verbs: Cell::default_null(),
            channel: Cell::new(channel.raw()),
            context: Cell::new(context),
            qp: Cell::default_null(),
            route: rdma_route {
                addr: rdma_addr {
                    src_storage: Cell::new(none),
                    dst_storage: Cell::new(none),
                    addr: Cell::new(rdma_ib_addr::default()),
                },
                path_rec: Cell::default_null(),
                num_paths: Cell::new(0),
            },
            ps: space,
            port_num: Cell::new(0),
            event: Cell::default_null(),
            send_cq_channel: Cell::default_null(),
            send_cq: Cell::default_null(),
            recv_cq_channel: Cell::default_null(),
            recv_cq: Cell::default_null(),
            srq: Cell::default_null(),
            pd: Cell::default_null(),
            qp_type,
        };
        let id = Box::new(Self {
            c,
            number: AtomicU32::new(u32::MAX),
            uid: Uid::new(),
            shared: Arc::default(),
            state: Mutex::default(),
        });
        let shared = Arc::clone(&id.shared);
        let id = Box::into_raw(id);
        let handle = Handle::<Self>::of(Self::to_c(id));
        if let Ok(id) = handle.get() {
            id.uid.is(Target::Id(Owner::new(handle, &shared)));
        }
        handle
    }

    /// The kernel's number.
    pub(crate) fn number(&self) -> u32 {
        self.number.load(Ordering::Relaxed)
    }

    pub(crate) fn set_number(&self, number: u32) {
        self.number.store(number, Ordering::Relaxed);
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn channel<'a>(&self) -> Answer<&'a Channel> {
        self.channel_handle().get()
    }

    pub(crate) fn channel_handle(&self) -> Handle<Channel> {
        Handle::of(self.c.channel.get())
    }

    /// Its device.
    ///
    /// # Errors
    /// ENODEV: it has none yet.
    pub(crate) fn device(&self) -> Answer<Arc<Device>> {
        self.state().device.clone().ok_or(NO_DEVICE)
    }

    pub(crate) fn is_datagram(&self) -> bool {
        self.c.qp_type == qp_type::UD
    }

    /// Acknowledges the event that a synchronous function left for the program to read.
    pub(crate) fn drop_event(&self) {
        let event = self.c.event.replace(std::ptr::null_mut());
        let _ = event::acknowledge(Handle::of(event));
    }

    /// Forgets an id that the kernel does not know, or no longer.
    pub(crate) fn discard(&self) {
        self.uid.forget();
        for join in self.state().joins.drain(..) {
            join.uid.forget();
        }
        if self.state().is_synchronous {
            let _ = channel::close(self.channel_handle());
        }
        self.free();
    }
}

/// A cell with a pointer to nothing.
trait Null {
    fn default_null() -> Self;
}

impl<T> Null for Cell<*mut T> {
    fn default_null() -> Self {
        Self::new(std::ptr::null_mut())
    }
}

/// Creates an id on a channel, or on one of its own if there is none.
pub(crate) fn create(
    channel: Handle<Channel>,
    context: *mut c_void,
    space: u32,
    qp_type: u32,
) -> Answer<Handle<Id>> {
    let is_synchronous = channel.raw().is_null();
    let channel = if is_synchronous {
        channel::open()?
    } else {
        channel
    };
    let handle = Id::new(channel, context, space, qp_type);
    let id = handle.get()?;
    id.state().is_synchronous = is_synchronous;
    let number = u16::try_from(space)
        .map_err(|_| Code::INVALID)
        .and_then(|space| {
            let kind = QpType::from_raw(qp_type);
            let space = PortSpace::from_raw(space);
            let file = &channel.get()?.file;
            Ok(cm::create_id(file, id.uid.number(), space, kind)?)
        });
    match number {
        Ok(number) => {
            id.set_number(number);
            Ok(handle)
        }
        Err(code) => {
            id.discard();
            Err(code)
        }
    }
}

/// Destroys an id, and waits until each event that was read is acknowledged.
pub(crate) fn destroy(handle: Handle<Id>) -> Answer<()> {
    let id = handle.get()?;
    let delivered = cm::destroy_id(&id.channel()?.file, id.number())?;
    id.drop_event();
    id.shared.until_acknowledged(delivered);
    id.discard();
    Ok(())
}

/// Moves an id to another channel, or to one of its own if there is none, and waits until each
/// event that was read is acknowledged.
pub(crate) fn migrate(id: &Id, channel: Handle<Channel>) -> Answer<()> {
    let was_synchronous = id.state().is_synchronous;
    let is_synchronous = channel.raw().is_null();
    if was_synchronous && is_synchronous {
        return Err(Code::INVALID);
    }
    let channel = if is_synchronous {
        channel::open()?
    } else {
        channel
    };
    let new = channel.get()?;
    let delivered = match cm::migrate_id(&new.file, &id.channel()?.file, id.number()) {
        Ok(delivered) => delivered,
        Err(error) => {
            if is_synchronous {
                channel::close(channel)?;
            }
            return Err(error.into());
        }
    };
    if was_synchronous {
        id.drop_event();
        channel::close(id.channel_handle())?;
    }
    id.state().is_synchronous = is_synchronous;
    id.c.channel.set(channel.raw());
    id.shared.until_acknowledged(delivered);
    Ok(())
}

#[unsafe(no_mangle)]
extern "C" fn rdma_create_id(
    channel: Handle<Channel>,
    into: Out<*mut rdma_cm_id>,
    context: *mut c_void,
    space: u32,
) -> c_int {
    minus_one(|| {
        into.get()?;
        let kind = match space {
            port_space::IPOIB | port_space::UDP => qp_type::UD,
            _ => qp_type::RC,
        };
        into.put(create(channel, context, space, kind)?.raw())?;
        Ok(0)
    })
}

#[unsafe(no_mangle)]
extern "C" fn rdma_destroy_id(id: Handle<Id>) -> c_int {
    minus_one(|| destroy(id).map(|()| 0))
}

#[unsafe(no_mangle)]
extern "C" fn rdma_migrate_id(id: Handle<Id>, channel: *mut rdma_event_channel) -> c_int {
    minus_one(|| migrate(id.get()?, Handle::of(channel)).map(|()| 0))
}
