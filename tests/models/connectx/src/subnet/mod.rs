//! The subnet: a manager with a port of its own, whose administrator answers the datagrams that
//! ports send to its general services interface.
//!
//! What it knows: paths between ports, multicast groups and their members, services, and who wants
//! to hear of ports and groups that come and go (InfiniBand architecture specification, volume 1,
//! chapter 15). Every byte of a request comes from a guest.

pub(crate) mod mad;
mod multicast;
mod notice;
mod path;
mod service;
#[cfg(test)]
mod tests;
mod transfer;

use mad::{Mad, Refused, attribute, method, rmpp};
use multicast::Groups;
use notice::Subscriptions;
use service::Services;
use transfer::Transfers;

use crate::layout::{put, word};

/// The LID of the manager's port: the last one that is not a multicast LID.
pub(crate) const SM_LID: u16 = 0xbfff;
/// The GUID of its port.
const SM_GUID: u64 = 0x0002_c903_00bf_ff00;
/// The queue pair of a port's general services, and the key of its datagrams.
pub(crate) const GENERAL_SERVICES: u32 = 1;
pub(crate) const GENERAL_KEY: u32 = 0x8001_0000;

/// The one partition key, of full members.
const PARTITION: u32 = 0xffff;
/// The MTU of ports (4096), and of the group that exists without a member (2048).
const PORT_MTU: u32 = 5;
const GROUP_MTU: u32 = 4;
/// 100 Gb/s, the speed of ports, and 10 Gb/s, that of the group that exists without a member.
const PORT_RATE: u32 = 16;
const GROUP_RATE: u32 = 3;
/// 4.096 µs times two to this power, about a second.
const LIFE_TIME: u32 = 18;

/// A global identifier.
pub(crate) type Gid = [u8; 16];

/// A port that is up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Port {
    pub(crate) lid: u16,
    pub(crate) gid: Gid,
}

impl Port {
    /// The manager's own.
    pub(crate) fn manager() -> Self {
        let mut gid = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        gid[8..].copy_from_slice(&SM_GUID.to_be_bytes());
        Self { lid: SM_LID, gid }
    }
}

/// Where a datagram comes from, or goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Address {
    pub(crate) lid: u16,
    pub(crate) qpn: u32,
    /// The port's identifier, if the datagram has a global route header.
    pub(crate) gid: Option<Gid>,
}

/// A datagram that the administrator sends.
#[derive(Clone, Debug)]
pub(crate) struct Letter {
    pub(crate) to: Address,
    pub(crate) mad: [u8; mad::LEN],
}

/// What the administrator knows.
#[derive(Debug, Default)]
pub(crate) struct Subnet {
    groups: Groups,
    services: Services,
    subscriptions: Subscriptions,
    transfers: Transfers,
}

/// What a request leads to: an answer of one record or none, or a table.
enum Answer {
    One(Vec<u8>),
    Table(Vec<Vec<u8>>),
}

type Result<T> = std::result::Result<T, Refused>;

/// One request, and what is known when it is served.
struct Request<'a> {
    mad: &'a Mad,
    method: u32,
    from: Address,
    ports: &'a [Port],
    /// Nanoseconds.
    now: u64,
}

impl Request<'_> {
    /// The answer to a query that these records satisfy.
    fn found(&self, mut records: Vec<Vec<u8>>) -> Result<Answer> {
        if self.method == method::GET_TABLE {
            return Ok(Answer::Table(records));
        }
        match records.len() {
            0 => Err(Refused::NoRecords),
            1 => Ok(Answer::One(records.remove(0))),
            _ => Err(Refused::TooManyRecords),
        }
    }
}

impl Subnet {
    /// Serves a datagram to the general services of the manager's port. Returns what is sent.
    pub(crate) fn hear(
        &mut self,
        now: u64,
        ports: &[Port],
        from: Address,
        bytes: &[u8],
    ) -> Vec<Letter> {
        let Some(mad) = Mad::parse(bytes) else {
            return Vec::new();
        };
        let asked = mad.get(mad::METHOD);
        // Other classes have no agent here, and nobody answers an answer.
        if mad.get(mad::CLASS) != mad::ADMINISTRATION || asked & method::ANSWER != 0 {
            return Vec::new();
        }
        if mad.get(rmpp::FLAGS) & rmpp::ACTIVE != 0 && mad.get(rmpp::TYPE) != rmpp::DATA {
            return self.transfers.hear(from, &mad);
        }
        // Datagrams without an answer.
        if matches!(asked, method::TRAP | method::TRAP_REPRESS | method::REPORT) {
            return Vec::new();
        }
        let request = Request {
            mad: &mad,
            method: asked,
            from,
            ports,
            now,
        };
        let before = self.groups.identifiers();
        let mut letters = match self.serve(&request) {
            Ok(Answer::One(record)) => {
                let method = match asked {
                    method::SET => method::GET_ANSWER,
                    method => method | method::ANSWER,
                };
                let mad = mad.answer(method, &record).0;
                vec![Letter { to: from, mad }]
            }
            Ok(Answer::Table(records)) => self.transfers.begin(from, &mad, &records),
            Err(reason) => {
                let mad = mad.refuse(reason).0;
                vec![Letter { to: from, mad }]
            }
        };
        letters.extend(self.tell_of_groups(ports, &before));
        letters
    }

    fn serve(&mut self, request: &Request<'_>) -> Result<Answer> {
        let Request { mad, method, .. } = *request;
        let version = (mad.get(mad::BASE_VERSION), mad.get(mad::CLASS_VERSION));
        if version != (1, mad::ADMINISTRATION_VERSION) {
            return Err(Refused::Version);
        }
        if !matches!(
            method,
            method::GET | method::SET | method::GET_TABLE | method::DELETE
        ) {
            return Err(Refused::Method);
        }
        match (mad.get(mad::ATTRIBUTE), method) {
            (attribute::CLASS_PORT_INFO, method::GET) => Ok(Answer::One(class_port_info())),
            (attribute::INFORM_INFO, method::SET) => self.subscriptions.set(request),
            (attribute::PATH_RECORD, method::GET | method::GET_TABLE) => {
                path::query(request, &self.groups)
            }
            (attribute::MEMBER_RECORD, method) => match method {
                method::SET => self.groups.join(request),
                method::DELETE => self.groups.leave(request),
                _ => self.groups.query(request),
            },
            (attribute::SERVICE_RECORD, _) => self.services.serve(request),
            _ => Err(Refused::Combination),
        }
    }

    /// Registers a service of a port without end. `false` if the name is too long, or there is no
    /// more room.
    pub(crate) fn register_service(&mut self, port: Port, number: u64, name: &str) -> bool {
        self.services.register(port.gid, number, name)
    }

    /// A port went down: it is a member of nothing any more, and its subscriptions end.
    pub(crate) fn port_down(&mut self, ports: &[Port], gone: Port) -> Vec<Letter> {
        let before = self.groups.identifiers();
        self.groups.forget(gone.gid);
        self.subscriptions.forget(gone.lid);
        let mut letters = self.subscriptions.tell(notice::PORT_DOWN, gone.gid, ports);
        letters.extend(self.tell_of_groups(ports, &before));
        letters
    }

    /// A port came up.
    pub(crate) fn port_up(&mut self, ports: &[Port], port: Port) -> Vec<Letter> {
        self.subscriptions.tell(notice::PORT_UP, port.gid, ports)
    }

    /// The ports to which datagrams with this multicast LID go; `None` if no group has it.
    pub(crate) fn receivers(&self, lid: u16) -> Option<Vec<Gid>> {
        self.groups.receivers(lid)
    }

    fn tell_of_groups(&mut self, ports: &[Port], before: &[Gid]) -> Vec<Letter> {
        let after = self.groups.identifiers();
        let mut letters = Vec::new();
        for new in after.iter().filter(|gid| !before.contains(gid)) {
            letters.extend(self.subscriptions.tell(notice::GROUP_CREATED, *new, ports));
        }
        for old in before.iter().filter(|gid| !after.contains(gid)) {
            letters.extend(self.subscriptions.tell(notice::GROUP_DELETED, *old, ports));
        }
        letters
    }
}

/// `ClassPortInfo` (13.4.8.1) of the administrator: multicast, members that only send, and answers
/// within about a second; no redirection.
fn class_port_info() -> Vec<u8> {
    const LEN: usize = 72;
    const MULTICAST: u32 = 1 << 9;
    const SEND_ONLY_FULL_MEMBERS: u32 = 1 << 12;
    let mut info = vec![0; LEN];
    put(&mut info, 0, &[1, mad::ADMINISTRATION_VERSION as u8]);
    crate::layout::field(0, 15, 0).set(&mut info, MULTICAST);
    word(4).set(&mut info, SEND_ONLY_FULL_MEMBERS << 5 | LIFE_TIME);
    info
}
