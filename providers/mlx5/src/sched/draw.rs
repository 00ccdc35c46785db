//! A tree as text, with shares as percentages.

use std::fmt;

use super::tree::{Element, Tree};

/// An element's part of its parent's rate when all its siblings have something to send.
#[derive(Clone, Copy)]
enum Part {
    /// In percent.
    Percent(f64),
    /// A weight among others of which at least one is the device's default.
    Weight(u32),
    /// The device's default among other weights.
    Default,
}

fn part(element: &Element, siblings: &[Element]) -> Part {
    let share = |element: &Element| element.attr.share.unwrap_or(0);
    let sum: u64 = siblings
        .iter()
        .map(|sibling| u64::from(share(sibling)))
        .sum();
    let all = siblings.iter().all(|sibling| share(sibling) != 0);
    match share(element) {
        // No element has a share: all have the same weight.
        0 if sum == 0 => Part::Percent(100.0 / count(siblings.len())),
        own if all => Part::Percent(f64::from(own) * 100.0 / wide(sum)),
        0 => Part::Default,
        own => Part::Weight(own),
    }
}

#[expect(clippy::cast_precision_loss, reason = "percentages have few digits")]
fn count(number: usize) -> f64 {
    number as f64
}

#[expect(clippy::cast_precision_loss, reason = "percentages have few digits")]
fn wide(number: u64) -> f64 {
    number as f64
}

/// One decimal digit, omitted if it is 0.
fn percent(value: f64) -> String {
    let tenths = format!("{value:.1}");
    format!("{}%", tenths.strip_suffix(".0").unwrap_or(&tenths))
}

fn draw(
    f: &mut fmt::Formatter<'_>,
    siblings: &[Element],
    indent: &str,
    of_all: Option<f64>,
    top: bool,
) -> fmt::Result {
    for (at, element) in siblings.iter().enumerate() {
        let last = at + 1 == siblings.len();
        let part = part(element, siblings);
        let absolute = match (part, of_all) {
            (Part::Percent(percent), Some(above)) => Some(percent * above / 100.0),
            _ => None,
        };
        let branch = if last { "└── " } else { "├── " };
        write!(f, "{indent}{branch}{}", element.name)?;
        match (part, absolute) {
            (Part::Percent(own), Some(absolute)) if !top => {
                write!(f, "  {} ({} of all)", percent(own), percent(absolute))?;
            }
            (Part::Percent(own), _) => write!(f, "  {}", percent(own))?,
            (Part::Weight(weight), _) => write!(f, "  share {weight}")?,
            (Part::Default, _) => f.write_str("  default share")?,
        }
        if let Some(cap) = element.attr.max_mbps.filter(|cap| *cap != 0) {
            write!(f, "  at most {cap} Mb/s")?;
        }
        writeln!(f)?;
        let below = format!("{indent}{}", if last { "    " } else { "│   " });
        draw(f, element.children(), &below, absolute, false)?;
    }
    Ok(())
}

impl fmt::Display for Tree {
    /// The tree, one line per element: its part of its parent's rate when all have something to
    /// send, and its cap.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "root")?;
        draw(f, &self.children, "", Some(100.0), true)
    }
}
