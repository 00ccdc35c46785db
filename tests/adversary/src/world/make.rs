//! Creating objects.

use uverbs::time::{AckTimeout, RetryCount, RnrRetry, RnrTimer};
use uverbs::{
    AccessFlags, PreparedQueuePair, ProtectionDomain, QpType, QueuePairBuilder, QueuePairEndpoint,
};

use super::made::{Body, Cq, Hand, Link, Pair, Site, Srq};
use super::{ENOUGH, FULL, World, pick};
use crate::device::SITES;
use crate::face;

/// Room for all completions that there can be at one time.
const ENTRIES: u32 = 255;
/// Number of requests in a queue.
const DEEP: u32 = 7;
/// Number of bytes that are copied into a queue.
pub(super) const INLINE: usize = 32;

/// What peers may do.
pub(super) const REMOTE: AccessFlags = AccessFlags::REMOTE_READ
    .union(AccessFlags::REMOTE_WRITE)
    .union(AccessFlags::REMOTE_ATOMIC);

/// Most programs stay at one site.
pub(super) fn site_of(number: u8) -> usize {
    match number >> 4 {
        14 => 1,
        15 => 2,
        _ => 0,
    }
    .min(SITES - 1)
}

impl World<'_> {
    fn uid(&mut self) -> u32 {
        u32::try_from(self.number()).unwrap_or(u32::MAX)
    }

    fn site(&mut self, at: usize) -> Option<&mut Site> {
        if self.sites[at].is_none() {
            let sink = self.traps.then(|| self.trap.clone() as _);
            let context = self.device.open(at, sink).ok()?;
            self.sites[at] = Some(Site {
                context,
                pds: [None, None],
            });
        }
        self.sites[at].as_mut()
    }

    pub(super) fn pd(&mut self, site: usize, which: usize) -> Option<ProtectionDomain> {
        let Site { context, pds } = self.site(site)?;
        let pd = &mut pds[which];
        if pd.is_none() {
            *pd = context.alloc_pd().ok();
        }
        pd.clone()
    }

    pub(super) fn make_cq(&mut self, a: u8) {
        let site = site_of(a);
        if self.cqs.len() >= ENOUGH {
            return;
        }
        let Some(Ok(queue)) = self.site(site).map(|site| site.context.create_cq(ENTRIES)) else {
            return;
        };
        let uid = self.uid();
        self.cqs.push(Cq {
            uid,
            site,
            queue: Some(queue),
        });
    }

    pub(super) fn make_srq(&mut self, a: u8, b: u8) {
        let (site, pd) = (site_of(a), usize::from(b & 0xf0 == 0xf0));
        if self.srqs.len() >= ENOUGH {
            return;
        }
        let Some(Ok(srq)) = self.pd(site, pd).map(|pd| pd.create_srq(DEEP, 1)) else {
            return;
        };
        let number = srq.number();
        let uid = self.uid();
        self.srqs.push(Srq {
            uid,
            site,
            pd,
            number,
            queue: face::own_shared(srq),
            users: Vec::new(),
        });
    }

    /// Creates one queue pair connected to itself, or two connected to each other.
    pub(super) fn make_pairs(&mut self, a: u8, b: u8, c: u8, owned: bool) {
        if self.pairs.len() >= ENOUGH {
            return;
        }
        if self.cqs.is_empty() {
            self.make_cq(a);
        }
        let two = c & 3 == 3;
        let kind = match c >> 5 {
            6 => QpType::Uc,
            7 => QpType::Ud,
            _ => QpType::Rc,
        };
        let connected = owned || c & 0x1c != 0x1c;
        let Some(one) = self.prepare(a, b, kind) else {
            return;
        };
        let other = if two {
            self.prepare(a, b.rotate_left(4), kind)
        } else {
            None
        };
        let own = one.0.endpoint();
        let peer = other.as_ref().map_or(own, |(other, _)| other.endpoint());
        self.add(one, peer, connected, owned);
        if let Some(other) = other {
            self.add(other, own, connected, owned);
        }
    }

    /// Prepares a queue pair with two completion queues of one site, and possibly a shared queue.
    fn prepare(&mut self, a: u8, b: u8, kind: QpType) -> Option<(PreparedQueuePair, Parts)> {
        let first = pick(self.cqs.len(), a);
        let site = self.cqs.get(first)?.site;
        let pd = usize::from(b & 0xf0 == 0xf0);
        let domain = self.pd(site, pd)?;
        let send = &self.cqs[first];
        let others = self.cqs.iter().filter(|cq| cq.site == site);
        let others: Vec<_> = others.collect();
        let recv = others[pick(others.len(), b)];
        let shared = self
            .srqs
            .iter()
            .filter(|srq| srq.site == site && srq.pd == pd);
        let shared: Vec<_> = shared.collect();
        let srq = (b & 0x08 != 0 && !shared.is_empty()).then(|| shared[pick(shared.len(), a)]);
        let (Some(send_queue), Some(recv_queue)) = (&send.queue, &recv.queue) else {
            return None;
        };
        let mut builder = set(domain.queue_pair(kind, send_queue, recv_queue)).ok()?;
        if let Some(srq) = srq {
            builder = builder.srq(srq.queue.queue());
        }
        let parts = Parts {
            site,
            pd,
            send_cq: send.uid,
            recv_cq: recv.uid,
            srq: srq.map(|srq| srq.uid),
            kind,
        };
        let prepared = face::build(&builder).ok()?;
        Some((prepared, parts))
    }

    fn add(
        &mut self,
        (prepared, parts): (PreparedQueuePair, Parts),
        peer: QueuePairEndpoint,
        connected: bool,
        owned: bool,
    ) {
        let own = prepared.endpoint();
        let Ok(path) = prepared.path_to(&peer) else {
            return;
        };
        let datagrams = parts.kind == QpType::Ud;
        let address = datagrams
            .then(|| self.pd(parts.site, parts.pd)?.create_ah(&path).ok())
            .flatten();
        let made = match connected {
            true => face::connect(prepared, (!datagrams).then_some(peer)),
            false => Ok(prepared.into_raw()),
        };
        let Ok(raw) = made else { return };
        let number = raw.qp_num();
        let fresh = self.used.insert((parts.site, number));
        let body = if owned {
            match face::own(raw) {
                Some(qp) => Body::Owned(qp),
                None => return,
            }
        } else {
            Body::Raw(raw)
        };
        let uid = self.uid();
        let srqs = self.srqs.iter_mut();
        for srq in srqs.filter(|srq| Some(srq.uid) == parts.srq) {
            srq.users.push((number, parts.recv_cq));
        }
        self.pairs.push(Pair {
            uid,
            site: parts.site,
            number,
            body,
            send_cq: parts.send_cq,
            recv_cq: parts.recv_cq,
            srq: parts.srq,
            link: Link {
                kind: parts.kind,
                own,
                peer,
                path,
                address,
            },
            pure: fresh,
        });
    }

    /// Turns a queue pair into an owned one.
    pub(super) fn own(&mut self, a: u8) {
        let is_raw = |pair: &Pair| matches!(pair.body, Body::Raw(_));
        let raw: Vec<_> = (0..self.pairs.len())
            .filter(|at| is_raw(&self.pairs[*at]))
            .collect();
        if raw.is_empty() {
            return;
        }
        let mut pair = self.pairs.remove(raw[pick(raw.len(), a)]);
        if let Body::Raw(qp) = pair.body
            && let Some(qp) = face::own(qp)
        {
            pair.body = Body::Owned(qp);
            self.pairs.push(pair);
        }
    }

    pub(super) fn allocate(&mut self, a: u8, b: u8, c: u8) {
        if self.hands.len() >= FULL {
            return;
        }
        let pd = usize::from(b & 0xf0 == 0xf0);
        let len = [64, 64, 64, 8, 100, 128, 72, 1][pick(8, c)];
        let Some(pd) = self.pd(site_of(a), pd) else {
            return;
        };
        let count = 1 + pick(4, b);
        if let Ok(buffers) = pd.buffer_list(count, len) {
            self.hands.extend(buffers.into_iter().map(Hand::new));
        }
    }

    pub(super) fn expose(&mut self, a: u8) {
        let site = site_of(a);
        if self.exposed.len() < ENOUGH
            && let Some(Ok(memory)) = self.pd(site, 0).map(|pd| pd.expose(256, REMOTE))
        {
            self.exposed.push((site, memory));
        }
    }

    /// Creates queue pairs and drops them.
    pub(super) fn churn(&mut self, a: u8, c: u8) {
        let count = [1, 2, 4, 8, 16, 16, 32, 64][pick(8, c)];
        for _ in 0..count {
            if let Some((prepared, parts)) = self.prepare(a, 0, QpType::Rc) {
                let peer = prepared.endpoint();
                self.used.insert((parts.site, prepared.qp_num()));
                drop(face::connect(prepared, Some(peer)));
            }
        }
    }
}

/// The objects that a queue pair was built with.
struct Parts {
    site: usize,
    pd: usize,
    send_cq: u32,
    recv_cq: u32,
    srq: Option<u32>,
    kind: QpType,
}

/// Sets the sizes, timeouts and rights that all of them have.
fn set(builder: QueuePairBuilder<'_>) -> uverbs::Result<QueuePairBuilder<'_>> {
    Ok(builder
        .max_send_wr(DEEP)
        .max_recv_wr(DEEP)
        .max_inline_data(32)
        .max_rd_atomic(4)
        .max_dest_rd_atomic(4)
        .access(AccessFlags::LOCAL_WRITE | REMOTE)
        .timeout(AckTimeout::code(14)?)
        .retry_count(RetryCount::new(7)?)
        .rnr_retry(RnrRetry::new(7)?)
        .min_rnr_timer(RnrTimer::code(1)?))
}
