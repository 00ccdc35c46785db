//! Keys of data: general objects.

use super::Command;
use crate::encryption::DataKey;
use crate::layout::command::{NUMBER32, op};
use crate::layout::{Field, bit, field};
use crate::status::{Outcome, Rule, require};

/// The type of such objects.
pub(super) const TYPE: u32 = 0x0c;

const AT: usize = 0x10;
const LENGTH: usize = 0x100;
const SIZE: Field = field(AT + 0x08, 11, 8);
const TAGGED: Field = bit(AT + 0x08, 7);
const PURPOSE: Field = field(AT + 0x08, 3, 0);
const PD: Field = field(AT + 0x0c, 23, 0);
const KEY: usize = AT + 0x40;
const AES_XTS: u32 = 3;

/// A command about one. A key is imported as it is, not wrapped.
pub(super) fn run(command: &mut Command<'_>, opcode: u16) -> Outcome {
    require(command.device.config.encryption, Rule::ElementType)?;
    let id = command.get(NUMBER32);
    match opcode {
        op::CREATE_GENERAL_OBJECT => {
            let pd = command.get(PD);
            command.device.pds.shared(pd, command.uid)?;
            require(command.get(PURPOSE) == AES_XTS, Rule::OutOfRange)?;
            let length = match command.get(SIZE) {
                0 => 32,
                1 => 64,
                _ => return Err(Rule::BadSize.refuse()),
            };
            let mut tag = [0; 8];
            tag.copy_from_slice(&command.context(KEY + length, 8));
            let key = DataKey {
                pd,
                key: command.context(KEY, length),
                tag: (command.get(TAGGED) != 0).then_some(tag),
                object: command.context(AT, LENGTH),
            };
            let id = command.device.data_keys.add(command.uid, key)?;
            command.set(NUMBER32, id);
            Ok(())
        }
        op::QUERY_GENERAL_OBJECT => {
            let mut object = command.device.data_keys.of(id, command.uid)?.object.clone();
            // The key itself is not told.
            object[KEY - AT..].fill(0);
            command.set(NUMBER32, id);
            command.reply_context(AT, &object);
            Ok(())
        }
        op::DESTROY_GENERAL_OBJECT => {
            command.device.data_keys.take(id, command.uid)?;
            command.set(NUMBER32, id);
            Ok(())
        }
        _ => Err(Rule::ElementType.refuse()),
    }
}
