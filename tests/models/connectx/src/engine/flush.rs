//! Flushing: work requests of a stopped queue pair complete in error, in order.

use crate::device::Device;
use crate::engine::completion::{self, Completion, Opcode, Syndrome};
use crate::engine::event::{self, QpEvent};
use crate::engine::receive::{self, Pool};
use crate::engine::wqe::Control;
use crate::layout::queue::ring;
use crate::objects::QpState;

/// Number of work requests flushed before other queues get their turn.
const BATCH: usize = 256;

/// Flushes a batch of both queues; `true` if there may be more.
pub(super) fn flush(device: &mut Device, qpn: u32) -> bool {
    let more = send(device, qpn);
    recv(device, qpn) || more
}

fn send(device: &mut Device, qpn: u32) -> bool {
    for _ in 0..BATCH {
        let Some(control) = next(device, qpn) else {
            return false;
        };
        let Some(pair) = device.qps.get_mut(qpn) else {
            return false;
        };
        let index = pair.send.consumer;
        pair.send.consumer = index.wrapping_add(control.blocks());
        let mut done = Completion::new(Opcode::RequestError, qpn, pair.user_index(), index)
            .failed(Syndrome::Flushed);
        done.send_opcode = control.opcode;
        let cqn = pair.send_cq();
        completion::push(device, cqn, done);
    }
    true
}

/// The control segment at the head of the send queue, if software has posted a request.
pub(super) fn next(device: &Device, qpn: u32) -> Option<Control> {
    let pair = device.qps.get(qpn).filter(|pair| pair.send.blocks != 0)?;
    let producer = device.read_be32(pair.doorbell.checked_add(4)?)? as u16;
    let posted = producer.wrapping_sub(pair.send.consumer);
    let left = if matches!(pair.state, QpState::ReadyToSend | QpState::SendDraining) {
        device.rung_for(qpn, pair.send.consumer, producer)
    } else {
        posted
    };
    if left == 0 {
        return None;
    }
    let mut bytes = [0; 16];
    let slot = u64::from(u32::from(pair.send.consumer) & (pair.send.blocks - 1));
    pair.buffer
        .read(&*device.memory, pair.send.offset + slot * 64, &mut bytes)
        .ok()?;
    let mut control = Control::parse(&bytes);
    // Never past the producer index, whatever the size field says.
    if control.blocks() > posted {
        control.units = usize::from(posted) * 4;
        control.cut = true;
    }
    Some(control)
}

fn recv(device: &mut Device, qpn: u32) -> bool {
    let Some(pair) = device.qps.get(qpn) else {
        return false;
    };
    let (cqn, user_index) = (pair.recv_cq(), pair.user_index());
    if pair.shared_queue().is_some() {
        // Requests in a shared queue do not belong to a queue pair yet; the event reports that this
        // pair takes no more of them.
        if let Some(pair) = device.qps.get_mut(qpn)
            && !std::mem::replace(&mut pair.last_wqe, true)
        {
            event::qp(device, QpEvent::LastWqe, qpn);
        }
        return false;
    }
    for _ in 0..BATCH {
        let Some(posted) = receive::take(device, Pool::Own(qpn)) else {
            return false;
        };
        let done = Completion::new(Opcode::ResponseError, qpn, user_index, posted.index)
            .failed(Syndrome::Flushed);
        completion::push(device, cqn, done);
    }
    true
}

/// Completes all receives of a stopped raw queue in error.
pub(crate) fn raw_receives(device: &mut Device, rqn: u32) {
    for _ in 0..=u16::MAX {
        let Some(posted) = receive::take(device, Pool::Raw(rqn)) else {
            break;
        };
        let Some(queue) = device.rqs.get(rqn) else {
            break;
        };
        let (cqn, user_index) = (queue.cqn(), ring::USER_INDEX.get(&queue.context));
        let done = Completion::new(Opcode::ResponseError, rqn, user_index, posted.index);
        completion::push(device, cqn, done.failed(Syndrome::Flushed));
    }
}

/// Flushes the send queue alone, as after an error on an unreliable service.
pub(super) fn send_only(device: &mut Device, qpn: u32) {
    // A ring holds at most as many work requests as blocks, so this many batches empty it.
    for _ in 0..=u16::MAX as usize / BATCH {
        if !send(device, qpn) {
            break;
        }
    }
}
