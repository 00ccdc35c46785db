//! `uverbs doctor`.

mod addresses;
mod devices;
mod finding;
mod kernel;
mod limits;
mod loopback;
mod nodes;

use serde::Serialize;

use crate::failure::{FAILED, Failure, Result};
use crate::output::Output;
use crate::session::Session;
use finding::{Finding, Status};

/// Find out what keeps RDMA from working here, and what to type
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Each finding is ok, warn or fail. The exit code is 1 if anything fails.\n\nExamples:\n  uverbs doctor\n  uverbs doctor --json | jq '.findings[] | select(.status != \"ok\")'\n  uverbs doctor -d mlx5_0"
)]
pub(crate) struct Args {
    /// Check this device only
    #[arg(short = 'd', long, value_name = "DEVICE")]
    device: Option<String>,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Report<'a> {
    findings: &'a [Finding],
}

pub(crate) fn run(args: &Args, session: &Session, out: &mut Output) -> Result<()> {
    let mut findings = kernel::look();
    findings.extend(limits::look());
    let devices = uverbs::devices();
    findings.extend(nodes::look(&devices, args.device.as_deref()));
    if let Ok(devices) = &devices {
        for device in devices {
            if args
                .device
                .as_deref()
                .is_none_or(|name| name == device.name())
            {
                findings.extend(devices::look(device, session));
            }
        }
        findings.extend(addresses::look(devices, session));
    }
    if args.json {
        out.json(&Report {
            findings: &findings,
        })?;
    } else {
        write(&findings, out)?;
    }
    if findings
        .iter()
        .any(|finding| finding.status == Status::Fail)
    {
        return Err(Failure::Reported(FAILED));
    }
    Ok(())
}

fn write(findings: &[Finding], out: &mut Output) -> Result<()> {
    for finding in findings {
        out.line(finding)?;
    }
    let count = |status| {
        findings
            .iter()
            .filter(|finding| finding.status == status)
            .count()
    };
    out.line(format_args!(
        "{} ok, {} to look at, {} failed",
        count(Status::Ok),
        count(Status::Warn),
        count(Status::Fail)
    ))
}
