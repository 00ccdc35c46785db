//! `uverbs cm storm`.

mod client;
mod server;
mod side;
mod table;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::time::Duration;

use super::open;
use crate::dial::{self, Deadline};
use crate::failure::{Failure, Result};
use crate::output::Output;
use crate::session::Session;
use crate::units;
use side::Settings;
use table::Report;

const EXAMPLES: &str = "\
Each step is taken by all connections before the next one begins, with one thread on either side.
The table shows, of each step, how long it took for all connections together, and for one. A step
that waits for the kernel or the peer is over when its answer has been read; with many in flight
most of that time a connection waits for the others. \"create qp\" ends in INIT, \"connect\" has
the moves to RTR and RTS in it. Ids are destroyed by a thread of the library, so that of \"destroy
id\" one connection's time is how long the program waits, and the total until all are destroyed.

The peer is this command with the same -n, or cmtime of Debian 12.

Examples:
  uverbs cm storm                           the server
  uverbs cm storm 192.0.2.7                 100 connections to it
  uverbs cm storm -n 1000 --in-flight 50 192.0.2.7";

/// Connect many times at once, and measure each step, as cmtime does
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Connections; both sides need the same number
    #[arg(short = 'n', long, value_name = "COUNT", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    connections: u32,

    /// How many connections of a client wait at the same time. Default: all
    #[arg(long, value_name = "COUNT", requires = "host", value_parser = clap::value_parser!(u32).range(1..))]
    in_flight: Option<u32>,

    /// The server's port
    #[arg(short = 'p', long, value_name = "PORT", default_value_t = 7471, value_parser = clap::value_parser!(u16).range(1..))]
    port: u16,

    /// Give up when no connection gets any further for this many seconds. Also how long resolving
    /// one address may take
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = units::parse_seconds)]
    wait: Duration,

    /// How long a server waits for its first client, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "60", conflicts_with = "host", value_parser = units::parse_seconds)]
    first: Duration,

    /// Print the result as JSON
    #[arg(long)]
    json: bool,

    /// The server's name or address; without it, this is the server
    #[arg(value_name = "HOST")]
    host: Option<String>,
}

impl Args {
    fn settings(&self) -> Settings {
        Settings {
            connections: self.connections as usize,
            in_flight: self.in_flight.unwrap_or(self.connections) as usize,
            wait: self.wait,
            first: self.first,
        }
    }
}

pub(super) fn run(args: &Args, session: &Session, out: &mut Output) -> Result<()> {
    let (channel, settings) = (open(session)?, args.settings());
    let device = |index| session.open_index(index);
    let report = if let Some(host) = &args.host {
        let server = find(host, args.port, args.wait)?;
        client::run(&channel, server, settings, device)?
    } else {
        let listening = |at: SocketAddr| {
            if args.json {
                return Ok(());
            }
            out.line(format_args!("listening at {at}"))?;
            out.flush()
        };
        server::run(&channel, args.port, settings, device, listening)?
    };
    print(&report, args.json, out)
}

/// The server's first address.
fn find(host: &str, port: u16, wait: Duration) -> Result<SocketAddr> {
    let found = dial::resolve(host, port, Deadline::after(wait))
        .map_err(|error| Failure::new(format_args!("{host}: {error}")))?;
    let first = found.first().copied();
    first.ok_or_else(|| Failure::new(format_args!("{host} has no address")))
}

fn print(report: &Report, json: bool, out: &mut Output) -> Result<()> {
    if json {
        return out.json(report);
    }
    out.at_once(|out| {
        out.line(report.table())?;
        out.line(report.sum())
    })
}
