//! `cargo xtask growth`: how the cost of an object grows with the number of others, as a picture.

use std::fs;
use std::process::ExitCode;

use anyhow::{anyhow, bail};
use clap::Args;
use plotters::coord::Shift;
use plotters::prelude::{
    BLACK, BLUE, ChartBuilder, Circle, Color as _, DrawingArea, GREEN, IntoDrawingArea as _,
    IntoLogRange as _, LineSeries, MAGENTA, PathElement, RED, RGBColor, SVGBackend,
    SeriesLabelPosition, WHITE,
};
use testbed::cargo::workspace;
use testbed::host;

use crate::cargo::GROWTH;

/// The picture.
const PICTURE: &str = "docs/generated/growth.svg";

/// The devices; the first word of each row.
const DEVICES: [&str; 2] = ["mlx5", "rxe"];

/// How many others there are at the first point; each further one has ten times as many.
const FEWEST: f64 = 10.0;
const MOST: f64 = 10_000.0;

/// One for each kind of object.
const COLOURS: [RGBColor; 5] = [BLUE, RED, GREEN, MAGENTA, BLACK];

/// Measure how long an object takes to create and destroy among 10 to 10,000 others, and draw it
///
/// The library's own time, without the kernel's, on the software stand-ins; the table and how it
/// is measured are those of tests/hostile/tests/growth.rs.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Write the picture into docs/generated.
    #[arg(long)]
    write: bool,
}

/// What one kind of object takes.
#[derive(Debug, PartialEq)]
struct Curve {
    device: &'static str,
    kind: String,
    /// Microseconds each, with ten times as many others from one to the next.
    times: Vec<f64>,
}

pub(crate) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let mut command = testbed::cargo::command();
    command
        .args(["test", "--quiet", "--release", "--package", "hostile-tests"])
        .args(["--test", "growth", "--", "--nocapture", GROWTH]);
    let output = host::capture(&mut command)?;
    print!("{output}");
    let curves = curves(&output);
    if curves.is_empty() {
        bail!("the test printed no row");
    }
    let picture = drawn(&curves)?;
    if options.write {
        fs::write(workspace().join(PICTURE), picture)?;
        println!("wrote {PICTURE}");
    }
    Ok(ExitCode::SUCCESS)
}

/// The rows of the test's table.
fn curves(output: &str) -> Vec<Curve> {
    output.lines().filter_map(curve).collect()
}

/// Reads `mlx5 queue pair   9.61  9.20   9.58   9.70   1.01   2816`: the device, the kind, a time
/// for each number of others, a ratio, and perhaps bytes, which have no point.
fn curve(row: &str) -> Option<Curve> {
    let device = DEVICES
        .into_iter()
        .find(|device| row.starts_with(&format!("{device} ")))?;
    let rest = row.strip_prefix(device)?;
    let (kind, numbers) = rest.split_at_checked(rest.find(|c: char| c.is_ascii_digit())?)?;
    let numbers = numbers.split_ascii_whitespace();
    let mut times = numbers
        .filter(|word| word.contains('.'))
        .map(str::parse)
        .collect::<Result<Vec<f64>, _>>()
        .ok()?;
    times.pop()?;
    Some(Curve {
        device,
        kind: kind.trim().to_owned(),
        times,
    })
}

fn drawn(curves: &[Curve]) -> anyhow::Result<String> {
    let mut svg = String::new();
    draw(&mut svg, curves).map_err(|error| anyhow!("drawing: {error}"))?;
    Ok(svg)
}

fn draw(svg: &mut String, curves: &[Curve]) -> Result<(), Box<dyn std::error::Error>> {
    let area = SVGBackend::with_string(svg, (1000, 460)).into_drawing_area();
    area.fill(&WHITE)?;
    let title = "An object beside many others: time to create and destroy it, without the kernel's";
    let below = area.titled(title, ("sans-serif", 18))?;
    for (half, device) in below.split_evenly((1, 2)).iter().zip(DEVICES) {
        let of_device: Vec<_> = curves
            .iter()
            .filter(|curve| curve.device == device)
            .collect();
        panel(half, device, &of_device)?;
    }
    area.present()?;
    Ok(())
}

fn panel(
    area: &DrawingArea<SVGBackend<'_>, Shift>,
    device: &str,
    curves: &[&Curve],
) -> Result<(), Box<dyn std::error::Error>> {
    let times = curves.iter().flat_map(|curve| &curve.times);
    let highest = times.copied().fold(1.0, f64::max);
    let mut chart = ChartBuilder::on(area)
        .caption(device, ("sans-serif", 15))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(52)
        // Room for the names above the curves.
        .build_cartesian_2d((FEWEST..MOST).log_scale(), 0.0..highest * 1.6)?;
    chart
        .configure_mesh()
        .x_desc("others")
        .y_desc("µs each")
        .light_line_style(WHITE)
        .draw()?;
    for (curve, colour) in curves.iter().zip(COLOURS) {
        let others = std::iter::successors(Some(FEWEST), |others| Some(others * 10.0));
        let points: Vec<_> = others.zip(curve.times.iter().copied()).collect();
        chart
            .draw_series(LineSeries::new(points.iter().copied(), colour))?
            .label(curve.kind.as_str())
            .legend(move |(x, y)| PathElement::new(vec![(x, y), (x + 16, y)], colour));
        let dots = points.iter();
        chart.draw_series(dots.map(|at| Circle::new(*at, 3, colour.filled())))?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .border_style(BLACK)
        .background_style(WHITE)
        .draw()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    const TABLE: &str = "\
µs each, others:               10       100      1000     10000     ratio     bytes
mlx5 queue pair              9.61      9.20      9.58      9.70      1.01      2816
mlx5 shared receive queue     6.02      5.77      5.68      5.76      0.96 824
rxe address handle           0.52      0.50      0.55                1.06
test the_tenth ... ok
";

    #[test]
    fn rows_become_curves() {
        let curves = curves(TABLE);
        let names: Vec<_> = curves.iter().map(|curve| curve.kind.as_str()).collect();
        assert_eq!(
            names,
            ["queue pair", "shared receive queue", "address handle"]
        );
        assert_eq!(curves[0].times, [9.61, 9.20, 9.58, 9.70]);
        assert_eq!(curves[1].times, [6.02, 5.77, 5.68, 5.76]);
        assert_eq!(curves[2].times, [0.52, 0.50, 0.55]);
    }

    #[test]
    fn a_picture_names_each_kind() {
        let svg = drawn(&curves(TABLE)).unwrap();
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
        for name in ["queue pair", "address handle", "mlx5", "rxe", "10000"] {
            assert!(svg.contains(name), "{name}: {svg}");
        }
    }
}
