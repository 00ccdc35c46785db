//! Messages that take a receive request: where they are written, and what becomes of those that do
//! not fit.

use std::sync::Arc;

use super::Endpoint;
use crate::device::Device;
use crate::engine::completion::{self, Completion, Opcode, Syndrome};
use crate::engine::header::{self, GRH};
use crate::engine::integrity;
use crate::engine::message::{Answer, Message, Payload};
use crate::engine::misbehave;
use crate::engine::paging::{self, Need, Side};
use crate::engine::receive::{self, Misfit, Pool};
use crate::layout::qp;
use crate::memory::{GuestMemory, Span};
use crate::memory_key::KeyError;
use crate::misbehaviour::Misbehaviour;
use crate::objects::{QueuePair, Service};
/// The longest message of a connection that is written into its completion: as long as the queue
/// pair requests and an entry has room for.
pub(super) fn inside(device: &Device, pair: &QueuePair) -> u64 {
    if !matches!(pair.service, Service::Rc | Service::Uc) {
        return 0;
    }
    let long = device
        .cqs
        .get(pair.recv_cq())
        .is_some_and(|queue| queue.cqe_size > completion::SHORT);
    match qp::SCATTER_RECEIVED.get(&pair.context) {
        2 if long => completion::LONGEST as u64,
        1 | 2 if !long => completion::INSIDE as u64,
        _ => 0,
    }
}

pub(super) fn no_receive(end: &Endpoint) -> Answer {
    if end.reliable {
        Answer::NotReady(end.not_ready)
    } else {
        Answer::Lost
    }
}

pub(super) fn receive_message(
    device: &mut Device,
    source: &Arc<dyn GuestMemory>,
    message: &Message,
    end: &Endpoint,
    opcode: Opcode,
    immediate: Option<u32>,
) -> Answer {
    let Some(posted) = receive::take(device, end.pool) else {
        return no_receive(end);
    };
    let header = if end.datagram { GRH as u64 } else { 0 };
    let length = message.payload.length();
    let pd = if let Pool::Shared(number) = end.pool {
        shared_pd(device, number, end.pd)
    } else {
        end.pd
    };
    let inside = (1..=end.inside).contains(&length);
    let signed = integrity::received(device, source, message, &posted, pd, end.qpn);
    let signed = signed.filter(|_| !end.datagram);
    let inside = inside && signed.is_none();
    if let Some(Ok(wrong)) = &signed {
        device.report_wrong(end.cqn, end.qpn, wrong);
    }
    let placed = if let Some(written) = signed {
        written.map(|_| Vec::new()).map_err(|reason| match reason {
            KeyError::Absent => Misfit::Absent,
            KeyError::Bounds => Misfit::TooLong,
            _ => Misfit::Protection,
        })
    } else {
        receive::scatter(device, &posted, length + header, pd, end.qpn).and_then(|spans| {
            if inside {
                let bytes = message.payload.bytes(&**source, completion::LONGEST);
                return bytes.map_err(|_| Misfit::Protection);
            }
            place(device, source, message, end, &spans).map_err(|_| Misfit::Protection)?;
            misbehave::arrived(device, &*device.memory, &spans);
            misbehave::lost(device, end.pool, &posted, &spans);
            Ok(Vec::new())
        })
    };
    let mut done = Completion::new(opcode, end.qpn, end.user_index, posted.index);
    done.solicited = message.solicited;
    done.source_lid = message.source_lid;
    done.byte_count = (length + header) as u32;
    done.immediate = immediate.unwrap_or(end.partition);
    done.flags_qpn = header::flags(device, message);
    match placed {
        Ok(bytes) => {
            if inside {
                completion::push_with(device, end.cqn, done, &bytes);
            } else {
                completion::push(device, end.cqn, done);
            }
            Answer::Done(length)
        }
        Err(Misfit::Absent) if requested_by_receive(device, message, end, &posted) => {
            if let Pool::Own(queue) = end.pool {
                receive::put_back(device, queue, &posted);
            } else {
                // The receive is used up; the driver posts it again.
                let fault = Completion {
                    opcode: Opcode::ResponseError,
                    ..Completion::new(opcode, end.qpn, end.user_index, posted.index)
                };
                completion::push(device, end.cqn, fault.failed(Syndrome::RemoteAborted));
            }
            Answer::Paused
        }
        Err(Misfit::TooLong) if device.does(Misbehaviour::CutsMessages) => {
            done.byte_count = receive::room(&posted) as u32;
            completion::push(device, end.cqn, done);
            Answer::Done(length)
        }
        Err(misfit) => {
            let (local, remote) = match misfit {
                Misfit::TooLong => (Syndrome::LocalLength, Syndrome::RemoteInvalidRequest),
                Misfit::Protection | Misfit::Absent => {
                    (Syndrome::LocalProtection, Syndrome::RemoteOperation)
                }
            };
            if misfit != Misfit::TooLong {
                device.report("memory key", &format!("of a receive of QP {:#x}", end.qpn));
            }
            let failed = Completion {
                opcode: Opcode::ResponseError,
                ..done
            }
            .failed(local);
            completion::push(device, end.cqn, failed);
            device.fail_qp(end.qpn);
            if end.reliable {
                Answer::Refused(remote)
            } else {
                Answer::Lost
            }
        }
    }
}

/// Requests a page of a receive, if its queue can wait for it.
fn requested_by_receive(
    device: &mut Device,
    message: &Message,
    end: &Endpoint,
    posted: &receive::Posted,
) -> bool {
    let index = posted.index;
    let need = match end.pool {
        Pool::Own(queue) if end.reliable => Need::Receive { queue, index },
        Pool::Shared(queue) if end.reliable || end.datagram => Need::SharedReceive { queue, index },
        _ => return false,
    };
    !end.pageless && paging::request(device, end.qpn, Side::of(message), need)
}

pub(super) fn shared_pd(device: &Device, number: u32, otherwise: u32) -> u32 {
    device
        .shared
        .get(number)
        .map_or(otherwise, |queue| queue.pd)
}

pub(super) fn place(
    device: &Device,
    source: &Arc<dyn GuestMemory>,
    message: &Message,
    end: &Endpoint,
    spans: &[Span],
) -> Result<(), crate::memory::BusError> {
    if !end.datagram {
        return message.payload.copy(&**source, &*device.memory, spans);
    }
    let header = crate::memory::slice(spans, 0, GRH as u64);
    let body = crate::memory::slice(spans, GRH as u64, u64::MAX);
    let mut bytes = header::of(message);
    let ip4 = bytes.get(20) == Some(&0x45);
    misbehave::header(device, &mut bytes, ip4);
    Payload::Inline(bytes).copy(&**source, &*device.memory, &header)?;
    message.payload.copy(&**source, &*device.memory, &body)
}
