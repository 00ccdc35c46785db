//! How ports and the subnet's administrator reach each other.

use std::sync::Arc;

use crate::engine::event;
use crate::engine::fabric::Fabric;
use crate::engine::message::{Action, Message, Payload, Route};
use crate::engine::respond;
use crate::engine::route::management_target;
use crate::objects::Service;
use crate::subnet::{GENERAL_KEY, GENERAL_SERVICES, Gid, Letter, Port, SM_LID, Subnet, mad};

impl Fabric {
    /// Starts the subnet's manager, or ends it.
    ///
    /// A manager that starts gives the InfiniBand ports its LID, knows of no group and no service,
    /// and has clients register again. One that ends leaves its LID with the ports, and its
    /// administrator answers nothing.
    pub fn set_subnet_administrator(&mut self, on: bool) {
        if on == self.subnet.is_some() {
            return;
        }
        self.subnet = on.then(Subnet::default);
        if !on {
            return;
        }
        let ports = self.devices.iter_mut();
        for device in ports.filter(|device| !device.config.kind.is_ethernet()) {
            device.sm_lid = SM_LID;
            event::request(device, "client-reregister", 0);
        }
    }

    /// Registers a service of a port with the administrator, as a program there would. Returns
    /// `false` if there is no administrator, no such port, or no more room.
    pub fn register_service(&mut self, function: usize, number: u64, name: &str) -> bool {
        let port = self.port(function);
        let (Some(port), Some(subnet)) = (port, &mut self.subnet) else {
            return false;
        };
        subnet.register_service(port, number, name)
    }

    /// Delivers a datagram to the manager's port, and what is answered to the sender and others.
    pub(super) fn tell_subnet(&mut self, function: usize, message: &Message) {
        let ports = self.ports();
        let now = self.now;
        let Some(device) = self.devices.get_mut(function) else {
            return;
        };
        let heard = message.target_qpn == GENERAL_SERVICES && message.key as u32 == GENERAL_KEY;
        if !heard || !device.link_up || device.faults.drops() {
            return;
        }
        // One byte more than a datagram of management has shows that it is none.
        let Ok(bytes) = message.payload.bytes(&*device.memory, mad::LEN + 1) else {
            return;
        };
        let from = crate::subnet::Address {
            lid: message.source_lid,
            qpn: message.source_qpn,
            gid: message.route.map(|route| route.from),
        };
        let twice = device.faults.duplicates();
        for _ in 0..=u32::from(twice) {
            if let Some(subnet) = &mut self.subnet {
                let letters = subnet.hear(now, &ports, from, &bytes);
                self.deliver_letters(&letters);
            }
        }
    }

    /// The ports that receive datagrams with a multicast LID, if the administrator gave it to a
    /// group; otherwise all of them do.
    pub(super) fn members(&self, function: usize, lid: u16) -> Option<Vec<Gid>> {
        let sender = self.devices.get(function)?;
        let subnet = self.subnet.as_ref();
        subnet
            .filter(|_| !sender.config.kind.is_ethernet())?
            .receivers(lid)
    }

    /// A port came up.
    pub(crate) fn enter_subnet(&mut self, function: usize) {
        let ports = self.ports();
        let port = self.port(function).filter(|port| ports.contains(port));
        if let (Some(port), Some(subnet)) = (port, &mut self.subnet) {
            let letters = subnet.port_up(&ports, port);
            self.deliver_letters(&letters);
        }
    }

    /// A port went down, or what was behind it.
    pub(crate) fn leave_subnet(&mut self, function: usize) {
        let ports = self.ports();
        if let (Some(port), Some(subnet)) = (self.port(function), &mut self.subnet) {
            let letters = subnet.port_down(&ports, port);
            self.deliver_letters(&letters);
        }
    }

    /// The InfiniBand ports that are up.
    fn ports(&self) -> Vec<Port> {
        let up = |function: &usize| {
            let device = self.devices.get(*function);
            device.is_some_and(|device| device.link_up && !device.removed)
        };
        let functions = (0..self.devices.len()).filter(up);
        functions
            .filter_map(|function| self.port(function))
            .collect()
    }

    fn port(&self, function: usize) -> Option<Port> {
        let device = self.devices.get(function)?;
        let config = &device.config;
        (!config.kind.is_ethernet()).then(|| Port {
            lid: config.lid,
            gid: config.gid(),
        })
    }

    fn deliver_letters(&mut self, letters: &[Letter]) {
        for letter in letters {
            let mut devices = self.devices.iter_mut();
            let to = devices.find(|device| {
                let config = &device.config;
                config.lid == letter.to.lid && !config.kind.is_ethernet()
            });
            let Some(device) = to.filter(|device| device.link_up && device.bus_master()) else {
                continue;
            };
            let number = letter.to.qpn;
            let message = Message {
                action: Action::Send {
                    immediate: None,
                    invalidate: None,
                },
                payload: Payload::Inline(letter.mad.to_vec()),
                answer: Vec::new(),
                wrong: Vec::new(),
                signed_answer: None,
                remote_address: 0,
                remote_key: 0,
                solicited: false,
                psn: 0,
                packets: 1,
                source_qpn: GENERAL_SERVICES,
                source_lid: SM_LID,
                target_qpn: management_target(device, number).unwrap_or(number),
                shared_queue: 0,
                key: u64::from(GENERAL_KEY),
                service_level: 0,
                route: letter.to.gid.map(|to| Route {
                    from: Port::manager().gid,
                    to,
                    class: 0,
                    udp: false,
                }),
            };
            let memory = Arc::clone(&device.memory);
            let service = Service::Management(GENERAL_SERVICES);
            respond::deliver(device, &memory, &message, service);
        }
    }
}
