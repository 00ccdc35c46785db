//! The page with complete outputs, and with the findings about a device that misbehaves.

use super::faults::Caught;
use super::misbehaviours::BEYOND;
use super::once::Run;
use std::fmt;

#[derive(Debug)]
pub(super) struct Document<'a> {
    pub(super) kernel: &'a str,
    pub(super) rxe: &'a Run,
    pub(super) ib: &'a Run,
    pub(super) roce: &'a Run,
    pub(super) caught: &'a [Caught],
    pub(super) company: &'a [String],
}

impl fmt::Display for Document<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "# What the self-test says\n\n\
             Written by `cargo xtask selftest --write`: `uverbs selftest` in emulated machines, on Linux {}. Times and rates are those of \
             emulation. [You have an adapter](adapter.md) says what it is for.\n",
            self.kernel
        )?;
        for (title, run) in [
            ("rxe", self.rxe),
            ("An InfiniBand function of the software ConnectX", self.ib),
            ("An Ethernet function of the software ConnectX", self.roce),
        ] {
            let seconds = run.report["seconds"].as_f64().unwrap_or_default();
            let device = run.report["device"].as_str().unwrap_or_default();
            writeln!(
                f,
                "## {title}\n\n{seconds:.0} s.\n\n```console\n$ uverbs selftest -d {device}\n{}\n```\n",
                run.text.trim_end()
            )?;
        }
        writeln!(
            f,
            "## A second host, and trouble\n\n\
             With `--peer` and `--rough`: another process on the same device is the second host; the software ConnectX takes its port down and up; \
             the kernel takes the device out and looks for it again; the device's firmware stops and starts.\n\n```console\n{}\n```\n",
            self.company.join("\n")
        )?;
        self.faults(f)
    }
}

impl Document<'_> {
    fn faults(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found: usize = self.caught.iter().map(|caught| caught.said.len()).sum();
        writeln!(
            f,
            "## A device that misbehaves\n\n\
             {} times the software ConnectX did something wrong on purpose ([connectx.md](../connectx.md)), and each time the checks here \
             failed, {found} in all.\n\n\
             | what was wrong | function | check | what it said |\n|---|---|---|---|",
            self.caught.len()
        )?;
        for caught in self.caught {
            for (check, said) in &caught.said {
                writeln!(
                    f,
                    "| {} | {} | {check} | {} |",
                    caught.fault,
                    caught.function,
                    said.replace('|', "\\|")
                )?;
            }
        }
        writeln!(
            f,
            "\nNo misbehaviour of that device makes these fail:\n\n| check | why |\n|---|---|"
        )?;
        BEYOND
            .iter()
            .try_for_each(|(check, why)| writeln!(f, "| {check} | {why} |"))
    }
}
