//! Commands that bring the function up and down and that describe it.

use super::Command;
use crate::layout::caps::{atomic, general};
use crate::layout::transport::adapter;
use crate::layout::{Field, field, put, word};
use crate::misbehaviour::Misbehaviour;
use crate::profile::{PAGE, cap_type, limit};
use crate::status::{Outcome, Rule, require};

const CURRENT_ISSI: Field = field(0x08, 15, 0);
const SUPPORTED_ISSI: Field = word(0x6c);
const NUM_PAGES: Field = word(0x0c);
const CAPABILITY: usize = 0x10;
const ADAPTER: usize = 0x10;

/// ENABLE_HCA.
pub(super) fn enable(command: &mut Command<'_>) -> Outcome {
    command.device.hca_enabled = true;
    Ok(())
}

/// DISABLE_HCA: reports every object that the driver left behind.
pub(super) fn disable(command: &mut Command<'_>) -> Outcome {
    command.device.hca_enabled = false;
    let left: Vec<String> = command
        .device
        .census()
        .into_iter()
        .filter(|(_, count)| *count != 0)
        .map(|(kind, count)| format!("{count} {kind}"))
        .collect();
    if !left.is_empty() {
        command
            .device
            .report("objects left at DISABLE_HCA", &left.join(", "));
    }
    Ok(())
}

/// TEARDOWN_HCA: forgets what SET_HCA_CAP negotiated.
pub(super) fn teardown(command: &mut Command<'_>) -> Outcome {
    command.device.set_caps.clear();
    Ok(())
}

/// QUERY_ISSI: interface step 0 and 1.
pub(super) fn query_issi(command: &mut Command<'_>) -> Outcome {
    command.set(CURRENT_ISSI, 0);
    command.set(SUPPORTED_ISSI, 3);
    Ok(())
}

/// QUERY_PAGES: the model needs no host memory.
pub(super) fn query_pages(command: &mut Command<'_>) -> Outcome {
    command.set(NUM_PAGES, 0);
    Ok(())
}

/// QUERY_HCA_CAP: the advertised page, or the one in force.
pub(super) fn query_cap(command: &mut Command<'_>) -> Outcome {
    let kind = command.modifier >> 1;
    let current = command.modifier & 1 != 0;
    let advertised = command.device.config.capabilities(kind);
    let page = match command.device.set_caps.get(&kind).filter(|_| current) {
        Some(set) if kind == cap_type::GENERAL => {
            let mut page = set.clone();
            // Fields that a driver cannot enable by writing them back.
            for field in [
                general::CQE_VERSION,
                general::LOG_MAX_UCTX,
                general::UMR_SIZE_DISABLED,
            ] {
                field.copy(&advertised, &mut page);
            }
            page
        }
        Some(set) if kind == cap_type::ATOMIC => {
            // The driver sends the one field it may choose, and zeros for the rest.
            let mut page = advertised;
            atomic::ENDIANNESS.copy(set, &mut page);
            page
        }
        _ => advertised,
    };
    let hides = command.uid != 0 && command.device.does(Misbehaviour::NoCapabilities);
    let shown: &[u8] = if hides { &[] } else { &page };
    command.reply_context(CAPABILITY, shown);
    Ok(())
}

/// SET_HCA_CAP: remembers the page.
pub(super) fn set_cap(command: &mut Command<'_>) -> Outcome {
    require(command.input.len() > CAPABILITY, Rule::TooShort)?;
    // The driver writes the type shifted as in the query, with the lowest bit 0.
    let kind = command.modifier >> 1;
    require(kind < limit::CAP_TYPES, Rule::OutOfRange)?;
    let page = command.context(CAPABILITY, PAGE);
    command.device.set_caps.insert(kind, page);
    Ok(())
}

/// QUERY_ADAPTER: vendor and board identification.
pub(super) fn query_adapter(command: &mut Command<'_>) -> Outcome {
    adapter::VENDOR.at(ADAPTER).set(command.output, 0x2c9);
    put(command.output, ADAPTER + adapter::PSID, b"MT_MODEL00000001");
    Ok(())
}
