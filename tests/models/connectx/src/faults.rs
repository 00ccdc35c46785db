//! Faults on request: what an operator can make a function do wrong.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::engine::misbehave::PutOff;
use crate::engine::{Fabric, FunctionId, event};
use crate::misbehaviour::Misbehaviour;
use crate::status::{Refusal, Rule, Status};

/// Faults that wait for an opportunity to occur.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    /// Number of messages to lose.
    drop: u32,
    /// Number of messages to deliver twice.
    duplicate: u32,
    /// Number of acknowledgements to lose.
    lose_acknowledge: u32,
    /// Commands to fail, by opcode.
    failing: BTreeMap<u16, Failing>,
    /// How long to hold commands back, by opcode, in nanoseconds.
    slow: BTreeMap<u16, u64>,
    /// Completions to corrupt, in this order.
    spoil: VecDeque<(Spoil, u32)>,
    /// Lasting misbehaviours.
    misbehaves: BTreeSet<Misbehaviour>,
    /// What those have deferred.
    pub(crate) put_off: PutOff,
}

#[derive(Clone, Copy, Debug)]
struct Failing {
    skip: u32,
    count: u32,
    status: Status,
}

/// What to corrupt about a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spoil {
    /// An opcode that does not exist.
    Opcode,
    /// The number of another queue.
    QueueNumber,
    /// The user index of another queue.
    UserIndex,
    /// The index of a work request that is not outstanding.
    Counter,
    /// The owner bit of the previous pass, so that software must not see the entry.
    Owner,
    /// A failure with a syndrome that does not exist.
    Syndrome,
    /// More bytes than any message may have.
    Length,
    /// A signature that does not match the entry.
    Signature,
}

impl Spoil {
    /// All of them, with their names.
    pub const ALL: [(&'static str, Self); 8] = [
        ("opcode", Self::Opcode),
        ("qpn", Self::QueueNumber),
        ("user-index", Self::UserIndex),
        ("counter", Self::Counter),
        ("owner", Self::Owner),
        ("syndrome", Self::Syndrome),
        ("length", Self::Length),
        ("signature", Self::Signature),
    ];

    /// Finds one by name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, spoil)| *spoil)
    }
}

fn count_down(left: &mut u32) -> bool {
    let due = *left > 0;
    *left = left.saturating_sub(1);
    due
}

impl Faults {
    pub(crate) fn drops(&mut self) -> bool {
        count_down(&mut self.drop)
    }

    pub(crate) fn duplicates(&mut self) -> bool {
        count_down(&mut self.duplicate)
    }

    pub(crate) fn loses_acknowledge(&mut self) -> bool {
        count_down(&mut self.lose_acknowledge)
    }

    /// The refusal of a command that is to fail.
    pub(crate) fn refusal(&mut self, opcode: u16) -> Option<Refusal> {
        let failing = self.failing.get_mut(&opcode)?;
        if count_down(&mut failing.skip) {
            return None;
        }
        let status = failing.status;
        count_down(&mut failing.count);
        if failing.count == 0 {
            self.failing.remove(&opcode);
        }
        Some(Rule::Injected.with(status))
    }

    /// How long a command is to be held back.
    pub(crate) fn delay(&self, opcode: u16) -> Option<u64> {
        self.slow.get(&opcode).copied()
    }

    pub(crate) fn delays_any(&self) -> bool {
        !self.slow.is_empty()
    }

    pub(crate) fn does(&self, misbehaviour: Misbehaviour) -> bool {
        self.misbehaves.contains(&misbehaviour)
    }

    pub(crate) fn misbehaves_at_all(&self) -> bool {
        !self.misbehaves.is_empty()
    }

    pub(crate) fn misbehave(&mut self, what: &[Misbehaviour]) {
        self.misbehaves = what.iter().copied().collect();
    }

    /// What to corrupt about the completion being written.
    pub(crate) fn spoils(&mut self) -> Option<Spoil> {
        let (kind, left) = self.spoil.front_mut()?;
        let kind = *kind;
        count_down(left);
        if *left == 0 {
            self.spoil.pop_front();
        }
        Some(kind)
    }
}

impl Fabric {
    fn faults(&mut self, function: FunctionId) -> Option<&mut Faults> {
        self.devices
            .get_mut(function)
            .map(|device| &mut device.faults)
    }

    /// Loses the next `count` messages that a function sends.
    pub fn drop_messages(&mut self, function: FunctionId, count: u32) {
        if let Some(faults) = self.faults(function) {
            faults.drop = count;
        }
    }

    /// Delivers the next `count` messages that a function sends twice.
    pub fn duplicate_messages(&mut self, function: FunctionId, count: u32) {
        if let Some(faults) = self.faults(function) {
            faults.duplicate = count;
        }
    }

    /// Loses what the other side answers to the next `count` messages of a function; the messages
    /// themselves are delivered.
    pub fn lose_acknowledges(&mut self, function: FunctionId, count: u32) {
        if let Some(faults) = self.faults(function) {
            faults.lose_acknowledge = count;
        }
    }

    /// Lets `skip` commands with an opcode pass and fails the `count` after them with a status: 1
    /// is an internal error. Returns `false` if there is no such status.
    pub fn fail_commands(
        &mut self,
        function: FunctionId,
        opcode: u16,
        skip: u32,
        count: u32,
        status: u8,
    ) -> bool {
        let Some(status) = Status::parse(status) else {
            return false;
        };
        if let Some(faults) = self.faults(function) {
            let failing = Failing {
                skip,
                count,
                status,
            };
            if count == 0 {
                faults.failing.remove(&opcode);
            } else {
                faults.failing.insert(opcode, failing);
            }
        }
        true
    }

    /// Holds back every further command with an opcode for this many nanoseconds; 0 ends that.
    pub fn slow_commands(&mut self, function: FunctionId, opcode: u16, nanoseconds: u64) {
        if let Some(faults) = self.faults(function) {
            if nanoseconds == 0 {
                faults.slow.remove(&opcode);
            } else {
                faults.slow.insert(opcode, nanoseconds);
            }
        }
    }

    /// Corrupts `count` completions, after those requested before; a `count` of 0 cancels all of
    /// them.
    pub fn spoil_completions(&mut self, function: FunctionId, count: u32, kind: Spoil) {
        if let Some(faults) = self.faults(function) {
            if count == 0 {
                faults.spoil.clear();
            } else {
                faults.spoil.push_back((kind, count));
            }
        }
    }

    /// Takes a port down or brings it up.
    pub fn set_link(&mut self, function: FunctionId, up: bool) {
        if let Some(device) = self.devices.get_mut(function)
            && std::mem::replace(&mut device.link_up, up) != up
        {
            event::port(device, up);
            if up {
                self.enter_subnet(function);
            } else {
                self.leave_subnet(function);
            }
        }
    }

    /// Posts an asynchronous event without a cause, for the object with this number or for the
    /// port. Returns `false` if there is no event of this name; see [`Fabric::event_names`].
    pub fn request_event(&mut self, function: FunctionId, name: &str, number: u32) -> bool {
        self.devices
            .get_mut(function)
            .is_some_and(|device| event::request(device, name, number))
    }

    /// The names of the events that can be requested.
    pub fn event_names() -> impl Iterator<Item = &'static str> {
        event::on_request()
    }

    /// Unplugs a function; only a reset brings it back.
    pub fn remove(&mut self, function: FunctionId) {
        if let Some(device) = self.devices.get_mut(function) {
            device.removed = true;
        }
        self.leave_subnet(function);
    }

    /// Changes the connection establishment (ECE) options that a function offers beyond the
    /// standard; 0: none. Drivers query them when they are bound. Returns `false` if there is no
    /// such function.
    pub fn set_ece(&mut self, function: FunctionId, options: u32) -> bool {
        let device = self.devices.get_mut(function);
        device.map(|device| device.config.ece = options).is_some()
    }

    /// Sets the health syndrome; the driver takes anything but 0 for a fatal error.
    pub fn set_health(&mut self, function: FunctionId, syndrome: u8) {
        if let Some(device) = self.devices.get_mut(function) {
            device.init.health = syndrome;
        }
    }

    /// The faults requested of a function that have not occurred yet.
    #[must_use]
    pub fn pending_faults(&self, function: FunctionId) -> String {
        self.devices
            .get(function)
            .map(|device| format!("{:?}", device.faults))
            .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn faults_are_played_by_name_in_the_order_requested() {
        let mut faults = Faults::default();
        faults.spoil.extend([
            (Spoil::parse("owner").unwrap(), 2),
            (Spoil::parse("qpn").unwrap(), 1),
        ]);
        assert_eq!(
            std::iter::from_fn(|| faults.spoils()).collect::<Vec<_>>(),
            [Spoil::Owner, Spoil::Owner, Spoil::QueueNumber]
        );
        assert_eq!(Spoil::parse("colour"), None);
    }
}
