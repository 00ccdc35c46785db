//! What a picture of a result shows: titles, axes, curves or bars, percentiles.

use super::report::{Outcome, Report, Row};
use super::spec::{Amount, Measure, Transport};
use crate::units::{self, ratio};

/// Curves, or a row of bars.
#[derive(Debug, PartialEq)]
pub(super) struct Picture {
    pub(super) title: String,
    /// How it was measured.
    pub(super) details: String,
    pub(super) x: Axis,
    pub(super) y: Axis,
    /// Bars as wide as this; without it, curves.
    pub(super) bars: Option<Vec<(f64, f64)>>,
    pub(super) curves: Vec<Curve>,
    /// Vertical lines with a label.
    pub(super) marks: Vec<(f64, String)>,
}

#[derive(Debug, PartialEq)]
pub(super) struct Curve {
    pub(super) name: &'static str,
    pub(super) points: Vec<(f64, f64)>,
}

#[derive(Debug, PartialEq)]
pub(super) struct Axis {
    pub(super) label: String,
    pub(super) scale: Scale,
    pub(super) from: f64,
    pub(super) to: f64,
}

/// How values are placed on an axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Scale {
    Linear,
    /// As `Linear`, for whole numbers.
    Count,
    /// By the logarithm to base 10.
    Log,
    /// Powers of two, in bytes.
    Bytes,
}

/// Bars of a histogram.
const BARS: u32 = 80;

impl Picture {
    /// Curves over message sizes, if there are several; else a picture of the one size.
    pub(super) fn of(report: &Report, log_x: bool) -> Option<Self> {
        let first = report.results.first()?;
        match &first.outcome {
            _ if report.results.len() > 1 => Some(Self::of_sizes(report)),
            Outcome::Bandwidth { course, .. } => Some(Self::of_course(report, first, course)),
            Outcome::Latency { histogram, .. } => {
                Some(Self::of_histogram(report, first, histogram, log_x))
            }
        }
    }

    fn plain(report: &Report, sizes: &str, x: Axis, y: Axis) -> Self {
        Self {
            title: title(report),
            details: details(report, sizes),
            x,
            y,
            bars: None,
            curves: Vec::new(),
            marks: Vec::new(),
        }
    }

    fn of_sizes(report: &Report) -> Self {
        let curve = |name, value: fn(&Row) -> f64| Curve {
            name,
            points: report
                .results
                .iter()
                .map(|row| (place(row.size), value(row)))
                .collect(),
        };
        let curves = match report.measure {
            Measure::Bandwidth => vec![curve("Gbit/s", |row| row.outcome.gbit())],
            Measure::Latency => vec![
                curve("p50", |row| row.outcome.percentiles()[0].1),
                curve("p99", |row| row.outcome.percentiles()[1].1),
                curve("p99.9", |row| row.outcome.percentiles()[2].1),
            ],
        };
        let label = match report.measure {
            Measure::Bandwidth => "Gbit/s",
            Measure::Latency => "µs",
        };
        let sizes = report.results.iter().map(|row| place(row.size));
        let (from, to) = ends(sizes);
        let top = ends(
            curves
                .iter()
                .flat_map(|curve| &curve.points)
                .map(|(_, y)| *y),
        )
        .1;
        let x = Axis::new("message size", Scale::Bytes, from, to);
        let mut picture = Self::plain(report, "", x, Axis::up_to(label, Scale::Linear, top));
        picture.curves = curves;
        picture
    }

    fn of_course(report: &Report, row: &Row, course: &[(f64, u64)]) -> Self {
        let points = speeds(course, row.size);
        let end = ends(points.iter().map(|(x, _)| *x)).1;
        let top = ends(points.iter().map(|(_, y)| *y)).1;
        let x = Axis::new("seconds", Scale::Linear, 0.0, end);
        let y = Axis::up_to("Gbit/s", Scale::Linear, top);
        let mut picture = Self::plain(report, &size_of(row), x, y);
        picture.curves.push(Curve {
            name: "Gbit/s",
            points,
        });
        picture
    }

    /// Linear: from 0 to a little beyond the 99.9th percentile, and how many are not shown. With a
    /// logarithmic axis: everything.
    fn of_histogram(report: &Report, row: &Row, buckets: &[(u64, u64)], log_x: bool) -> Self {
        let percentiles = row.outcome.percentiles();
        let micros = |nanos: u64| ratio(nanos.max(1)) / 1000.0;
        let (low, high) = ends(buckets.iter().map(|(start, _)| micros(*start)));
        let (scale, from, to) = if log_x {
            (Scale::Log, low.log10() - 0.02, high.log10() + 0.02)
        } else {
            (Scale::Linear, 0.0, percentiles[2].1 * 1.05)
        };
        let mut x = Axis::new("µs", scale, from, to);
        let width = (x.to - x.from) / f64::from(BARS);
        let mut bars: Vec<(f64, f64)> = (0..BARS)
            .map(|at| (x.from + (f64::from(at) + 0.5) * width, 0.0))
            .collect();
        let mut beyond = 0;
        for (start, count) in buckets {
            let at = (x.place(micros(*start)) - x.from) / width;
            match bars.get_mut(whole(at)) {
                Some((_, bar)) => *bar += ratio(*count),
                None => beyond += count,
            }
        }
        if beyond > 0 {
            x.label = format!(
                "µs ({beyond} of {} messages are beyond the right edge)",
                row.messages
            );
        }
        let top = ends(bars.iter().map(|(_, y)| *y)).1;
        let marks = percentiles
            .iter()
            .map(|(name, value)| (x.place(*value), format!("{name} {value:.1}")));
        let marks = marks.collect();
        let y = Axis::up_to("messages", Scale::Count, top);
        let mut picture = Self::plain(report, &size_of(row), x, y);
        picture.bars = Some(bars);
        picture.marks = marks;
        picture
    }
}

impl Axis {
    fn new(label: &str, scale: Scale, from: f64, to: f64) -> Self {
        let to = if to > from { to } else { from + 1.0 };
        Self {
            label: label.to_owned(),
            scale,
            from,
            to,
        }
    }

    /// From 0 to a little above the largest value.
    fn up_to(label: &str, scale: Scale, top: f64) -> Self {
        Self::new(label, scale, 0.0, if top > 0.0 { top * 1.08 } else { 1.0 })
    }

    /// Where a value is on it.
    pub(super) fn place(&self, value: f64) -> f64 {
        match self.scale {
            Scale::Log => value.max(f64::MIN_POSITIVE).log10(),
            Scale::Linear | Scale::Count | Scale::Bytes => value,
        }
    }

    /// Where there are numbers on it: about six, or the powers of ten with 2 and 5 between them.
    pub(super) fn ticks(&self) -> Vec<f64> {
        match self.scale {
            Scale::Log => self.log_ticks(),
            Scale::Bytes => steps(self.from, self.to, ((self.to - self.from) / 8.0).ceil()),
            Scale::Linear => steps(self.from, self.to, round_step(self.to - self.from)),
            Scale::Count => steps(self.from, self.to, round_step(self.to - self.from).max(1.0)),
        }
    }

    fn log_ticks(&self) -> Vec<f64> {
        let decades = steps(self.from.floor(), self.to.ceil(), 1.0);
        decades
            .iter()
            .flat_map(|decade| [1.0, 2.0, 5.0].map(|digit: f64| decade + digit.log10()))
            .filter(|at| (self.from..=self.to).contains(at))
            .collect()
    }

    /// The number at a place.
    pub(super) fn number(&self, at: f64) -> String {
        match self.scale {
            Scale::Count => format!("{at:.0}"),
            Scale::Bytes => units::bytes(1_u64.checked_shl(round(at)).unwrap_or(0)),
            Scale::Log => plain(10_f64.powf(at)),
            Scale::Linear => plain(at),
        }
    }
}

impl Outcome {
    fn gbit(&self) -> f64 {
        match self {
            Self::Bandwidth {
                gbit_per_second, ..
            } => *gbit_per_second,
            Self::Latency { .. } => 0.0,
        }
    }

    /// In microseconds.
    fn percentiles(&self) -> [(&'static str, f64); 3] {
        let values = match self {
            Self::Latency {
                median_us,
                p99_us,
                p99_9_us,
                ..
            } => [*median_us, *p99_us, *p99_9_us],
            Self::Bandwidth { .. } => [0.0; 3],
        };
        [("p50", values[0]), ("p99", values[1]), ("p99.9", values[2])]
    }
}

fn title(report: &Report) -> String {
    let what = match report.measure {
        Measure::Bandwidth => "bandwidth",
        Measure::Latency => "latency",
    };
    format!("{} {what}, {}", report.verb.name(), report.device)
}

fn details(report: &Report, size: &str) -> String {
    let transport = match report.transport {
        Transport::Rc => "RC",
        Transport::Uc => "UC",
        Transport::Ud => "UD",
    };
    let amount = match report.amount {
        Amount::Iterations(count) => format!("{count} messages"),
        Amount::Seconds(seconds) => format!("{seconds} s"),
    };
    let each = if size.is_empty() { " per size" } else { "" };
    format!(
        "{transport}, {size}{amount}{each}, {} QP{}, send depth {}, MTU {}, {}",
        report.queue_pairs,
        if report.queue_pairs == 1 { "" } else { "s" },
        report.tx_depth,
        report.mtu,
        if report.events { "events" } else { "polling" }
    )
}

fn size_of(row: &Row) -> String {
    format!("{}, ", units::bytes(row.size.into()))
}

fn place(size: u32) -> f64 {
    f64::from(size.max(1)).log2()
}

/// The smallest and the largest; 0 and 0 of none.
fn ends(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values
        .fold(None, |ends: Option<(f64, f64)>, value| {
            Some(ends.map_or((value, value), |(low, high)| {
                (low.min(value), high.max(value))
            }))
        })
        .unwrap_or((0.0, 0.0))
}

/// A step of 1, 2 or 5 times a power of ten, of which there are four to ten in `span`.
fn round_step(span: f64) -> f64 {
    let rough = span / 6.0;
    let power = 10_f64.powf(rough.log10().floor());
    let digit = match rough / power {
        digit if digit < 1.5 => 1.0,
        digit if digit < 3.5 => 2.0,
        digit if digit < 7.5 => 5.0,
        _ => 10.0,
    };
    digit * power
}

fn steps(from: f64, to: f64, step: f64) -> Vec<f64> {
    let first = (from / step).ceil();
    (0..200)
        .map(|at| (first + f64::from(at)) * step)
        .take_while(|at| *at <= to + step * 1e-9)
        .collect()
}

/// A number with as many digits as it needs.
fn plain(number: f64) -> String {
    let text = format!("{number:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "casts of floats saturate"
)]
fn round(number: f64) -> u32 {
    number.round() as u32
}

/// The number of the bar; what is left of the first belongs to it.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "casts of floats saturate"
)]
fn whole(number: f64) -> usize {
    number.max(0.0) as usize
}

/// Gbit/s between adjacent samples of a course.
fn speeds(course: &[(f64, u64)], size: u32) -> Vec<(f64, f64)> {
    let mut before = (0.0, 0);
    let mut points = Vec::new();
    for (at, done) in course {
        let (since, earlier) = std::mem::replace(&mut before, (*at, *done));
        if *at > since {
            let bits = ratio(done - earlier) * f64::from(size) * 8.0;
            points.push((*at, bits / (at - since) / 1e9));
        }
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds_are_differences() {
        let points = speeds(&[(1.0, 1000), (2.0, 3000), (2.0, 3000)], 125_000);
        assert_eq!(points, [(1.0, 1.0), (2.0, 2.0)]);
    }

    #[test]
    fn ticks_are_round_and_within_the_axis() {
        let numbers = |axis: Axis| -> Vec<String> {
            axis.ticks().into_iter().map(|at| axis.number(at)).collect()
        };
        let counts = numbers(Axis::new("", Scale::Count, 0.0, 3.2));
        assert_eq!(counts, ["0", "1", "2", "3"]);
        let linear = numbers(Axis::new("", Scale::Linear, 0.0, 1.2));
        assert_eq!(linear, ["0", "0.2", "0.4", "0.6", "0.8", "1", "1.2"]);
        let log = numbers(Axis::new("", Scale::Log, 0.9_f64.log10(), 60_f64.log10()));
        assert_eq!(log, ["1", "2", "5", "10", "20", "50"]);
        let bytes = numbers(Axis::new("", Scale::Bytes, 1.0, 3.0));
        assert_eq!(bytes, ["2 bytes", "4 bytes", "8 bytes"]);
    }
}
