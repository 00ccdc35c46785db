//! An adapter with known capabilities: a function modelled on it claims no more than the adapter
//! supports.
//!
//! `cargo xtask report FILE --to FOLDER` writes the pages of capabilities that `uverbs selftest`
//! found on an adapter. Features that the model has and the adapter lacks are cleared, and limits
//! are the lower of the two. Features that the adapter has and the model lacks stay cleared,
//! because the model could not provide them.

use std::collections::BTreeMap;
use std::path::Path;

use crate::layout::Field;
use crate::layout::caps::{general, qos};
use crate::profile::{PAGE, cap_type};

/// The capabilities of an adapter, by their type.
#[derive(Clone, Debug, Default)]
pub struct Adapter {
    pages: BTreeMap<u16, Vec<u8>>,
}

impl Adapter {
    /// Reads the pages of a folder.
    ///
    /// # Errors
    /// The folder has no pages, or they cannot be read.
    pub fn read(folder: &Path) -> Result<Self, String> {
        let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
        let mut pages = BTreeMap::new();
        for entry in std::fs::read_dir(folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let number = name
                .strip_prefix("capabilities-0x")
                .and_then(|rest| rest.strip_suffix(".bin"))
                .and_then(|digits| u16::from_str_radix(digits, 16).ok());
            if let Some(number) = number {
                let mut page = std::fs::read(entry.path()).map_err(failed)?;
                page.resize(PAGE, 0);
                pages.insert(number, page);
            }
        }
        if pages.contains_key(&cap_type::GENERAL) {
            Ok(Self { pages })
        } else {
            Err(format!("{}: no capabilities-0x0.bin", folder.display()))
        }
    }

    /// Clears in a page of the model whatever this adapter lacks.
    pub(crate) fn bound(&self, kind: u16, page: &mut [u8]) {
        let Some(own) = self.pages.get(&kind) else {
            return;
        };
        let fields: &[Field] = match kind {
            cap_type::GENERAL => GENERAL,
            cap_type::QOS => QOS,
            _ => &[],
        };
        for field in fields {
            field.set(page, field.get(page).min(field.get(own)));
        }
        if kind == cap_type::QOS {
            let least = qos::MIN_RATE.get(page).max(qos::MIN_RATE.get(own));
            qos::MIN_RATE.set(page, least);
            for mask in [qos::NIC_ELEMENT_TYPES, qos::NIC_TSAR_TYPES] {
                mask.set(page, mask.get(page) & mask.get(own));
            }
        }
    }
}

/// Capabilities and limits that a function may have less of. Those that a driver depends on are not
/// among them.
const GENERAL: &[Field] = &[
    general::LOG_MAX_SRQ_SIZE,
    general::LOG_MAX_QP_SIZE,
    general::LOG_MAX_QP,
    general::LOG_MAX_SRQ,
    general::LOG_MAX_CQ_SIZE,
    general::LOG_MAX_CQ,
    general::LOG_MAX_MKEY,
    general::DUMP_FILL_MKEY,
    general::LOG_MAX_KLM_LIST,
    general::QPC_EXTENSION,
    general::LOG_MAX_RA_REQ_DC,
    general::LOG_MAX_RA_RES_DC,
    general::LOG_MAX_RA_REQ_QP,
    general::LOG_MAX_RA_RES_QP,
    general::LOG_MAX_MSG,
    general::DCT,
    general::QOS,
    general::DEVICE_MEMORY,
    general::ATOMIC,
    general::CQ_IGNORE_OVERRUN,
    general::CQ_RESIZE,
    general::CQ_MODERATION,
    general::BLOCK_LOOPBACK_MC,
    general::MEMORY_WINDOWS,
    general::XRC,
    general::UD,
    general::UC,
    general::MAX_WQE_SQ,
    general::MAX_WQE_RQ,
    general::MAX_WQE_SQ_DC,
    general::LOG_MAX_TD,
    general::LOG_MAX_PD,
    general::LOG_MAX_XRCD,
    general::LOG_MAX_RQ,
    general::LOG_MAX_SQ,
    general::LOG_MAX_TIR,
    general::LOG_MAX_TIS,
    general::LOG_MAX_RMP,
    general::LOG_MAX_UCTX,
    general::LOG_MAX_UMEM,
    general::LONG_CQE_ALWAYS,
    general::LONG_COMPRESSION,
    general::COMPRESSION,
    general::MAX_COMPRESSED,
    general::ECE,
];

const QOS: &[Field] = &[
    qos::PACKET_PACING,
    qos::BURST_BOUND,
    qos::TYPICAL_SIZE,
    qos::NIC_SQ_SCHEDULING,
    qos::NIC_BW_SHARE,
    qos::NIC_RATE_LIMIT,
    qos::PACKET_PACING_UID,
    qos::NIC_QP_SCHEDULING,
    qos::PACKET_PACING_UD,
    qos::PACKET_PACING_UC,
    qos::LOG_MAX_QUEUE_GROUP,
    qos::MAX_RATE,
    qos::RATE_TABLE_SIZE,
    qos::MAX_BW_SHARE,
];

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::profile::{FunctionConfig, FunctionKind};
    use std::sync::Arc;

    #[test]
    fn a_function_claims_no_more_than_the_adapter_it_stands_for() {
        let mut config = FunctionConfig::numbered(FunctionKind::InfiniBand, 0);
        let mut general = config.capabilities(cap_type::GENERAL);
        general::LOG_MAX_QP.set(&mut general, 12);
        general::LOG_MAX_CQ.set(&mut general, 24);
        general::XRC.set(&mut general, 0);
        general::PAGE_REQUEST_DISABLE.set(&mut general, 0);
        let folder = std::env::temp_dir().join(format!("adapter-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        assert!(Adapter::read(&folder).is_err());
        std::fs::write(folder.join("capabilities-0x0.bin"), &general).unwrap();
        let adapter = Adapter::read(&folder).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        let own = config.capabilities(cap_type::GENERAL);
        config.adapter = Some(Arc::new(adapter));
        let page = config.capabilities(cap_type::GENERAL);
        assert_eq!(general::LOG_MAX_QP.get(&page), 12);
        assert!(!general::XRC.is_set(&page));
        // No more than the model supports, and what its driver needs.
        assert_eq!(
            general::LOG_MAX_CQ.get(&page),
            general::LOG_MAX_CQ.get(&own)
        );
        assert!(general::PAGE_REQUEST_DISABLE.is_set(&page));
    }
}
