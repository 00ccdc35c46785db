//! The table of results, with the reasons for what was not run.

use super::report::Report;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;
use testbed::Function;

/// What became of one module on one function.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) report: Report,
    /// How it ended, if not by itself.
    pub(super) hang: Option<String>,
    /// How Python ended after the last test, all of them skipped, if not as it should.
    pub(super) late_end: Option<String>,
    /// What the kernel had to say against it.
    pub(super) complaints: Vec<String>,
    pub(super) elapsed: Duration,
}

impl Row {
    fn is_right(&self) -> bool {
        self.report.failed() == 0 && self.hang.is_none() && self.complaints.is_empty()
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let report = &self.report;
        let (ok, skipped, failed) = (report.ok(), report.skipped, report.failed());
        write!(f, "{ok} ok, {skipped} skipped, {failed} failed")?;
        if let Some(hang) = &self.hang {
            write!(f, ", did not end by itself: {hang}")?;
        }
        if let Some(end) = &self.late_end {
            write!(f, ", after the last of them {end}")?;
        }
        write!(f, " ({:.0} s)", self.elapsed.as_secs_f64())
    }
}

/// All modules on all functions of one kernel.
#[derive(Debug)]
pub(super) struct Table {
    kernel: String,
    functions: Vec<Function>,
    rows: BTreeMap<String, Vec<(Function, Row)>>,
    notes: Vec<String>,
}

impl Table {
    pub(super) fn new(kernel: &str, functions: &[Function]) -> Self {
        Self {
            kernel: kernel.to_owned(),
            functions: functions.to_vec(),
            rows: BTreeMap::new(),
            notes: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, function: Function, module: &str, row: Row) {
        self.rows
            .entry(module.to_owned())
            .or_default()
            .push((function, row));
    }

    /// Something to be told beside the tests; it makes no run fail, for the tests also do what is wrong.
    pub(super) fn note(&mut self, note: String) {
        self.notes.push(note);
    }

    /// How many tests passed over all functions.
    pub(super) fn ok(&self) -> u32 {
        self.cells().map(|(_, _, row)| row.report.ok()).sum()
    }

    /// Whether nothing failed, hung, or was complained about.
    pub(super) fn is_right(&self) -> bool {
        self.cells().all(|(_, _, row)| row.is_right())
    }

    fn cells(&self) -> impl Iterator<Item = (&str, Function, &Row)> {
        self.rows.iter().flat_map(|(module, rows)| {
            rows.iter()
                .map(move |(function, row)| (module.as_str(), *function, row))
        })
    }

    fn of(&self, function: Function) -> impl Iterator<Item = (&str, &Row)> {
        self.cells()
            .filter(move |(_, of, _)| *of == function)
            .map(|(module, _, row)| (module, row))
    }

    fn counts(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\n{:<28}", format!("kernel {}", self.kernel))?;
        for function in &self.functions {
            write!(f, "{:>8}  ok skip fail", function.name())?;
        }
        writeln!(f)?;
        for (module, rows) in &self.rows {
            write!(f, "{module:<28}")?;
            for function in &self.functions {
                let row = rows.iter().find(|(of, _)| of == function);
                let Some((_, row)) = row else {
                    write!(f, "{:>23}", "-")?;
                    continue;
                };
                let report = &row.report;
                let hang = if row.hang.is_some() { " HANG" } else { "" };
                let (ok, skip, fail) = (report.ok(), report.skipped, report.failed());
                write!(f, "{hang:>8}{ok:>4}{skip:>5}{fail:>5} ")?;
            }
            writeln!(f)?;
        }
        write!(f, "{:<28}", "all")?;
        for function in &self.functions {
            let sum = |count: fn(&Report) -> u32| -> u32 {
                self.of(*function).map(|(_, row)| count(&row.report)).sum()
            };
            let (ok, skip) = (sum(Report::ok), sum(|report| report.skipped));
            write!(f, "{:>8}{ok:>4}{skip:>5}{:>5} ", "", sum(Report::failed))?;
        }
        writeln!(f, "\n")
    }

    fn reasons(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for function in &self.functions {
            let mut reasons: BTreeMap<&str, BTreeMap<&str, usize>> = BTreeMap::new();
            for (module, row) in self.of(*function) {
                for reason in &row.report.reasons {
                    let modules = reasons.entry(reason).or_default();
                    *modules.entry(module).or_default() += 1;
                }
            }
            writeln!(f, "skipped on {}:", function.name())?;
            let mut reasons: Vec<_> = reasons.into_iter().collect();
            reasons.sort_by_key(|(_, modules)| std::cmp::Reverse(modules.values().sum::<usize>()));
            for (reason, modules) in reasons {
                let count: usize = modules.values().sum();
                let modules: Vec<_> = modules.into_keys().collect();
                writeln!(f, "{count:>4}  {reason} ({})", modules.join(", "))?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.counts(f)?;
        self.reasons(f)?;
        for (module, function, row) in self.cells() {
            let function = function.name();
            for failure in &row.report.failures {
                writeln!(f, "FAILED on {function}: {failure}")?;
            }
            if let Some(hang) = &row.hang {
                writeln!(f, "DID NOT END on {function}: {module}: {hang}")?;
            }
            if let Some(end) = &row.late_end {
                writeln!(
                    f,
                    "skipped all, then {end}, on {function}: {module} (the suite's own fault)"
                )?;
            }
            for complaint in &row.complaints {
                writeln!(
                    f,
                    "THE KERNEL COMPLAINS on {function}: {module}: {complaint}"
                )?;
            }
        }
        for note in &self.notes {
            writeln!(f, "{note}")?;
        }
        Ok(())
    }
}
