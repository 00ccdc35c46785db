//! Which function an address refers to, and delivery to it.

use std::sync::Arc;

use crate::device::Device;
use crate::engine::fabric::Fabric;
use crate::engine::message::{Answer, Message};
use crate::engine::respond;
use crate::layout::qp::{self, path};
use crate::memory::GuestMemory;
use crate::objects::Service;

impl Fabric {
    pub(super) fn multicast(
        &mut self,
        function: usize,
        message: &Message,
        lid: u16,
        gid: [u8; 16],
        service: Service,
    ) {
        let joined = self.members(function, lid);
        for to in 0..self.devices.len() {
            let port = self.devices[to].config.gid();
            if joined
                .as_ref()
                .is_some_and(|joined| !joined.contains(&port))
            {
                continue;
            }
            let members = self.devices[to]
                .multicast
                .get(&gid)
                .cloned()
                .unwrap_or_default();
            for member in members {
                // A sender in the group receives its own messages unless it asked not to.
                let own = to == function && member == message.source_qpn;
                let blocked = own
                    && self.devices[to]
                        .qps
                        .get(member)
                        .is_some_and(|qp| qp::BLOCK_LOOPBACK.is_set(&qp.context));
                if !blocked && self.devices[to].link_up {
                    let message = Message {
                        target_qpn: member,
                        ..message.clone()
                    };
                    self.hand_over(function, to, &message, service);
                }
            }
        }
    }

    /// The function that an address refers to, if both ports are up: by LID on InfiniBand, by GID
    /// on Ethernet.
    pub(super) fn reach(&self, function: usize, lid: u16, gid: Option<[u8; 16]>) -> Option<usize> {
        let from = self.devices.get(function).filter(|device| device.link_up)?;
        let ethernet = from.config.kind.is_ethernet();
        self.devices.iter().position(|to| {
            let addressed = if ethernet {
                gid.is_some_and(|gid| to.has_roce_address(&gid))
            } else {
                to.config.lid == lid
            };
            addressed && to.config.kind == from.config.kind && to.link_up && to.hca_enabled
        })
    }

    pub(super) fn hand_over(
        &mut self,
        from: usize,
        to: usize,
        message: &Message,
        service: Service,
    ) -> Answer {
        let Some(sender) = self.devices.get_mut(from) else {
            return Answer::Lost;
        };
        if sender.faults.drops() {
            return Answer::Lost;
        }
        let twice = sender.faults.duplicates();
        let unanswered = sender.faults.loses_acknowledge();
        let memory: Arc<dyn GuestMemory> = match &message.signed_answer {
            Some(answer) => answer.arrives(),
            None => Arc::clone(&sender.memory),
        };
        let Some(device) = self
            .devices
            .get_mut(to)
            .filter(|device| device.bus_master())
        else {
            return Answer::Lost;
        };
        let answer = respond::deliver(device, &memory, message, service);
        if twice {
            // The sender already has its answer.
            respond::deliver(device, &memory, message, service);
        }
        if unanswered { Answer::Lost } else { answer }
    }
}

/// The destination of a context's primary path.
pub(super) fn primary_path(context: &[u8]) -> (u16, Option<[u8; 16]>) {
    let lid = path::LID.at(qp::PRIMARY).get(context) as u16;
    let at = qp::PRIMARY + path::GID;
    let gid = context
        .get(at..)
        .and_then(|rest| rest.first_chunk::<16>())
        .copied();
    (lid, gid)
}

/// Whether a GID is an IPv6 multicast address or a mapped IPv4 one.
pub(super) fn is_multicast(gid: &[u8; 16]) -> bool {
    gid[0] == 0xff || gid[..12] == crate::device::MAPPED && gid[12] >> 4 == 0xe
}

/// Queue pairs 0 and 1 belong to the port's management services.
pub(super) fn management_target(device: &Device, target: u32) -> Option<u32> {
    let wanted = Service::Management(target);
    (target < 2).then(|| {
        device
            .qps
            .iter()
            .find(|(_, qp)| qp.service == wanted)
            .map(|(number, _)| number)
    })?
}
