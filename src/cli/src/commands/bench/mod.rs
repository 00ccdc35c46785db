//! `uverbs bench`.

mod args;
mod bandwidth;
mod by_address;
mod client;
mod columns;
mod exchanged;
mod latency;
mod memory;
mod picture;
mod plot;
mod post;
mod report;
mod rig;
mod server;
mod spec;
mod wire;

use clap::Subcommand;
use uverbs::link::Mtu;

use crate::failure::Result;
use crate::output::Output;
use crate::session::Session;
use args::{Endpoint, Test};
use spec::Verb;

const EXAMPLES: &str = "\
The client says what is measured; one server serves every test. The tests have the same options:
uverbs bench send --help lists them.

Examples:
  uverbs bench serve -d rxe0                        # on one machine
  uverbs bench send -d rxe1 192.0.2.1               # on the other: bandwidth of 64 KiB messages
  uverbs bench write --latency -s 8 -n 10000 server.example
  uverbs bench send --cm 192.0.2.1                  # connected by address
  uverbs bench read -a -D 2 --plot read.svg server.example
  uverbs bench send --latency --plot - --json server.example > result.json";

/// Measure bandwidth and latency between two machines
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve tests, one client after the other
    Serve(Serve),
    /// Send messages to the peer's receive queue
    Send(Test),
    /// Write into the peer's memory
    Write(Test),
    /// Read from the peer's memory
    Read(Test),
}

/// Serve tests, one client after the other
#[derive(Debug, clap::Args)]
struct Serve {
    #[command(flatten)]
    endpoint: Endpoint,

    /// Exit after the first client, with its success or failure
    #[arg(long)]
    once: bool,
}

/// The options that concern only this side.
struct Local<'a> {
    device: Option<&'a str>,
    ib_port: u8,
    gid_idx: Option<u8>,
    mtu: Option<u32>,
}

pub(crate) fn run(args: &Args, session: &Session, out: &mut Output) -> Result<()> {
    let (verb, test) = match &args.command {
        Command::Serve(serve) => {
            return server::run(&serve.endpoint, serve.once, session, out);
        }
        Command::Send(test) => (Verb::Send, test),
        Command::Write(test) => (Verb::Write, test),
        Command::Read(test) => (Verb::Read, test),
    };
    match &test.host {
        Some(host) => client::run(test, verb, host, session, out),
        // As with the well-known tools: without a host this is the server, for one client.
        None => server::run(&test.endpoint, true, session, out),
    }
}

impl Endpoint {
    fn local(&self) -> Local<'_> {
        Local {
            device: self.device.as_deref(),
            ib_port: self.ib_port,
            gid_idx: self.gid_idx,
            mtu: self.mtu.and_then(Mtu::bytes),
        }
    }
}
