//! Memory key commands.

use super::Command;
use crate::device_memory::{bus_address, steering_bus_address};
use crate::layout::command::{self, CTX, PAS};
use crate::layout::queue::mkey;
use crate::layout::{Field, be32, be64, word};
use crate::memory_key::{Mode, NOWHERE_KEY, NULL_KEY, READABLE, WRITABLE, mode};
use crate::objects::{Indirect, MemoryKey, Translation};
use crate::signature::BSF;
use crate::status::{Outcome, Rule, require};

/// CREATE_MKEY.
pub(super) fn create(command: &mut Command<'_>) -> Outcome {
    let context = command.context(CTX, mkey::LEN);
    let free = mkey::FREE.is_set(&context);
    let mode = mode(&context).ok_or(Rule::AccessMode.refuse())?;
    let encrypted = mkey::ENCRYPTED.get(&context);
    let formats = usize::from(encrypted != 0);
    if mkey::SIGNED.is_set(&context) {
        // With room for each byte stream format, which a request has to set.
        let room = mkey::BSF_OCTOWORDS.get(&context) as usize * 16;
        let signs = room == (formats + 1) * BSF;
        require(signs || formats != 0 && room == BSF, Rule::Reserved)?;
        require(!signs || command.device.config.signatures, Rule::Reserved)?;
        require(mode == Mode::Keys && free, Rule::Reserved)?;
        require(encrypted <= 1, Rule::Reserved)?;
        require(
            formats == 0 || command.device.config.encryption,
            Rule::Reserved,
        )?;
    } else {
        require(encrypted == 0, Rule::Reserved)?;
    }
    if !free {
        command
            .device
            .pds
            .shared(mkey::PD.get(&context), command.uid)?;
    }
    let translation = translation(command, &context, mode)?;
    let number = command.device.mkeys.add(
        command.uid,
        MemoryKey {
            context,
            translation,
            bsf: None,
            errors: 0,
        },
    )?;
    command.reply(number);
    Ok(())
}

fn translation(command: &Command<'_>, context: &[u8], mode: Mode) -> Outcome<Translation> {
    if command::mkey::UMEM_VALID.is_set(command.input) {
        let umem = command
            .device
            .umems
            .of(command.get(command::mkey::UMEM_ID), command.uid)?;
        let offset = command.get64(command::mkey::UMEM_OFFSET);
        umem.part(offset, mkey::LENGTH.get(context).min(umem.length()))?;
        return Ok(Translation::Umem(umem.clone(), offset));
    }
    let octowords = u64::from(command.get(command::mkey::ACTUAL_OCTOWORDS));
    let room = command.input.len().saturating_sub(PAS) as u64;
    match mode {
        Mode::Physical => Ok(Translation::Physical),
        Mode::Device => {
            let (start, length) = (mkey::START.get(context), mkey::LENGTH.get(context));
            require(
                command.device.memory_taken.hold(start, length),
                Rule::OutOfRange,
            )?;
            let at = bus_address(start).ok_or(Rule::OutOfRange.refuse())?;
            Ok(Translation::Device(at))
        }
        Mode::Steering => {
            let (start, length) = (mkey::START.get(context), mkey::LENGTH.get(context));
            let mut parts = command.device.steering_memory.iter();
            let held = parts.any(|(_, part)| part.holds(start, length));
            require(held, Rule::OutOfRange)?;
            let at = steering_bus_address(start).ok_or(Rule::OutOfRange.refuse())?;
            Ok(Translation::Device(at))
        }
        Mode::Pages => {
            require(mkey::LOG_PAGE.get(context) <= 40, Rule::BadSize)?;
            if octowords == 0 {
                return Ok(Translation::Pages(Vec::new()));
            }
            require(octowords <= room.div_ceil(16), Rule::PageList)?;
            let count = (octowords * 2).min(room / 8) as usize;
            // Without this bit the entries are plain addresses.
            let paged =
                command.device.config.paging && command.get(command::mkey::PAGE_ACCESS) != 0;
            let rights = if paged { 0 } else { READABLE | WRITABLE };
            Ok(Translation::Pages(
                (0..count)
                    .map(|i| be64(command.input, PAS + i * 8) | rights)
                    .collect(),
            ))
        }
        Mode::Keys | Mode::FixedKeys => {
            require(octowords <= room / 16, Rule::PageList)?;
            Ok(Translation::Keys(
                (0..octowords as usize)
                    .map(|i| indirect(command.input, PAS + i * 16))
                    .collect(),
            ))
        }
    }
}

/// One indirect entry; in a list of fixed-size entries the length is meaningless.
pub(crate) fn indirect(bytes: &[u8], at: usize) -> Indirect {
    Indirect {
        length: u64::from(be32(bytes, at)),
        key: be32(bytes, at + 4),
        address: be64(bytes, at + 8),
    }
}

/// QUERY_SPECIAL_CONTEXTS: keys that the device provides itself.
pub(super) fn query_special(command: &mut Command<'_>) -> Outcome {
    const DUMP_FILL: Field = word(0x08);
    const NULL: Field = word(0x10);
    command.set(DUMP_FILL, NOWHERE_KEY);
    if command.device.config.paging {
        command.set(NULL, NULL_KEY);
    }
    Ok(())
}

/// QUERY_MKEY: the context and, for an indirect key, the list.
pub(super) fn query(command: &mut Command<'_>) -> Outcome {
    let key = command.device.mkeys.of(command.number(), command.uid)?;
    let context = key.context.clone();
    let list: Vec<u8> = match &key.translation {
        Translation::Keys(entries) => entries.iter().flat_map(listed).collect(),
        _ => Vec::new(),
    };
    command.reply_context(CTX, &context);
    command.reply_context(PAS, &list);
    Ok(())
}

/// An indirect entry as it was given.
fn listed(entry: &Indirect) -> Vec<u8> {
    let mut bytes = (entry.length as u32).to_be_bytes().to_vec();
    bytes.extend(entry.key.to_be_bytes());
    bytes.extend(entry.address.to_be_bytes());
    bytes
}

/// DESTROY_MKEY.
pub(super) fn destroy(command: &mut Command<'_>) -> Outcome {
    command
        .device
        .mkeys
        .take(command.number(), command.uid)
        .map(|_| ())
}
