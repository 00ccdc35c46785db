//! A frame as lines of text.

use std::cmp::Ordering;

use clap::ValueEnum;

use super::counters::is_error;
use super::rates::{DeviceFrame, Frame, PortRates, QueueRates};
use super::sample::{PortSample, Queue, Source};
use crate::output::Table;

/// What queues are sorted by.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, ValueEnum)]
pub(super) enum Sort {
    /// Packets per second, highest first
    #[default]
    Rate,
    /// Kind and number
    Id,
    /// Process
    Pid,
    /// Bytes of regions, entries of completion queues, largest first
    Size,
}

impl Sort {
    pub(super) fn next(self) -> Self {
        match self {
            Self::Rate => Self::Id,
            Self::Id => Self::Pid,
            Self::Pid => Self::Size,
            Self::Size => Self::Rate,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Rate => "rate",
            Self::Id => "id",
            Self::Pid => "pid",
            Self::Size => "size",
        }
    }
}

/// What the user chose.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct View {
    pub(super) sort: Sort,
    /// Also counters that did not change.
    pub(super) all_counters: bool,
    /// Also memory regions.
    pub(super) regions: bool,
    pub(super) paused: bool,
}

/// The lines of a frame. The headings of its tables begin in upper case.
pub(super) fn lines(frame: &Frame, view: View) -> Vec<String> {
    let mut text = headline(frame, view);
    text.push('\n');
    if frame.devices.is_empty() {
        text.push_str("\nthere are no RDMA devices now\n");
    } else {
        for table in [ports(frame), queues(frame, view), counters(frame, view)] {
            text.extend(["\n", &table.to_string(), "\n"]);
        }
    }
    text.lines().map(str::to_owned).collect()
}

fn headline(frame: &Frame, view: View) -> String {
    let interval = frame.interval.map_or_else(
        || "first sample".to_owned(),
        |seconds| format!("rates over {seconds:.1} s"),
    );
    let objects = |kind: &str| -> u64 {
        let counts = frame
            .devices
            .iter()
            .filter_map(|device| device.sample.objects.get(kind));
        counts.sum()
    };
    let devices = frame.devices.len();
    let plural = if devices == 1 { "" } else { "s" };
    let paused = if view.paused { ", PAUSED" } else { "" };
    if frame.source == Source::Sysfs {
        return format!(
            "uverbs top: {devices} device{plural}; {interval}{paused}; no queues: sysfs does not list \
             them, and RDMA netlink does not answer"
        );
    }
    format!(
        "uverbs top: {devices} device{plural}, {} QPs, {} CQs, {} SRQs, {} MRs; {interval}, by {}{paused}",
        objects("qp"),
        objects("cq"),
        objects("srq"),
        objects("mr"),
        view.sort.name(),
    )
}

fn ports(frame: &Frame) -> Table {
    let mut table = Table::new(&[
        "PORT",
        "STATE",
        "NETDEV",
        ">TX Gbit/s",
        ">RX Gbit/s",
        ">TX pkt/s",
        ">RX pkt/s",
        ">ERRORS/s",
    ]);
    for device in &frame.devices {
        for (port, rates) in device.sample.ports.iter().zip(&device.port_rates) {
            table.row(port_row(device, port, rates));
        }
    }
    table
}

fn port_row(device: &DeviceFrame, port: &PortSample, rates: &PortRates) -> [String; 8] {
    let or_dash = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
    [
        format!("{}/{}", device.sample.name, port.number),
        or_dash(&port.state),
        or_dash(&port.netdev),
        number(rates.send_gbit_per_second, 3),
        number(rates.receive_gbit_per_second, 3),
        number(rates.send_packets_per_second, 0),
        number(rates.receive_packets_per_second, 0),
        number(rates.errors_per_second, 1),
    ]
}

fn queues(frame: &Frame, view: View) -> Table {
    let mut table = Table::new(&[
        "DEVICE",
        "QUEUE",
        ">ID",
        ">PID",
        "OWNER",
        "TYPE",
        "STATE",
        ">TX pkt/s",
        ">RX pkt/s",
        ">SIZE",
    ]);
    let mut rows = Vec::new();
    for device in &frame.devices {
        for queue in &device.sample.queues {
            if queue.kind == "mr" && !view.regions {
                continue;
            }
            let same = |rates: &&QueueRates| rates.kind == queue.kind && rates.id == queue.id;
            let rates = device.queue_rates.iter().find(same);
            rows.push((device.sample.name.as_str(), queue, rates));
        }
    }
    rows.sort_by(|one, other| order(view.sort, (one.1, one.2), (other.1, other.2)));
    for (device, queue, rates) in rows {
        table.row(queue_row(device, queue, rates));
    }
    table
}

type Row<'a> = (&'a Queue, Option<&'a QueueRates>);

fn order(sort: Sort, one: Row<'_>, other: Row<'_>) -> Ordering {
    let packets = |row: Row<'_>| row.1.map_or(0.0, QueueRates::packets);
    let by_id = place(one.0).cmp(&place(other.0));
    match sort {
        Sort::Rate => packets(other).total_cmp(&packets(one)),
        Sort::Id => Ordering::Equal,
        Sort::Pid => one.0.pid.cmp(&other.0.pid),
        Sort::Size => size(other.0).cmp(&size(one.0)),
    }
    .then(by_id)
}

/// Queue pairs first, regions last; each kind by number.
fn place(queue: &Queue) -> (usize, u32) {
    let kinds = ["qp", "srq", "cq", "mr"];
    let kind = kinds.iter().position(|kind| *kind == queue.kind);
    (kind.unwrap_or(kinds.len()), queue.id)
}

fn size(queue: &Queue) -> Option<u64> {
    queue.bytes.or(queue.entries.map(u64::from))
}

fn queue_row(device: &str, queue: &Queue, rates: Option<&QueueRates>) -> [String; 10] {
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let rate = |of: fn(&QueueRates) -> Option<f64>| match rates {
        Some(rates) => number(of(rates), 0),
        None => "-".to_owned(),
    };
    [
        device.to_owned(),
        queue.kind.clone(),
        queue.id.to_string(),
        or_dash(queue.pid.map(|pid| pid.to_string())),
        or_dash(queue.owner.clone()),
        or_dash(queue.qp_type.clone()),
        or_dash(queue.state.clone()),
        rate(|rates| rates.send_packets_per_second),
        rate(|rates| rates.receive_packets_per_second),
        or_dash(size(queue).map(|size| size.to_string())),
    ]
}

fn counters(frame: &Frame, view: View) -> Table {
    let mut table = Table::new(&["COUNTER OF", "NAME", ">PER SECOND", ">TOTAL"]);
    let mut rows = Vec::new();
    for device in &frame.devices {
        let name = &device.sample.name;
        for (counter, total) in &device.sample.counters {
            let rate = device.counters_per_second.get(counter).copied();
            rows.push((name.clone(), counter, rate, *total));
        }
        for (port, rates) in device.sample.ports.iter().zip(&device.port_rates) {
            for (counter, total) in &port.counters {
                let rate = rates.counters_per_second.get(counter).copied();
                rows.push((format!("{name}/{}", port.number), counter, rate, *total));
            }
        }
    }
    // Errors that happened are always shown.
    rows.retain(|(_, counter, rate, total)| {
        let changed = rate.is_some_and(|rate| rate > 0.0);
        view.all_counters || changed || (is_error(counter) && *total > 0)
    });
    rows.sort_by(|one, other| {
        let rate = |rate: Option<f64>| rate.unwrap_or(0.0);
        rate(other.2).total_cmp(&rate(one.2))
    });
    for (place, counter, rate, total) in rows {
        table.row([place, counter.clone(), number(rate, 1), total.to_string()]);
    }
    table
}

fn number(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
}
