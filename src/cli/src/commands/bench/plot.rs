//! Draws pictures: in the terminal, or as SVG.

use std::path::Path;

use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};
use plotters::prelude::{
    BLACK, BLUE, ChartBuilder, Circle, Color as _, IntoDrawingArea as _, LineSeries, PathElement,
    RED, RGBColor, Rectangle, SVGBackend, SeriesLabelPosition, Text, WHITE,
};

use super::columns;
use super::picture::{Axis, Picture, Scale};
use super::report::Report;
use crate::failure::{Failure, Result};
use crate::output::Output;

/// One for each curve.
const COLOURS: [RGBColor; 3] = [BLUE, RGBColor(200, 110, 0), RED];

/// The height of the lowest bar, as a part of the axis: two pixels, so that a single message in a
/// long tail is seen.
const LEAST_BAR: f64 = 1.0 / 200.0;

/// Draws the result into the terminal, for `-`.
pub(super) fn show(report: &Report, log_x: bool, json: bool, out: &mut Output) -> Result<()> {
    let Some(picture) = Picture::of(report, log_x) else {
        return Ok(());
    };
    let text = picture.text();
    if json {
        // Standard output is for the JSON.
        eprint!("{text}");
        return Ok(());
    }
    out.line(text.trim_end())
}

/// Draws what there is of the result into a file.
pub(super) fn write(report: &Report, log_x: bool, file: &Path) -> Result<()> {
    let Some(picture) = Picture::of(report, log_x) else {
        return Ok(());
    };
    std::fs::write(file, picture.svg()?)
        .map_err(|error| Failure::new(format_args!("writing {}: {error}", file.display())))
}

impl Picture {
    fn text(&self) -> String {
        let points = match (&self.bars, self.curves.first()) {
            (Some(bars), _) => bars.as_slice(),
            (None, Some(curve)) => &curve.points,
            (None, None) => &[],
        };
        let ends = [self.x.number(self.x.from), self.x.number(self.x.to)];
        let range = (self.x.from, self.x.to);
        let drawn = columns::draw(points, range, self.y.to, self.bars.is_some(), &ends);
        let name = match self.curves.as_slice() {
            [first, _, ..] => format!(", {}", first.name),
            _ => String::new(),
        };
        let marks: Vec<&str> = self.marks.iter().map(|(_, label)| label.as_str()).collect();
        format!(
            "{}\n{}\n{}{name} by {}\n{drawn}{}\n",
            self.title,
            self.details,
            self.y.label,
            self.x.label,
            marks.join("  ")
        )
    }

    fn svg(&self) -> Result<String> {
        let mut svg = String::new();
        self.draw_svg(&mut svg)
            .map_err(|error| Failure::new(format_args!("drawing: {error}")))?;
        Ok(svg)
    }

    fn draw_svg(&self, svg: &mut String) -> std::result::Result<(), Box<dyn std::error::Error>> {
        let area = SVGBackend::with_string(svg, (860, 520)).into_drawing_area();
        area.fill(&WHITE)?;
        let below = area.titled(&self.title, ("sans-serif", 20))?;
        let mut chart = ChartBuilder::on(&below)
            .caption(&self.details, ("sans-serif", 13))
            .margin(12)
            .x_label_area_size(42)
            .y_label_area_size(70)
            .build_cartesian_2d(Coordinate(&self.x), Coordinate(&self.y))?;
        chart
            .configure_mesh()
            .x_labels(40)
            .y_labels(20)
            .x_desc(&self.x.label)
            .y_desc(&self.y.label)
            .x_label_formatter(&|at| self.x.number(*at))
            .y_label_formatter(&|at| self.y.number(*at))
            .light_line_style(WHITE)
            .draw()?;
        if let Some(bars) = &self.bars {
            let half = bars
                .get(1)
                .zip(bars.first())
                .map_or(0.5, |(one, other)| (one.0 - other.0) / 2.0);
            let seen = bars.iter().filter(|(_, y)| *y > 0.0);
            chart.draw_series(seen.map(|(x, y)| {
                let y = y.max(self.y.to * LEAST_BAR);
                Rectangle::new([(x - half, 0.0), (x + half, y)], BLUE.mix(0.6).filled())
            }))?;
        }
        for (curve, colour) in self.curves.iter().zip(COLOURS) {
            chart
                .draw_series(LineSeries::new(curve.points.iter().copied(), colour))?
                .label(curve.name)
                .legend(move |(x, y)| PathElement::new(vec![(x, y), (x + 16, y)], colour));
            // A course has too many points to mark each.
            if self.x.scale == Scale::Bytes {
                let dots = curve.points.iter();
                chart.draw_series(dots.map(|at| Circle::new(*at, 3, colour.filled())))?;
            }
        }
        if self.curves.len() > 1 {
            chart
                .configure_series_labels()
                .position(SeriesLabelPosition::UpperLeft)
                .border_style(BLACK)
                .background_style(WHITE)
                .draw()?;
        }
        for (at, (x, label)) in self.marks.iter().enumerate() {
            let colour = COLOURS.get(at).copied().unwrap_or(BLACK);
            chart.draw_series([PathElement::new(vec![(*x, 0.0), (*x, self.y.to)], colour)])?;
            // Below each other: percentiles are often close to each other.
            let down = i32::try_from(at).unwrap_or(0) * 16 + 4;
            let place = chart.backend_coord(&(*x, self.y.to));
            // Left of a line that is near the right edge.
            let left = if place.0 > 740 { -100 } else { 4 };
            below_text(&area, label, (place.0 + left, place.1 + down), colour)?;
        }
        area.present()?;
        Ok(())
    }
}

/// An axis, as plotters wants it.
struct Coordinate<'a>(&'a Axis);

impl Ranged for Coordinate<'_> {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    #[expect(
        clippy::cast_possible_truncation,
        reason = "pixels; casts of floats saturate"
    )]
    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        let part = (value - self.0.from) / (self.0.to - self.0.from);
        limit.0 + (part * f64::from(limit.1 - limit.0)).round() as i32
    }

    fn key_points<H: KeyPointHint>(&self, _hint: H) -> Vec<f64> {
        self.0.ticks()
    }

    fn range(&self) -> std::ops::Range<f64> {
        self.0.from..self.0.to
    }
}

type Area<'a> = plotters::drawing::DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

fn below_text(
    area: &Area<'_>,
    label: &str,
    at: (i32, i32),
    colour: RGBColor,
) -> std::result::Result<(), Box<dyn std::error::Error>> {
    use plotters::style::{IntoFont as _, TextStyle};
    let style = TextStyle::from(("sans-serif", 13).into_font()).color(&colour);
    area.draw(&Text::new(label.to_owned(), at, style))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::super::report::{Outcome, Row};
    use super::super::spec::{Amount, Measure, Transport, Verb};
    use super::*;
    use crate::stats::Histogram;

    fn report(measure: Measure, results: Vec<Row>) -> Report {
        Report {
            device: "rxe0".into(),
            verb: Verb::Send,
            measure,
            transport: Transport::Rc,
            queue_pairs: 1,
            mtu: 1024,
            tx_depth: 8,
            rx_depth: 16,
            requests_per_completion: 4,
            requests_per_doorbell: 4,
            inline_bytes: 64,
            events: false,
            amount: Amount::Iterations(10_000),
            results,
        }
    }

    /// Around 3 µs with a tail up to 400 µs.
    fn latency(size: u32) -> Row {
        let mut times = Histogram::new();
        for at in 0..10_000_u64 {
            let tail = if at % 250 == 0 { at * 40 } else { 0 };
            times.record(2800 + u64::from(size) + (at * 7919) % 701 + (at * 104_729) % 503 + tail);
        }
        row(size, Outcome::latency(&times))
    }

    fn bandwidth(size: u32) -> Row {
        let gbit = f64::from(size).sqrt() / 30.0;
        let outcome = Outcome::Bandwidth {
            gbit_per_second: gbit,
            mib_per_second: gbit * 119.2,
            messages_per_second: gbit * 1e9 / 8.0 / f64::from(size),
            course: (1..20)
                .map(|at: u32| (f64::from(at) / 10.0, u64::from(at * (90 + at % 7))))
                .collect(),
        };
        row(size, outcome)
    }

    fn row(size: u32, outcome: Outcome) -> Row {
        Row {
            size,
            messages: 10_000,
            arrived: 10_000,
            seconds: 1.5,
            outcome,
        }
    }

    fn sizes(of: fn(u32) -> Row) -> Vec<Row> {
        (1..=23).map(|power| of(1 << power)).collect()
    }

    fn drawn(report: &Report, log_x: bool, name: &str) -> (String, String) {
        let picture = Picture::of(report, log_x).unwrap();
        let (svg, text) = (picture.svg().unwrap(), picture.text());
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
        for part in ["send", "rxe0", "RC", "depth 8", "10000 messages"] {
            assert!(svg.contains(part) && text.contains(part), "{part}: {text}");
        }
        // To be looked at.
        if let Some(folder) = std::env::var_os("UVERBS_PLOTS") {
            std::fs::write(Path::new(&folder).join(name), &svg).unwrap();
        }
        (svg, text)
    }

    #[test]
    fn a_histogram_has_percentiles_and_says_what_it_leaves_out() {
        let report = report(Measure::Latency, vec![latency(64)]);
        let (svg, text) = drawn(&report, false, "linear.svg");
        for part in ["p50 ", "p99 ", "p99.9 ", "beyond the right edge"] {
            assert!(svg.contains(part) && text.contains(part), "{part}: {text}");
        }
        let picture = Picture::of(&report, false).unwrap();
        assert!(picture.x.from.abs() < f64::EPSILON, "the axis starts at 0");
    }

    #[test]
    fn a_logarithmic_axis_leaves_nothing_out() {
        let report = report(Measure::Latency, vec![latency(64)]);
        let (svg, _) = drawn(&report, true, "log.svg");
        assert!(!svg.contains("beyond"));
        for bar in svg.lines().filter(|line| line.contains("opacity=\"0.6\"")) {
            let height = bar.split("height=\"").nth(1).unwrap();
            let pixels: u32 = height.split('"').next().unwrap().parse().unwrap();
            assert!(pixels >= 1, "{bar}");
        }
        let bars = Picture::of(&report, true).unwrap().bars.unwrap();
        let shown: f64 = bars.iter().map(|(_, count)| count).sum();
        assert!((shown - 10_000.0).abs() < 0.5, "{shown}");
    }

    #[test]
    fn sizes_make_curves() {
        let (svg, _) = drawn(
            &report(Measure::Latency, sizes(latency)),
            false,
            "sizes.svg",
        );
        for part in ["p50", "p99", "p99.9", "bytes", "KiB", "MiB"] {
            assert!(svg.contains(part), "{part}");
        }
        drawn(
            &report(Measure::Bandwidth, sizes(bandwidth)),
            false,
            "bandwidth.svg",
        );
        drawn(
            &report(Measure::Bandwidth, vec![bandwidth(4096)]),
            false,
            "course.svg",
        );
    }

    #[test]
    fn what_an_interrupted_run_has_can_be_drawn() {
        let none = report(Measure::Bandwidth, Vec::new());
        assert_eq!(Picture::of(&none, false), None);
        let empty = row(2, Outcome::latency(&Histogram::new()));
        let (_, text) = drawn(&report(Measure::Latency, vec![empty]), true, "empty.svg");
        assert!(text.starts_with("send latency"), "{text}");
        drawn(
            &report(Measure::Latency, sizes(latency).split_off(20)),
            false,
            "part.svg",
        );
    }

    #[test]
    fn reports_are_as_their_schema_says() {
        for rows in [vec![latency(64)], vec![bandwidth(64)]] {
            crate::json::tests::valid("bench", &report(Measure::Latency, rows)).unwrap();
        }
    }
}
