//! `uverbs pingpong`.

mod play;
mod setup;

use std::time::Duration;

use clap::ValueEnum;
use serde::Serialize;
use uverbs::link::Mtu;
use uverbs::{QpType, QueuePairEndpoint};

use crate::dial::{self, Bounded, Deadline};
use crate::exchange::{pingpong as exchange, tcp};
use crate::failure::{Failure, Result};
use crate::output::Output;
use crate::session::Session;
use crate::units;
use play::Score;
use setup::Table;

const EXAMPLES: &str = "\
Without HOST it is the server. Either side may be ibv_rc_pingpong, ibv_uc_pingpong, ibv_ud_pingpong,
or, with --srq, ibv_srq_pingpong; on Ethernet those need -g with a GID index.

Examples:
  uverbs pingpong -d rxe0                  # a server
  uverbs pingpong -d rxe1 192.0.2.1        # its client
  uverbs pingpong -t ud -s 1024 -n 10000 server.example
  uverbs pingpong --srq -q 16 --events     # a server for ibv_srq_pingpong -g 1 <host>";

/// Send messages back and forth between two processes, as ibv_rc_pingpong and its siblings do
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "switches of the command line"
)]
pub(crate) struct Args {
    /// The device. Default: the first that can be opened
    #[arg(short = 'd', long, visible_alias = "ib-dev", value_name = "DEVICE")]
    device: Option<String>,

    /// The device's port
    #[arg(short = 'i', long, value_name = "PORT", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..))]
    ib_port: u8,

    /// The TCP port of the exchange
    #[arg(short = 'p', long, value_name = "PORT", default_value_t = 18515)]
    port: u16,

    /// What connects the queue pairs
    #[arg(
        short = 't',
        long,
        value_enum,
        default_value_t,
        value_name = "TRANSPORT"
    )]
    transport: Transport,

    /// Bytes of a message. Default: 4096, 1024 with ud
    #[arg(short = 's', long, value_name = "BYTES", value_parser = units::parse_message_size)]
    size: Option<u32>,

    /// Path MTU in bytes: 256, 512, 1024, 2048 or 4096
    #[arg(short = 'm', long, value_name = "BYTES", default_value = "1024", value_parser = units::parse_mtu)]
    mtu: Mtu,

    /// Receive requests to keep posted. Default: 64, or as many as it takes
    #[arg(short = 'r', long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    rx_depth: Option<u32>,

    /// How many messages each way
    #[arg(short = 'n', long, value_name = "COUNT", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..))]
    iters: u64,

    /// Service level
    #[arg(short = 'l', long, value_name = "LEVEL", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..16))]
    sl: u8,

    /// Sleep until a completion event comes, instead of polling
    #[arg(short = 'e', long)]
    events: bool,

    /// Index of the address in the port's GID table. Default: chosen, RoCE v2 preferred
    #[arg(short = 'g', long, value_name = "INDEX")]
    gid_idx: Option<u8>,

    /// Check every message that comes back; both sides must
    #[arg(short = 'c', long, visible_alias = "chk")]
    validate: bool,

    /// Receive through one shared receive queue, with rc
    #[arg(long)]
    srq: bool,

    /// Queue pairs that share it
    #[arg(short = 'q', long, value_name = "COUNT", default_value_t = 16, requires = "srq", value_parser = clap::value_parser!(u32).range(1..=255))]
    num_qp: u32,

    /// How long a client may take to reach the server and to exchange endpoints with it, in
    /// seconds; a server that does not listen yet is tried again
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = units::parse_seconds)]
    wait: Duration,

    /// Give up when nothing arrives for this many seconds
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = units::parse_seconds)]
    timeout: Duration,

    /// Print the result as JSON
    #[arg(long)]
    json: bool,

    /// The server's name or address
    #[arg(value_name = "HOST")]
    host: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
enum Transport {
    /// Reliable connection
    #[default]
    Rc,
    /// Unreliable connection
    Uc,
    /// Datagrams
    Ud,
}

#[derive(Debug, Serialize)]
struct Report {
    device: String,
    transport: Transport,
    shared_receive_queue: bool,
    queue_pairs: usize,
    message_bytes: u32,
    iterations: u64,
    bytes: u64,
    seconds: f64,
    mbit_per_second: f64,
    microseconds_per_iteration: f64,
    events: u64,
    validated: u64,
}

pub(crate) fn run(args: &Args, session: &Session, out: &mut Output) -> Result<()> {
    if args.srq && args.transport != Transport::Rc {
        return Err(Failure::usage("--srq needs the transport rc"));
    }
    if args.message_size() == 0 {
        return Err(Failure::usage("a message has at least one byte"));
    }
    // A client that sees the addresses below may connect immediately.
    let listener = match args.host {
        Some(_) => None,
        None => Some(tcp::listen(args.port)?),
    };
    let table = Table::lay(args, session)?;
    let device = table.device_name();
    let own = table.endpoints();
    if !args.json {
        for endpoint in &own {
            out.line(address("local address: ", endpoint))?;
        }
        out.flush()?;
    }
    let sent = if args.srq { exchange::SHARED } else { 1 };
    let mut peers = Vec::new();
    let ready = |endpoints: &[QueuePairEndpoint]| {
        peers = endpoints.to_vec();
        table.connect(args, endpoints)
    };
    let mut game = match (&listener, &args.host) {
        (Some(listener), _) => {
            let mut stream = tcp::accept(listener)?;
            exchange::serve(&mut stream, &own, sent, ready)?
        }
        (None, host) => {
            let host = host.as_deref().unwrap_or_default();
            let deadline = Deadline::after(args.wait);
            let stream = dial::connect(host, args.port, deadline)?;
            exchange::call(&mut Bounded::new(&stream, deadline), &own, sent, ready)?
        }
    };
    if !args.json {
        for endpoint in &peers {
            out.line(address("remote address:", endpoint))?;
        }
        out.flush()?;
    }
    let score = game.play(args)?;
    report(args, device, own.len(), &score, out)
}

fn report(
    args: &Args,
    device: String,
    queue_pairs: usize,
    score: &Score,
    out: &mut Output,
) -> Result<()> {
    let size = args.message_size();
    let seconds = score.elapsed.as_secs_f64();
    let bytes = u64::from(size) * args.iters * 2;
    let report = Report {
        device,
        transport: args.transport,
        shared_receive_queue: args.srq,
        queue_pairs,
        message_bytes: size,
        iterations: args.iters,
        bytes,
        seconds,
        mbit_per_second: units::ratio(bytes) * 8.0 / 1e6 / seconds,
        microseconds_per_iteration: seconds * 1e6 / units::ratio(args.iters),
        events: score.events,
        validated: score.validated,
    };
    if args.json {
        return out.json(&report);
    }
    out.line(format_args!(
        "{bytes} bytes in {seconds:.2} seconds = {:.2} Mbit/sec",
        report.mbit_per_second
    ))?;
    out.line(format_args!(
        "{} iters in {seconds:.2} seconds = {:.2} usec/iter",
        args.iters, report.microseconds_per_iteration
    ))?;
    if args.validate {
        out.line(format_args!("{} messages validated", score.validated))?;
    }
    Ok(())
}

fn address(whose: &str, endpoint: &QueuePairEndpoint) -> String {
    format!(
        "  {whose} LID {:#06x}, QPN {:#08x}, PSN {:#08x}, GID {}",
        endpoint.lid,
        endpoint.qp_num,
        endpoint.psn.raw(),
        endpoint.gid.unwrap_or(uverbs::Gid::ZERO)
    )
}

impl Args {
    fn message_size(&self) -> u32 {
        self.size.unwrap_or(match self.transport {
            Transport::Ud => 1024,
            Transport::Rc | Transport::Uc => 4096,
        })
    }

    fn queue_pairs(&self) -> u32 {
        if self.srq { self.num_qp } else { 1 }
    }

    /// At least two per queue pair: a message may arrive while the previous one is processed.
    fn depth(&self) -> u32 {
        self.rx_depth
            .unwrap_or_else(|| (2 * self.queue_pairs()).max(64))
    }

    fn is_client(&self) -> bool {
        self.host.is_some()
    }
}

impl Transport {
    fn qp_type(self) -> QpType {
        match self {
            Self::Rc => QpType::Rc,
            Self::Uc => QpType::Uc,
            Self::Ud => QpType::Ud,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn results_are_as_their_schema_says() {
        for transport in [Transport::Rc, Transport::Uc, Transport::Ud] {
            let report = Report {
                device: "rxe0".to_owned(),
                transport,
                shared_receive_queue: false,
                queue_pairs: 1,
                message_bytes: 4096,
                iterations: 1000,
                bytes: 8_192_000,
                seconds: 0.1,
                mbit_per_second: 655.4,
                microseconds_per_iteration: 100.0,
                events: 0,
                validated: 0,
            };
            crate::json::tests::valid("pingpong", &report).unwrap();
        }
    }
}
