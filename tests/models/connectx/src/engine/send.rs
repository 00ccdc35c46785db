//! The requester: takes work requests from a send queue and carries them out.

use crate::device::Device;
use crate::engine::atomic::is_masked;
use crate::engine::completion::{self, Completion, Opcode, Syndrome};
use crate::engine::compose::{Unfit, length_hint, message};
use crate::engine::copy;
use crate::engine::event::{self, QpEvent};
use crate::engine::fabric::Fabric;
use crate::engine::flush;
use crate::engine::message::{Answer, Message, PSN_MASK, ack_timeout};
use crate::engine::misbehave;
use crate::engine::paging::{self, Need, Side, Standing};
use crate::engine::route::{is_multicast, management_target, primary_path};
use crate::engine::umr;
use crate::engine::wqe::{self, Control, UNIT, WorkRequest, opcode};
use crate::layout::qp::{self, path};
use crate::memory_key::KeyError;
use crate::misbehaviour::Misbehaviour;
use crate::objects::{QpState, Service};
use crate::profile::limit;
use crate::subnet::SM_LID;

/// Result of one look at a send queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Nothing to do.
    Idle,
    /// One work request was processed; there may be more.
    Progress,
    /// Nothing may happen before this time.
    Wait(u64),
}

/// The end of one work request.
#[derive(Clone, Copy)]
enum Verdict {
    Done(u64),
    Failed(Syndrome),
    Wait(u64),
    /// It waits until the kernel has answered.
    PageFault,
}

/// The largest datagram payload: the largest MTU.
const DATAGRAM: u64 = 4096;
/// The first LID of the multicast range.
const MULTICAST_LID: u16 = 0xc000;

impl Fabric {
    /// Carries out the next work request of a queue pair.
    pub(super) fn step(&mut self, function: usize, qpn: u32) -> Step {
        let now = self.now;
        let Some(device) = self.devices.get_mut(function) else {
            return Step::Idle;
        };
        if !device.bus_master() {
            return Step::Idle;
        }
        let Some(pair) = device.qps.get(qpn) else {
            return Step::Idle;
        };
        match pair.state {
            QpState::Error => {
                return if flush::flush(device, qpn) {
                    Step::Progress
                } else {
                    Step::Idle
                };
            }
            QpState::ReadyToSend | QpState::SendDraining => {}
            _ => return Step::Idle,
        }
        if pair.blocked_until > now {
            return Step::Wait(pair.blocked_until);
        }
        let service = pair.service;
        let drains = pair.state == QpState::SendDraining;
        let next = flush::next(device, qpn).filter(|next| !(drains && next.fenced));
        let Some(control) = next else {
            if drains {
                drained(device, qpn);
            }
            return Step::Idle;
        };
        let stream = pair.stream(control.stream);
        if service == Service::DcInitiator && pair.failed_streams.contains(&stream) {
            let flushed = Verdict::Failed(Syndrome::Flushed);
            return self.finish(function, qpn, control, flushed);
        }
        let Some(bytes) = fetch(device, qpn, control) else {
            device.report("send queue", "work request outside guest memory");
            return self.finish(
                function,
                qpn,
                control,
                Verdict::Failed(Syndrome::LocalQpOperation),
            );
        };
        match paging::standing(device, qpn, Side::Requests) {
            Standing::Free => {}
            Standing::Waiting => return Step::Idle,
            Standing::Failed => {
                device.report(
                    "memory key",
                    &format!("of a request of QP {qpn:#x}: no page"),
                );
                return self.finish(
                    function,
                    qpn,
                    control,
                    Verdict::Failed(Syndrome::LocalProtection),
                );
            }
        }
        let (control, bytes) = device.pushed_or(qpn, control, bytes);
        device.trace.wqe(function, qpn, control.index, &bytes);
        check(device, qpn, control, &bytes);
        if control.index == misbehave::LOST && device.does(Misbehaviour::LostRequest) {
            return self.finish(function, qpn, control, Verdict::Done(0));
        }
        let spoils = device.does(Misbehaviour::Inline);
        let verdict = match wqe::parse(&bytes, service) {
            Ok(mut request) => {
                if let Some(last) = request.inline.as_mut().and_then(|bytes| bytes.last_mut())
                    && spoils
                {
                    *last = !*last;
                }
                let length = length_hint(&request);
                if let Some(until) = self.shaper_gate(function, qpn, length) {
                    return Step::Wait(until);
                }
                self.execute(function, qpn, service, &request, &bytes)
            }
            Err(malformed) => {
                device.report("malformed work request", malformed.0);
                Verdict::Failed(Syndrome::LocalQpOperation)
            }
        };
        self.finish(function, qpn, control, verdict)
    }

    fn finish(&mut self, function: usize, qpn: u32, control: Control, verdict: Verdict) -> Step {
        let Some(device) = self.devices.get_mut(function) else {
            return Step::Idle;
        };
        let Some(pair) = device.qps.get_mut(qpn) else {
            return Step::Idle;
        };
        let index = pair.send.consumer;
        let (cqn, user_index, service) = (pair.send_cq(), pair.user_index(), pair.service);
        match verdict {
            Verdict::Wait(until) => {
                pair.blocked_until = until;
                return Step::Wait(until);
            }
            Verdict::PageFault => return Step::Idle,
            Verdict::Done(bytes) => {
                pair.send.consumer = index.wrapping_add(control.blocks());
                pair.refill_retries();
                *device.served.entry(qpn).or_insert(0) += bytes;
                if control.signaled {
                    let mut done = Completion::new(Opcode::Request, qpn, user_index, index);
                    done.send_opcode = control.opcode;
                    done.byte_count = bytes as u32;
                    completion::push(device, cqn, done);
                }
            }
            Verdict::Failed(syndrome) => {
                pair.send.consumer = index.wrapping_add(control.blocks());
                match service {
                    Service::DcInitiator => pair.fail_stream(control.stream),
                    Service::Umr => pair.enter(QpState::Error),
                    _ if service.is_reliable() => pair.enter(QpState::Error),
                    _ => pair.enter(QpState::SendError),
                }
                let mut done =
                    Completion::new(Opcode::RequestError, qpn, user_index, index).failed(syndrome);
                done.send_opcode = control.opcode;
                completion::push(device, cqn, done);
                if let Some(pair) = device.qps.get_mut(qpn)
                    && pair.state == QpState::SendError
                {
                    // Only the send side stops; the rest of its queue is flushed at once.
                    flush::send_only(device, qpn);
                }
            }
        }
        Step::Progress
    }

    fn execute(
        &mut self,
        function: usize,
        qpn: u32,
        service: Service,
        request: &WorkRequest,
        bytes: &[u8],
    ) -> Verdict {
        let Some(device) = self.devices.get_mut(function) else {
            return Verdict::Failed(Syndrome::LocalQpOperation);
        };
        let Some(pair) = device.qps.get(qpn) else {
            return Verdict::Failed(Syndrome::LocalQpOperation);
        };
        let pd = pair.pd();
        match request.control.opcode {
            opcode::NOP => return Verdict::Done(0),
            opcode::UMR => {
                return match umr::apply(device, bytes, pd, qpn) {
                    Ok(()) => Verdict::Done(0),
                    Err(reason) => {
                        device.report("memory registration request", reason);
                        Verdict::Failed(Syndrome::MemoryWindowBind)
                    }
                };
            }
            opcode::SET_PSV => {
                return match umr::set_psv(device, bytes, pd) {
                    Ok(()) => Verdict::Done(0),
                    Err(reason) => {
                        device.report("memory registration request", reason);
                        Verdict::Failed(Syndrome::LocalQpOperation)
                    }
                };
            }
            opcode::MMO if device.config.copies => {
                return match copy::apply(device, request.control, bytes, qpn) {
                    Ok(length) => Verdict::Done(length),
                    Err(syndrome) => Verdict::Failed(syndrome),
                };
            }
            _ => {}
        }
        let code = request.control.opcode;
        if !allowed(service, code) || is_masked(code) && !device.config.masked_atomics() {
            device.report("malformed work request", "opcode on this service type");
            return Verdict::Failed(Syndrome::LocalQpOperation);
        }
        match message(device, qpn, service, request) {
            Ok(message) if service.is_datagram() => {
                self.datagram(function, &message, request, service)
            }
            Ok(message) => self.connected(function, qpn, service, &message, request),
            Err(Unfit { syndrome, key }) => {
                let absent = matches!(key, Some((_, KeyError::Absent)));
                if absent && self.needs_page(function, qpn, service, request) {
                    return Verdict::PageFault;
                }
                let Some(device) = self.devices.get_mut(function) else {
                    return Verdict::Failed(syndrome);
                };
                if let Some((access, reason)) = key {
                    device.report_key(&access, reason);
                    if device.does(Misbehaviour::GrantsLocally) {
                        return Verdict::Done(0);
                    }
                }
                Verdict::Failed(syndrome)
            }
        }
    }

    /// Requests a page of a request's own memory, if its service type can wait for it.
    fn needs_page(
        &mut self,
        function: usize,
        qpn: u32,
        service: Service,
        request: &WorkRequest,
    ) -> bool {
        let waits = service.is_reliable() || service == Service::Ud;
        let Some(device) = self.devices.get_mut(function).filter(|_| waits) else {
            return false;
        };
        let Some(pair) = device.qps.get(qpn) else {
            return false;
        };
        let need = Need::Request {
            queue: qpn,
            index: pair.send.consumer,
            answered: request.control.opcode == opcode::RDMA_READ || request.atomic.is_some(),
        };
        paging::request(device, qpn, Side::Requests, need)
    }

    fn connected(
        &mut self,
        function: usize,
        qpn: u32,
        service: Service,
        message: &Message,
        request: &WorkRequest,
    ) -> Verdict {
        let (lid, gid) = match &request.address {
            Some(address) => (address.lid, Some(address.raw_gid)),
            None => self
                .devices
                .get(function)
                .and_then(|device| device.qps.get(qpn))
                .map_or((0, None), |pair| primary_path(&pair.context)),
        };
        let answer = match self.reach(function, lid, gid) {
            Some(to) => self.hand_over(function, to, message, service),
            None => Answer::Lost,
        };
        if !service.is_reliable() {
            return Verdict::Done(message.payload.length());
        }
        let (now, divisor) = (self.now, self.options.time_divisor.max(1));
        let Some(device) = self.devices.get_mut(function) else {
            return Verdict::Failed(Syndrome::LocalQpOperation);
        };
        let forever = device.does(Misbehaviour::RnrForever);
        let Some(pair) = device.qps.get_mut(qpn) else {
            return Verdict::Failed(Syndrome::LocalQpOperation);
        };
        match answer {
            Answer::Done(bytes) => {
                let next = message.psn.wrapping_add(message.packets) & PSN_MASK;
                qp::SEND_PSN.set(&mut pair.context, next);
                let cqn = pair.send_cq();
                let placed = message
                    .signed_answer
                    .as_ref()
                    .map(|answer| answer.place(device));
                let Ok(placed) = placed.transpose() else {
                    return Verdict::Failed(Syndrome::LocalProtection);
                };
                let placed = placed.unwrap_or_default();
                device.report_wrong(cqn, qpn, &message.wrong);
                device.report_wrong(cqn, qpn, &placed);
                if !(message.wrong.is_empty() && placed.is_empty()) {
                    drain(device, qpn);
                }
                Verdict::Done(bytes)
            }
            Answer::Refused(syndrome) => Verdict::Failed(syndrome),
            Answer::Paused => Verdict::Wait(now + paging::PAUSE),
            Answer::NotReady(_) if pair.rnr_retries == 0 && !forever => {
                Verdict::Failed(Syndrome::RnrRetryExceeded)
            }
            Answer::NotReady(delay) => {
                // Seven means "retry without limit".
                if pair.rnr_retries != 7 {
                    pair.rnr_retries = pair.rnr_retries.saturating_sub(1);
                }
                Verdict::Wait(now + (delay / divisor).max(1))
            }
            Answer::Lost => {
                let code = path::ACK_TIMEOUT.at(qp::PRIMARY).get(&pair.context);
                let delay = ack_timeout(code);
                if pair.retries == 0 && delay.is_some() {
                    return Verdict::Failed(Syndrome::RetryExceeded);
                }
                pair.retries = pair.retries.saturating_sub(1);
                // Without a limit the sender checks again as often as with the longest usual
                // timeout.
                Verdict::Wait(now + (delay.unwrap_or(4096 << 18) / divisor).max(1))
            }
        }
    }

    fn datagram(
        &mut self,
        function: usize,
        message: &Message,
        request: &WorkRequest,
        service: Service,
    ) -> Verdict {
        let length = message.payload.length();
        if length > DATAGRAM {
            return Verdict::Failed(Syndrome::LocalLength);
        }
        let Some(address) = request.address else {
            return Verdict::Failed(Syndrome::LocalQpOperation);
        };
        let ethernet = self
            .devices
            .get(function)
            .is_some_and(|device| device.config.kind.is_ethernet());
        let multicast = if ethernet {
            is_multicast(&address.raw_gid)
        } else {
            address.lid >= MULTICAST_LID
        };
        if multicast {
            let (lid, gid) = (address.lid, address.raw_gid);
            self.multicast(function, message, lid, gid, service);
        } else if !ethernet && address.lid == SM_LID {
            self.tell_subnet(function, message);
        } else if let Some(to) = self.reach(function, address.lid, Some(address.raw_gid)) {
            let target = self
                .devices
                .get(to)
                .and_then(|device| management_target(device, message.target_qpn));
            let message = Message {
                target_qpn: target.unwrap_or(message.target_qpn),
                ..message.clone()
            };
            if self.hand_over(function, to, &message, service) == Answer::Paused {
                return Verdict::Wait(self.now + paging::PAUSE);
            }
        }
        Verdict::Done(length)
    }
}

/// A signature was wrong: a queue pair that was told to stops before the next fenced request, or
/// when nothing is left.
fn drain(device: &mut Device, qpn: u32) {
    if let Some(pair) = device.qps.get_mut(qpn)
        && pair.state == QpState::ReadyToSend
        && qp::DRAINS.is_set(&pair.context)
    {
        pair.enter(QpState::SendDraining);
    }
}

fn drained(device: &mut Device, qpn: u32) {
    if let Some(pair) = device.qps.get_mut(qpn) {
        pair.enter(QpState::SendDrained);
    }
    event::qp(device, QpEvent::SendDrained, qpn);
}

fn allowed(service: Service, code: u8) -> bool {
    match service {
        Service::Rc | Service::Xrc | Service::DcInitiator => true,
        Service::Uc => matches!(
            code,
            opcode::SEND
                | opcode::SEND_IMMEDIATE
                | opcode::RDMA_WRITE
                | opcode::RDMA_WRITE_IMMEDIATE
                | opcode::SEND_INVALIDATE
        ),
        Service::Ud | Service::Management(_) => {
            matches!(code, opcode::SEND | opcode::SEND_IMMEDIATE)
        }
        Service::Umr | Service::Raw => false,
    }
}

fn fetch(device: &Device, qpn: u32, control: Control) -> Option<Vec<u8>> {
    let pair = device.qps.get(qpn)?;
    let blocks = control.blocks();
    let mut bytes = vec![0; usize::from(blocks) * 64];
    if bytes.len() > limit::WQE {
        return None;
    }
    for (i, block) in bytes.chunks_mut(64).enumerate() {
        let slot = u32::from(pair.send.consumer).wrapping_add(i as u32) & (pair.send.blocks - 1);
        pair.buffer
            .read(
                &*device.memory,
                pair.send.offset + u64::from(slot) * 64,
                block,
            )
            .ok()?;
    }
    bytes.truncate((control.units * UNIT).max(UNIT));
    Some(bytes)
}

/// Reports where a work request misdescribes itself; hardware does not check this.
fn check(device: &mut Device, qpn: u32, control: Control, bytes: &[u8]) {
    let Some((consumer, service)) = device.qps.get(qpn).map(|qp| (qp.send.consumer, qp.service))
    else {
        return;
    };
    if consumer != control.index {
        device.report(
            "work request index",
            &format!("QP {qpn:#x}: {:#x} at {consumer:#x}", control.index),
        );
    }
    if control.qpn != qpn {
        device.report(
            "work request queue number",
            &format!("QP {qpn:#x}: {:#x}", control.qpn),
        );
    }
    if control.cut {
        device.report(
            "work request size",
            &format!(
                "QP {qpn:#x}: {:#x} is longer than what was posted",
                control.index
            ),
        );
    }
    if let Some(place) = wqe::reserved(bytes, service) {
        device.report(
            "reserved bits of a work request",
            &format!("QP {qpn:#x}: {:#x}: {place}", control.index),
        );
    }
}
