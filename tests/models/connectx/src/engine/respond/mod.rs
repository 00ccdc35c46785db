//! The responder: what a queue pair does with a message from the fabric.

mod receives;

use std::sync::Arc;

use crate::device::Device;
use crate::engine::atomic::Atomic;
use crate::engine::completion::{self, Completion, Opcode, Syndrome};
use crate::engine::event::{self, QpEvent};
use crate::engine::integrity::Signed;
use crate::engine::message::{Action, Answer, Message, Payload, rnr_code_delay, rnr_delay};
use crate::engine::misbehave;
use crate::engine::paging::{self, Need, Side, Standing};
use crate::engine::receive::{self, Pool};
use crate::engine::sequence::{self, Order};
use crate::layout::qp;
use crate::layout::queue::{dct, mkey};
use crate::memory::{GuestMemory, Span, push_span};
use crate::memory_key::{Access, KeyError, Right};
use crate::misbehaviour::Misbehaviour;
use crate::objects::{QpState, QueuePair, Service, SharedKind};
use receives::{inside, no_receive, receive_message};

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
    /// Whether the kernel could not provide a page that this message needs.
    pageless: bool,
    /// Messages up to this many bytes are written into their completions.
    inside: u64,
    /// What takes the place of immediate data: for management the partition key, otherwise its
    /// index.
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
        let known = device.qps.get(message.target_qpn).is_some();
        if known && service.is_reliable() && device.does(Misbehaviour::AnswersForOthers) {
            return Answer::Done(message.payload.length());
        }
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
    misbehave::bring(device, message);
    if sequenced && matches!(answer, Answer::Done(_)) {
        sequence::advance(device, end.qpn, message);
    }
    answer
}

/// Answers a message that was served before: reads are served again, everything else is only
/// acknowledged.
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
            // A message that has to be sent again finds the key unchanged.
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

impl QueuePair {
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
            message.key as u32 == qp::QKEY.get(context) || device.does(Misbehaviour::QueueKey)
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
        inside: inside(device, pair),
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
        inside: 0,
        partition: 0,
    })
}

/// Stops the queue pair because of a request it cannot serve.
fn refuse(device: &mut Device, end: &Endpoint, syndrome: Syndrome, event: QpEvent) -> Answer {
    if syndrome == Syndrome::RemoteAccess && device.does(Misbehaviour::Grants) {
        return Answer::Done(0);
    }
    if end.reliable {
        device.fail_qp(end.qpn);
        event::qp(device, event, end.qpn);
        Answer::Refused(syndrome)
    } else {
        Answer::Lost
    }
}

/// Whether a peer may invalidate a key; invalidates it if `really` is set.
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

fn remote_access(message: &Message, end: &Endpoint, length: u64, right: Right) -> Access {
    Access {
        key: message.remote_key,
        address: message.remote_address,
        length,
        pd: end.pd,
        qpn: end.qpn,
        right,
    }
}

fn remote(
    device: &mut Device,
    message: &Message,
    end: &Endpoint,
    length: u64,
    right: Right,
) -> Result<Vec<Span>, KeyError> {
    let mut spans = Vec::new();
    let access = remote_access(message, end, length, right);
    match device.translate(access, &mut spans) {
        Ok(()) => Ok(spans),
        Err(KeyError::Absent) if requested_by_remote(device, message, end, length, right) => {
            Err(KeyError::Absent)
        }
        Err(reason) => {
            device.report_key(&access, reason);
            // The page cannot be provided.
            Err(match reason {
                KeyError::Absent => KeyError::Translation,
                reason => reason,
            })
        }
    }
}

/// Requests a page that a peer reads or writes, if the message can wait for it.
fn requested_by_remote(
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
    end.reliable && !end.pageless && paging::request(device, end.qpn, Side::of(message), need)
}

/// What becomes of a message whose memory cannot be accessed.
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
    let access = remote_access(message, end, length, Right::RemoteWrite);
    let (signed, spans) = match device.signed(access) {
        Ok(Some(signed)) => (Some(signed), Vec::new()),
        Ok(None) => match remote(device, message, end, length, Right::RemoteWrite) {
            Ok(spans) => (None, spans),
            Err(reason) => return denied(device, end, reason),
        },
        Err(reason) => {
            device.report_key(&access, reason);
            return denied(device, end, reason);
        }
    };
    let posted = match immediate.map(|_| receive::take(device, end.pool)) {
        Some(None) => return no_receive(end),
        Some(posted) => posted,
        None => None,
    };
    if let Some(signed) = signed {
        let mut wrong = Vec::new();
        let bytes = message.payload.bytes(&**source, length as usize);
        let bytes = bytes.map_err(|_| KeyError::Translation);
        match bytes.and_then(|bytes| device.write_signed(&signed, &bytes, &mut wrong)) {
            Ok(()) => device.report_wrong(end.cqn, end.qpn, &wrong),
            Err(reason) => {
                device.report_key(&access, reason);
                return denied(device, end, reason);
            }
        }
    } else if message
        .payload
        .copy(&**source, &*device.memory, &spans)
        .is_err()
    {
        return refuse(device, end, Syndrome::RemoteOperation, QpEvent::AccessError);
    }
    misbehave::arrived(device, &*device.memory, &spans);
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
    let access = remote_access(message, end, length, Right::RemoteRead);
    match device.signed(access) {
        Ok(Some(signed)) => return read_signed(device, source, message, end, (access, &signed)),
        Ok(None) => {}
        Err(reason) => {
            device.report_key(&access, reason);
            return denied(device, end, reason);
        }
    }
    let spans = match remote(device, message, end, length, Right::RemoteRead) {
        Ok(spans) => spans,
        Err(reason) => return denied(device, end, reason),
    };
    if misbehave::put_off(device, source, message, &spans) {
        return Answer::Done(length);
    }
    match Payload::Memory(spans).copy(&*device.memory, &**source, &message.answer) {
        Ok(()) => {
            misbehave::arrived(device, &**source, &message.answer);
            Answer::Done(length)
        }
        Err(_) => refuse(device, end, Syndrome::RemoteOperation, QpEvent::AccessError),
    }
}

/// A read through a key with signatures.
fn read_signed(
    device: &mut Device,
    source: &Arc<dyn GuestMemory>,
    message: &Message,
    end: &Endpoint,
    (access, signed): (Access, &Signed),
) -> Answer {
    let mut wrong = Vec::new();
    let bytes = match device.read_signed(signed, &mut wrong) {
        Ok(bytes) => bytes,
        Err(reason) => {
            device.report_key(&access, reason);
            return denied(device, end, reason);
        }
    };
    let length = bytes.len() as u64;
    match Payload::Inline(bytes).copy(&*device.memory, &**source, &message.answer) {
        Ok(()) => {
            device.report_wrong(end.cqn, end.qpn, &wrong);
            Answer::Done(length)
        }
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
    let operation = misbehave::atomic(device, operation);
    let Ok(old) = device.memory.update(spans[0].address, &mut |old| {
        operation.map_or(old, |operation| operation.apply(old))
    }) else {
        return refuse(device, end, Syndrome::RemoteOperation, QpEvent::AccessError);
    };
    sequence::remember(device, end.qpn, message.psn, old);
    atomic_answer(device, source, message, old)
}

/// Returns the previous value of the word to the requester.
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
    let old = if device.does(Misbehaviour::AtomicAnswer) {
        old.swap_bytes()
    } else {
        old
    };
    match Payload::Inline(old.to_ne_bytes().to_vec()).copy(&*device.memory, &**source, &room) {
        Ok(()) => Answer::Done(8),
        Err(_) => Answer::Refused(Syndrome::RemoteOperation),
    }
}
