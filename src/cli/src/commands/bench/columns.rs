//! A picture made of block characters.

/// The width of a picture in columns.
const WIDTH: usize = 60;

/// The height of a picture in lines.
const HEIGHT: usize = 12;

/// Eighths of a character cell, filled from below.
const EIGHTHS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Draws points, with first coordinates in `from..=to` and second ones in `0..=top`, as columns
/// with scales.
///
/// Of several points in a column the highest is shown. A column without points between two that
/// have some is drawn as high as the one before it, unless `sparse`. The texts are put below both
/// ends.
pub(super) fn draw(
    points: &[(f64, f64)],
    (from, to): (f64, f64),
    top: f64,
    sparse: bool,
    [left, right]: &[String; 2],
) -> String {
    let mut heights = heights(points, (from, to), top);
    if !sparse {
        close_gaps(&mut heights);
    }
    let mut text = String::new();
    for line in (0..HEIGHT).rev() {
        for height in &heights {
            let filled = height.unwrap_or(0).saturating_sub(line * 8).min(8);
            text.push(EIGHTHS.get(filled).copied().unwrap_or(' '));
        }
        if line == HEIGHT - 1 {
            text.push_str(&format_scale(top));
        }
        let kept = text.trim_end_matches(' ').len();
        text.truncate(kept);
        text.push('\n');
    }
    text.push_str(&"─".repeat(WIDTH));
    text.push_str(" 0\n");
    let gap = WIDTH.saturating_sub(left.chars().count() + right.chars().count());
    text.push_str(left);
    text.push_str(&" ".repeat(gap));
    text.push_str(right);
    text.push('\n');
    text
}

/// The height of each column in eighths; none where there is no point.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "clamped to the picture, and casts of floats saturate"
)]
fn heights(points: &[(f64, f64)], (from, to): (f64, f64), top: f64) -> [Option<usize>; WIDTH] {
    let mut heights = [None; WIDTH];
    for (x, y) in points {
        let at = (x - from) / (to - from) * (WIDTH - 1) as f64;
        let at = (at.max(0.0).round() as usize).min(WIDTH - 1);
        let eighths = (y / top * (HEIGHT * 8) as f64).max(0.0);
        // Any value above zero is visible.
        let least = usize::from(*y > 0.0);
        let height = (eighths.round() as usize).clamp(least, HEIGHT * 8);
        if let Some(column) = heights.get_mut(at) {
            *column = Some(column.map_or(height, |present: usize| present.max(height)));
        }
    }
    heights
}

fn close_gaps(heights: &mut [Option<usize>; WIDTH]) {
    let last = heights.iter().rposition(Option::is_some).unwrap_or(0);
    let mut before = None;
    for height in heights.iter_mut().take(last) {
        *height = height.or(before);
        before = *height;
    }
}

fn format_scale(top: f64) -> String {
    format!(" {}", format_number(top))
}

fn format_number(number: f64) -> String {
    if number.abs() >= 100.0 || number.fract() == 0.0 {
        format!("{number:.0}")
    } else {
        format!("{number:.2}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slope_rises() {
        let points: Vec<(f64, f64)> = (0..60).map(|x| (f64::from(x), f64::from(x))).collect();
        let picture = draw(&points, (0.0, 59.0), 59.0, true, &["0".into(), "59".into()]);
        let lines: Vec<&str> = picture.lines().collect();
        assert_eq!(lines.len(), HEIGHT + 2);
        assert!(lines[0].ends_with("█ 59"), "{picture}");
        assert!(lines[HEIGHT - 1].starts_with(" ▂"), "{picture}");
        assert!(lines[HEIGHT + 1].starts_with('0') && lines[HEIGHT + 1].ends_with("59"));
        let heights = heights(&points, (0.0, 59.0), 59.0);
        assert!(heights.is_sorted() && heights[59] == Some(HEIGHT * 8));
    }

    #[test]
    fn gaps_are_closed_up_to_the_last_point() {
        let mut columns = heights(&[(0.0, 1.0), (1.0, 2.0)], (0.0, 2.0), 2.0);
        close_gaps(&mut columns);
        assert_eq!(columns[1], columns[0]);
        assert_eq!(columns[59], None);
    }

    #[test]
    fn nonsense_is_drawn_too() {
        for top in [0.0, f64::NAN, f64::INFINITY] {
            draw(
                &[(f64::NAN, f64::NAN), (1e300, -1e300)],
                (0.0, 0.0),
                top,
                false,
                &[String::new(), String::new()],
            );
        }
    }
}
