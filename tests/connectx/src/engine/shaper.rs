//! Pacing and the scheduling tree in effect: when a queue may send.

use std::collections::BTreeMap;

use crate::device::Device;
use crate::engine::fabric::Fabric;
use crate::layout::qp;
use crate::layout::queue::ring;

/// Sending rights of one function.
#[derive(Debug, Default)]
pub(super) struct Shaper {
    /// When each limited element or rate may send again.
    free_at: BTreeMap<(usize, Limiter), u64>,
    /// Work done for each leaf, in bytes divided by its share.
    served: BTreeMap<(usize, u32), f64>,
}

/// Something with a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Limiter {
    Element(u32),
    Rate(u16),
}

impl Shaper {
    /// Forgets a function's history.
    pub(super) fn reset(&mut self, function: usize) {
        self.free_at.retain(|(owner, _), _| *owner != function);
        self.served.retain(|(owner, _), _| *owner != function);
    }

    /// `Some(time)` if the limiters say to wait; else charges them with `bytes`.
    fn admit(
        &mut self,
        function: usize,
        limiters: &[(Limiter, u64)],
        bytes: u64,
        now: u64,
    ) -> Option<u64> {
        let latest = limiters
            .iter()
            .filter_map(|(limiter, _)| self.free_at.get(&(function, *limiter)))
            .max()
            .copied();
        if let Some(until) = latest.filter(|until| *until > now) {
            return Some(until);
        }
        for (limiter, bits_per_second) in limiters {
            let time =
                u128::from(bytes) * 8 * 1_000_000_000 / u128::from((*bits_per_second).max(1));
            self.free_at.insert(
                (function, *limiter),
                now + u64::try_from(time).unwrap_or(u64::MAX / 2),
            );
        }
        None
    }
}

fn limiters(device: &Device, group: u32, pacing: u16) -> Vec<(Limiter, u64)> {
    let mut limiters: Vec<_> = device
        .scheduler
        .path(group)
        .into_iter()
        .filter(|(_, _, cap)| *cap != 0)
        .map(|(id, _, cap)| (Limiter::Element(id), u64::from(cap) * 1_000_000))
        .collect();
    if let Some(rate) = device.pacing.get(pacing) {
        limiters.push((Limiter::Rate(pacing), u64::from(rate.kilobits) * 1000));
    }
    limiters
}

impl Fabric {
    /// Whether a message of a queue pair has to wait for its turn, and until when.
    pub(super) fn shaper_gate(&mut self, function: usize, qpn: u32, bytes: u64) -> Option<u64> {
        if !self.options.shaper {
            return None;
        }
        let device = self.devices.get(function)?;
        let pair = device.qps.get(qpn)?;
        let group = qp::ext::GROUP_REQUESTER.get(&pair.extension);
        let pacing = qp::PACING_INDEX.get(&pair.context) as u16;
        let limiters = limiters(device, group, pacing);
        self.shaper.admit(function, &limiters, bytes, self.now)
    }

    /// As [`Fabric::shaper_gate`], for a raw send queue.
    pub(super) fn shaper_gate_raw(&mut self, function: usize, sqn: u32, bytes: u64) -> Option<u64> {
        if !self.options.shaper {
            return None;
        }
        let device = self.devices.get(function)?;
        let queue = device.sqs.get(sqn)?;
        let group = ring::QUEUE_GROUP.get(&queue.context);
        let pacing = ring::PACING_INDEX.get(&queue.context) as u16;
        let limiters = limiters(device, group, pacing);
        self.shaper.admit(function, &limiters, bytes, self.now)
    }
}
