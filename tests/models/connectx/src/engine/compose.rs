//! From a work request to a message: what to send, from where, and to whom.

use crate::device::Device;
use crate::engine::completion::Syndrome;
use crate::engine::integrity::{self, SignedAnswer, Wrong};
use crate::engine::message::{Action, Message, Payload, Route, packets};
use crate::engine::receive::Segment;
use crate::engine::wqe::{AddressVector, WorkRequest, opcode};
use crate::layout::qp::{self, path};
use crate::memory::{Span, total};
use crate::memory_key::{Access, KeyError, Right};
use crate::misbehaviour::Misbehaviour;
use crate::objects::Service;
use crate::profile::limit;

pub(super) fn length_hint(request: &WorkRequest) -> u64 {
    let inline = request.inline.as_ref().map_or(0, Vec::len) as u64;
    request
        .segments
        .iter()
        .fold(inline, |sum, segment| sum.saturating_add(segment.length))
}

/// Why no message can be made from a work request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unfit {
    pub(super) syndrome: Syndrome,
    /// The access that a memory key refused.
    pub(super) key: Option<(Access, KeyError)>,
}

impl From<Syndrome> for Unfit {
    fn from(syndrome: Syndrome) -> Self {
        Self {
            syndrome,
            key: None,
        }
    }
}

fn unfit((access, reason): (Access, KeyError)) -> Unfit {
    Unfit {
        syndrome: Syndrome::LocalProtection,
        key: Some((access, reason)),
    }
}

fn gather(
    device: &Device,
    segments: &[Segment],
    pd: u32,
    qpn: u32,
    right: Right,
) -> Result<Vec<Span>, Unfit> {
    let mut spans = Vec::new();
    let mut sum = 0u64;
    for segment in segments {
        let Segment {
            length,
            key,
            address,
        } = *segment;
        sum = sum.saturating_add(length);
        if sum > 1 << limit::LOG_MSG {
            return Err(Syndrome::LocalLength.into());
        }
        let access = Access {
            key,
            address,
            length,
            pd,
            qpn,
            right,
        };
        device
            .translate(access, &mut spans)
            .map_err(|reason| unfit((access, reason)))?;
    }
    Ok(spans)
}

/// What a request sends, and where its answer goes.
struct Data {
    payload: Payload,
    answer: Vec<Span>,
    wrong: Vec<Wrong>,
    signed_answer: Option<SignedAnswer>,
}

fn data(
    device: &Device,
    request: &WorkRequest,
    (pd, qpn): (u32, u32),
    action: &Action,
) -> Result<Data, Unfit> {
    let outbound = matches!(action, Action::Send { .. } | Action::Write { .. });
    let mut wrong = Vec::new();
    let mut signed_answer = None;
    let (payload, answer) = match (&request.inline, outbound) {
        (Some(bytes), true) if request.segments.is_empty() => {
            (Payload::Inline(bytes.clone()), Vec::new())
        }
        (Some(bytes), true) => {
            let spans = gather(device, &request.segments, pd, qpn, Right::LocalRead)?;
            (Payload::Both(bytes.clone(), spans), Vec::new())
        }
        (Some(_), false) => return Err(Syndrome::LocalQpOperation.into()),
        (None, true) => {
            match integrity::parts(device, &request.segments, pd, qpn, Right::LocalRead)
                .map_err(unfit)?
            {
                Some(parts) => {
                    let read = device.read_parts(&parts, &mut wrong);
                    let bytes = read.map_err(|_| Unfit::from(Syndrome::LocalProtection))?;
                    (Payload::Inline(bytes), Vec::new())
                }
                None => (
                    Payload::Memory(gather(
                        device,
                        &request.segments,
                        pd,
                        qpn,
                        Right::LocalRead,
                    )?),
                    Vec::new(),
                ),
            }
        }
        (None, false) => {
            let segments = &request.segments;
            let found = integrity::parts(device, segments, pd, qpn, Right::LocalWrite);
            signed_answer = found.map_err(unfit)?.map(SignedAnswer::new);
            let answer = match &signed_answer {
                Some(_) if !matches!(action, Action::Read) => {
                    return Err(Syndrome::LocalProtection.into());
                }
                Some(answer) => vec![Span {
                    address: 0,
                    length: answer.length(),
                }],
                None => gather(device, segments, pd, qpn, Right::LocalWrite)?,
            };
            (Payload::Inline(Vec::new()), answer)
        }
    };
    Ok(Data {
        payload,
        answer,
        wrong,
        signed_answer,
    })
}

pub(super) fn message(
    device: &Device,
    qpn: u32,
    service: Service,
    request: &WorkRequest,
) -> Result<Message, Unfit> {
    let pair = device.qps.get(qpn).ok_or(Syndrome::LocalQpOperation)?;
    let context = &pair.context;
    let pd = pair.pd();
    let control = request.control;
    let immediate = control.immediate;
    let action = match control.opcode {
        opcode::SEND => Action::Send {
            immediate: None,
            invalidate: None,
        },
        opcode::SEND_IMMEDIATE => Action::Send {
            immediate: Some(immediate),
            invalidate: None,
        },
        opcode::SEND_INVALIDATE => Action::Send {
            immediate: None,
            invalidate: Some(immediate),
        },
        opcode::RDMA_WRITE => Action::Write { immediate: None },
        opcode::RDMA_WRITE_IMMEDIATE => Action::Write {
            immediate: Some(immediate),
        },
        opcode::RDMA_READ => Action::Read,
        _ => Action::Atomic(request.atomic.ok_or(Syndrome::LocalQpOperation)?),
    };
    let Data {
        payload,
        answer,
        wrong,
        signed_answer,
    } = data(device, request, (pd, qpn), &action)?;
    if matches!(action, Action::Atomic(_)) && total(&answer) != 8 {
        return Err(Syndrome::LocalLength.into());
    }
    let source_qpn = if let Service::Management(number) = service {
        number
    } else {
        qpn
    };
    let psn = qp::SEND_PSN.get(context);
    let packets = packets(context, payload.length().max(total(&answer)));
    let mut message = Message {
        action,
        payload,
        answer,
        wrong,
        signed_answer,
        remote_address: request.remote_address,
        remote_key: request.remote_key,
        solicited: control.solicited,
        psn,
        packets,
        source_qpn,
        source_lid: device.config.lid,
        target_qpn: qp::REMOTE_QPN.get(context),
        shared_queue: request.shared_queue,
        key: 0,
        service_level: path::SERVICE_LEVEL.at(qp::PRIMARY).get(context),
        route: None,
    };
    if let Some(address) = &request.address {
        message.target_qpn = address.qpn;
        message.service_level = address.service_level;
        message.key = if service == Service::DcInitiator {
            address.key
        } else {
            // A set top bit requests the queue pair's own key.
            let key = (address.key >> 32) as u32;
            u64::from(if key >> 31 != 0 {
                qp::QKEY.get(context)
            } else {
                key
            })
        };
        message.route = route(device, address);
    }
    Ok(message)
}

/// The contents of a datagram's network header, if it has one.
fn route(device: &Device, address: &AddressVector) -> Option<Route> {
    let to = if device.config.kind.is_ethernet() {
        Some(address.raw_gid)
    } else {
        address.gid
    };
    to.map(|to| Route {
        from: device.source_gid(address.source_index),
        to,
        class: if device.does(Misbehaviour::TrafficClass) {
            0
        } else {
            address.class
        },
        udp: device.sends_by_udp(address.source_index),
    })
}
