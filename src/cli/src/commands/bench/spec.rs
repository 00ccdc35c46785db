//! What is measured: the client sends it, the server checks it.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use uverbs::QpType;

use crate::failure::{Failure, Result};

/// A test, as it is sent to the server.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Spec {
    pub(super) verb: Verb,
    pub(super) measure: Measure,
    pub(super) transport: Transport,
    pub(super) sizes: Vec<u32>,
    pub(super) amount: Amount,
    pub(super) queue_pairs: u32,
    pub(super) tx_depth: u32,
    pub(super) rx_depth: u32,
    /// Requests per completion.
    pub(super) group: u32,
    /// The most bytes per completion; without, only requests are counted.
    #[serde(default)]
    pub(super) group_bytes: Option<u32>,
    /// Requests per doorbell.
    pub(super) post_list: u32,
    /// Messages up to this many bytes are carried in the request.
    pub(super) inline: u32,
    pub(super) events: bool,
    pub(super) service_level: u8,
    /// Connected by rdma_cm.
    #[serde(default)]
    pub(super) by_address: bool,
}

#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Verb {
    Send,
    Write,
    Read,
}

#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Measure {
    Bandwidth,
    Latency,
}

/// What connects the queue pairs.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(super) enum Transport {
    /// Reliable connection
    #[default]
    Rc,
    /// Unreliable connection: send and write
    Uc,
    /// Datagrams: send
    Ud,
}

/// How long a test runs, for each size.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Amount {
    Iterations(u64),
    Seconds(f64),
}

/// The most requests per queue that can be asked for here; devices allow fewer.
const MAX_DEPTH: u32 = 1 << 20;

/// The most inline bytes per request that can be asked for here.
const MAX_INLINE: u32 = 1 << 16;

impl Spec {
    /// Refuses what makes no sense, whether the user typed it or a stranger sent it.
    pub(super) fn check(&self) -> Result<()> {
        let refuse = |why: &str| Err(Failure::usage(why));
        match (self.transport, self.verb) {
            (Transport::Uc, Verb::Read) => {
                return refuse("an unreliable connection has no reads; use -t rc");
            }
            (Transport::Ud, Verb::Read | Verb::Write) => {
                return refuse("datagrams can only be sent; use -t rc");
            }
            _ => {}
        }
        if self.by_address && self.transport != Transport::Rc {
            return refuse("--cm makes reliable connections; use -t rc");
        }
        if self.sizes.is_empty() || self.sizes.iter().any(|size| *size > 1 << 31) {
            return refuse("message sizes are 0 to 2 GiB");
        }
        if self.measure == Measure::Latency && self.verb != Verb::Send && self.sizes.contains(&0) {
            return refuse("latency of writes and reads needs messages of at least one byte");
        }
        if self.measure == Measure::Latency && self.queue_pairs != 1 {
            return refuse("latency is measured on one queue pair");
        }
        if !(1..=4096).contains(&self.queue_pairs) {
            return refuse("1 to 4096 queue pairs can be measured");
        }
        let depths = [self.tx_depth, self.rx_depth, self.group, self.post_list];
        if depths.iter().any(|depth| !(1..=MAX_DEPTH).contains(depth)) {
            return refuse("depths and batches are 1 to 1048576 requests");
        }
        if self.group > self.tx_depth {
            return refuse("a completion cannot stand for more requests than the queue has");
        }
        if self.inline > MAX_INLINE {
            return refuse("no device takes more than 64 KiB inside a request");
        }
        if self.service_level > 15 {
            return refuse("service levels end at 15");
        }
        match self.amount {
            Amount::Iterations(0) => refuse("at least one message must be sent"),
            Amount::Seconds(seconds) if !(seconds > 0.0 && seconds <= 1e6) => {
                refuse("the duration must be above 0")
            }
            _ => Ok(()),
        }
    }

    /// How many messages of that size share a completion.
    pub(super) fn group_of(&self, size: u32) -> u32 {
        let most = self.group_bytes.map(|bytes| bytes / size.max(1));
        most.map_or(self.group, |most| most.clamp(1, self.group.max(1)))
    }

    pub(super) fn largest(&self) -> u32 {
        self.sizes.iter().copied().max().unwrap_or(0)
    }

    /// Whether the server replies to messages, or takes them from its receive queue.
    pub(super) fn receives(&self) -> bool {
        self.verb == Verb::Send
    }
}

impl Transport {
    pub(super) fn qp_type(self) -> QpType {
        match self {
            Self::Rc => QpType::Rc,
            Self::Uc => QpType::Uc,
            Self::Ud => QpType::Ud,
        }
    }

    /// Whether every message arrives.
    pub(super) fn is_reliable(self) -> bool {
        self == Self::Rc
    }

    /// Bytes in front of a received message.
    pub(super) fn header(self) -> u32 {
        match self {
            Self::Ud => 40,
            Self::Rc | Self::Uc => 0,
        }
    }
}

impl Verb {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Send => "send",
            Self::Write => "write",
            Self::Read => "read",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> Spec {
        Spec {
            verb: Verb::Send,
            measure: Measure::Bandwidth,
            transport: Transport::Rc,
            sizes: vec![64],
            amount: Amount::Iterations(1),
            queue_pairs: 1,
            tx_depth: 128,
            rx_depth: 512,
            group: 64,
            group_bytes: None,
            post_list: 64,
            inline: 0,
            events: false,
            service_level: 0,
            by_address: false,
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        assert!(good().check().is_ok());
        let bad: [fn(&mut Spec); 14] = [
            |spec| spec.sizes.clear(),
            |spec| spec.sizes.push(u32::MAX),
            |spec| spec.queue_pairs = 0,
            |spec| spec.queue_pairs = 5000,
            |spec| spec.tx_depth = 0,
            |spec| spec.rx_depth = u32::MAX,
            |spec| spec.group = 129,
            |spec| spec.inline = u32::MAX,
            |spec| spec.amount = Amount::Iterations(0),
            |spec| spec.amount = Amount::Seconds(f64::NAN),
            |spec| (spec.transport, spec.verb) = (Transport::Uc, Verb::Read),
            |spec| (spec.transport, spec.verb) = (Transport::Ud, Verb::Write),
            |spec| (spec.transport, spec.by_address) = (Transport::Ud, true),
            |spec| (spec.measure, spec.queue_pairs) = (Measure::Latency, 2),
        ];
        for (at, spoil) in bad.iter().enumerate() {
            let mut spec = good();
            spoil(&mut spec);
            assert!(spec.check().is_err(), "case {at}");
        }
    }

    #[test]
    fn large_messages_have_more_completions() {
        let asked = good();
        let by_default = Spec {
            group_bytes: Some(1 << 20),
            ..good()
        };
        let groups = [0, 64, 1 << 14, 1 << 15, 1 << 20, 1 << 23]
            .map(|size| (by_default.group_of(size), asked.group_of(size)));
        let expected = [64, 64, 64, 32, 1, 1].map(|group| (group, 64));
        assert_eq!(groups, expected);
    }
}
