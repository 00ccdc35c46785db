//! The table of results, with the reasons for skipped tests.

use super::device::Device;
use super::report::Report;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// The result of one module on one device.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) report: Report,
    /// How it ended, if it was not by itself.
    pub(super) hang: Option<String>,
    /// How Python ended after the last test, with all tests skipped, if that was not normal.
    pub(super) late_end: Option<String>,
    /// The kernel's complaints.
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

/// All modules on all devices of one kernel.
#[derive(Debug)]
pub(super) struct Table {
    kernel: String,
    devices: Vec<Device>,
    rows: BTreeMap<String, Vec<(Device, Row)>>,
    notes: Vec<String>,
}

impl Table {
    pub(super) fn new(kernel: &str, devices: &[Device]) -> Self {
        Self {
            kernel: kernel.to_owned(),
            devices: devices.to_vec(),
            rows: BTreeMap::new(),
            notes: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, device: Device, module: &str, row: Row) {
        self.rows
            .entry(module.to_owned())
            .or_default()
            .push((device, row));
    }

    /// Something to be reported besides the tests; it does not fail the run, because the tests also
    /// do incorrect things.
    pub(super) fn note(&mut self, note: String) {
        self.notes.push(note);
    }

    /// How many tests passed, over all devices.
    pub(super) fn ok(&self) -> u32 {
        self.cells().map(|(_, _, row)| row.report.ok()).sum()
    }

    /// Whether nothing failed or hung, and there was no complaint.
    pub(super) fn is_right(&self) -> bool {
        self.cells().all(|(_, _, row)| row.is_right())
    }

    /// Whether a module passed with at least so many tests on each device.
    pub(super) fn has_passed(&self, module: &str, least: u32) -> bool {
        let mut rows = self.cells().filter(|(name, ..)| *name == module).peekable();
        rows.peek().is_some() && rows.all(|(_, _, row)| row.is_right() && row.report.ok() >= least)
    }

    fn cells(&self) -> impl Iterator<Item = (&str, Device, &Row)> {
        self.rows.iter().flat_map(|(module, rows)| {
            rows.iter()
                .map(move |(device, row)| (module.as_str(), *device, row))
        })
    }

    fn of(&self, device: Device) -> impl Iterator<Item = (&str, &Row)> {
        self.cells()
            .filter(move |(_, of, _)| *of == device)
            .map(|(module, _, row)| (module, row))
    }

    fn counts(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\n{:<28}", format!("kernel {}", self.kernel))?;
        for device in &self.devices {
            write!(f, "{:>8}  ok skip fail", device.name())?;
        }
        writeln!(f)?;
        for (module, rows) in &self.rows {
            write!(f, "{module:<28}")?;
            for device in &self.devices {
                let row = rows.iter().find(|(of, _)| of == device);
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
        for device in &self.devices {
            let sum = |count: fn(&Report) -> u32| -> u32 {
                self.of(*device).map(|(_, row)| count(&row.report)).sum()
            };
            let (ok, skip) = (sum(Report::ok), sum(|report| report.skipped));
            write!(f, "{:>8}{ok:>4}{skip:>5}{:>5} ", "", sum(Report::failed))?;
        }
        writeln!(f, "\n")
    }

    fn reasons(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for device in &self.devices {
            let mut reasons: BTreeMap<&str, BTreeMap<&str, usize>> = BTreeMap::new();
            for (module, row) in self.of(*device) {
                for reason in &row.report.reasons {
                    let modules = reasons.entry(reason).or_default();
                    *modules.entry(module).or_default() += 1;
                }
            }
            writeln!(f, "skipped on {}:", device.name())?;
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
        for (module, device, row) in self.cells() {
            let device = device.name();
            for failure in &row.report.failures {
                writeln!(f, "FAILED on {device}: {failure}")?;
            }
            if let Some(hang) = &row.hang {
                writeln!(f, "DID NOT END on {device}: {module}: {hang}")?;
            }
            if let Some(end) = &row.late_end {
                writeln!(
                    f,
                    "skipped all, then {end}, on {device}: {module} (the suite's own fault)"
                )?;
            }
            for complaint in &row.complaints {
                writeln!(f, "THE KERNEL COMPLAINS on {device}: {module}: {complaint}")?;
            }
        }
        for note in &self.notes {
            writeln!(f, "{note}")?;
        }
        Ok(())
    }
}
