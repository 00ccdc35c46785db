//! The responder: what a queue pair does with a message from the fabric.

use std::sync::Arc;

use crate::device::Device;
use crate::engine::atomic::Atomic;
use crate::engine::completion::{self, Completion, Opcode, Syndrome};
use crate::engine::event::{self, QpEvent};
use crate::engine::message::{Action, Answer, Message, Payload, Route, rnr_code_delay, rnr_delay};
use crate::engine::paging::{self, Need, Side, Standing};
use crate::engine::receive::{self, Misfit, Pool};
use crate::engine::sequence::{self, Order};
use crate::layout::qp;
use crate::layout::queue::{dct, mkey};
use crate::memory::{GuestMemory, Span, push_span};
use crate::memory_key::{Access, KeyError, Right};
use crate::objects::{QpState, Service, SharedKind};

/// Bytes that a datagram's receive buffer begins with.
const GRH: usize = 40;

/// The largest packet.
const PACKET: u64 = 4096;

/// The partition key that every port has.
const DEFAULT_PARTITION: u32 = 0xffff;

/// The receiving end of a message.
#[derive(Clone, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "they are the enable bits of the context"
)]
struct Endpoint {
    qpn: u32,
    pd: u32,
    cqn: u32,
    user_index: u32,
    pool: Pool,
    read: bool,
    write: bool,
    atomic: bool,
    not_ready: u64,
    datagram: bool,
    reliable: bool,
    /// Whether the kernel could not bring a page that this message needs.
    pageless: bool,
    /// What stands in place of immediate data: for management the partition key, else its index.
    partition: u32,
}

/// Delivers `message` to a function; `source` is the memory of the function it came from.
pub(super) fn deliver(
    device: &mut Device,
    source: &Arc<dyn GuestMemory>,
    message: &Message,
    service: Service,
) -> Answer {
    let Some(mut end) = endpoint(device, message, service) else {
        return Answer::Lost;
    };
    match paging::standing(device, end.qpn, Side::of(message)) {
        Standing::Free => {}
        Standing::Waiting => return Answer::Paused,
        Standing::Failed => end.pageless = true,
    }
    let first = device.qps.get_mut(end.qpn).is_some_and(|qp| {
        qp.state == QpState::ReadyToReceive
            && !qp.datagram_service()
            && !std::mem::replace(&mut qp.established, true)
    });
    if first {
        event::qp(device, QpEvent::Established, end.qpn);
    }
    let sequenced = matches!(service, Service::Rc | Service::Xrc);
    match sequenced.then(|| sequence::order(device, end.qpn, message)) {
        Some(Order::Ahead) => return Answer::Lost,
        Some(Order::Again) => return again(device, source, message, &end),
        Some(Order::Expected) | None => {}
    }
    let answer = serve(device, source, message, &end);
    if sequenced && matches!(answer, Answer::Done(_)) {
        sequence::advance(device, end.qpn, message);
    }
    answer
}

/// Answers a message that was served before: reads are served again, the rest is only acknowledged.
fn again(
    device: &mut Device,
    source: &Arc<dyn GuestMemory>,
    message: &Message,
    end: &Endpoint,
) -> Answer {
    match message.action {
        Action::Send { .. } | Action::Write { .. } => Answer::Done(message.payload.length()),
        Action::Read => read(device, source, message, end),
        Action::Atomic(_) => match sequence::recall(device, end.qpn, message.psn) {
            Some(old) => atomic_answer(device, source, message, old),
            None => Answer::Lost,
        },
    }
}

fn serve(
    device: &mut Device,
    source: &Arc<dyn GuestMemory>,
    message: &Message,
    end: &Endpoint,
) -> Answer {
    match message.action {
        Action::Send {
            immediate,
            invalidate,
        } => {
            let opcode = match (immediate, invalidate) {
                (Some(_), _) => Opcode::SendImmediate,
                (None, Some(_)) => Opcode::SendInvalidate,
                (None, None) => Opcode::Send,
            };
            if let Some(key) = invalidate
                && let Err(syndrome) = invalidate_key(device, key, end.pd, false)
            {
                return refuse(device, end, syndrome, QpEvent::AccessError);
            }
            let carried = immediate.or(invalidate);
            let answer = receive_message(device, source, message, end, opcode, carried);
            // A message that has to come again finds the key as it was.
            if let (Some(key), Answer::Done(_)) = (invalidate, answer) {
                let _ = invalidate_key(device, key, end.pd, true);
            }
            answer
        }
        Action::Write { immediate } => write(device, source, message, end, immediate),
        Action::Read => read(device, source, message, end),
        Action::Atomic(operation) => atomic(device, source, message, end, operation),
    }
}

impl crate::objects::QueuePair {
    fn datagram_service(&self) -> bool {
        self.service.is_datagram()
    }
}

fn endpoint(device: &Device, message: &Message, service: Service) -> Option<Endpoint> {
    if service == Service::DcInitiator {
        return dc_endpoint(device, message);
    }
    let pair = device
        .qps
        .get(message.target_qpn)
        .filter(|qp| qp.receives())?;
    let context = &pair.context;
    let matches = match (service, pair.service) {
        (Service::Ud | Service::Management(_), Service::Ud | Service::Management(_)) => {
            message.key as u32 == qp::QKEY.get(context)
        }
        (sender, receiver) => {
            sender == receiver && qp::REMOTE_QPN.get(context) == message.source_qpn
        }
    };
    if !matches {
        return None;
    }
    let mut end = Endpoint {
        qpn: message.target_qpn,
        pd: pair.pd(),
        cqn: pair.recv_cq(),
        user_index: pair.user_index(),
        pool: pair
            .shared_queue()
            .map_or(Pool::Own(message.target_qpn), Pool::Shared),
        read: qp::READ_ENABLE.is_set(context),
        write: qp::WRITE_ENABLE.is_set(context),
        atomic: qp::ATOMIC_ENABLE.is_set(context),
        not_ready: rnr_delay(context),
        datagram: service.is_datagram(),
        reliable: service.is_reliable(),
        pageless: false,
        partition: match pair.service {
            Service::Management(_) => DEFAULT_PARTITION,
            _ => 0,
        },
    };
    if service == Service::Xrc {
        let queue = device.shared.get(message.shared_queue)?;
        if queue.kind != SharedKind::Xrc || queue.xrcd != qp::XRCD.get(context) {
            return None;
        }
        end.pool = Pool::Shared(message.shared_queue);
        end.pd = queue.pd;
        end.cqn = queue.cqn;
        end.user_index = queue.user_index;
    } else if let Pool::Shared(number) = end.pool {
        end.pd = if service.is_datagram() {
            device.shared.get(number)?.pd
        } else {
            end.pd
        };
    }
    Some(end)
}

fn dc_endpoint(device: &Device, message: &Message) -> Option<Endpoint> {
    let target = device
        .dcts
        .get(message.target_qpn)
        .filter(|target| !target.draining)?;
    let context = &target.context;
    if dct::ACCESS_KEY.get(context) != message.key {
        return None;
    }
    Some(Endpoint {
        qpn: message.target_qpn,
        pd: dct::PD.get(context),
        cqn: dct::CQN.get(context),
        user_index: dct::USER_INDEX.get(context),
        pool: Pool::Shared(dct::SRQN.get(context)),
        read: dct::READ.is_set(context),
        write: dct::WRITE.is_set(context),
        atomic: dct::ATOMIC.is_set(context),
        not_ready: rnr_code_delay(dct::MIN_RNR_NAK.get(context)),
        datagram: false,
        reliable: true,
        pageless: false,
        partition: 0,
    })
}

/// Stops the queue pair over a request it cannot serve.
fn refuse(device: &mut Device, end: &Endpoint, syndrome: Syndrome, event: QpEvent) -> Answer {
    if end.reliable {
        device.fail_qp(end.qpn);
        event::qp(device, event, end.qpn);
        Answer::Refused(syndrome)
    } else {
        Answer::Lost
    }
}

/// Whether a key may be invalidated by a peer; does so if asked.
fn invalidate_key(device: &mut Device, key: u32, pd: u32, really: bool) -> Result<(), Syndrome> {
    let target = device
        .mkeys
        .get_mut(key >> 8)
        .ok_or(Syndrome::RemoteAccess)?;
    let context = &mut target.context;
    if mkey::FREE.is_set(context)
        || mkey::KEY.get(context) != key & 0xff
        || mkey::PD.get(context) != pd
        || !mkey::REMOTE_INVALIDATE.is_set(context)
    {
        return Err(Syndrome::RemoteAccess);
    }
    if really {
        mkey::FREE.set(context, 1);
    }
    Ok(())
}

fn no_receive(end: &Endpoint) -> Answer {
    if end.reliable {
        Answer::NotReady(end.not_ready)
    } else {
        Answer::Lost
    }
}

fn receive_message(
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
    let placed =
        receive::scatter(device, &posted, length + header, pd, end.qpn).and_then(|spans| {
            place(device, source, message, end, &spans).map_err(|_| Misfit::Protection)
        });
    let mut done = Completion::new(opcode, end.qpn, end.user_index, posted.index);
    done.solicited = message.solicited;
    done.source_lid = message.source_lid;
    done.byte_count = (length + header) as u32;
    done.immediate = immediate.unwrap_or(end.partition);
    done.flags_qpn = packet_flags(device, message);
    match placed {
        Ok(()) => {
            completion::push(device, end.cqn, done);
            Answer::Done(length)
        }
        Err(Misfit::Absent) if asked_for_receive(device, message, end, &posted) => {
            if let Pool::Own(queue) = end.pool {
                receive::put_back(device, queue, &posted);
            } else {
                // It is used up; the driver posts it once more.
                let fault = Completion {
                    opcode: Opcode::ResponseError,
                    ..Completion::new(opcode, end.qpn, end.user_index, posted.index)
                };
                completion::push(device, end.cqn, fault.failed(Syndrome::RemoteAborted));
            }
            Answer::Paused
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

/// Asks for a page of a receive, if its queue can wait for one.
fn asked_for_receive(
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
    !end.pageless && paging::ask(device, end.qpn, Side::of(message), need)
}

fn shared_pd(device: &Device, number: u32, otherwise: u32) -> u32 {
    device
        .shared
        .get(number)
        .map_or(otherwise, |queue| queue.pd)
}

fn place(
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
    Payload::Inline(route_header(message)).copy(&**source, &*device.memory, &header)?;
    message.payload.copy(&**source, &*device.memory, &body)
}

/// The global route header as it was on the wire, or for IPv4 the IP header in its second half; zeros if there
/// was none.
fn route_header(message: &Message) -> Vec<u8> {
    let mut header = vec![0; GRH];
    let Some(route) = message.route else {
        return header;
    };
    let Route {
        from,
        to,
        class,
        udp,
    } = route;
    let length = message.payload.length() as u16;
    if udp && is_mapped(&to) {
        header[20] = 0x45;
        header[21] = class;
        header[22..24].copy_from_slice(&length.saturating_add(52).to_be_bytes());
        header[28] = 64;
        header[29] = 17;
        header[32..36].copy_from_slice(&from[12..]);
        header[36..40].copy_from_slice(&to[12..]);
    } else {
        header[..2].copy_from_slice(&(0x6000 | u16::from(class) << 4).to_be_bytes());
        header[4..6].copy_from_slice(&length.to_be_bytes());
        header[6] = if udp { 17 } else { 0x1b };
        header[7] = 64;
        header[8..24].copy_from_slice(&from);
        header[24..40].copy_from_slice(&to);
    }
    header
}

fn is_mapped(gid: &[u8; 16]) -> bool {
    gid[..12] == crate::device::MAPPED
}

/// GRH presence, service level (on Ethernet the kind of IP header) and source queue pair.
fn packet_flags(device: &Device, message: &Message) -> u32 {
    let level = match message.route {
        Some(Route { udp: false, .. }) if device.config.kind.is_ethernet() => 0,
        Some(Route { to, .. }) if device.config.kind.is_ethernet() => 1 + u32::from(is_mapped(&to)),
        _ => message.service_level,
    };
    u32::from(message.route.is_some()) << 28 | level << 24 | message.source_qpn & 0xff_ffff
}

fn remote(
    device: &mut Device,
    message: &Message,
    end: &Endpoint,
    length: u64,
    right: Right,
) -> Result<Vec<Span>, KeyError> {
    let mut spans = Vec::new();
    let access = Access {
        key: message.remote_key,
        address: message.remote_address,
        length,
        pd: end.pd,
        qpn: end.qpn,
        right,
    };
    match device.translate(access, &mut spans) {
        Ok(()) => Ok(spans),
        Err(KeyError::Absent) if asked_for_remote(device, message, end, length, right) => {
            Err(KeyError::Absent)
        }
        Err(reason) => {
            device.report_key(&access, reason);
            // Nobody brings the page.
            Err(match reason {
                KeyError::Absent => KeyError::Translation,
                reason => reason,
            })
        }
    }
}

/// Asks for a page that a peer reads or writes, if that can wait for one.
fn asked_for_remote(
    device: &mut Device,
    message: &Message,
    end: &Endpoint,
    length: u64,
    right: Right,
) -> bool {
    let need = Need::Remote {
        key: message.remote_key,
        address: message.remote_address,
        length: length as u32,
        packet: length.min(PACKET) as u32,
        write: right != Right::RemoteRead,
    };
    end.reliable && !end.pageless && paging::ask(device, end.qpn, Side::of(message), need)
}

/// What becomes of a message for whose memory there is no way.
fn denied(device: &mut Device, end: &Endpoint, reason: KeyError) -> Answer {
    if reason == KeyError::Absent {
        return Answer::Paused;
    }
    refuse(device, end, Syndrome::RemoteAccess, QpEvent::AccessError)
}

fn write(
    device: &mut Device,
    source: &Arc<dyn GuestMemory>,
    message: &Message,
    end: &Endpoint,
    immediate: Option<u32>,
) -> Answer {
    let length = message.payload.length();
    if !end.write {
        return refuse(device, end, Syndrome::RemoteAccess, QpEvent::AccessError);
    }
    let spans = match remote(device, message, end, length, Right::RemoteWrite) {
        Ok(spans) => spans,
        Err(reason) => return denied(device, end, reason),
    };
    let posted = match immediate.map(|_| receive::take(device, end.pool)) {
        Some(None) => return no_receive(end),
        Some(posted) => posted,
        None => None,
    };
    if message
        .payload
        .copy(&**source, &*device.memory, &spans)
        .is_err()
    {
        return refuse(device, end, Syndrome::RemoteOperation, QpEvent::AccessError);
    }
    if let (Some(posted), Some(immediate)) = (posted, immediate) {
        let mut done = Completion::new(
            Opcode::WriteImmediate,
            end.qpn,
            end.user_index,
            posted.index,
        );
        done.immediate = immediate;
        done.byte_count = length as u32;
        done.solicited = message.solicited;
        done.source_lid = message.source_lid;
        done.flags_qpn = message.service_level << 24 | message.source_qpn & 0xff_ffff;
        completion::push(device, end.cqn, done);
    }
    Answer::Done(length)
}

fn read(
    device: &mut Device,
    source: &Arc<dyn GuestMemory>,
    message: &Message,
    end: &Endpoint,
) -> Answer {
    let length = crate::memory::total(&message.answer);
    if !end.read {
        return refuse(device, end, Syndrome::RemoteAccess, QpEvent::AccessError);
    }
    let spans = match remote(device, message, end, length, Right::RemoteRead) {
        Ok(spans) => spans,
        Err(reason) => return denied(device, end, reason),
    };
    match Payload::Memory(spans).copy(&*device.memory, &**source, &message.answer) {
        Ok(()) => Answer::Done(length),
        Err(_) => refuse(device, end, Syndrome::RemoteOperation, QpEvent::AccessError),
    }
}

fn atomic(
    device: &mut Device,
    source: &Arc<dyn GuestMemory>,
    message: &Message,
    end: &Endpoint,
    operation: Atomic,
) -> Answer {
    if !message.remote_address.is_multiple_of(8) {
        return refuse(
            device,
            end,
            Syndrome::RemoteInvalidRequest,
            QpEvent::InvalidRequest,
        );
    }
    if !end.atomic {
        return refuse(device, end, Syndrome::RemoteAccess, QpEvent::AccessError);
    }
    let spans = match remote(device, message, end, 8, Right::RemoteAtomic) {
        Ok(spans) if spans.len() == 1 => spans,
        Err(reason) => return denied(device, end, reason),
        Ok(_) => return refuse(device, end, Syndrome::RemoteAccess, QpEvent::AccessError),
    };
    let Ok(old) = device
        .memory
        .update(spans[0].address, &mut |old| operation.apply(old))
    else {
        return refuse(device, end, Syndrome::RemoteOperation, QpEvent::AccessError);
    };
    sequence::remember(device, end.qpn, message.psn, old);
    atomic_answer(device, source, message, old)
}

/// Gives the requester the word as it was before.
fn atomic_answer(
    device: &Device,
    source: &Arc<dyn GuestMemory>,
    message: &Message,
    old: u64,
) -> Answer {
    let mut room = Vec::new();
    for span in &message.answer {
        push_span(&mut room, span.address, span.length);
    }
    match Payload::Inline(old.to_ne_bytes().to_vec()).copy(&*device.memory, &**source, &room) {
        Ok(()) => Answer::Done(8),
        Err(_) => Answer::Refused(Syndrome::RemoteOperation),
    }
}
