//! What changed between two samples, per second.

use std::collections::BTreeMap;

use serde::Serialize;

use super::counters::{self, WORD_BITS};
use super::sample::{DeviceSample, PortSample, Queue, Sample, Source};
use crate::units::ratio;

/// A sample with rates: what `--json` prints, and what the screen shows.
#[derive(Debug, Serialize)]
pub(super) struct Frame {
    pub(super) time: f64,
    /// Seconds since the sample before; none for the first.
    pub(super) interval: Option<f64>,
    pub(super) source: Source,
    pub(super) devices: Vec<DeviceFrame>,
}

#[derive(Debug, Serialize)]
pub(super) struct DeviceFrame {
    #[serde(flatten)]
    pub(super) sample: DeviceSample,
    /// What each counter of the device grew by, per second.
    pub(super) counters_per_second: BTreeMap<String, f64>,
    pub(super) port_rates: Vec<PortRates>,
    pub(super) queue_rates: Vec<QueueRates>,
}

/// None where no counter says, or there is no earlier sample.
#[derive(Debug, Default, PartialEq, Serialize)]
pub(super) struct PortRates {
    pub(super) port: u32,
    pub(super) send_gbit_per_second: Option<f64>,
    pub(super) receive_gbit_per_second: Option<f64>,
    pub(super) send_packets_per_second: Option<f64>,
    pub(super) receive_packets_per_second: Option<f64>,
    /// Of all error counters together.
    pub(super) errors_per_second: Option<f64>,
    pub(super) counters_per_second: BTreeMap<String, f64>,
}

/// Packets by packet sequence number: those of retransmissions count once.
#[derive(Debug, Default, PartialEq, Serialize)]
pub(super) struct QueueRates {
    pub(super) kind: String,
    pub(super) id: u32,
    pub(super) send_packets_per_second: Option<f64>,
    pub(super) receive_packets_per_second: Option<f64>,
}

impl Frame {
    pub(super) fn between(before: Option<&Sample>, now: Sample) -> Self {
        let interval = before
            .map(|before| now.time - before.time)
            .filter(|interval| *interval > 0.0);
        let devices = now
            .devices
            .into_iter()
            .map(|device| {
                let earlier = before.and_then(|before| {
                    before
                        .devices
                        .iter()
                        .find(|other| other.name == device.name)
                });
                DeviceFrame::between(earlier.zip(interval), device)
            })
            .collect();
        Self {
            time: now.time,
            interval,
            source: now.source,
            devices,
        }
    }
}

impl DeviceFrame {
    fn between(earlier: Option<(&DeviceSample, f64)>, now: DeviceSample) -> Self {
        let counters_per_second = earlier.map_or_else(BTreeMap::new, |(before, seconds)| {
            growth(&before.counters, &now.counters, seconds)
        });
        let port_rates = now.ports.iter().map(|port| {
            let same = |other: &&PortSample| other.number == port.number;
            let before = earlier
                .and_then(|(device, seconds)| Some((device.ports.iter().find(same)?, seconds)));
            PortRates::between(before, port)
        });
        let queue_rates = now
            .queues
            .iter()
            .filter(|queue| queue.kind == "qp")
            .map(|queue| {
                let same = |other: &&Queue| {
                    (&other.kind, other.id, other.pid) == (&queue.kind, queue.id, queue.pid)
                };
                let before = earlier.and_then(|(device, seconds)| {
                    Some((device.queues.iter().find(same)?, seconds))
                });
                QueueRates::between(before, queue)
            });
        Self {
            counters_per_second,
            port_rates: port_rates.collect(),
            queue_rates: queue_rates.collect(),
            sample: now,
        }
    }
}

impl PortRates {
    fn between(earlier: Option<(&PortSample, f64)>, now: &PortSample) -> Self {
        let Some((before, seconds)) = earlier else {
            return Self {
                port: now.number,
                ..Self::default()
            };
        };
        let rates = growth(&before.counters, &now.counters, seconds);
        let first = |names: [&str; 2]| names.iter().find_map(|name| rates.get(*name)).copied();
        let gbit = |name| rates.get(name).map(|words| words * WORD_BITS / 1e9);
        let mut errors = rates
            .iter()
            .filter(|(name, _)| counters::is_error(name))
            .peekable();
        Self {
            port: now.number,
            send_gbit_per_second: gbit(counters::SENT_WORDS),
            receive_gbit_per_second: gbit(counters::RECEIVED_WORDS),
            send_packets_per_second: first(counters::SENT),
            receive_packets_per_second: first(counters::RECEIVED),
            errors_per_second: errors
                .peek()
                .is_some()
                .then(|| errors.map(|(_, rate)| rate).sum()),
            counters_per_second: rates,
        }
    }
}

impl QueueRates {
    fn between(earlier: Option<(&Queue, f64)>, now: &Queue) -> Self {
        let rate = |psn: fn(&Queue) -> Option<u32>| {
            let (before, seconds) = earlier?;
            // Sequence numbers have 24 bits and wrap.
            let packets = psn(now)?.wrapping_sub(psn(before)?) & 0x00ff_ffff;
            Some(ratio(packets.into()) / seconds)
        };
        // A queue pair that changes its state is given new numbers.
        let steady = earlier.is_some_and(|(before, _)| before.state == now.state);
        Self {
            kind: now.kind.clone(),
            id: now.id,
            send_packets_per_second: rate(|queue| queue.send_psn).filter(|_| steady),
            receive_packets_per_second: rate(|queue| queue.receive_psn).filter(|_| steady),
        }
    }

    /// Both directions.
    pub(super) fn packets(&self) -> f64 {
        self.send_packets_per_second.unwrap_or(0.0) + self.receive_packets_per_second.unwrap_or(0.0)
    }
}

/// Counters that are smaller than before were reset: they have no rate.
fn growth(
    before: &BTreeMap<String, u64>,
    now: &BTreeMap<String, u64>,
    seconds: f64,
) -> BTreeMap<String, f64> {
    now.iter()
        .filter_map(|(name, value)| {
            let grown = value.checked_sub(*before.get(name)?)?;
            Some((name.clone(), ratio(grown) / seconds))
        })
        .collect()
}
