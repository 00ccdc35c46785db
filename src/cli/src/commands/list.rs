//! `uverbs list`.

use serde::Serialize;
use uverbs::Device;
use uverbs::discover::{Access, Source};

use crate::failure::Result;
use crate::output::{Output, Table};
use crate::session::no_devices;

/// List the RDMA devices of this machine, including those that cannot be opened
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  uverbs list\n  uverbs list --json | jq -r '.devices[].name'")]
pub(crate) struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Report {
    devices: Vec<Row>,
}

#[derive(Debug, Serialize)]
struct Row {
    name: String,
    node: Option<String>,
    node_guid: Option<String>,
    node_type: Option<String>,
    driver: Option<String>,
    abi_version: Option<u32>,
    protocol: Option<String>,
    ports: Option<u32>,
    firmware: Option<String>,
    found_by: &'static str,
    usable: bool,
    reason: Option<String>,
}

pub(crate) fn run(args: &Args, out: &mut Output) -> Result<()> {
    let rows: Vec<Row> = uverbs::devices()?.iter().map(Row::of).collect();
    if args.json {
        return out.json(&Report { devices: rows });
    }
    if rows.is_empty() {
        return Err(no_devices());
    }
    let mut table = Table::new(&[
        "DEVICE",
        "DRIVER",
        "PROTOCOL",
        ">PORTS",
        "NODE GUID",
        "NODE",
        "USABLE",
    ]);
    for row in rows {
        let or_dash = |cell: Option<String>| cell.unwrap_or_else(|| "-".to_owned());
        table.row([
            row.name,
            or_dash(row.driver),
            or_dash(row.protocol),
            or_dash(row.ports.map(|ports| ports.to_string())),
            or_dash(row.node_guid),
            or_dash(row.node),
            row.reason
                .map_or_else(|| "yes".to_owned(), |reason| format!("no: {reason}")),
        ]);
    }
    out.line(table)
}

impl Row {
    fn of(device: &Device) -> Self {
        let info = device.info();
        let refused = match &info.access {
            Access::Refused(error) => Some(error.to_string()),
            Access::Openable | Access::Unchecked => device
                .check_supported()
                .err()
                .map(|error| error.to_string()),
        };
        Self {
            name: info.name.clone(),
            node: info.path.as_ref().map(|path| path.display().to_string()),
            node_guid: info.node_guid.map(|guid| guid.to_string()),
            node_type: info.node_type.map(|kind| kind.to_string()),
            driver: info.driver_id().map(|driver| driver.to_string()),
            abi_version: info.abi_version,
            protocol: info.protocol.clone(),
            ports: info.ports,
            firmware: info.fw_version.clone(),
            found_by: match info.source {
                Source::Netlink => "netlink",
                Source::Sysfs => "sysfs",
                Source::DevOnly => "device node",
            },
            usable: refused.is_none(),
            reason: refused,
        }
    }
}
