//! `connectx`: serves software ConnectX functions to QEMU.

use std::fs::File;
use std::io::BufWriter;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use connectx::serve::{Service, serve, socket_path};
use connectx::{Adapter, FunctionKind, Options, Trace};

const QEMU: &str = "\
QEMU 10.1 or newer takes a function with
  -object memory-backend-memfd,id=m,size=1G,share=on -machine q35 -numa node,memdev=m -m 1G
  -device '{\"driver\":\"vfio-user-pci\",\"rombar\":0,\"socket\":{\"type\":\"unix\",\"path\":\"DIR/function0.sock\"}}'
The guest's memory must be shared (share=on): the model reaches it through file descriptors.
The lines for this invocation are printed when the sockets are made.";

/// Serves software ConnectX functions over vfio-user, for the stock mlx5 drivers of a Linux guest.
#[derive(Debug, Parser)]
#[command(name = "connectx", max_term_width = 100, after_help = QEMU)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an option of the command line"
)]
struct Arguments {
    /// ib (InfiniBand), roce (Ethernet with a network device and RoCE) or eth-raw (Ethernet with
    /// raw packet queues only); once per function; all of them are joined by one fabric.
    #[arg(long = "function", value_name = "KIND", required = true)]
    functions: Vec<FunctionKind>,
    /// Where to create function0.sock, function1.sock, … and control.sock.
    #[arg(long, value_name = "DIR")]
    socket_dir: PathBuf,
    /// Exit with an error at the first thing that a correct driver would not do.
    #[arg(long)]
    strict: bool,
    /// Write every command, work request, completion and event as a JSON line to this file.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Let work requests be copied through doorbell pages.
    #[arg(long)]
    blueflame: bool,
    /// Let the kernel register memory by work requests (UMR) instead of commands.
    #[arg(long)]
    umr: bool,
    /// Let pages of registered memory be absent until they are needed (on-demand paging); implies
    /// --umr.
    #[arg(long)]
    odp: bool,
    /// Let memory keys have signatures: integrity fields behind blocks of data.
    #[arg(long)]
    signatures: bool,
    /// Let what passes through memory keys be encrypted, by keys of data that programs import.
    #[arg(long)]
    encryption: bool,
    /// Let device memory have operations, and let there be memory for steering by programs.
    #[arg(long)]
    extended_memory: bool,
    /// Let DC initiators have streams, which fail one by one.
    #[arg(long)]
    streams: bool,
    /// Let queue pairs copy local memory (memory-to-memory operations).
    #[arg(long)]
    copies: bool,
    /// Let rate limits and bandwidth caps of scheduling elements take effect.
    #[arg(long)]
    shaper: bool,
    /// Give InfiniBand ports a subnet manager, whose administrator answers queries for paths,
    /// multicast groups and services, as IP over InfiniBand and connections by address need.
    #[arg(long)]
    subnet_administrator: bool,
    /// Claim no more than the adapter whose capabilities cargo xtask report --to wrote to this
    /// folder.
    #[arg(long, value_name = "FOLDER")]
    adapter: Option<PathBuf>,
    /// Run retry and RNR timers this many times faster.
    #[arg(long, value_name = "N", default_value_t = Options::default().time_divisor)]
    time_divisor: u64,
}

impl Arguments {
    fn trace(&self) -> Result<Trace, String> {
        let Some(path) = &self.trace else {
            return Ok(Trace::silent(true));
        };
        let file = File::create(path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Trace::to(Box::new(BufWriter::new(file)), true))
    }

    fn service(self) -> Result<Service, String> {
        let adapter = self.adapter.as_deref().map(Adapter::read).transpose()?;
        Ok(Service {
            adapter: adapter.map(Arc::new),
            functions: self.functions,
            directory: self.socket_dir,
            options: Options {
                time_divisor: self.time_divisor,
                shaper: self.shaper,
                subnet_administrator: self.subnet_administrator,
                ..Options::default()
            },
            blueflame: self.blueflame,
            umr: self.umr || self.odp,
            paging: self.odp,
            signatures: self.signatures,
            encryption: self.encryption,
            extended_memory: self.extended_memory,
            streams: self.streams,
            copies: self.copies,
            strict: self.strict,
        })
    }
}

fn run(arguments: Arguments) -> Result<(), String> {
    let trace = arguments.trace()?;
    for function in 0..arguments.functions.len() {
        let path = socket_path(&arguments.socket_dir, function);
        println!(
            "-device '{{\"driver\":\"vfio-user-pci\",\"rombar\":0,\"socket\":{{\"type\":\"unix\",\"path\":\"{}\"}}}}'",
            path.display()
        );
    }
    serve(&arguments.service()?, Arc::new(trace)).map_err(|error| error.to_string())
}

fn main() -> ExitCode {
    match run(Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("connectx: {error}");
            ExitCode::FAILURE
        }
    }
}
