//! The queues and the memory of a connection.

use std::sync::OnceLock;
use std::sync::atomic::{Ordering, fence};

use uverbs_compat_base::abi::{ibv_pd, ibv_sge};

use super::flow::Flow;
use super::link::Link;
use super::memory::{LOCAL, REMOTE, Region};
use super::queues::{Queues, Write};
use super::settings::Sizes;
use super::wire::{ENTRY, Entry, Hello, MAP, Message, TARGETS, entry};
use crate::abi::qp_type;
use crate::answer::Answer;
use crate::connect::IWARP;
use crate::errno::Code;
use crate::failure::NO_DEVICE;
use crate::pointer::In;
use crate::verbs;

/// Places for entries on their way to the peer, behind the staging ring.
const PLACES: u32 = 4;

pub(super) struct Endpoint {
    pub(super) queues: Queues,
    pub(super) sizes: Sizes,
    /// What is sent from here: a ring.
    pub(super) staging: Region,
    /// What the peer writes into: a ring in two halves.
    pub(super) ring: Region,
    /// The peer's buffers, and its mapped memory, as it says here.
    pub(super) lists: Region,
    /// What the peer said in the handshake.
    remote: OnceLock<Hello>,
}

impl Endpoint {
    /// For an id that has a device. If this fails, the id may have queues.
    pub(super) fn new(link: &Link, sizes: Sizes) -> Answer<Self> {
        let id = link.id()?;
        let context = id.c.verbs.get();
        let device = In::of(context).get().map_err(|_| NO_DEVICE)?.device;
        if In::of(device).get()?.transport_type == IWARP {
            return Err(Code::UNSUPPORTED);
        }
        let most = verbs::query_device(context)?.max_qp_wr;
        let mut sizes = sizes.on(u32::try_from(most).unwrap_or(0));
        sizes.inline = link.create_queues(sizes, qp_type::RC, [2, 1])?;
        let pd = id.c.pd.get();
        let list = TARGETS * ENTRY + sizes.maps * MAP;
        let endpoint = Self {
            queues: link.queues()?,
            staging: Region::new(pd, sizes.staging + PLACES * ENTRY, LOCAL)?,
            ring: Region::new(pd, sizes.ring, LOCAL | REMOTE)?,
            lists: Region::new(pd, list, LOCAL | REMOTE)?,
            sizes,
            remote: OnceLock::new(),
        };
        super::sleep::do_not_block(endpoint.queues.fd)?;
        endpoint.queues.post_receives(sizes.receives)?;
        Ok(endpoint)
    }

    pub(super) fn pd(&self) -> *mut ibv_pd {
        self.queues.pd()
    }

    /// What the peer is told in the handshake.
    pub(super) fn hello(&self) -> Hello {
        Hello {
            credits: u16::try_from(self.sizes.receives).unwrap_or(u16::MAX),
            maps: self.sizes.maps,
            targets: Entry {
                address: self.lists.address(),
                key: self.lists.remote_key(),
                length: TARGETS,
            },
            buffer: self.half(0),
            order: super::wire::Order::default(),
        }
    }

    /// What the peer said, once it did.
    pub(super) fn remote(&self) -> Option<&Hello> {
        self.remote.get()
    }

    pub(super) fn set_remote(&self, hello: Hello) {
        let _ = self.remote.set(hello);
    }

    /// A half of the ring, for the peer.
    fn half(&self, half: u32) -> Entry {
        let length = self.sizes.ring / 2;
        Entry {
            address: self.ring.address() + u64::from(half * length),
            key: self.ring.remote_key(),
            length,
        }
    }

    /// Looks for the peer's next buffer, if there is none. The peer writes an entry before it says
    /// so, its length last.
    pub(super) fn refresh(&self, flow: &mut Flow) {
        const HALF: usize = ENTRY as usize / 2;
        let Some(at) = flow.wants_target() else {
            return;
        };
        let place = (at * ENTRY) as usize;
        let mut bytes = [0; ENTRY as usize];
        let (address, rest) = bytes.split_at_mut(HALF);
        if !self.lists.read(place + HALF, rest) {
            return;
        }
        fence(Ordering::Acquire);
        if !self.lists.read(place, address) {
            return;
        }
        let found = entry(bytes);
        // The entry is the peer's again before the last of its bytes are sent.
        if found.length > 0 && self.lists.write(place + 12, &[0; 4]) {
            flow.set_target(found);
        }
    }

    /// Tells the peer what it may send, if it is time.
    pub(super) fn update(&self, flow: &mut Flow) -> Answer<()> {
        let (Some(remote), Some((message, half))) = (self.remote(), flow.update()) else {
            return Ok(());
        };
        let Some(half) = half else {
            return self.post_message(message);
        };
        let bytes = remote.order.entry(self.half(half));
        let at = flow.remote_at;
        flow.remote_at = (at + 1) % remote.targets.length.max(1);
        let place = self.sizes.staging + (flow.next_place() % PLACES) * ENTRY;
        if !self.staging.write(place as usize, &bytes) {
            return Err(Code::INVALID);
        }
        let part = self.part(place, ENTRY);
        self.queues.post_write(&Write {
            address: remote
                .targets
                .address
                .wrapping_add(u64::from(at) * u64::from(ENTRY)),
            key: remote.targets.key,
            parts: std::slice::from_ref(&part),
            is_inline: self.sizes.inline >= ENTRY,
            message,
        })
    }

    /// Sends a message without data.
    pub(super) fn post_message(&self, message: Message) -> Answer<()> {
        self.queues.post_write(&Write {
            address: 0,
            key: 0,
            parts: &[],
            is_inline: false,
            message,
        })
    }

    /// A part of the staging region.
    fn part(&self, at: u32, length: u32) -> ibv_sge {
        ibv_sge {
            addr: self.staging.address() + u64::from(at),
            length,
            lkey: self.staging.local_key(),
        }
    }

    /// Sends what is in the staging ring: `length` bytes from `at` on, around its end.
    pub(super) fn post_staged(
        &self,
        at: u32,
        length: u32,
        to: (u64, u32),
        message: Message,
    ) -> Answer<()> {
        let before = length.min(self.sizes.staging - at);
        let parts = [self.part(at, before), self.part(0, length - before)];
        let count = if before < length { 2 } else { 1 };
        self.queues.post_write(&Write {
            address: to.0,
            key: to.1,
            parts: parts.get(..count).unwrap_or_default(),
            is_inline: length <= self.sizes.inline,
            message,
        })
    }
}
