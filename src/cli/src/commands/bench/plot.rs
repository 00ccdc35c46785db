//! Pictures of results: in the terminal, or as SVG.

use std::path::Path;

use plotters::prelude::{
    BLUE, ChartBuilder, Color as _, IntoDrawingArea as _, LineSeries, PathElement, Rectangle,
    SVGBackend, WHITE,
};

use super::columns;
use super::report::{Outcome, Report};
use crate::failure::{Failure, Result};
use crate::output::Output;
use crate::units::ratio;

/// A curve or a row of bars.
#[derive(Debug, PartialEq)]
struct Picture {
    title: String,
    x: &'static str,
    y: &'static str,
    bars: bool,
    points: Vec<(f64, f64)>,
}

/// Draws the result into `file`, or into the terminal for `-`.
pub(super) fn draw(report: &Report, file: &Path, json: bool, out: &mut Output) -> Result<()> {
    let Some(picture) = Picture::of(report) else {
        return Ok(());
    };
    if file.as_os_str() == "-" {
        let text = picture.text();
        if json {
            // Standard output is for the JSON.
            eprint!("{text}");
            return Ok(());
        }
        return out.line(text.trim_end());
    }
    let svg = picture.svg()?;
    std::fs::write(file, svg)
        .map_err(|error| Failure::new(format_args!("writing {}: {error}", file.display())))
}

impl Picture {
    /// A curve over message sizes, if there are several; else a picture of the one size.
    fn of(report: &Report) -> Option<Self> {
        let what = format!("{} over {}", report.verb.name(), report.device);
        let first = report.results.first()?;
        if report.results.len() == 1 {
            return Some(match &first.outcome {
                Outcome::Bandwidth { course, .. } => Self {
                    title: format!("{what}, {} bytes", first.size),
                    x: "seconds",
                    y: "Gbit/s",
                    bars: false,
                    points: speeds(course, first.size),
                },
                Outcome::Latency { bins, .. } => Self {
                    title: format!("{what}, {} bytes", first.size),
                    x: "µs",
                    y: "messages",
                    bars: true,
                    points: bins.clone(),
                },
            });
        }
        let points = report.results.iter().map(|row| {
            let y = match &row.outcome {
                Outcome::Bandwidth {
                    gbit_per_second, ..
                } => *gbit_per_second,
                Outcome::Latency { median_us, .. } => *median_us,
            };
            (f64::from(row.size.max(1)).log2(), y)
        });
        Some(Self {
            title: what,
            x: "message size, log2 of bytes",
            y: match first.outcome {
                Outcome::Bandwidth { .. } => "Gbit/s",
                Outcome::Latency { .. } => "median µs",
            },
            bars: false,
            points: points.collect(),
        })
    }

    fn ranges(&self) -> ((f64, f64), f64) {
        let mut x = (f64::INFINITY, f64::NEG_INFINITY);
        let mut top = 0.0_f64;
        for (at, value) in &self.points {
            x = (x.0.min(*at), x.1.max(*at));
            top = top.max(*value);
        }
        let middle = if x.0.is_finite() { x.0 } else { 0.0 };
        if x.1 <= x.0 {
            x = (middle - 0.5, middle + 0.5);
        }
        (x, if top > 0.0 { top * 1.05 } else { 1.0 })
    }

    fn text(&self) -> String {
        let (range, top) = self.ranges();
        let picture = columns::draw(&self.points, range, top, self.bars);
        format!("{}: {} by {}\n{picture}", self.title, self.y, self.x)
    }

    fn svg(&self) -> Result<String> {
        let mut svg = String::new();
        self.draw_svg(&mut svg)
            .map_err(|error| Failure::new(format_args!("drawing: {error}")))?;
        Ok(svg)
    }

    fn draw_svg(&self, svg: &mut String) -> std::result::Result<(), Box<dyn std::error::Error>> {
        let ((from, to), top) = self.ranges();
        let area = SVGBackend::with_string(svg, (800, 480)).into_drawing_area();
        area.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(&area)
            .caption(&self.title, ("sans-serif", 20))
            .margin(12)
            .x_label_area_size(42)
            .y_label_area_size(70)
            .build_cartesian_2d(from..to, 0.0..top)?;
        chart
            .configure_mesh()
            .x_desc(self.x)
            .y_desc(self.y)
            .light_line_style(WHITE)
            .draw()?;
        if self.bars {
            let count = f64::from(u32::try_from(self.points.len()).unwrap_or(u32::MAX));
            let half = (to - from) / count.max(1.0) / 2.0;
            chart.draw_series(self.points.iter().map(|(x, y)| {
                Rectangle::new([(x - half, 0.0), (x + half, *y)], BLUE.mix(0.6).filled())
            }))?;
        } else {
            chart.draw_series(LineSeries::new(self.points.iter().copied(), BLUE))?;
            chart.draw_series(
                self.points
                    .last()
                    .map(|last| PathElement::new(vec![*last, *last], BLUE)),
            )?;
        }
        area.present()?;
        drop(chart);
        Ok(())
    }
}

/// Gbit/s between adjacent samples of a course.
fn speeds(course: &[(f64, u64)], size: u32) -> Vec<(f64, f64)> {
    let mut before = (0.0, 0);
    let mut points = Vec::new();
    for (at, done) in course {
        let (since, had) = std::mem::replace(&mut before, (*at, *done));
        if *at > since {
            let bits = ratio(done - had) * f64::from(size) * 8.0;
            points.push((*at, bits / (at - since) / 1e9));
        }
    }
    points
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    fn picture(points: Vec<(f64, f64)>, bars: bool) -> Picture {
        Picture {
            title: "send".into(),
            x: "seconds",
            y: "Gbit/s",
            bars,
            points,
        }
    }

    #[test]
    fn speeds_are_differences() {
        let points = speeds(&[(1.0, 1000), (2.0, 3000), (2.0, 3000)], 125_000);
        assert_eq!(points, [(1.0, 1.0), (2.0, 2.0)]);
    }

    #[test]
    fn anything_can_be_drawn() {
        for points in [
            vec![],
            vec![(1.0, 0.0)],
            vec![(1.0, 2.0), (2.0, 3.0), (3.0, 1.0)],
        ] {
            for bars in [false, true] {
                let picture = picture(points.clone(), bars);
                assert!(picture.text().starts_with("send: Gbit/s by seconds"));
                let svg = picture.svg().unwrap();
                assert!(
                    svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"),
                    "{svg}"
                );
            }
        }
    }
}
