//! What only mlx5 devices have.

use serde::Serialize;
use uverbs::mlx5::HashFields;
use uverbs::mlx5::caps::QpTypes;
use uverbs::mlx5::sched::Scheduler;
use uverbs::{Context, QpType};

use super::text::Facts;
use crate::failure::Result;
use crate::units;

#[derive(Debug, Serialize)]
pub(in crate::commands) struct Mlx5Report {
    /// How fast queue pairs may send.
    pacing: Option<Pacing>,
    /// Segmentation of long messages into frames by the device.
    segmentation: Option<Segmentation>,
    /// The fields of a frame that can select the queue which receives it.
    receive_hash_fields: Vec<String>,
    /// How many completions one compressed entry can stand for.
    compressed_completions: u32,
    /// Whether completion entries of 128 bytes are supported.
    padded_completions: bool,
    /// How many streams a DC initiator may have at once.
    dc_streams: u64,
    /// Whether firmware commands (DEVX) are available.
    firmware_commands: bool,
    scheduling: Option<Scheduling>,
}

#[derive(Debug, Serialize)]
struct Pacing {
    min_kbps: u32,
    max_kbps: u32,
    bursts: bool,
    queue_pairs: Vec<String>,
    /// How many different rates at once, if the firmware reports it.
    rates: Option<u16>,
}

#[derive(Debug, Serialize)]
struct Segmentation {
    max_payload_bytes: u32,
    queue_pairs: Vec<String>,
}

/// Elements of the scheduling tree.
#[derive(Debug, Serialize)]
struct Scheduling {
    shares: bool,
    max_share: Option<u32>,
    caps: bool,
    max_leaves: Option<u32>,
    /// What can be attached to leaves.
    attachable: Vec<String>,
}

impl Mlx5Report {
    /// `None` for a device with another driver. What the firmware refuses to report is left out.
    pub(in crate::commands) fn of(context: &Context) -> Option<Self> {
        let adapter = context.mlx5().ok()?;
        let caps = adapter.caps();
        let scheduler = adapter.scheduling().ok();
        let pacing = caps.pacing;
        Some(Self {
            pacing: (pacing.max_rate != 0).then(|| Pacing {
                min_kbps: pacing.min_rate,
                max_kbps: pacing.max_rate,
                bursts: pacing.burst,
                queue_pairs: kinds(pacing.qp_types),
                rates: scheduler.as_ref().map(|scheduler| scheduler.caps().rates),
            }),
            segmentation: (caps.tso.max_payload != 0).then(|| Segmentation {
                max_payload_bytes: caps.tso.max_payload,
                queue_pairs: kinds(caps.tso.qp_types),
            }),
            receive_hash_fields: HashFields::from_bits_retain(caps.rss_fields)
                .iter_names()
                .map(|(name, _)| name.to_lowercase().replace('_', " "))
                .collect(),
            compressed_completions: caps.max_compressed,
            padded_completions: caps.padded_entries,
            dc_streams: match caps.max_log_dci_streams {
                0 => 0,
                log => 1_u64.checked_shl(log.into()).unwrap_or(u64::MAX),
            },
            firmware_commands: adapter.devx().is_ok(),
            scheduling: scheduler.as_ref().and_then(scheduling),
        })
    }

    pub(super) fn write(&self, facts: &mut Facts<'_>) -> Result<()> {
        match &self.pacing {
            Some(pacing) => {
                let to = format_args!("{} to {} kb/s", pacing.min_kbps, pacing.max_kbps);
                facts.fact("pacing", to)?;
                facts.list("pacing, queue pairs", &pacing.queue_pairs)?;
                facts.fact("pacing, bursts", yes_or_no(pacing.bursts))?;
                facts.maybe("pacing, rates at once", pacing.rates)?;
            }
            None => facts.fact("pacing", "none")?,
        }
        match &self.scheduling {
            Some(scheduling) => {
                let up_to = |most: Option<u32>| {
                    most.map_or_else(String::new, |most| format!(", up to {most}"))
                };
                let shares = yes_or_no(scheduling.shares);
                facts.fact(
                    "scheduling, shares",
                    format_args!("{shares}{}", up_to(scheduling.max_share)),
                )?;
                facts.fact("scheduling, caps", yes_or_no(scheduling.caps))?;
                facts.maybe("scheduling, leaves", scheduling.max_leaves)?;
                facts.list("scheduling, attachable", &scheduling.attachable)?;
            }
            None => facts.fact("scheduling", "none")?,
        }
        facts.fact("firmware commands", yes_or_no(self.firmware_commands))?;
        match &self.segmentation {
            Some(segmentation) => {
                let most = units::bytes(segmentation.max_payload_bytes.into());
                facts.fact("segmentation", format_args!("up to {most}"))?;
                facts.list("segmentation, queue pairs", &segmentation.queue_pairs)?;
            }
            None => facts.fact("segmentation", "none")?,
        }
        facts.list("receive hash", &self.receive_hash_fields)?;
        facts.fact("compressed completions", self.compressed_completions)?;
        facts.fact("padded completions", yes_or_no(self.padded_completions))?;
        facts.fact("DC streams", self.dc_streams)
    }
}

fn scheduling(scheduler: &Scheduler) -> Option<Scheduling> {
    let (limits, caps) = (scheduler.limits(), scheduler.caps());
    let kinds = [
        (caps.nic_qp_scheduling, "queue pairs"),
        (caps.nic_sq_scheduling, "raw send queues"),
    ];
    limits.nodes.then(|| Scheduling {
        shares: limits.shares,
        max_share: limits.max_share,
        caps: limits.caps,
        max_leaves: limits.max_leaves,
        attachable: kinds
            .iter()
            .filter(|(can, _)| *can)
            .map(|(_, kind)| (*kind).to_owned())
            .collect(),
    })
}

fn kinds(types: QpTypes) -> Vec<String> {
    QpType::ALL
        .iter()
        .filter(|kind| types.contains(**kind))
        .map(ToString::to_string)
        .collect()
}

fn yes_or_no(has: bool) -> &'static str {
    if has { "yes" } else { "no" }
}
