//! Hardware counters.

use uverbs_uapi::rdma_netlink::{
    RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY, RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_NAME,
    RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_VALUE, RDMA_NLDEV_ATTR_STAT_HWCOUNTERS,
};

use super::{Attributes, Malformed};

/// A counter of a port or a device, by the driver's name for it.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Counter {
    /// `rcvd_pkts`, `port_xmit_data`, …
    pub name: String,
    /// Its value; the driver defines the unit.
    pub value: u64,
}

impl Counter {
    pub(crate) fn new(name: String, value: u64) -> Self {
        Self { name, value }
    }

    fn parse(attributes: Attributes<'_>) -> Result<Self, Malformed> {
        let (mut name, mut number) = (None, None);
        for attribute in attributes.iter() {
            let (kind, value) = attribute?;
            match kind {
                RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_NAME => name = Some(value.text()?),
                RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_VALUE => number = Some(value.number()?),
                _ => {}
            }
        }
        match (name, number) {
            (Some(name), Some(value)) => Ok(Self { name, value }),
            _ => Err(Malformed("a counter without name or value")),
        }
    }
}

/// Parses the counters in a `RDMA_NLDEV_CMD_STAT_GET` answer.
///
/// # Errors
/// [`Malformed`] if a counter has no name or value, or an attribute cannot be parsed.
pub fn parse_counters(attributes: Attributes<'_>) -> Result<Vec<Counter>, Malformed> {
    let mut counters = Vec::new();
    for table in attributes.all(RDMA_NLDEV_ATTR_STAT_HWCOUNTERS) {
        for entry in table?.nest().all(RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY) {
            counters.push(Counter::parse(entry?.nest())?);
        }
    }
    Ok(counters)
}
