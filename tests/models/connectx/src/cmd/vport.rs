//! Port attributes: InfiniBand and Ethernet vport contexts, GIDs, partition keys and RoCE
//! addresses.

use super::Command;
use crate::layout::transport::{hca_vport, nic_vport};
use crate::layout::{Field, Wide, field, put, word};
use crate::misbehaviour::Misbehaviour;
use crate::profile::limit;
use crate::status::{Outcome, Rule, require};

const CONTEXT: usize = 0x10;
const CONTEXT_LEN: usize = 512;
const GID_INDEX: Field = field(0x0c, 15, 0);
const GID_COUNT: Field = field(0x0c, 31, 16);
const PKEY_INDEX: Field = field(0x0c, 15, 0);
const PKEY_ALL: u32 = 0xffff;
const ROCE_INDEX: Field = field(0x08, 31, 16);
const ROCE_LEN: usize = 32;
/// Entries of the GID table: code 0 of the capability.
const GIDS: u32 = 8;
/// Entries of the partition key table: the driver always sets code 0.
const PKEYS: u32 = 128;
/// Extended port info, automatic migration, system image GUID, communication management and the
/// client reregistration bit are not claimed; the driver adds its own bits by
/// MODIFY_HCA_VPORT_CONTEXT.
const CAP_MASK1: u32 = 1 << 11;

/// QUERY_HCA_VPORT_CONTEXT.
pub(super) fn query_context(command: &mut Command<'_>) -> Outcome {
    let device = &*command.device;
    let mut context = vec![0; CONTEXT_LEN];
    let up = device.link_up || device.does(Misbehaviour::PortStays);
    let (physical, logical) = if up { (5, 4) } else { (3, 1) };
    hca_vport::HAS_SMI.set(&mut context, 1);
    hca_vport::PHYSICAL_STATE.set(&mut context, physical);
    hca_vport::PORT_STATE.set(&mut context, logical);
    hca_vport::VPORT_STATE.set(&mut context, logical);
    for guid in [
        hca_vport::SYSTEM_GUID,
        hca_vport::PORT_GUID,
        hca_vport::NODE_GUID,
    ] {
        guid.set(&mut context, device.config.guid);
    }
    hca_vport::CAP_MASK1.set(&mut context, CAP_MASK1 | device.cap_mask1);
    hca_vport::CAP_MASK1_SELECT.set(&mut context, u32::MAX);
    if !device.does(Misbehaviour::NoLid) {
        hca_vport::LID.set(&mut context, u32::from(device.config.lid));
    }
    hca_vport::SUBNET_TIMEOUT.set(&mut context, 18);
    hca_vport::SM_LID.set(&mut context, u32::from(device.sm_lid));
    command.reply_context(CONTEXT, &context);
    Ok(())
}

/// MODIFY_HCA_VPORT_CONTEXT: capability bits are kept; everything else is for the subnet manager to
/// decide.
pub(super) fn modify_context(command: &mut Command<'_>) -> Outcome {
    let context = command.context(CONTEXT, CONTEXT_LEN);
    let select = hca_vport::CAP_MASK1_SELECT.get(&context);
    let value = hca_vport::CAP_MASK1.get(&context);
    let device = &mut *command.device;
    // Bit 16 of the field select: the capability mask.
    if hca_vport::FIELD_SELECT.get(&context) != 0 {
        device.cap_mask1 = device.cap_mask1 & !select | value & select;
    }
    Ok(())
}

/// QUERY_HCA_VPORT_GID: the default GID at index 0.
pub(super) fn query_gid(command: &mut Command<'_>) -> Outcome {
    let index = command.get(GID_INDEX);
    let gid = match index {
        0 | 0xffff => command.device.config.gid(),
        1..GIDS => [0; 16],
        _ => return Err(Rule::OutOfRange.refuse()),
    };
    command.set(GID_COUNT, if index == 0xffff { GIDS } else { 1 });
    put(command.output, CONTEXT, &gid);
    Ok(())
}

/// QUERY_HCA_VPORT_PKEY: the full-member default key at index 0, the rest invalid.
pub(super) fn query_pkey(command: &mut Command<'_>) -> Outcome {
    let index = command.get(PKEY_INDEX);
    require(index == PKEY_ALL || index < PKEYS, Rule::OutOfRange)?;
    if (index == 0 || index == PKEY_ALL) && !command.device.does(Misbehaviour::NoPartition) {
        command.set(field(CONTEXT, 15, 0), 0xffff);
    }
    Ok(())
}

/// QUERY_NIC_VPORT_CONTEXT.
pub(super) fn query_nic(command: &mut Command<'_>) -> Outcome {
    let context = command.device.nic_vport.clone();
    command.reply_context(CONTEXT, &context);
    Ok(())
}

/// MODIFY_NIC_VPORT_CONTEXT: takes the fields in the selection mask that the model keeps.
pub(super) fn modify_nic(command: &mut Command<'_>) -> Outcome {
    /// The context is at the end of a command with a long reserved part.
    const AT: usize = 0x100;
    const SELECT: Field = word(0x0c);
    const SELECT_ROCE: u32 = 1 << 1;
    const SELECT_MTU: u32 = 1 << 6;
    let select = command.get(SELECT);
    let context = command.context(AT, nic_vport::LEN);
    if select & SELECT_ROCE != 0 {
        nic_vport::ROCE_ENABLE.copy(&context, &mut command.device.nic_vport);
    }
    if select & SELECT_MTU != 0 {
        nic_vport::MTU.copy(&context, &mut command.device.nic_vport);
    }
    Ok(())
}

/// QUERY_VPORT_STATE.
pub(super) fn query_state(command: &mut Command<'_>) -> Outcome {
    let up = u32::from(command.device.link_up);
    command.set(field(0x0c, 7, 4), 1);
    command.set(field(0x0c, 3, 0), up);
    Ok(())
}

/// SET_ROCE_ADDRESS; an all-zero address frees the entry.
pub(super) fn set_roce_address(command: &mut Command<'_>) -> Outcome {
    let index = command.get(ROCE_INDEX);
    require(index < limit::ROCE_ADDRESSES, Rule::OutOfRange)?;
    let address = command.context(CONTEXT, ROCE_LEN);
    if (Wide(0).get(&address), Wide(8).get(&address)) == (0, 0) {
        command.device.roce_addresses.remove(&index);
    } else {
        command.device.roce_addresses.insert(index, address);
    }
    Ok(())
}

/// QUERY_ROCE_ADDRESS.
pub(super) fn query_roce_address(command: &mut Command<'_>) -> Outcome {
    let index = command.get(ROCE_INDEX);
    let address = command
        .device
        .roce_addresses
        .get(&index)
        .cloned()
        .unwrap_or_else(|| vec![0; ROCE_LEN]);
    command.reply_context(CONTEXT, &address);
    Ok(())
}

/// MAD_IFC: the port's management agent, which supports no attribute; what the driver queries here
/// is a vendor extension, for which "not supported" is a regular answer.
pub(super) fn management(command: &mut Command<'_>) -> Outcome {
    const MAD: usize = 256;
    const METHOD: Field = field(0x00, 7, 0);
    const STATUS: Field = field(0x04, 31, 16);
    const RESPONSE: u32 = 0x81;
    const UNSUPPORTED: u32 = 0x000c;
    let mut mad = command.context(CONTEXT, MAD);
    METHOD.set(&mut mad, RESPONSE);
    STATUS.set(&mut mad, UNSUPPORTED);
    command.reply_context(CONTEXT, &mad);
    Ok(())
}
