//! Firmware commands and their replies: opcodes by name, object numbers by the kind of object, the
//! rest word by word.

use super::Field;
use super::values::Value;

/// Names of opcodes (`MLX5_CMD_OP_*`).
const OPCODES: [(u16, &str); 16] = [
    (0x100, "QUERY_HCA_CAP"),
    (0x400, CREATE_CQ),
    (0x402, QUERY_CQ),
    (0x403, "MODIFY_CQ"),
    (0x500, "CREATE_QP"),
    (0x505, "RTS2RTS_QP"),
    (0x50b, "QUERY_QP"),
    (0x50e, "INIT2INIT_QP"),
    (0x754, "QUERY_NIC_VPORT_CONTEXT"),
    (0x905, "MODIFY_SQ"),
    (0x939, "ALLOC_FLOW_COUNTER"),
    (0x93b, "QUERY_FLOW_COUNTER"),
    (0xa00, CREATE_GENERAL),
    (0xa01, MODIFY_GENERAL),
    (0xa02, "QUERY_GENERAL_OBJECT"),
    (0xa03, "DESTROY_GENERAL_OBJECT"),
];
const CREATE_CQ: &str = "CREATE_CQ";
const QUERY_CQ: &str = "QUERY_CQ";
const CREATE_GENERAL: &str = "CREATE_GENERAL_OBJECT";
const MODIFY_GENERAL: &str = "MODIFY_GENERAL_OBJECT";

/// Longer replies are shown as bytes: capabilities.
const WORDS: usize = 0x200;
/// Offset of the record's address in a completion queue's context.
const RECORD: usize = 0x48;
/// Offsets in registered memory are smaller than this.
const OFFSETS: u64 = 1 << 20;

/// The kind of object, the offset of the word, its bits.
type Number = (&'static str, usize, u32);

const LOW24: u32 = 0x00ff_ffff;
const LOW16: u32 = 0xffff;
const ALL: u32 = u32::MAX;
/// In a completion queue's context, which is at the same offset in commands and in replies.
const OF_CQ: [Number; 3] = [
    ("umem", 0x14, ALL),
    ("uar", 0x1c, LOW24),
    ("umem", 0x58, ALL),
];

/// The name of a command's opcode.
pub(super) fn opcode(command: &[u8]) -> String {
    let number = command
        .first_chunk()
        .map_or(0, |bytes| u16::from_be_bytes(*bytes));
    let known = OPCODES.iter().find(|(known, _)| *known == number);
    known.map_or_else(|| format!("{number:#x}"), |(_, name)| (*name).to_owned())
}

fn numbers(opcode: &str, out: bool) -> Vec<Number> {
    let own = |kind| vec![(kind, 0x08, LOW24)];
    match (opcode, out) {
        (CREATE_CQ, false) | (QUERY_CQ, true) => OF_CQ.to_vec(),
        (CREATE_CQ, true) | (QUERY_CQ | "MODIFY_CQ", false) => own("cqn"),
        ("QUERY_QP", false) => own("qpn"),
        ("RTS2RTS_QP" | "INIT2INIT_QP", false) => vec![
            ("qpn", 0x08, LOW24),
            ("element", 0x114, ALL),
            ("element", 0x118, ALL),
        ],
        ("MODIFY_SQ", false) => vec![("sqn", 0x08, LOW24), ("element", 0x40, LOW16)],
        ("ALLOC_FLOW_COUNTER", true) => vec![("counter", 0x08, ALL)],
        ("QUERY_FLOW_COUNTER", false) => vec![("counter", 0x1c, ALL)],
        (CREATE_GENERAL, false) => vec![("element", 0x38, ALL)],
        (CREATE_GENERAL, true) | (MODIFY_GENERAL, _) | ("QUERY_GENERAL_OBJECT", false) => {
            vec![("element", 0x08, ALL)]
        }
        _ => Vec::new(),
    }
}

/// The fields of a command or reply whose attribute is called `name`.
pub(super) fn fields(name: &str, opcode: &str, out: bool, bytes: &[u8]) -> Vec<Field> {
    let field = |part: &str, value| Field {
        name: format!("{name}.{part}"),
        out,
        value,
    };
    if out && bytes.len() > WORDS {
        return vec![field("bytes", Value::Bytes(bytes.to_vec()))];
    }
    let mut bytes = bytes.to_vec();
    if opcode.ends_with("_CQ") {
        forget_kernel_record(&mut bytes);
    }
    let numbers = numbers(opcode, out);
    let mut fields = Vec::new();
    for (index, word) in bytes.chunks_exact(4).enumerate() {
        let at = index * 4;
        let mut left = u32::from_be_bytes([word[0], word[1], word[2], word[3]]);
        for (kind, place, mask) in &numbers {
            if *place == at && left & mask != 0 {
                fields.push(field(kind, Value::Number(u64::from(left & mask))));
                left &= !mask;
            }
        }
        if left != 0 {
            fields.push(field(&format!("{at:#x}"), Value::Number(u64::from(left))));
        }
    }
    fields
}

/// A record's address is that of a page which the kernel allocated, unless it is an offset in
/// registered memory.
fn forget_kernel_record(bytes: &mut [u8]) {
    let Some(record) = bytes.get_mut(RECORD..RECORD + 8) else {
        return;
    };
    let address = record
        .first_chunk()
        .map_or(0, |bytes| u64::from_be_bytes(*bytes));
    if address > OFFSETS {
        record.fill(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_objects_are_named_and_the_rest_is_raw() {
        let mut command = vec![0; 0x60];
        command[..2].copy_from_slice(&[4, 0]);
        command[0x14..0x18].copy_from_slice(&[0, 0, 0, 9]);
        command[0x1c..0x20].copy_from_slice(&[6, 0, 0, 5]);
        command[RECORD + 6] = 0x10;
        assert_eq!(opcode(&command), CREATE_CQ);
        let text = |bytes: &[u8]| -> Vec<String> {
            let fields = fields("IN", CREATE_CQ, false, bytes).into_iter();
            fields
                .map(|field| format!("{}={:?}", field.name, field.value))
                .collect()
        };
        let mut expected = vec![
            "IN.0x0=Number(67108864)",
            "IN.umem=Number(9)",
            "IN.uar=Number(5)",
            "IN.0x1c=Number(100663296)",
            "IN.0x4c=Number(4096)",
        ];
        assert_eq!(text(&command), expected);
        // A page of the kernel's.
        command[RECORD + 3] = 1;
        expected.pop();
        assert_eq!(text(&command), expected);
        assert_eq!(opcode(&[0x0f, 0xff]), "0xfff");
    }
}
