//! Commands for rates and for the scheduling tree, whether issued by the kernel or by the library
//! in a DEVX command.

use super::{FirmwareCommand, Line, unhex, word};

/// Longer than any of these commands; the trace leaves out trailing zeros.
const LENGTH: usize = 0x200;
/// Where commands name what they modify, and replies what they created.
const NUMBER: usize = 8;
/// Offset of the parent in the creation of an element.
const PARENT: usize = 0x38;
/// Offsets of the leaves in the extended part of queue pair modifications.
const GROUPS: [usize; 2] = [0x114, 0x118];
/// Offset of the leaf in send queue modifications, in half of a word.
const SEND_GROUP: usize = 0x40;

/// The commands of a run, in order: elements have consecutive numbers instead of the device's,
/// queues have none, and the user context is 1 if it is the program's own.
#[must_use]
pub fn qos(trace: &str) -> Vec<FirmwareCommand> {
    let lines = trace
        .lines()
        .filter_map(|line| serde_json::from_str::<Line>(line).ok())
        .filter(|line| line.kind == "command" && line.status == 0);
    // The parent of the root, which does not exist, has number 0.
    let mut elements = vec![0];
    let mut commands = Vec::new();
    for line in lines {
        let mut input = unhex(&line.input);
        input.resize(LENGTH, 0);
        let named: &[usize] = match line.name.as_str() {
            "CREATE_GENERAL_OBJECT" => &[PARENT],
            "MODIFY_GENERAL_OBJECT" | "DESTROY_GENERAL_OBJECT" => &[NUMBER],
            "INIT2INIT_QP" | "RTS2RTS_QP" => &GROUPS,
            // The kernel's own queues have no user context.
            "MODIFY_SQ" if input[2..4] != [0, 0] => &[SEND_GROUP],
            "SET_PP_RATE_LIMIT" => &[],
            _ => continue,
        };
        for &at in named {
            let element = word(&input, at);
            // An element that was never created keeps its number, above all others.
            let number = elements.iter().rposition(|known| *known == element);
            let number = number.and_then(|number| u32::try_from(number).ok());
            input[at..at + 4].copy_from_slice(&number.unwrap_or(element | 1 << 31).to_be_bytes());
        }
        if named != [NUMBER] && line.name != "SET_PP_RATE_LIMIT" {
            input[NUMBER + 1..NUMBER + 4].fill(0);
        }
        let context = match [input[2], input[3]] {
            none_or_shared @ ([0, 0] | [0xff, 0xff]) => none_or_shared,
            _ => [0, 1],
        };
        input[2..4].copy_from_slice(&context);
        if line.name == "CREATE_GENERAL_OBJECT" {
            elements.push(word(&unhex(&line.output), NUMBER));
        }
        commands.push(FirmwareCommand {
            name: line.name,
            input,
            places: 0,
        });
    }
    commands
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_get_running_numbers() {
        let create = |parent: &str, id: &str| {
            let context = format!("{}{parent}", "00".repeat(0x38 - 4));
            format!(
                r#"{{"kind":"command","name":"CREATE_GENERAL_OBJECT","in":"0a000007{context}","out":"0000000000000000{id}"}}"#
            )
        };
        let destroy =
            r#"{"kind":"command","name":"DESTROY_GENERAL_OBJECT","in":"0a0300070000002600000051"}"#;
        let trace = [
            &create("00", "00000050"),
            &create("00000050", "00000051"),
            destroy,
        ]
        .join("\n");
        let commands = qos(&trace);
        assert_eq!(word(&commands[0].input, PARENT), 0);
        assert_eq!(word(&commands[1].input, PARENT), 1);
        assert_eq!(word(&commands[2].input, NUMBER), 2);
        assert_eq!(commands[2].input[..4], [0x0a, 3, 0, 1]);
    }
}
