//! The queue pair for one local address of a socket, with its memory: a place for each request.

use std::net::SocketAddr;
use std::sync::Arc;

use uverbs_compat_base::abi::{ibv_pd, ibv_sge};
use uverbs_core::cm::CmAddress;

use super::super::link::Link;
use super::super::memory::{LOCAL, Region};
use super::super::queues::Queues;
use super::super::settings::Sizes;
use super::super::sleep;
use super::queues::{Completion, HEADER, Handle};
use super::wire;
use crate::abi::qp_type;
use crate::answer::Answer;
use crate::errno::Code;
use crate::failure::NO_DEVICE;
use crate::{listen, peer, verbs};

/// Bytes of a place: the most that a datagram has, with where it is from.
pub(super) const PLACE: u32 = 2048;

pub(super) struct Local {
    /// Where each datagram from here is from.
    pub(super) address: SocketAddr,
    origin: Vec<u8>,
    pub(super) queues: Queues,
    pub(super) qp_num: u32,
    pub(super) is_armed: bool,
    pub(super) is_broken: bool,
    inline: u32,
    /// The most bytes of a datagram, without where it is from.
    pub(super) most: usize,
    /// For each place to send from, the way of what is under way.
    sends: Vec<Option<Arc<Handle>>>,
    free: Vec<usize>,
    receives: u32,
    staging: Region,
    ring: Region,
    link: Owned,
}

impl Local {
    pub(super) fn new(address: SocketAddr, sizes: Sizes) -> Answer<Self> {
        let link = Owned(Link::for_datagrams()?);
        let id = link.0.id()?;
        let storage = peer::store(Some(CmAddress::from(address)));
        listen::bind(id, (&raw const storage).cast())?;
        let context = id.c.verbs.get();
        if context.is_null() {
            return Err(NO_DEVICE);
        }
        let device = verbs::query_device(context)?.max_qp_wr;
        let sizes = sizes.of_datagrams(u32::try_from(device).unwrap_or(0), PLACE);
        let inline = link.0.create_queues(sizes, qp_type::UD, [1, 2])?;
        let queues = link.0.queues()?;
        sleep::do_not_block(queues.fd)?;
        let port = verbs::query_port(context, id.c.port_num.get())?;
        let mtu = 128_u32 << port.active_mtu.clamp(1, 5);
        let origin = wire::origin(address);
        let local = Self {
            address,
            qp_num: queues.qp_num(),
            is_armed: false,
            is_broken: false,
            inline,
            most: (mtu.min(PLACE) as usize).saturating_sub(origin.len()),
            origin,
            receives: sizes.receives,
            sends: vec![None; sizes.sends as usize],
            free: (0..sizes.sends as usize).collect(),
            staging: Region::new(queues.pd(), sizes.sends * PLACE, LOCAL)?,
            ring: Region::new(queues.pd(), sizes.receives * PLACE + HEADER, LOCAL)?,
            queues,
            link,
        };
        for place in 0..sizes.receives {
            local.give_back(place as usize)?;
        }
        Ok(local)
    }

    pub(super) fn pd(&self) -> *mut ibv_pd {
        self.queues.pd()
    }

    /// Posts the request for a place of the ring. The networks' headers, which are not read, share
    /// one place behind them.
    pub(super) fn give_back(&self, place: usize) -> Answer<()> {
        let at = u32::try_from(place).map_err(|_| Code::INVALID)?;
        let part = |at: u32, length| ibv_sge {
            addr: self.ring.address() + u64::from(at),
            length,
            lkey: self.ring.local_key(),
        };
        let parts = [part(self.receives * PLACE, HEADER), part(at * PLACE, PLACE)];
        self.queues.post_room(place, parts)
    }

    /// Copies from a place of the ring.
    pub(super) fn read(&self, place: usize, at: usize, bytes: &mut [u8]) -> bool {
        self.ring.read(place * PLACE as usize + at, bytes)
    }

    pub(super) fn has_room(&self) -> bool {
        !self.free.is_empty()
    }

    /// All that was sent has left, or nothing leaves any more.
    pub(super) fn is_idle(&self) -> bool {
        self.is_broken || self.free.len() == self.sends.len()
    }

    /// Sends a datagram, for which there has to be room: false if there is none.
    pub(super) fn send(&mut self, parts: &[&[u8]], to: &Arc<Handle>, qpn: u32) -> Answer<bool> {
        let Some(place) = self.free.pop() else {
            return Ok(false);
        };
        let start = place * PLACE as usize;
        let mut end = start;
        let mut fits = true;
        for part in std::iter::once(&&self.origin[..]).chain(parts) {
            fits &= self.staging.write(end, part);
            end += part.len();
        }
        let length = u32::try_from(end - start).unwrap_or(u32::MAX);
        let sge = ibv_sge {
            addr: self.staging.address() + start as u64,
            length,
            lkey: self.staging.local_key(),
        };
        let posted = if fits && length <= PLACE {
            let is_inline = length <= self.inline;
            self.queues.post_datagram(place, sge, (to, qpn), is_inline)
        } else {
            Err(Code::new(libc::EMSGSIZE))
        };
        match posted {
            Ok(()) => {
                if let Some(way) = self.sends.get_mut(place) {
                    *way = Some(Arc::clone(to));
                }
                Ok(true)
            }
            Err(code) => {
                self.free.push(place);
                Err(code)
            }
        }
    }

    /// Takes all completions: the places that something has arrived in, and its lengths without
    /// the network's header. True if there were any.
    pub(super) fn process(&mut self, mut arrived: impl FnMut(usize, usize)) -> bool {
        let mut has_changed = false;
        while !self.is_broken {
            let (sends, free) = (&mut self.sends, &mut self.free);
            let mut again = Vec::new();
            let count = self.queues.poll_datagrams(|completion| match completion {
                Completion::Sent(place) => {
                    if sends.get_mut(place).and_then(Option::take).is_some() {
                        free.push(place);
                    }
                }
                Completion::Arrived(place, length) => {
                    match length.checked_sub(HEADER).filter(|length| *length > 0) {
                        Some(length) => arrived(place, length as usize),
                        None => again.push(place),
                    }
                }
            });
            let failed = again
                .into_iter()
                .any(|place| self.give_back(place).is_err());
            self.is_broken = count.is_none() || failed;
            has_changed |= count != Some(0);
            if count.is_none_or(|count| count == 0) {
                break;
            }
        }
        has_changed
    }

    pub(super) fn arm(&mut self) {
        if !self.is_armed && !self.is_broken {
            self.is_armed = true;
            self.is_broken = self.queues.arm().is_err();
        }
    }

    /// Takes the event that a thread was woken for.
    pub(super) fn awake(&mut self, events: i16) {
        if events != 0 && self.is_armed && self.queues.take_event() {
            self.is_armed = false;
        } else if events & !libc::POLLIN != 0 {
            self.is_broken = true;
        }
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        // Before the memory and the ways that they use, and that after it the id.
        self.link.0.destroy_queues();
    }
}

/// A link that ends with its queues.
struct Owned(Link);

impl Drop for Owned {
    fn drop(&mut self) {
        self.0.destroy_queues();
    }
}
