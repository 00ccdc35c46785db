//! What is measured, and how each of the two programs is run for it.

use anyhow::Context as _;
use std::time::Duration;
use testbed::{Command, Guest, Topology};

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
    /// The program of perftest or ibverbs-utils.
    theirs: &'static str,
    /// The operation by our program's name.
    ours: &'static str,
    pub(super) place: Place,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Kind {
    Bandwidth,
    Latency,
    PingPong,
}

/// Where the two sides are.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Place {
    /// On two devices, with a network between them.
    TwoHosts,
    /// On one device.
    Loopback,
}

impl Place {
    pub(super) const ALL: [Self; 2] = [Self::TwoHosts, Self::Loopback];

    pub(super) fn topology(self) -> Topology {
        match self {
            Self::TwoHosts => Topology::TwoHosts,
            Self::Loopback => Topology::OneHost,
        }
    }

    pub(super) fn describe(self) -> &'static str {
        match self {
            Self::TwoHosts => "rxe over veth",
            Self::Loopback => "one rxe device",
        }
    }

    /// The devices of server and client, and the server's address.
    fn ends(self) -> ([&'static str; 2], &'static str) {
        match self {
            Self::TwoHosts => (["rxe_a", "rxe_b"], "10.1.0.1"),
            Self::Loopback => (["rxe0", "rxe0"], "127.0.0.1"),
        }
    }

    /// The command on host `a` or `b`, if there are two.
    fn on(self, command: Command, host: &str) -> Command {
        match self {
            Self::TwoHosts => command.namespace(host),
            Self::Loopback => command,
        }
    }
}

pub(super) const ALL: &[Measure] = &[
    Measure::bandwidth("send bandwidth, 64 KiB", 65536, "ib_send_bw", "send"),
    Measure::bandwidth("write bandwidth, 64 KiB", 65536, "ib_write_bw", "write"),
    Measure::latency("send latency, 64 B", 64, "ib_send_lat", "send"),
    Measure::bandwidth("send bandwidth, 64 KiB", 65536, "ib_send_bw", "send").looped(),
    Measure::bandwidth("write bandwidth, 64 KiB", 65536, "ib_write_bw", "write").looped(),
    Measure::bandwidth("write bandwidth, 64 B", 64, "ib_write_bw", "write").looped(),
    Measure::latency("send latency, 64 B", 64, "ib_send_lat", "send").looped(),
    Measure::ping_pong("ping-pong, 64 B", 64).looped(),
    Measure::ping_pong("ping-pong, 4 KiB", 4096).looped(),
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
            place: Place::TwoHosts,
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
            place: Place::TwoHosts,
        }
    }

    const fn ping_pong(name: &'static str, size: u32) -> Self {
        Self {
            name,
            unit: "µs",
            kind: Kind::PingPong,
            size,
            theirs: "ibv_rc_pingpong",
            ours: "pingpong",
            place: Place::TwoHosts,
        }
    }

    /// The same on one device.
    const fn looped(self) -> Self {
        Self {
            place: Place::Loopback,
            ..self
        }
    }

    pub(super) fn more_is_better(&self) -> bool {
        self.kind == Kind::Bandwidth
    }

    /// One run of theirs: average bandwidth (perftest's MB are MiB), or the typical latency, or the
    /// average time of a round.
    pub(super) fn theirs(&self, guest: &Guest, iterations: u32) -> anyhow::Result<f64> {
        let (size, iterations) = (self.size.to_string(), iterations.to_string());
        let common = ["-s", &size, "-n", &iterations];
        let command = |device: &str| {
            let command = Command::new(self.theirs).args(common).args(["-d", device]);
            match self.kind {
                Kind::PingPong => command.args(["-g", GID_INDEX]),
                Kind::Bandwidth | Kind::Latency => command.args(["-F", "-x", GID_INDEX]),
            }
        };
        let ready = match self.kind {
            Kind::PingPong => "local address",
            Kind::Bandwidth | Kind::Latency => "Waiting for client",
        };
        let ([a, b], address) = self.place.ends();
        let text = self.run_pair(guest, command(a), ready, command(b).arg(address))?;
        let figure = match self.kind {
            // Columns: size, operations, peak and average bandwidth.
            Kind::Bandwidth => perftest_figure(&text, &size, 3),
            // Columns: size, operations, minimum, maximum and typical latency.
            Kind::Latency => perftest_figure(&text, &size, 4),
            Kind::PingPong => round_trip(&text),
        };
        figure.with_context(|| format!("{} gives no figures:\n{text}", self.theirs))
    }

    /// One run of our program: average bandwidth, or median latency, or the average time of a
    /// round.
    pub(super) fn ours(&self, guest: &Guest, iterations: u32) -> anyhow::Result<f64> {
        let (size, iterations) = (self.size.to_string(), iterations.to_string());
        let common = ["-s", &size, "-n", &iterations];
        let ([a, b], address) = self.place.ends();
        let on = |words: &[&str], device: &str| {
            let words = words.iter().copied();
            let command = Command::new("uverbs").args(words);
            command.args(["-d", device, "-g", GID_INDEX])
        };
        let (what, pointer) = match self.kind {
            Kind::Bandwidth => ("--bandwidth", "/results/0/mib_per_second"),
            Kind::Latency => ("--latency", "/results/0/median_us"),
            Kind::PingPong => {
                let server = on(&["pingpong"], a).args(common);
                let client = on(&["pingpong"], b).args(common).arg(address);
                let text = self.run_pair(guest, server, "local address", client)?;
                return round_trip(&text).with_context(|| format!("no figure in:\n{text}"));
            }
        };
        let server = on(&["bench", "serve", "--once"], a);
        let client = on(&["bench", self.ours, what, "--json"], b).args(common);
        let text = self.run_pair(guest, server, "listening", client.arg(address))?;
        let value: serde_json::Value =
            serde_json::from_str(&text).with_context(|| format!("no JSON:\n{text}"))?;
        let figure = value.pointer(pointer).and_then(serde_json::Value::as_f64);
        figure.with_context(|| format!("no {pointer} in:\n{text}"))
    }

    /// Runs a server, and its client when it is ready; returns the client's output.
    fn run_pair(
        &self,
        guest: &Guest,
        server: Command,
        ready: &str,
        client: Command,
    ) -> anyhow::Result<String> {
        let size = testbed::WindowSize {
            rows: 24,
            columns: 200,
        };
        let server = self.place.on(server, "a").timeout(PATIENCE);
        let server = guest.spawn(server.with_terminal(size))?;
        server.wait_for_text(ready, PATIENCE)?;
        let client = self.place.on(client, "b").timeout(PATIENCE);
        let client = guest.run(client)?.check()?;
        server.wait()?.check()?;
        Ok(client.stdout_text())
    }
}

/// Of `1000 iters in 0.12 seconds = 118.30 usec/iter`.
fn round_trip(text: &str) -> Option<f64> {
    let line = text.lines().find(|line| line.contains(" usec/iter"))?;
    let (_, figure) = line.trim_end().split_once(" = ")?;
    figure.split_whitespace().next()?.parse().ok()
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
    use super::{perftest_figure, round_trip};

    #[test]
    fn the_line_of_figures_is_found() {
        let text = " #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]\n \
                    65536      1000             53.10              51.77              0.000828\n";
        assert_eq!(perftest_figure(text, "65536", 3), Some(51.77));
        assert_eq!(perftest_figure(text, "64", 3), None);
        assert_eq!(perftest_figure("", "64", 3), None);
    }

    #[test]
    fn both_programs_tell_the_time_of_a_round() {
        let text = "local\n8192000 bytes in 0.75 seconds = 87.4 Mbit/sec\n\
                    1000 iters in 0.75 seconds = 750.03 usec/iter\r\n";
        assert_eq!(round_trip(text), Some(750.03));
        assert_eq!(round_trip("1000 iters"), None);
    }
}
