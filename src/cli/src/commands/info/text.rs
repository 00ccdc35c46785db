//! A device as text.

use std::collections::BTreeMap;
use std::fmt::Display;

use super::report::{DeviceReport, PortReport};
use crate::failure::Result;
use crate::output::{Output, Table};
use crate::units;

pub(super) fn write(report: &DeviceReport, verbose: bool, out: &mut Output) -> Result<()> {
    out.line(&report.name)?;
    let mut facts = Facts { indent: 2, out };
    facts.maybe("node", report.node.as_ref())?;
    facts.maybe("driver", report.driver.as_ref())?;
    facts.maybe("protocol", report.protocol.as_ref())?;
    facts.maybe("node type", report.node_type.as_ref())?;
    facts.fact("firmware", &report.firmware)?;
    facts.fact("node guid", &report.node_guid)?;
    facts.fact("system image guid", &report.sys_image_guid)?;
    facts.maybe("board id", report.board_id.as_ref())?;
    facts.maybe("description", report.node_description.as_ref())?;
    facts.fact("vendor", format_args!("{:#06x}", report.vendor_id))?;
    facts.fact("part", report.vendor_part_id)?;
    facts.fact(
        "hardware version",
        format_args!("{:#x}", report.hardware_version),
    )?;
    facts.fact("completion vectors", report.completion_vectors)?;
    if verbose {
        facts.maybe("transport", report.transport.as_ref())?;
        facts.maybe("kernel interface version", report.abi_version)?;
        facts.list("capabilities", &report.capabilities)?;
        facts.fact("atomics", &report.atomics)?;
        let odp = &report.on_demand_paging;
        facts.fact("on-demand paging", &odp.general)?;
        for (transport, caps) in [
            ("rc", &odp.rc),
            ("uc", &odp.uc),
            ("ud", &odp.ud),
            ("xrc", &odp.xrc),
        ] {
            facts.fact(&format!("on-demand paging, {transport}"), caps)?;
        }
        for limit in &report.limits {
            let hexadecimal = matches!(limit.unit, Some("bit mask" | "bit set of sizes"));
            let value = if hexadecimal {
                format!("{:#x}", limit.value)
            } else {
                limit.value.to_string()
            };
            let unit = limit.unit.map(|unit| format!(" ({unit})"));
            facts.fact(
                limit.name,
                format_args!("{value}{}", unit.unwrap_or_default()),
            )?;
        }
        if let Some(mlx5) = &report.mlx5 {
            mlx5.write(&mut facts)?;
        }
        facts.counts("in use", &report.in_use)?;
        facts.counts("counters", &report.counters)?;
    }
    for port in &report.ports {
        write_port(port, verbose, out)?;
    }
    Ok(())
}

fn write_port(port: &PortReport, verbose: bool, out: &mut Output) -> Result<()> {
    out.line(format_args!("  port {}", port.number))?;
    let mut facts = Facts { indent: 4, out };
    facts.fact(
        "state",
        format_args!("{} (physical: {})", port.state, port.physical_state),
    )?;
    facts.fact("link layer", &port.link_layer)?;
    facts.maybe("netdev", port.netdev.as_ref())?;
    match port.gbps {
        Some(gbps) => facts.fact(
            "speed",
            format_args!("{gbps} Gb/s ({} · {})", port.width, port.lane_speed),
        )?,
        None => facts.fact(
            "speed",
            format_args!("{} · {}", port.width, port.lane_speed),
        )?,
    }
    let mtu = |bytes: Option<u32>| bytes.map_or_else(|| "unknown".to_owned(), |n| n.to_string());
    facts.fact(
        "mtu",
        format_args!("{} of {} bytes", mtu(port.active_mtu), mtu(port.max_mtu)),
    )?;
    if port.link_layer != "ethernet" || verbose {
        facts.fact("lid", port.lid)?;
        facts.fact("lid mask bits", port.lmc)?;
        facts.fact(
            "subnet manager",
            format_args!("lid {}, sl {}", port.sm_lid, port.sm_sl),
        )?;
    }
    if verbose {
        facts.fact(
            "largest message",
            units::bytes(port.max_message_bytes.into()),
        )?;
        facts.fact("virtual lanes", &port.virtual_lanes)?;
        facts.fact("subnet timeout", port.subnet_timeout)?;
        facts.fact("init type reply", port.init_type_reply)?;
        facts.fact("bad partition keys", port.bad_pkeys)?;
        facts.fact("bad queue keys", port.qkey_violations)?;
        facts.fact("global route required", port.global_route_required)?;
        facts.list("capabilities", &port.capabilities)?;
        facts.list("capabilities 2", &port.capabilities2)?;
        facts.fact("gid table", format_args!("{} places", port.gid_table_size))?;
        facts.fact(
            "pkey table",
            format_args!("{} places", port.pkey_table_size),
        )?;
        for key in &port.pkeys {
            facts.fact(
                &format!("pkey {}", key.index),
                format_args!("{:#06x}", key.pkey),
            )?;
        }
        facts.counts("counters", &port.counters)?;
    }
    if port.gids.is_empty() {
        return facts.fact("gids", "none");
    }
    let mut table = Table::new(&[">GID", "ADDRESS", "TYPE", "NETDEV"]).indented(4);
    for entry in &port.gids {
        table.row([
            entry.index.to_string(),
            entry.gid.clone(),
            entry.kind.clone(),
            entry.netdev.clone().unwrap_or_else(|| "-".to_owned()),
        ]);
    }
    out.line(table)
}

/// Lines of a name and a value.
pub(super) struct Facts<'o> {
    indent: usize,
    out: &'o mut Output,
}

impl Facts<'_> {
    pub(super) fn fact(&mut self, name: &str, value: impl Display) -> Result<()> {
        let width = 34_usize.saturating_sub(self.indent);
        self.out.line(format_args!(
            "{:indent$}{name:<width$}{value}",
            "",
            indent = self.indent
        ))
    }

    pub(super) fn maybe(&mut self, name: &str, value: Option<impl Display>) -> Result<()> {
        value.map_or(Ok(()), |value| self.fact(name, value))
    }

    pub(super) fn list(&mut self, name: &str, words: &[String]) -> Result<()> {
        let mut name = name;
        if words.is_empty() {
            return self.fact(name, "none");
        }
        for word in words {
            self.fact(std::mem::take(&mut name), word)?;
        }
        Ok(())
    }

    fn counts(&mut self, name: &str, counts: &BTreeMap<String, u64>) -> Result<()> {
        let mut name = name;
        for (what, count) in counts {
            self.fact(std::mem::take(&mut name), format_args!("{what} {count}"))?;
        }
        Ok(())
    }
}
