//! Queue pair commands.

use super::{Command, qp_fields};
use crate::FunctionKind;
use crate::buffer::Buffer;
use crate::layout::command::{self, PAS, op};
use crate::layout::{Wide, qp};
use crate::misbehaviour::Misbehaviour;
use crate::objects::{QpState, QueuePair, RecvRing, SendRing, Service};
use crate::profile::limit;
use crate::status::{Outcome, Rule, require};

const QPC: usize = command::qp::QPC;
/// The queue pair has a receive queue of its own.
const RQ_OWN: u32 = 0;

/// CREATE_QP.
pub(super) fn create(command: &mut Command<'_>) -> Outcome {
    let context = command.context(QPC, qp::LEN);
    let streams = qp::LOG_STREAMS
        .get(&context)
        .max(qp::LOG_FAILED_STREAMS.get(&context));
    let most = if command.device.config.streams {
        limit::LOG_STREAMS
    } else {
        0
    };
    require(streams <= most, Rule::OutOfRange)?;
    let service = Service::parse(qp::SERVICE.get(&context)).ok_or(Rule::ServiceType.refuse())?;
    references(command, service, &context)?;
    let recv = match qp::RQ_TYPE.get(&context) {
        RQ_OWN => RecvRing {
            entries: 1 << qp::LOG_RQ_SIZE.get(&context),
            stride: 16 << qp::LOG_RQ_STRIDE.get(&context),
            consumer: 0,
        },
        _ => RecvRing::default(),
    };
    let offset = u64::from(recv.entries) * u64::from(recv.stride);
    let blocks = if qp::NO_SQ.is_set(&context) {
        0
    } else {
        1 << qp::LOG_SQ_SIZE.get(&context)
    };
    let length = offset + u64::from(blocks) * 64;
    let buffer = if command::qp::UMEM_VALID.is_set(command.input) {
        let umem = command
            .device
            .umems
            .of(command.get(command::qp::UMEM_ID), command.uid)?;
        umem.part(command.get64(command::qp::UMEM_OFFSET), length)?
    } else {
        Buffer::parse(
            command.input,
            PAS,
            qp::LOG_PAGE.get(&context),
            qp::PAGE_OFFSET.get(&context),
            length,
        )?
    };
    let umem = qp::DBR_UMEM_VALID
        .is_set(&context)
        .then(|| qp::DBR_UMEM_ID.get(&context));
    let doorbell = command.doorbell(umem, qp::DBR_ADDR.get(&context), 8)?;
    let ece = command.agree(command.get(command::qp::ECE))?;
    let mut pair = QueuePair {
        context,
        extension: vec![0; qp::ext::LEN],
        service,
        state: QpState::Reset,
        buffer,
        doorbell,
        send: SendRing {
            offset,
            blocks,
            consumer: 0,
        },
        recv,
        retries: 0,
        rnr_retries: 0,
        blocked_until: 0,
        queued: false,
        established: false,
        atomics: std::collections::VecDeque::new(),
        last_wqe: false,
        ece,
        failed_streams: std::collections::BTreeSet::new(),
        copies: false,
    };
    pair.enter(QpState::Reset);
    let uid = command.uid;
    let number = command.device.numbers.add(uid, ())?;
    command.device.qps.put(uid, number, pair);
    command.reply(number);
    command.set(command::REPLY_ECE, ece);
    Ok(())
}

/// Everything a context names must exist and be accessible to the user context.
fn references(command: &Command<'_>, service: Service, context: &[u8]) -> Outcome {
    let (device, uid) = (&*command.device, command.uid);
    if service == Service::Xrc {
        let xrcd = qp::XRCD.get(context);
        device.xrcds.shared(xrcd, uid)?;
    } else if service != Service::Umr {
        // The kernel's registration queue has no protection domain: it changes keys of every
        // domain.
        device.pds.shared(qp::PD.get(context), uid)?;
    }
    device
        .uars
        .shared(qp::UAR.get(context), uid)
        .or_else(|refusal| {
            // A target has no send queue and no page for its doorbell.
            if service == Service::Xrc {
                Ok(&())
            } else {
                Err(refusal)
            }
        })?;
    if !qp::NO_SQ.is_set(context) || service != Service::Xrc {
        device.cqs.shared(qp::CQN_SEND.get(context), uid)?;
    }
    match qp::RQ_TYPE.get(context) {
        1 => device.shared.shared(qp::SRQN.get(context), uid).map(|_| ()),
        RQ_OWN if qp::CQN_RECV.get(context) != 0 => device
            .cqs
            .shared(qp::CQN_RECV.get(context), uid)
            .map(|_| ()),
        RQ_OWN | 3 => Ok(()),
        _ => Err(Rule::Reserved.refuse()),
    }
}

/// DESTROY_QP.
pub(super) fn destroy(command: &mut Command<'_>) -> Outcome {
    let (uid, number) = (command.uid, command.number());
    let pair = command.device.qps.take(number, uid)?;
    command.device.numbers.take(number, 0)?;
    command.device.forget_page_faults(number);
    command
        .device
        .scheduler
        .detach(qp::ext::GROUP_REQUESTER.get(&pair.extension));
    for members in command.device.multicast.values_mut() {
        members.retain(|member| *member != number);
    }
    Ok(())
}

/// QUERY_QP.
pub(super) fn query(command: &mut Command<'_>) -> Outcome {
    let pair = command.device.qps.of(command.number(), command.uid)?;
    let mut context = pair.context.clone();
    qp::HW_SQ_COUNTER.set(&mut context, u32::from(pair.send.consumer));
    qp::HW_RQ_COUNTER.set(&mut context, u32::from(pair.recv.consumer));
    let records =
        [pair.doorbell, pair.doorbell + 4].map(|at| command.device.read_be32(at).unwrap_or(0));
    qp::SW_RQ_COUNTER.set(&mut context, records[0]);
    qp::SW_SQ_COUNTER.set(&mut context, records[1]);
    let (extension, pages) = (pair.extension.clone(), pair.buffer.pages().to_vec());
    let ece = pair.ece;
    let extended = command::qp::EXT.is_set(command.input);
    command.set(command::qp::ECE, ece);
    command.reply_context(QPC, &context);
    if extended {
        command.reply_context(command::qp::EXT_CTX, &extension);
    } else {
        for (i, page) in pages.into_iter().enumerate() {
            Wide(PAS + i * 8).set(command.output, page);
        }
    }
    Ok(())
}

/// Any state transition.
pub(super) fn modify(command: &mut Command<'_>, opcode: u16) -> Outcome {
    let (uid, number) = (command.uid, command.number());
    let context = command.context(QPC, qp::LEN);
    let mask = command.get(command::qp::OPT_MASK);
    let pair = command.device.qps.of(number, uid)?;
    let next = qp_fields::next(opcode, pair.state)?;
    if mask & qp_fields::optional::PACING_INDEX != 0 {
        let index = qp::PACING_INDEX.get(&context) as u16;
        let paced = matches!(pair.service, Service::Ud | Service::Uc);
        require(paced, Rule::ServiceType)?;
        require(
            index == 0 || command.device.pacing.get(index).is_some(),
            Rule::NoSuchObject,
        )?;
    }
    let extended = command::qp::EXT.is_set(command.input)
        && matches!(opcode, op::INIT2INIT_QP | op::RTS2RTS_QP)
        && command.get(command::qp::EXT_MASK_LOW) & qp::ext::MASK_QUEUE_GROUP != 0;
    let new_source_port = opcode == op::RTS2RTS_QP
        && command.get(command::qp::EXT_MASK_LOW) & qp::ext::MASK_SOURCE_PORT != 0;
    if new_source_port {
        let has_port =
            command.device.config.kind == FunctionKind::Roce && pair.service != Service::Ud;
        require(has_port, Rule::ServiceType)?;
    }
    if extended {
        attach(command, number)?;
    }
    let resets_stream = opcode == op::RTS2RTS_QP
        && command::qp::EXT.is_set(command.input)
        && command.get(command::qp::EXT_MASK_LOW) & qp::ext::MASK_STREAM != 0;
    if resets_stream {
        reset_stream(command, number)?;
    }
    let sets_copies = opcode == op::INIT2INIT_QP
        && command::qp::EXT.is_set(command.input)
        && command.get(command::qp::EXT_MASK_LOW) & qp::ext::MASK_COPIES != 0;
    if sets_copies {
        let extension = command.context(command::qp::EXT_CTX, qp::ext::LEN);
        let has_copies = command.device.config.copies;
        let pair = command.device.qps.of_mut(number, uid)?;
        let fits = matches!(pair.service, Service::Rc | Service::DcInitiator);
        require(has_copies && fits, Rule::ServiceType)?;
        pair.copies = qp::ext::COPIES.is_set(&extension);
    }
    if opcode == op::INIT2INIT_QP && mask & qp_fields::optional::DRAINS != 0 {
        let has_signatures = command.device.config.signatures;
        let pair = command.device.qps.of(number, uid)?;
        require(
            has_signatures && pair.service.is_reliable(),
            Rule::ServiceType,
        )?;
    }
    if takes_ece(opcode) {
        establish(command, number)?;
    }
    let keeps = command.device.does(Misbehaviour::KeepsPositions);
    let pair = command.device.qps.of_mut(number, uid)?;
    qp_fields::apply(opcode, pair.service, mask, &context, &mut pair.context);
    if new_source_port {
        qp_fields::SOURCE_PORT.copy(&context, &mut pair.context);
    }
    match next {
        QpState::Reset => {
            pair.enter(QpState::Reset);
            if !keeps {
                pair.send.consumer = 0;
                pair.recv.consumer = 0;
            }
            pair.established = false;
            pair.copies = false;
            pair.last_wqe = false;
            pair.blocked_until = 0;
            command.device.forget_page_faults(number);
        }
        QpState::Error => command.device.fail_qp(number),
        state => {
            pair.enter(state);
            if state == QpState::ReadyToSend {
                pair.refill_retries();
                // Work posted before the queue was ready needs no second doorbell.
                command.device.kicked.push(number);
            }
        }
    }
    Ok(())
}

/// Whether a transition's command carries connection establishment options.
fn takes_ece(opcode: u16) -> bool {
    matches!(
        opcode,
        op::RST2INIT_QP | op::INIT2INIT_QP | op::INIT2RTR_QP | op::RTR2RTS_QP | op::RTS2RTS_QP
    )
}

/// Agrees to the connection establishment options that are requested; if there are none, the
/// previous ones stay in force.
fn establish(command: &mut Command<'_>, number: u32) -> Outcome {
    let requested = command.get(command::qp::ECE);
    let agreed = command.agree(requested)?;
    if requested != 0 {
        command.device.qps.of_mut(number, command.uid)?.ece = agreed;
    }
    command.set(command::REPLY_ECE, agreed);
    Ok(())
}

/// Ends the error of the stream that the extended context names, which must have one.
fn reset_stream(command: &mut Command<'_>, number: u32) -> Outcome {
    let extension = command.context(command::qp::EXT_CTX, qp::ext::LEN);
    let named = qp::ext::STREAM.get(&extension);
    let uid = command.uid;
    let has_streams = command.device.config.streams;
    let pair = command.device.qps.of_mut(number, uid)?;
    let fits = has_streams && pair.service == Service::DcInitiator;
    require(fits, Rule::ServiceType)?;
    let stream = pair.stream(named as u16);
    require(pair.failed_streams.remove(&stream), Rule::OutOfRange)?;
    Ok(())
}

/// Moves the queue pair to the queue group named by the extended context.
fn attach(command: &mut Command<'_>, number: u32) -> Outcome {
    if command.device.does(Misbehaviour::AttachIgnored) {
        return Ok(());
    }
    let uid = command.uid;
    let extension = command.context(command::qp::EXT_CTX, qp::ext::LEN);
    let new = qp::ext::GROUP_REQUESTER.get(&extension);
    let old = qp::ext::GROUP_REQUESTER.get(&command.device.qps.of(number, uid)?.extension);
    command.device.scheduler.attach(uid, old, new)?;
    let pair = command.device.qps.of_mut(number, uid)?;
    qp::ext::GROUP_REQUESTER.copy(&extension, &mut pair.extension);
    qp::ext::GROUP_RESPONDER.copy(&extension, &mut pair.extension);
    Ok(())
}
