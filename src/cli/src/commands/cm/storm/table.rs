//! How long the steps took.

use std::fmt;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::output::Table;
use crate::units::ratio;

/// What a connection goes through. A server has no addresses to resolve.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Step {
    CreateId,
    ResolveAddress,
    ResolveRoute,
    CreateQp,
    Connect,
    Accept,
    Disconnect,
    DestroyQp,
    DestroyId,
}

/// One step of all connections.
#[derive(Debug)]
pub(super) struct Timing {
    step: Step,
    /// When the first began, and the last was over.
    span: Option<(Instant, Instant)>,
    each: Vec<Duration>,
}

/// How a storm went.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    role: Role,
    device: String,
    connections: usize,
    in_flight: usize,
    steps: Vec<Row>,
    /// Until all were connected.
    connected_seconds: f64,
    /// Until all were gone.
    seconds: f64,
    connections_per_second: f64,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Role {
    Client,
    Server,
}

#[derive(Debug, Serialize)]
struct Row {
    step: Step,
    count: usize,
    total_ms: f64,
    min_us: f64,
    median_us: f64,
    max_us: f64,
    per_second: f64,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::CreateId => "create id",
            Self::ResolveAddress => "resolve address",
            Self::ResolveRoute => "resolve route",
            Self::CreateQp => "create qp",
            Self::Connect => "connect",
            Self::Accept => "accept",
            Self::Disconnect => "disconnect",
            Self::DestroyQp => "destroy qp",
            Self::DestroyId => "destroy id",
        })
    }
}

impl Timing {
    pub(super) fn new(step: Step) -> Self {
        Self {
            step,
            span: None,
            each: Vec::new(),
        }
    }

    /// One connection's step is over, which began `since`.
    pub(super) fn record(&mut self, since: Instant) {
        let now = Instant::now();
        self.each.push(now.saturating_duration_since(since));
        let first = self.span.map_or(since, |(first, _)| first.min(since));
        self.span = Some((first, now));
    }

    /// What all began is over just now.
    pub(super) fn end(&mut self) {
        if let Some((_, last)) = &mut self.span {
            *last = Instant::now();
        }
    }

    /// How many connections have taken it.
    pub(super) fn count(&self) -> usize {
        self.each.len()
    }

    fn row(&self) -> Row {
        let mut each = self.each.clone();
        each.sort_unstable();
        let at = |index: usize| each.get(index).copied().unwrap_or_default();
        let (middle, last) = (each.len() / 2, each.len().saturating_sub(1));
        let total = self.span.map(|(first, last)| last - first);
        let total = total.unwrap_or_default();
        Row {
            step: self.step,
            count: each.len(),
            total_ms: micros(total) / 1e3,
            min_us: micros(at(0)),
            // Of an even number, between the two in the middle.
            median_us: f64::midpoint(micros(at(last / 2)), micros(at(middle.min(last)))),
            max_us: micros(at(last)),
            per_second: rate(each.len(), total),
        }
    }
}

impl Report {
    /// `connected` and `over`: how long it took until all were connected, and gone.
    pub(super) fn new(
        role: Role,
        device: String,
        in_flight: usize,
        timings: &[&Timing],
        (connected, over): (Duration, Duration),
    ) -> Self {
        let connections = timings.iter().map(|timing| timing.count()).max();
        let connections = connections.unwrap_or(0);
        Self {
            role,
            device,
            connections,
            in_flight,
            steps: timings.iter().map(|timing| timing.row()).collect(),
            connected_seconds: connected.as_secs_f64(),
            seconds: over.as_secs_f64(),
            connections_per_second: rate(connections, over),
        }
    }

    pub(super) fn table(&self) -> Table {
        let headings = [
            "step",
            ">count",
            ">total ms",
            ">min µs",
            ">median µs",
            ">max µs",
            ">per second",
        ];
        let mut table = Table::new(&headings);
        for row in &self.steps {
            table.row([
                row.step.to_string(),
                row.count.to_string(),
                format!("{:.2}", row.total_ms),
                format!("{:.1}", row.min_us),
                format!("{:.1}", row.median_us),
                format!("{:.1}", row.max_us),
                format!("{:.0}", row.per_second),
            ]);
        }
        table
    }

    /// The last line.
    pub(super) fn sum(&self) -> String {
        format!(
            "{} connections on {}: all connected after {:.3} s, all gone after {:.3} s, \
             {:.0} a second",
            self.connections,
            self.device,
            self.connected_seconds,
            self.seconds,
            self.connections_per_second
        )
    }
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// How many a second; 0 if it took no time.
fn rate(count: usize, time: Duration) -> f64 {
    if time.is_zero() {
        return 0.0;
    }
    ratio(count as u64) / time.as_secs_f64()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    fn timing(step: Step, total: u64, each: &[u64]) -> Timing {
        let first = Instant::now();
        let each = each.iter().copied().map(Duration::from_micros);
        Timing {
            step,
            span: Some((first, first + Duration::from_micros(total))),
            each: each.collect(),
        }
    }

    #[test]
    fn a_row_has_total_minimum_median_and_maximum() {
        let row = timing(Step::Connect, 2000, &[400, 100, 900, 200]).row();
        assert_eq!(row.count, 4);
        let found = [row.total_ms, row.min_us, row.median_us, row.max_us];
        for (found, wanted) in found.into_iter().zip([2.0, 100.0, 300.0, 900.0]) {
            assert!((found - wanted).abs() < 1e-6, "{found} {wanted}");
        }
        assert!((row.per_second - 2000.0).abs() < 1e-6);
        let odd = timing(Step::Connect, 10, &[3, 1, 2]).row();
        assert!((odd.median_us - 2.0).abs() < 1e-6);
        let one = timing(Step::Connect, 10, &[3]).row();
        assert!((one.median_us - 3.0).abs() < 1e-6);
    }

    #[test]
    fn a_step_that_nobody_took_has_only_zeros() {
        let row = Timing::new(Step::Accept).row();
        assert_eq!(row.count, 0);
        let found = [row.total_ms, row.median_us, row.max_us, row.per_second];
        assert!(found.iter().all(|number| number.abs() < 1e-9), "{row:?}");
    }

    #[test]
    fn the_span_is_from_the_first_to_the_last() {
        let mut timing = Timing::new(Step::CreateId);
        let early = Instant::now();
        let late = early + Duration::from_nanos(1);
        timing.record(late);
        timing.record(early);
        let (first, last) = timing.span.unwrap();
        assert_eq!(first, early);
        timing.end();
        assert!(timing.span.unwrap().1 >= last);
        assert_eq!(timing.count(), 2);
    }

    #[test]
    fn the_table_has_a_line_for_each_step_and_json_is_as_its_schema_says() {
        let timings = [
            timing(Step::CreateId, 50, &[10, 20]),
            timing(Step::Connect, 5000, &[1000, 4000]),
        ];
        let timings: Vec<_> = timings.iter().collect();
        let times = (Duration::from_millis(6), Duration::from_millis(8));
        let report = Report::new(Role::Client, "rxe0".to_owned(), 2, &timings, times);
        let text = report.table().to_string();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 3);
        assert!(lines[1].starts_with("create id"), "{text}");
        assert_eq!(
            lines[2].split_whitespace().collect::<Vec<_>>(),
            ["connect", "2", "5.00", "1000.0", "2500.0", "4000.0", "400"]
        );
        assert!(report.sum().ends_with("0.008 s, 250 a second"));
        crate::json::tests::valid("storm", &report).unwrap();
    }
}
