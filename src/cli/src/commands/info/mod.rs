//! `uverbs info`.

mod limits;
mod mlx5;
mod report;
mod text;

use serde::Serialize;
use uverbs::discover::netlink;

use crate::failure::Result;
use crate::output::Output;
use crate::session::Session;
use report::DeviceReport;

// Other reports use these, too.
pub(super) use limits::of as limits;
pub(super) use mlx5::Mlx5Report;
pub(super) use report::Limit;

/// Show what a device is, what it can do, and the state of its ports
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  uverbs info\n  uverbs info -v rxe0\n  uverbs info --json mlx5_0 | jq '.devices[0].ports[0].gids'"
)]
pub(crate) struct Args {
    /// Limits, counters, on-demand paging, what only mlx5 has, and every address too
    #[arg(short, long)]
    verbose: bool,

    /// Print JSON, with everything
    #[arg(long)]
    json: bool,

    /// Only this port
    #[arg(short = 'i', long, value_name = "PORT", value_parser = clap::value_parser!(u8).range(1..))]
    port: Option<u8>,

    /// The device (rxe0), its node's name (uverbs0), or the node's path. Default: all that can be
    /// opened
    #[arg(value_name = "DEVICE")]
    device: Option<String>,
}

#[derive(Debug, Serialize)]
struct Report {
    devices: Vec<DeviceReport>,
}

pub(crate) fn run(args: &Args, session: &Session, out: &mut Output) -> Result<()> {
    let contexts = match &args.device {
        Some(name) => vec![session.open(Some(name))?],
        None => session.open_all()?,
    };
    let mut netlink = netlink::Client::connect().ok();
    let verbose = args.verbose || args.json;
    let reports = contexts
        .iter()
        .map(|context| DeviceReport::of(context, args.port, netlink.as_mut(), verbose))
        .collect::<Result<Vec<_>>>()?;
    if args.json {
        return out.json(&Report { devices: reports });
    }
    out.at_once(|out| {
        for (at, report) in reports.iter().enumerate() {
            if at > 0 {
                out.line("")?;
            }
            text::write(report, args.verbose, out)?;
        }
        Ok(())
    })
}
