//! Standard output: lines, tables, JSON.

use std::fmt::{self, Display};
use std::io::{StdoutLock, Write};

use anstream::AutoStream;
use serde::Serialize;

use crate::failure::{Failure, Result, of_stdout};
use crate::json::Versioned;

/// Standard output, with colours only if they can be displayed.
pub(crate) struct Output {
    stream: AutoStream<StdoutLock<'static>>,
    /// What is not written yet: a system call for each line would be most of some commands' calls.
    text: Vec<u8>,
    is_held: bool,
}

impl Output {
    pub(crate) fn new() -> Self {
        Self {
            stream: anstream::stdout().lock(),
            text: Vec::new(),
            is_held: false,
        }
    }

    /// Writes a line.
    pub(crate) fn line(&mut self, text: impl Display) -> Result<()> {
        writeln!(self.text, "{text}").map_err(|error| of_stdout(&error))?;
        if self.is_held {
            Ok(())
        } else {
            self.write_out()
        }
    }

    /// Writes the lines that `lines` writes, all at once: for a report that is complete when it
    /// ends. Lines before an error are written, too.
    pub(crate) fn at_once(&mut self, lines: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        self.is_held = true;
        let done = lines(self);
        self.is_held = false;
        done.and(self.write_out())
    }

    /// Writes an object as JSON over several lines, with the version in front.
    pub(crate) fn json(&mut self, value: &impl Serialize) -> Result<()> {
        let text = serde_json::to_string_pretty(&Versioned::new(value)).map_err(Failure::new)?;
        self.line(text)
    }

    /// Writes an object as JSON on one line, with the version in front, and flushes it
    /// immediately: for streams of objects.
    pub(crate) fn json_line(&mut self, value: &impl Serialize) -> Result<()> {
        let text = serde_json::to_string(&Versioned::new(value)).map_err(Failure::new)?;
        self.line(text)?;
        self.flush()
    }

    /// Writes a value as JSON as it is: for what is a file of its own, without a version.
    pub(crate) fn json_as_is(&mut self, value: &impl Serialize) -> Result<()> {
        let text = serde_json::to_string_pretty(value).map_err(Failure::new)?;
        self.line(text)
    }

    /// Flushes everything.
    pub(crate) fn flush(&mut self) -> Result<()> {
        self.write_out()?;
        self.stream.flush().map_err(|error| of_stdout(&error))
    }

    fn write_out(&mut self) -> Result<()> {
        let written = self.stream.write_all(&self.text);
        self.text.clear();
        written.map_err(|error| of_stdout(&error))
    }
}

/// Rows of cells in columns as wide as their widest cell.
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
    right: Vec<bool>,
    indent: usize,
}

impl Table {
    /// A table with these headings. Columns whose heading starts with `>` are aligned to the right.
    pub(crate) fn new(headings: &[&str]) -> Self {
        let right = headings
            .iter()
            .map(|heading| heading.starts_with('>'))
            .collect();
        let first = headings
            .iter()
            .map(|heading| heading.trim_start_matches('>').to_owned())
            .collect();
        Self {
            rows: vec![first],
            right,
            indent: 0,
        }
    }

    /// Indents the whole table.
    pub(crate) fn indented(mut self, columns: usize) -> Self {
        self.indent = columns;
        self
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }
}

impl Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut widths = vec![0; self.right.len()];
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        for (at, row) in self.rows.iter().enumerate() {
            if at > 0 {
                f.write_str("\n")?;
            }
            let mut line = " ".repeat(self.indent);
            for ((cell, width), right) in row.iter().zip(&widths).zip(&self.right) {
                let missing = " ".repeat(width.saturating_sub(cell.chars().count()));
                let parts = if *right {
                    [&missing, cell.as_str()]
                } else {
                    [cell.as_str(), &missing]
                };
                line.extend(parts);
                line.push_str("  ");
            }
            f.write_str(line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Table;

    #[test]
    fn columns_line_up_and_lines_end_without_blanks() {
        let mut table = Table::new(&["name", ">count", "note"]).indented(2);
        table.row(["a".into(), "1000000".into(), "x".into()]);
        table.row(["longer".into(), "7".into(), String::new()]);
        assert_eq!(
            table.to_string(),
            "  name      count  note\n  a       1000000  x\n  longer        7"
        );
    }
}
