//! ACCESS_REG: the registers that the stock drivers read.

use super::Command;
use crate::layout::{Field, field, put, word};
use crate::status::{Outcome, Rule};

const ID: Field = field(0x08, 15, 0);
const DATA: usize = 0x10;

const NODE_DESCRIPTION: u32 = 0x6001;
const HOST_ENDIANNESS: u32 = 0x7004;
const PMTU: u32 = 0x5003;
const PTYS: u32 = 0x5004;
const PAOS: u32 = 0x5006;
const PVLC: u32 = 0x500f;
/// Port counters; the model keeps none per port, so they stay at zero.
const PPCNT: u32 = 0x5008;

/// Physical MTU in bytes: three 16-bit fields.
mod pmtu {
    use super::{Field, field};
    pub(super) const MAX: Field = field(0x04, 31, 16);
    pub(super) const ADMIN: Field = field(0x08, 31, 16);
    pub(super) const OPERATIONAL: Field = field(0x0c, 31, 16);
}

/// Port type and speed.
mod ptys {
    use super::{Field, field, word};
    pub(super) const ETH_CAPABLE: Field = word(0x0c);
    pub(super) const IB_CAPABLE: Field = word(0x10);
    pub(super) const ETH_ADMIN: Field = word(0x18);
    pub(super) const IB_ADMIN: Field = word(0x1c);
    pub(super) const ETH_OPERATIONAL: Field = word(0x24);
    pub(super) const IB_WIDTH: Field = field(0x28, 31, 16);
    pub(super) const IB_SPEED: Field = field(0x28, 15, 0);
}

/// EDR, the speed of a ConnectX-5 port, and the four-lane width.
const IB_EDR: u32 = 0x20;
const IB_4X: u32 = 0x4;
/// 100GBASE-CR4 in the Ethernet protocol mask.
const ETH_100G: u32 = 1 << 20;

/// ACCESS_REG.
pub(super) fn access(command: &mut Command<'_>) -> Outcome {
    let id = command.get(ID);
    if command.modifier == 0 {
        return write(command, id);
    }
    let out = |field: Field| field.at(DATA);
    let ethernet = command.device.config.kind.is_ethernet();
    match id {
        NODE_DESCRIPTION => put(
            command.output,
            DATA,
            format!("connectx model {}", command.device.index).as_bytes(),
        ),
        PMTU => {
            let mtu = if ethernet { 9216 } else { 4096 };
            for field in [pmtu::MAX, pmtu::ADMIN, pmtu::OPERATIONAL] {
                command.set(out(field), mtu);
            }
        }
        PTYS if ethernet => {
            for field in [ptys::ETH_CAPABLE, ptys::ETH_ADMIN, ptys::ETH_OPERATIONAL] {
                command.set(out(field), ETH_100G);
            }
        }
        PTYS => {
            for field in [ptys::IB_CAPABLE, ptys::IB_ADMIN] {
                command.set(out(field), IB_4X << 16 | IB_EDR);
            }
            command.set(out(ptys::IB_WIDTH), IB_4X);
            command.set(out(ptys::IB_SPEED), IB_EDR);
        }
        PAOS => {
            let state = if command.device.link_up { 1 } else { 2 };
            command.set(out(word(0x00)), 0x0100 | state);
        }
        // Four data virtual lanes.
        PVLC => command.set(out(field(0x04, 3, 0)), 4),
        HOST_ENDIANNESS | PPCNT => {}
        _ => return Err(Rule::Register.refuse()),
    }
    Ok(())
}

/// Register writes: accepted where the driver needs that, without effect on the model.
fn write(command: &mut Command<'_>, id: u32) -> Outcome {
    match id {
        HOST_ENDIANNESS | NODE_DESCRIPTION | PMTU | PTYS | PAOS => {
            let data = command.context(DATA, command.input.len().saturating_sub(DATA));
            command.reply_context(DATA, &data);
            Ok(())
        }
        _ => Err(Rule::Register.refuse()),
    }
}
