//! `connectx`: serves software ConnectX functions to QEMU.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use connectx::serve::{Service, serve, socket_path};
use connectx::{FunctionKind, Options, Trace};

const HELP: &str = "\
Serves software ConnectX functions over vfio-user, for the stock mlx5 drivers of a Linux guest.

connectx --function KIND [--function KIND …] --socket-dir DIR [options]

  --function KIND    ib (InfiniBand), roce (Ethernet with a network device and RoCE) or eth-raw (Ethernet
                     with raw packet queues only); once per function, all joined by one fabric
  --socket-dir DIR   where to make function0.sock, function1.sock, … and control.sock
  --strict           end with an error at the first thing a correct driver would not do
  --trace FILE       write every command, work request, completion and event as a JSON line
  --blueflame        let work requests be copied through doorbell pages
  --umr              let the kernel register memory by work requests (UMR) instead of commands
  --odp              let pages of registered memory be absent until they are needed (on-demand paging);
                     includes --umr
  --shaper           let rate limits and caps of scheduling elements take effect
  --time-divisor N   run retry and RNR timers N times faster
  --help             this text

QEMU 10.1 or newer takes a function with
  -object memory-backend-memfd,id=m,size=1G,share=on -machine q35 -numa node,memdev=m -m 1G
  -device '{\"driver\":\"vfio-user-pci\",\"rombar\":0,\"socket\":{\"type\":\"unix\",\"path\":\"DIR/function0.sock\"}}'
The guest's memory must be shared (share=on): the model reaches it through file descriptors.
The lines for this invocation are printed when the sockets are made.
";

/// What the command line asks for.
struct Arguments {
    service: Service,
    trace: Option<PathBuf>,
}

fn parse(mut words: impl Iterator<Item = String>) -> Result<Option<Arguments>, String> {
    let mut functions = Vec::new();
    let mut directory = None;
    let mut trace = None;
    let mut options = Options::default();
    let (mut strict, mut blueflame, mut umr, mut paging) = (false, false, false, false);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
        match word.as_str() {
            "--help" | "-h" => return Ok(None),
            "--function" => {
                let name = value()?;
                functions.push(
                    FunctionKind::parse(&name)
                        .ok_or_else(|| format!("no function kind {name:?}"))?,
                );
            }
            "--socket-dir" => directory = Some(PathBuf::from(value()?)),
            "--trace" => trace = Some(PathBuf::from(value()?)),
            "--strict" => strict = true,
            "--blueflame" => blueflame = true,
            "--umr" => umr = true,
            "--odp" => (umr, paging) = (true, true),
            "--shaper" => options.shaper = true,
            "--time-divisor" => {
                options.time_divisor = value()?
                    .parse()
                    .map_err(|_| "--time-divisor takes a number".to_owned())?;
            }
            _ => return Err(format!("unknown argument {word:?}; see --help")),
        }
    }
    if functions.is_empty() {
        return Err("at least one --function is needed; see --help".to_owned());
    }
    let directory = directory.ok_or("--socket-dir is needed; see --help")?;
    Ok(Some(Arguments {
        service: Service {
            functions,
            directory,
            options,
            blueflame,
            umr,
            paging,
            strict,
        },
        trace,
    }))
}

fn main() -> ExitCode {
    let arguments = match parse(std::env::args().skip(1)) {
        Ok(Some(arguments)) => arguments,
        Ok(None) => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Err(message) => {
            eprintln!("connectx: {message}");
            return ExitCode::from(2);
        }
    };
    let trace = match &arguments.trace {
        Some(path) => match std::fs::File::create(path) {
            Ok(file) => Trace::to(Box::new(std::io::BufWriter::new(file)), true),
            Err(error) => {
                eprintln!("connectx: {}: {error}", path.display());
                return ExitCode::FAILURE;
            }
        },
        None => Trace::silent(true),
    };
    for function in 0..arguments.service.functions.len() {
        let path = socket_path(&arguments.service.directory, function);
        println!(
            "-device '{{\"driver\":\"vfio-user-pci\",\"rombar\":0,\"socket\":{{\"type\":\"unix\",\"path\":\"{}\"}}}}'",
            path.display()
        );
    }
    match serve(&arguments.service, Arc::new(trace)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("connectx: {error}");
            ExitCode::FAILURE
        }
    }
}
