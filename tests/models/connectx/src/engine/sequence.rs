//! Packet sequence numbers of reliable connections: which messages are new, repeated or too early.

use crate::device::Device;
use crate::engine::message::{Message, PSN_MASK};
use crate::layout::qp;

/// Number of answers to atomic requests that a responder remembers: as many as a requester may have
/// outstanding.
const REMEMBERED: usize = 16;

/// How a responder classifies a message by its sequence number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Expected,
    /// It was served before; the requester did not get the answer.
    Again,
    /// An earlier one is missing.
    Ahead,
}

/// Compares a message with what the queue pair expects.
pub(super) fn order(device: &Device, qpn: u32, message: &Message) -> Order {
    let Some(pair) = device.qps.get(qpn) else {
        return Order::Ahead;
    };
    match message.psn.wrapping_sub(qp::RECV_PSN.get(&pair.context)) & PSN_MASK {
        0 => Order::Expected,
        ahead if ahead <= PSN_MASK / 2 => Order::Ahead,
        _ => Order::Again,
    }
}

/// Expects what follows a message that was served.
pub(super) fn advance(device: &mut Device, qpn: u32, message: &Message) {
    if let Some(pair) = device.qps.get_mut(qpn) {
        let next = message.psn.wrapping_add(message.packets) & PSN_MASK;
        qp::RECV_PSN.set(&mut pair.context, next);
    }
}

/// Remembers the answer to an atomic request.
pub(super) fn remember(device: &mut Device, qpn: u32, psn: u32, old: u64) {
    if let Some(pair) = device.qps.get_mut(qpn) {
        if pair.atomics.len() >= REMEMBERED {
            pair.atomics.pop_front();
        }
        pair.atomics.push_back((psn, old));
    }
}

/// The answer that an atomic request got the first time.
pub(super) fn recall(device: &Device, qpn: u32, psn: u32) -> Option<u64> {
    let pair = device.qps.get(qpn)?;
    pair.atomics
        .iter()
        .rev()
        .find(|(known, _)| *known == psn)
        .map(|(_, old)| *old)
}
