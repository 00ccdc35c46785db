//! Subscriptions to notices (`InformInfo`, 13.4.8.3 and 15.2.5.12), and the reports of what
//! happens (13.4.8.2): ports and multicast groups that come and go.

use std::collections::BTreeSet;

use super::mad::{self, LEN, Mad, Refused, attribute, method};
use super::{Address, Answer, Gid, Letter, Port, Request, Result, SM_LID};
use crate::layout::{Field, field, put, word};

/// Numbers of notices (14.2.5.1).
pub(super) const PORT_UP: u16 = 64;
pub(super) const PORT_DOWN: u16 = 65;
pub(super) const GROUP_CREATED: u16 = 66;
pub(super) const GROUP_DELETED: u16 = 67;

const KNOWN: std::ops::RangeInclusive<u16> = PORT_UP..=GROUP_DELETED;
const EVERY: u16 = 0xffff;
/// How many subscriptions there may be.
const MOST: usize = 1 << 8;

/// Fields of `InformInfo`, 36 bytes.
mod inform {
    use super::{Field, field};
    pub(super) const LEN: usize = 36;
    pub(super) const GENERIC: Field = field(20, 15, 8);
    pub(super) const SUBSCRIBE: Field = field(20, 7, 0);
    pub(super) const NUMBER: Field = field(24, 15, 0);
    pub(super) const QUEUE_PAIR: Field = field(28, 31, 8);
}

/// Who is told what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Subscription {
    to: Address,
    number: u16,
}

/// All subscriptions.
#[derive(Debug, Default)]
pub(super) struct Subscriptions {
    all: BTreeSet<Subscription>,
    /// Transactions of reports.
    sent: u64,
}

impl Subscriptions {
    /// Begins or ends a subscription of the sender.
    pub(super) fn set(&mut self, request: &Request<'_>) -> Result<Answer> {
        let info = request.mad.record(inform::LEN);
        let number = inform::NUMBER.get(&info) as u16;
        let generic = inform::GENERIC.get(&info) == 1;
        if !generic || number != EVERY && !KNOWN.contains(&number) {
            return Err(Refused::Invalid);
        }
        let begins = inform::SUBSCRIBE.get(&info) == 1;
        // Reports go to the queue pair that subscribed, which may be named to end that.
        let qpn = match inform::QUEUE_PAIR.get(&info) {
            named @ 1.. if !begins => named,
            _ => request.from.qpn,
        };
        let to = Address {
            qpn,
            ..request.from
        };
        let subscription = Subscription { to, number };
        match inform::SUBSCRIBE.get(&info) {
            1 if self.all.len() >= MOST && !self.all.contains(&subscription) => {
                return Err(Refused::NoResources);
            }
            1 => {
                self.all.insert(subscription);
            }
            0 if self.all.remove(&subscription) => {}
            _ => return Err(Refused::Invalid),
        }
        Ok(Answer::One(info))
    }

    /// Ends all subscriptions of a port.
    pub(super) fn forget(&mut self, lid: u16) {
        self.all.retain(|subscription| subscription.to.lid != lid);
    }

    /// The reports of a notice about a port or group.
    pub(super) fn tell(&mut self, number: u16, about: Gid, ports: &[Port]) -> Vec<Letter> {
        let wanted = |subscription: &&Subscription| {
            (subscription.number == EVERY || subscription.number == number)
                && ports.iter().any(|port| port.lid == subscription.to.lid)
        };
        let to: BTreeSet<Address> = self.all.iter().filter(wanted).map(|to| to.to).collect();
        to.into_iter()
            .map(|to| {
                self.sent += 1;
                let mad = report(self.sent, number, about);
                Letter { to, mad }
            })
            .collect()
    }
}

fn report(transaction: u64, number: u16, about: Gid) -> [u8; LEN] {
    const INFORMATION: u32 = 4;
    const CLASS_MANAGER: u32 = 4;
    let mut report = Mad([0; LEN]);
    for (field, value) in [
        (mad::BASE_VERSION, 1),
        (mad::CLASS, mad::ADMINISTRATION),
        (mad::CLASS_VERSION, mad::ADMINISTRATION_VERSION),
        (mad::METHOD, method::REPORT),
        (mad::ATTRIBUTE, attribute::NOTICE),
        (mad::ATTRIBUTE_MODIFIER, 0),
    ] {
        report.set(field, value);
    }
    mad::TRANSACTION.set(&mut report.0, transaction);
    let mut notice = vec![0; 80];
    word(0).set(&mut notice, (0x80 | INFORMATION) << 24 | CLASS_MANAGER);
    field(4, 31, 16).set(&mut notice, number.into());
    field(4, 15, 0).set(&mut notice, SM_LID.into());
    // After the count of repetitions come the details: six reserved bytes and the identifier.
    put(&mut notice, 16, &about);
    put(&mut notice, 64, &Port::manager().gid);
    put(&mut report.0, mad::DATA, &notice);
    report.0
}
