//! The id below a socket, with a channel of its own, and its events.
//!
//! # Safety
//!
//! The id is this library's own, and is destroyed with its link, which nothing outlives. What of it
//! changes (`Cell`) is accessed only before the link is shared, and by the thread that has locked
//! the socket's progress.
#![allow(unsafe_code, reason = "shares an id between threads")]

use std::ffi::c_int;

use uverbs_compat_base::abi::{ibv_qp_cap, ibv_qp_init_attr};
use uverbs_core::cm::EventKind;

use super::queues::Queues;
use super::settings::Sizes;
use super::sleep;
use crate::abi::{port_space, qp_type, rdma_conn_param};
use crate::answer::Answer;
use crate::errno::Code;
use crate::event::{self, Event};
use crate::id::{self, Id};
use crate::pointer::{Handle, In};
use crate::{channel, events, qp, verbs, wait};

pub(super) struct Link {
    id: Handle<Id>,
    /// Of its channel: this is the socket's number.
    pub(super) fd: c_int,
}

// SAFETY: its socket sees to it that one thread at a time changes it.
unsafe impl Send for Link {}
// SAFETY: as above.
unsafe impl Sync for Link {}

/// An event, until it is dealt with.
pub(super) struct Arrived(Handle<Event>);

impl Link {
    pub(super) fn new() -> Answer<Self> {
        Self::with(port_space::TCP, qp_type::RC)
    }

    pub(super) fn for_datagrams() -> Answer<Self> {
        Self::with(port_space::UDP, qp_type::UD)
    }

    fn with(space: u32, kind: u32) -> Answer<Self> {
        let none = std::ptr::null_mut();
        Self::of(id::create(Handle::of(none), none.cast(), space, kind)?)
    }

    /// Of an id that has a channel of its own.
    fn of(id: Handle<Id>) -> Answer<Self> {
        let fd = channel::descriptor(id.get()?.channel_handle());
        let link = Self { id, fd };
        sleep::do_not_block(fd)?;
        Ok(link)
    }

    pub(super) fn id(&self) -> Answer<&Id> {
        self.id.get()
    }

    /// The next event, if there is one.
    pub(super) fn next(&self) -> Answer<Option<Arrived>> {
        let mut event = std::ptr::null_mut();
        if events::next(self.id()?.channel_handle(), &mut event) == 0 {
            return Ok(Some(Arrived(Handle::of(event))));
        }
        match Code::last() {
            code if code.number() == libc::EAGAIN => Ok(None),
            code => Err(code),
        }
    }

    /// Creates a queue pair, and one completion queue with a channel for it: how many bytes its
    /// requests carry inline.
    pub(super) fn create_queues(&self, sizes: Sizes, kind: u32, parts: [u32; 2]) -> Answer<u32> {
        let id = self.id()?;
        let context = id.c.verbs.get();
        let channel = verbs::create_comp_channel(context)?;
        id.c.recv_cq_channel.set(channel);
        id.c.send_cq_channel.set(channel);
        let entries = c_int::try_from(sizes.sends + sizes.receives).map_err(|_| Code::INVALID)?;
        let cq = verbs::create_cq(context, entries, std::ptr::null_mut(), channel, 0)?;
        id.c.recv_cq.set(cq);
        id.c.send_cq.set(cq);
        let [max_send_sge, max_recv_sge] = parts;
        let mut attr = ibv_qp_init_attr {
            qp_context: std::ptr::null_mut(),
            send_cq: cq,
            recv_cq: cq,
            srq: std::ptr::null_mut(),
            cap: ibv_qp_cap {
                max_send_wr: sizes.sends,
                max_recv_wr: sizes.receives,
                max_send_sge,
                max_recv_sge,
                max_inline_data: sizes.inline,
            },
            qp_type: kind,
            sq_sig_all: 1,
        };
        qp::create(id, std::ptr::null_mut(), &mut attr)?;
        Ok(attr.cap.max_inline_data)
    }

    /// Those that [`Self::create_queues`] made.
    pub(super) fn queues(&self) -> Answer<Queues> {
        let c = &self.id()?.c;
        Queues::new(c.qp.get(), c.recv_cq.get(), c.recv_cq_channel.get())
    }

    /// Destroys the queues, if there are any.
    pub(super) fn destroy_queues(&self) {
        if let Ok(id) = self.id() {
            qp::destroy(id);
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        let _ = id::destroy(self.id);
    }
}

impl Arrived {
    fn event(&self) -> Answer<&Event> {
        self.0.get()
    }

    pub(super) fn kind(&self) -> Answer<EventKind> {
        Ok(EventKind::from_raw(self.event()?.c.event))
    }

    /// The error that it stands for.
    pub(super) fn outcome(&self) -> Answer<()> {
        wait::outcome(In::of(self.0.raw()))
    }

    pub(super) fn private_data(&self) -> Answer<&[u8]> {
        Ok(self.event()?.private_data())
    }

    pub(super) fn parameters(&self) -> Answer<rdma_conn_param> {
        Ok(self.event()?.connection())
    }

    /// The link of a request's id.
    pub(super) fn request(&self) -> Answer<Link> {
        Link::of(Handle::of(self.event()?.c.id))
    }
}

impl Drop for Arrived {
    fn drop(&mut self) {
        let _ = event::acknowledge(self.0);
    }
}
