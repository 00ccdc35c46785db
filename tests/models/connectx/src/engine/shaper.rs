//! Pacing and the scheduling tree: when a queue may send.
//!
//! With the shaper on, a function's port sends one message at a time at the link rate. Rate limits
//! and bandwidth caps of scheduling elements are leaky buckets of one message. When the port
//! becomes free and two leaves wait, the one goes first whose ancestor, at the level where their
//! paths diverge, has been served less in proportion to its share.

use std::collections::{BTreeMap, BTreeSet};

use crate::device::Device;
use crate::engine::fabric::Fabric;
use crate::layout::qp;
use crate::layout::queue::ring;

/// How long a leaf that had to wait still counts as waiting after its time has come, and how much
/// time a limit that was waited for makes up for: the function may be served late.
const PATIENCE: u64 = 20_000_000;
/// The shortest wait for another leaf to go first.
const TURN: u64 = 1_000;

/// Permissions to send, over all functions.
#[derive(Debug, Default)]
pub(super) struct Shaper {
    /// When each limited thing may send again.
    free_at: BTreeMap<(usize, Limiter), u64>,
    /// Limits that a sender is waiting for.
    wanted: BTreeSet<(usize, Limiter)>,
    /// Bytes divided by share that each element has sent.
    served: BTreeMap<(usize, u32), u64>,
    /// When each leaf last asked to send.
    requested: BTreeMap<(usize, u32), u64>,
    /// Leaves that have to wait, and until when.
    waiting: BTreeMap<(usize, u32), u64>,
}

/// Something with a rate limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Limiter {
    Port,
    Element(u32),
    Rate(u16),
}

/// A message that is to be sent.
struct Request {
    function: usize,
    leaf: u32,
    /// Element and share from the leaf to the root.
    path: Vec<(u32, u32)>,
    limiters: Vec<(Limiter, u64)>,
    bytes: u64,
}

/// Scale of the fixed-point count of bytes served.
const SCALE: u64 = 1 << 16;

impl Shaper {
    /// Forgets a function's history.
    pub(super) fn reset(&mut self, function: usize) {
        self.free_at.retain(|(owner, _), _| *owner != function);
        self.wanted.retain(|(owner, _)| *owner != function);
        self.served.retain(|(owner, _), _| *owner != function);
        self.requested.retain(|(owner, _), _| *owner != function);
        self.waiting.retain(|(owner, _), _| *owner != function);
    }

    fn served(&self, function: usize, element: u32) -> u64 {
        self.served.get(&(function, element)).copied().unwrap_or(0)
    }

    /// `Some(time)` if the message has to wait; otherwise it is charged for and goes.
    fn admit(&mut self, request: &Request, device: &Device, now: u64) -> Option<u64> {
        let key = (request.function, request.leaf);
        let requested = self.requested.insert(key, now);
        if request.leaf != 0 && requested.is_none_or(|at| at.saturating_add(PATIENCE) < now) {
            self.catch_up(request);
        }
        let mut busy = None;
        for (limiter, _) in &request.limiters {
            let limit = (request.function, *limiter);
            if let Some(until) = self.free_at.get(&limit).filter(|until| **until > now) {
                self.wanted.insert(limit);
                busy = busy.max(Some(*until));
            }
        }
        let until = busy.or_else(|| self.outranked(request, device, now).then_some(now + TURN));
        if let Some(until) = until {
            if request.leaf != 0 {
                self.waiting.insert(key, until);
            }
            return Some(until);
        }
        self.waiting.remove(&key);
        for (limiter, bits_per_second) in &request.limiters {
            let time =
                u128::from(request.bytes) * 8_000_000_000 / u128::from((*bits_per_second).max(1));
            let limit = (request.function, *limiter);
            let free = self.free_at.get(&limit).copied();
            let start = match free.filter(|_| self.wanted.remove(&limit)) {
                Some(free) => free.max(now.saturating_sub(PATIENCE)),
                None => now,
            };
            let until = start.saturating_add(u64::try_from(time).unwrap_or(u64::MAX / 2));
            self.free_at.insert(limit, until);
        }
        for (element, share) in &request.path {
            let entry = self.served.entry((request.function, *element)).or_insert(0);
            *entry = entry
                .saturating_add(request.bytes.saturating_mul(SCALE) / u64::from((*share).max(1)));
        }
        None
    }

    /// A leaf that returns after a pause gets no credit for the time it was idle.
    fn catch_up(&mut self, request: &Request) {
        let least = self
            .waiting
            .keys()
            .filter(|(function, _)| *function == request.function)
            .map(|(function, leaf)| self.served(*function, *leaf))
            .min();
        if let Some(least) = least {
            let entry = self
                .served
                .entry((request.function, request.leaf))
                .or_insert(0);
            *entry = (*entry).max(least);
        }
    }

    /// Whether a waiting leaf that no limit of its own holds back has the better claim.
    fn outranked(&self, request: &Request, device: &Device, now: u64) -> bool {
        if request.leaf == 0 {
            return false;
        }
        self.waiting
            .iter()
            .filter(|((function, leaf), until)| {
                *function == request.function
                    && *leaf != request.leaf
                    && until.saturating_add(PATIENCE) > now
            })
            .any(|((function, leaf), _)| {
                let path = path(device, *leaf);
                let held = path.iter().any(|(id, _)| {
                    self.free_at
                        .get(&(*function, Limiter::Element(*id)))
                        .is_some_and(|at| *at > now)
                });
                let parting = path
                    .iter()
                    .rev()
                    .zip(request.path.iter().rev())
                    .find(|(a, b)| a.0 != b.0);
                !held
                    && parting.is_some_and(|(other, own)| {
                        self.served(*function, other.0) < self.served(*function, own.0)
                    })
            })
    }
}

fn path(device: &Device, leaf: u32) -> Vec<(u32, u32)> {
    device
        .scheduler
        .path(leaf)
        .into_iter()
        .map(|(id, share, _)| (id, share))
        .collect()
}

impl Fabric {
    fn request(&mut self, function: usize, leaf: u32, pacing: u16, bytes: u64) -> Option<u64> {
        let device = self.devices.get(function)?;
        let mut limiters = vec![(Limiter::Port, self.options.link_rate)];
        for (id, _, cap) in device
            .scheduler
            .path(leaf)
            .into_iter()
            .filter(|(_, _, cap)| *cap != 0)
        {
            limiters.push((Limiter::Element(id), u64::from(cap) * 1_000_000));
        }
        if let Some(rate) = device.pacing.get(pacing) {
            limiters.push((Limiter::Rate(pacing), u64::from(rate.kilobits) * 1000));
        }
        let request = Request {
            function,
            leaf,
            path: path(device, leaf),
            limiters,
            bytes,
        };
        self.shaper.admit(&request, device, self.now)
    }

    /// Whether a queue pair's message has to wait for its turn, and until when.
    pub(super) fn shaper_gate(&mut self, function: usize, qpn: u32, bytes: u64) -> Option<u64> {
        if !self.options.shaper {
            return None;
        }
        let pair = self.devices.get(function)?.qps.get(qpn)?;
        let leaf = qp::ext::GROUP_REQUESTER.get(&pair.extension);
        let pacing = qp::PACING_INDEX.get(&pair.context) as u16;
        self.request(function, leaf, pacing, bytes)
    }

    /// As [`Fabric::shaper_gate`], for a raw send queue.
    pub(super) fn shaper_gate_raw(&mut self, function: usize, sqn: u32, bytes: u64) -> Option<u64> {
        if !self.options.shaper {
            return None;
        }
        let queue = self.devices.get(function)?.sqs.get(sqn)?;
        let leaf = ring::QUEUE_GROUP.get(&queue.context);
        let pacing = ring::PACING_INDEX.get(&queue.context) as u16;
        self.request(function, leaf, pacing, bytes)
    }
}
