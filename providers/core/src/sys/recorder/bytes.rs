//! Names for bytes that were recorded elsewhere: calls of another program, or a capture in a file.

use uverbs_uapi::ib_user_verbs::IB_USER_VERBS_CMD_FLAG_EXTENDED;
use uverbs_uapi::names;

use super::fields;
use super::names::Name;
use super::record::{Attribute, Direction, Value};

/// A legacy command's name, by its number with the flag of extended commands.
pub fn command_name(number: u32) -> Name {
    let extended = number & IB_USER_VERBS_CMD_FLAG_EXTENDED != 0;
    let plain = number & !IB_USER_VERBS_CMD_FLAG_EXTENDED;
    Name::new(names::write_command(plain, extended), number)
}

/// The fields of a legacy command's request or reply, and how many of its bytes belong to the core;
/// `None` if the headers have no struct for it.
pub fn command_fields(
    command: &Name,
    reply: bool,
    bytes: &[u8],
) -> Option<(Vec<Attribute>, usize)> {
    let direction = if reply { Direction::Out } else { Direction::In };
    let size = fields::command_layout(command, reply)?.size;
    Some((fields::of_command(command, reply, bytes, direction)?, size))
}

/// The fields of a struct, by its name in the kernel's headers; `None` if they have no such struct.
pub fn struct_fields(name: &str, bytes: &[u8], direction: Direction) -> Option<Vec<Attribute>> {
    fields::of_struct(name, bytes, direction)
}

/// The fields of the struct that an attribute carries, by the attribute's name; `None` if it
/// carries no struct.
pub fn attribute_fields(
    attribute: &'static str,
    bytes: &[u8],
    direction: Direction,
) -> Option<Vec<Attribute>> {
    match fields::of_attribute(&Name::new(Some(attribute), 0), bytes, direction)? {
        Value::Fields(fields) => Some(fields),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn driver_data_begins_where_the_core_ends() {
        let name = command_name(3);
        assert_eq!(name.full(), Some("IB_USER_VERBS_CMD_ALLOC_PD"));
        let reply = [7_u32.to_ne_bytes(), [1, 2, 3, 4]].concat();
        let (fields, size) = command_fields(&name, true, &reply).expect("known");
        assert_eq!(size, 4);
        assert_eq!(fields.len(), 1);
        assert_eq!(fields[0].value, Value::Number(7));
        let fields = struct_fields("mminfo", &[1; 24], Direction::Out).expect("known");
        assert_eq!(fields.len(), 2);
        assert_eq!(struct_fields("no such", &[], Direction::In), None);
    }
}
