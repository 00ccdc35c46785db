//! What is measured, and how each of the two programs is run for it.

use anyhow::Context as _;
use std::time::Duration;
use testbed::{Command, Guest};

/// How long a server may take to listen, and a run to end.
const PATIENCE: Duration = Duration::from_secs(120);

/// Index of the IPv4 address in a device's GID table.
const GID_INDEX: &str = "1";

/// A quantity that both programs measure.
#[derive(Debug)]
pub(super) struct Measure {
    pub(super) name: &'static str,
    pub(super) unit: &'static str,
    kind: Kind,
    /// Bytes per operation.
    size: u32,
    /// The perftest program.
    theirs: &'static str,
    /// The operation by our program's name.
    ours: &'static str,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Kind {
    Bandwidth,
    Latency,
}

pub(super) const ALL: &[Measure] = &[
    Measure::bandwidth("send bandwidth, 64 KiB", 65536, "ib_send_bw", "send"),
    Measure::bandwidth("write bandwidth, 64 KiB", 65536, "ib_write_bw", "write"),
    Measure::latency("send latency, 64 B", 64, "ib_send_lat", "send"),
];

impl Measure {
    const fn bandwidth(
        name: &'static str,
        size: u32,
        theirs: &'static str,
        ours: &'static str,
    ) -> Self {
        Self {
            name,
            unit: "MiB/s",
            kind: Kind::Bandwidth,
            size,
            theirs,
            ours,
        }
    }

    const fn latency(
        name: &'static str,
        size: u32,
        theirs: &'static str,
        ours: &'static str,
    ) -> Self {
        Self {
            name,
            unit: "µs",
            kind: Kind::Latency,
            size,
            theirs,
            ours,
        }
    }

    pub(super) fn more_is_better(&self) -> bool {
        self.kind == Kind::Bandwidth
    }

    /// One run of perftest: average bandwidth (its MB are MiB), or typical latency.
    pub(super) fn theirs(&self, guest: &Guest, iterations: u32) -> anyhow::Result<f64> {
        let (size, iterations) = (self.size.to_string(), iterations.to_string());
        let command = |device: &str| {
            Command::new(self.theirs).args([
                "-F",
                "-d",
                device,
                "-x",
                GID_INDEX,
                "-s",
                &size,
                "-n",
                &iterations,
            ])
        };
        let text = run_pair(
            guest,
            command("rxe_a"),
            "Waiting for client",
            command("rxe_b"),
        )?;
        // Columns: size, operations, peak and average bandwidth; or size, operations, minimum,
        // maximum and typical latency.
        let column = if self.kind == Kind::Bandwidth { 3 } else { 4 };
        perftest_figure(&text, &size, column)
            .with_context(|| format!("{} gives no figures:\n{text}", self.theirs))
    }

    /// One run of our program: average bandwidth, or median latency.
    pub(super) fn ours(&self, guest: &Guest, iterations: u32) -> anyhow::Result<f64> {
        let (size, iterations) = (self.size.to_string(), iterations.to_string());
        let (what, pointer) = match self.kind {
            Kind::Bandwidth => ("--bandwidth", "/results/0/mib_per_second"),
            Kind::Latency => ("--latency", "/results/0/median_us"),
        };
        let server = ["bench", "serve", "--once", "-d", "rxe_a", "-g", GID_INDEX];
        let client = [
            "bench", self.ours, what, "--json", "-d", "rxe_b", "-g", GID_INDEX,
        ];
        let client = Command::new("uverbs")
            .args(client)
            .args(["-s", &size, "-n", &iterations]);
        let text = run_pair(
            guest,
            Command::new("uverbs").args(server),
            "listening",
            client,
        )?;
        let value: serde_json::Value =
            serde_json::from_str(&text).with_context(|| format!("no JSON:\n{text}"))?;
        let figure = value.pointer(pointer).and_then(serde_json::Value::as_f64);
        figure.with_context(|| format!("no {pointer} in:\n{text}"))
    }
}

/// Runs a server on host `a` and its client on host `b`; returns the client's output.
fn run_pair(
    guest: &Guest,
    server: Command,
    ready: &str,
    client: Command,
) -> anyhow::Result<String> {
    let size = testbed::WindowSize {
        rows: 24,
        columns: 200,
    };
    let server = guest.spawn(server.namespace("a").timeout(PATIENCE).with_terminal(size))?;
    server.wait_for_text(ready, PATIENCE)?;
    let client = guest
        .run(client.arg("10.1.0.1").namespace("b").timeout(PATIENCE))?
        .check()?;
    server.wait()?.check()?;
    Ok(client.stdout_text())
}

/// A column of the line of figures, which begins with the size of the operations.
fn perftest_figure(text: &str, size: &str, column: usize) -> Option<f64> {
    let rows = text
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>());
    let row = rows
        .into_iter()
        .find(|row| row.first() == Some(&size) && row.len() > column)?;
    row.get(column)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::perftest_figure;

    #[test]
    fn the_line_of_figures_is_found() {
        let text = " #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]\n \
                    65536      1000             53.10              51.77              0.000828\n";
        assert_eq!(perftest_figure(text, "65536", 3), Some(51.77));
        assert_eq!(perftest_figure(text, "64", 3), None);
        assert_eq!(perftest_figure("", "64", 3), None);
    }
}
