//! What was measured, as text and as JSON.

use serde::Serialize;
use uverbs::Context;

use super::bandwidth::Flow;
use super::spec::{Amount, Measure, Spec, Transport, Verb};
use crate::failure::Result;
use crate::output::Output;
use crate::stats::Histogram;
use crate::units::{self, ratio};

#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) device: String,
    pub(super) verb: Verb,
    pub(super) measure: Measure,
    pub(super) transport: Transport,
    pub(super) queue_pairs: u32,
    pub(super) mtu: u32,
    pub(super) tx_depth: u32,
    pub(super) rx_depth: u32,
    pub(super) requests_per_completion: u32,
    pub(super) requests_per_doorbell: u32,
    pub(super) inline_bytes: u32,
    pub(super) events: bool,
    pub(super) amount: Amount,
    pub(super) results: Vec<Row>,
}

/// One message size.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    pub(super) size: u32,
    pub(super) messages: u64,
    /// How many arrived: fewer than were sent if the transport loses messages.
    pub(super) arrived: u64,
    pub(super) seconds: f64,
    #[serde(flatten)]
    pub(super) outcome: Outcome,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Outcome {
    Bandwidth {
        gbit_per_second: f64,
        /// 2^20 bytes.
        mib_per_second: f64,
        messages_per_second: f64,
        /// Seconds since the start, and messages completed by then.
        course: Vec<(f64, u64)>,
    },
    Latency {
        min_us: f64,
        median_us: f64,
        mean_us: f64,
        p99_us: f64,
        p99_9_us: f64,
        max_us: f64,
        /// The start of each bucket in nanoseconds, and how many samples fell into it.
        histogram: Vec<(u64, u64)>,
    },
}

impl Report {
    pub(super) fn new(context: &Context, spec: &Spec, mtu: u32) -> Self {
        Self {
            device: context.name().to_owned(),
            verb: spec.verb,
            measure: spec.measure,
            transport: spec.transport,
            queue_pairs: spec.queue_pairs,
            mtu,
            tx_depth: spec.tx_depth,
            rx_depth: spec.rx_depth,
            requests_per_completion: spec.group,
            requests_per_doorbell: spec.post_list,
            inline_bytes: spec.inline,
            events: spec.events,
            amount: spec.amount,
            results: Vec::new(),
        }
    }
}

impl Outcome {
    pub(super) fn bandwidth(size: u32, flow: &Flow) -> Self {
        let per_second = ratio(flow.messages) / flow.elapsed.as_secs_f64();
        let bytes = per_second * f64::from(size);
        Self::Bandwidth {
            gbit_per_second: bytes * 8.0 / 1e9,
            mib_per_second: bytes / f64::from(1 << 20),
            messages_per_second: per_second,
            course: flow
                .course
                .iter()
                .map(|(at, done)| (at.as_secs_f64(), *done))
                .collect(),
        }
    }

    pub(super) fn latency(times: &Histogram) -> Self {
        let micros = |nanos: u64| ratio(nanos) / 1000.0;
        Self::Latency {
            min_us: micros(times.min()),
            median_us: micros(times.percentile(50_000)),
            mean_us: times.mean() / 1000.0,
            p99_us: micros(times.percentile(99_000)),
            p99_9_us: micros(times.percentile(99_900)),
            max_us: micros(times.max()),
            histogram: times.buckets().collect(),
        }
    }
}

/// What is measured, in two lines.
pub(super) fn headline(report: &Report, out: &mut Output) -> Result<()> {
    let what = match (report.measure, report.verb) {
        (Measure::Bandwidth, _) => "bandwidth",
        (Measure::Latency, Verb::Read) => "latency (whole round trip)",
        (Measure::Latency, _) => "latency (half of a round trip)",
    };
    let amount = match report.amount {
        Amount::Iterations(count) => format!("{count} messages"),
        Amount::Seconds(seconds) => format!("{seconds} s"),
    };
    let transport = match report.transport {
        Transport::Rc => "RC",
        Transport::Uc => "UC",
        Transport::Ud => "UD",
    };
    out.line(format_args!(
        "{} {what}, {transport}, {} queue pair{}, {amount} per size, device {}, MTU {} bytes",
        report.verb.name(),
        report.queue_pairs,
        if report.queue_pairs == 1 { "" } else { "s" },
        report.device,
        report.mtu
    ))?;
    out.flush()
}

/// A table that is written row by row as the rows are measured.
pub(super) struct Columns {
    measure: Measure,
    lossy: bool,
    begun: bool,
}

impl Columns {
    pub(super) fn of(spec: &Spec) -> Self {
        Self {
            measure: spec.measure,
            lossy: !spec.transport.is_reliable(),
            begun: false,
        }
    }

    pub(super) fn write(&mut self, row: &Row, out: &mut Output) -> Result<()> {
        if !std::mem::replace(&mut self.begun, true) {
            out.line(match self.measure {
                Measure::Bandwidth => format!(
                    "{:>12} {:>10} {:>12} {:>12} {:>14}",
                    "size", "messages", "Gbit/s", "MiB/s", "messages/s"
                ),
                Measure::Latency => format!(
                    "{:>12} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10}  µs",
                    "size", "messages", "min", "median", "mean", "p99", "p99.9", "max"
                ),
            })?;
        }
        let size = units::bytes(row.size.into());
        let line = match &row.outcome {
            Outcome::Bandwidth {
                gbit_per_second,
                mib_per_second,
                messages_per_second,
                ..
            } => format!(
                "{size:>12} {:>10} {gbit_per_second:>12.4} {mib_per_second:>12.2} {messages_per_second:>14.0}",
                row.messages
            ),
            Outcome::Latency {
                min_us,
                median_us,
                mean_us,
                p99_us,
                p99_9_us,
                max_us,
                ..
            } => format!(
                "{size:>12} {:>10} {min_us:>10.2} {median_us:>10.2} {mean_us:>10.2} {p99_us:>10.2} {p99_9_us:>10.2} {max_us:>10.2}",
                row.messages
            ),
        };
        if self.lossy && row.arrived != row.messages {
            out.line(format_args!("{line}  {} arrived", row.arrived))?;
        } else {
            out.line(line)?;
        }
        out.flush()
    }
}
