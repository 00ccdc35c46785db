//! `uverbs pingpong`.

mod by_address;
mod play;
mod report;
mod rping;
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
use report::Played;
use setup::Table;

const EXAMPLES: &str = "\
Without HOST it is the server. Either side may be ibv_rc_pingpong, ibv_uc_pingpong, ibv_ud_pingpong,
or, with --srq, ibv_srq_pingpong; on Ethernet those need -g with a GID index. With --rping either
side may be rping.

Examples:
  uverbs pingpong -d rxe0                  # a server
  uverbs pingpong -d rxe1 192.0.2.1        # its client
  uverbs pingpong -t ud -s 1024 -n 10000 server.example
  uverbs pingpong --srq -q 16 --events     # a server for ibv_srq_pingpong -g 1 <host>
  uverbs pingpong --cm                     # a server by address, on whichever device leads to it
  uverbs pingpong --rping -s 1024 192.0.2.1  # a client for rping -s -S 1024";

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

    /// The TCP port of the exchange, or that of rdma_cm. Default: 18515, 7174 with --rping
    #[arg(short = 'p', long, value_name = "PORT")]
    port: Option<u16>,

    /// Connect by IP address (rdma_cm), which chooses the device, too
    #[arg(long, conflicts_with_all = ["device", "ib_port", "transport", "mtu", "sl", "gid_idx", "srq"])]
    cm: bool,

    /// Do what rping does, by IP address: the server reads the client's memory and writes into it.
    /// A server ends when its client leaves
    #[arg(long, conflicts_with_all = ["device", "ib_port", "transport", "mtu", "sl", "gid_idx", "srq", "rx_depth"])]
    rping: bool,

    /// What connects the queue pairs
    #[arg(
        short = 't',
        long,
        value_enum,
        default_value_t,
        value_name = "TRANSPORT"
    )]
    transport: Transport,

    /// Bytes of a message. Default: 4096, 1024 with ud, 64 with --rping
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
    /// seconds; a server that is not listening yet is tried again
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

pub(crate) fn run(args: &Args, session: &Session, out: &mut Output) -> Result<()> {
    if args.srq && args.transport != Transport::Rc {
        return Err(Failure::usage("--srq needs the transport rc"));
    }
    if args.message_size() == 0 {
        return Err(Failure::usage("a message has at least one byte"));
    }
    if args.rping {
        return rping::run(args, session, out);
    }
    if args.cm {
        return by_address::run(args, session, out);
    }
    // A client that sees the addresses below may connect immediately.
    let listener = match args.host {
        Some(_) => None,
        None => Some(tcp::listen(args.port())?),
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
            let stream = dial::connect(host, args.port(), deadline)?;
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
    Played::game(args, device, own.len(), &score).report(args, out)
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
            _ if self.rping => rping::SIZE,
            Transport::Ud => 1024,
            Transport::Rc | Transport::Uc => 4096,
        })
    }

    fn port(&self) -> u16 {
        self.port
            .unwrap_or(if self.rping { rping::PORT } else { 18515 })
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
