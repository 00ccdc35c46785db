//! The options of `uverbs bench`.

use std::path::PathBuf;
use std::time::Duration;

use uverbs::link::Mtu;

use super::spec::{Amount, Measure, Spec, Transport, Verb};
use crate::units;

/// Where this side is.
#[derive(Debug, clap::Args)]
pub(super) struct Endpoint {
    /// The device. Default: the first that can be opened
    #[arg(short = 'd', long, visible_alias = "ib-dev", value_name = "DEVICE")]
    pub(super) device: Option<String>,

    /// The device's port
    #[arg(short = 'i', long, value_name = "PORT", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..))]
    pub(super) ib_port: u8,

    /// The TCP port on which the sides meet
    #[arg(short = 'p', long, value_name = "PORT", default_value_t = 18516)]
    pub(super) port: u16,

    /// Index of the address in the port's GID table. Default: chosen, RoCE v2 preferred
    #[arg(short = 'g', long, value_name = "INDEX")]
    pub(super) gid_idx: Option<u8>,

    /// Largest packets, in bytes. Default: the smaller of both ports' active MTUs
    #[arg(short = 'm', long, value_name = "BYTES", value_parser = units::parse_mtu)]
    pub(super) mtu: Option<Mtu>,
}

/// A test.
#[derive(Debug, clap::Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "switches of the command line"
)]
pub(super) struct Test {
    #[command(flatten)]
    pub(super) endpoint: Endpoint,

    /// Measure how long one message takes. Default: how many go through
    #[arg(long, conflicts_with = "bandwidth")]
    latency: bool,

    /// Measure how many messages go through (the default)
    #[arg(long)]
    bandwidth: bool,

    /// What connects the queue pairs
    #[arg(
        short = 't',
        long,
        value_enum,
        default_value_t,
        value_name = "TRANSPORT"
    )]
    transport: Transport,

    /// Bytes of a message. Default: 64K; with --latency 2
    #[arg(short = 's', long, value_name = "BYTES", value_parser = units::parse_message_size)]
    size: Option<u32>,

    /// All powers of two from 2 bytes to 8 MiB (with ud: to the MTU)
    #[arg(short = 'a', long, conflicts_with = "size")]
    all: bool,

    /// Messages per size. Default: 1000
    #[arg(short = 'n', long, value_name = "COUNT", conflicts_with = "duration", value_parser = clap::value_parser!(u64).range(1..))]
    iters: Option<u64>,

    /// Seconds per size, instead of a number of messages
    #[arg(short = 'D', long, value_name = "SECONDS", value_parser = units::parse_seconds)]
    duration: Option<Duration>,

    /// Queue pairs
    #[arg(short = 'q', long, value_name = "COUNT", default_value_t = 1)]
    qp: u32,

    /// Requests under way per queue pair. Default: 128, with --latency 8; at least twice --cq-mod
    #[arg(long, value_name = "COUNT")]
    tx_depth: Option<u32>,

    /// Receive requests per queue pair. Default: 512; with --latency 16
    #[arg(short = 'r', long, value_name = "COUNT")]
    rx_depth: Option<u32>,

    /// Requests per completion. Default: half of --tx-depth, but at most 1 MiB
    #[arg(short = 'Q', long, value_name = "COUNT")]
    cq_mod: Option<u32>,

    /// Requests per doorbell. Default: as many as per completion
    #[arg(short = 'l', long, value_name = "COUNT")]
    post_list: Option<u32>,

    /// Messages up to this size travel inside the request. Default: 0; with --latency 64, as far as
    /// the device can
    #[arg(short = 'I', long, value_name = "BYTES", value_parser = units::parse_message_size)]
    inline: Option<u32>,

    /// Connect by IP address (rdma_cm), which chooses the device, too. The server needs no option
    #[arg(long, conflicts_with_all = ["device", "ib_port", "gid_idx", "mtu", "sl"])]
    pub(super) cm: bool,

    /// Sleep until completion events come, instead of polling first
    #[arg(short = 'e', long)]
    events: bool,

    /// Service level
    #[arg(long, value_name = "LEVEL", default_value_t = 0)]
    sl: u8,

    /// How long it may take to reach the server, in seconds; a server that is not listening yet is
    /// tried again. Each of its answers may then take 30 seconds
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = units::parse_seconds)]
    pub(super) wait: Duration,

    /// Print the result as JSON
    #[arg(long)]
    pub(super) json: bool,

    /// Draw the result into an SVG file, again after each size; `-` draws it in the terminal
    #[arg(long, value_name = "FILE")]
    pub(super) plot: Option<PathBuf>,

    /// Draw a latency histogram with a logarithmic axis, which shows the whole tail
    #[arg(long, requires = "plot")]
    pub(super) log_x: bool,

    /// The server. Without it, this is the server, for one client
    #[arg(value_name = "HOST")]
    pub(super) host: Option<String>,
}

/// Inline bytes of latency tests; every device supports at least this many.
const LATENCY_INLINE: u32 = 64;

/// Bytes that share a completion at most, unless `--cq-mod` is given: 64 messages of 8 MiB take rxe
/// longer than a peer may be silent.
const GROUP_BYTES: u32 = 1 << 20;

impl Test {
    /// The test, for messages of up to `datagram` bytes where they are datagrams.
    pub(super) fn spec(&self, verb: Verb, datagram: u32) -> Spec {
        let measure = if self.latency {
            Measure::Latency
        } else {
            Measure::Bandwidth
        };
        let (default, inline) = match measure {
            Measure::Latency => (2, LATENCY_INLINE),
            Measure::Bandwidth => (1 << 16, 0),
        };
        let limit = match self.transport {
            Transport::Ud => datagram,
            Transport::Rc | Transport::Uc => 1 << 23,
        };
        let sizes = if self.all {
            (1..=23)
                .map(|power| 1 << power)
                .filter(|size| *size <= limit)
                .collect()
        } else {
            vec![self.size.unwrap_or(default.min(limit))]
        };
        // Only one message is outstanding at a time: rings that stay in the caches are enough.
        let (tx_depth, rx_depth) = match measure {
            Measure::Latency => (8, 16),
            Measure::Bandwidth => (128, 512),
        };
        let least = self.cq_mod.map_or(0, |group| group.saturating_mul(2));
        let tx_depth = self.tx_depth.unwrap_or(least.max(tx_depth));
        let group = self.cq_mod.unwrap_or((tx_depth / 2).max(1));
        Spec {
            verb,
            measure,
            transport: self.transport,
            sizes,
            amount: match self.duration {
                Some(duration) => Amount::Seconds(duration.as_secs_f64()),
                None => Amount::Iterations(self.iters.unwrap_or(1000)),
            },
            queue_pairs: self.qp,
            tx_depth,
            rx_depth: self.rx_depth.unwrap_or(rx_depth),
            group,
            group_bytes: self.cq_mod.is_none().then_some(GROUP_BYTES),
            post_list: self.post_list.unwrap_or(group),
            inline: match verb {
                Verb::Read => 0,
                Verb::Send | Verb::Write => self.inline.unwrap_or(inline),
            },
            events: self.events,
            service_level: self.sl,
            by_address: self.cm,
        }
    }
}
