//! What a program requested of the kernel, from `oracle/requested.py`: the values that the library
//! chose itself, and the driver data.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::trace::unhex;

/// A command as the tracer records it.
#[derive(Debug, Deserialize)]
struct Line {
    object: u16,
    method: u16,
    attributes: BTreeMap<u16, String>,
}

/// `UVERBS_ATTR_UHW_IN`: the driver data.
const DRIVER: u16 = 1 << 12;
/// Attributes of `UVERBS_METHOD_INVOKE_WRITE`.
const CORE_IN: u16 = 0;
const WRITE_CMD: u16 = 2;
/// `UVERBS_ATTR_CREATE_QP_CAP`, `UVERBS_ATTR_CREATE_QP_TYPE` and `IBV_QPT_XRC_RECV`.
const QP_CAP: u16 = 8;
const QP_TYPE: u16 = 9;
const XRC_TARGET: [u8; 1] = [10];
/// `IBV_QPT_DRIVER`; `MLX5_QP_FLAG_TYPE_DCT` in the flags distinguishes a target of dynamic
/// connections from an initiator.
const DRIVER_TYPE: [u8; 1] = [0xff];
const DC_TARGET: u8 = 1 << 4;
/// `UVERBS_ATTR_CREATE_SRQ_MAX_WR`.
const SRQ_MAX_WR: u16 = 5;
/// Offsets in `struct ib_uverbs_modify_qp` of the queue pair, its peer and the state.
const HANDLE: usize = 0x40;
const PEER: usize = 0x54;
const STATE: usize = 0x60;

/// A command that creates or modifies something.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Request {
    /// The kernel's name for it; for modifications, with the number of the state.
    pub name: String,
    /// The distinguishing values, by attribute; numbers are removed, addresses are 1 if there is
    /// one. Trailing zeros are removed, too, and with them values of 0, because those need not be
    /// given.
    pub parts: BTreeMap<u16, Vec<u8>>,
    /// For a shared queue, the number of requests asked for, which differs.
    pub places: Option<Vec<u8>>,
    /// For a target of XRC or of dynamic connections, the values for queues that it does not have,
    /// which differ.
    pub target: Vec<Vec<u8>>,
    /// For a queue pair, whether small answers are to be written into completions, which differs.
    pub scatters: bool,
}

/// Kinds: object, method, name, attributes that are compared besides the driver data, and numbers
/// in the driver data: offset and length.
type Kind = (
    u16,
    u16,
    &'static str,
    &'static [u16],
    &'static [(usize, usize)],
);

const KINDS: [Kind; 4] = [
    (0, 3, "GET_CONTEXT", &[], &[]),
    // Entries, vector, flags. Buffer, doorbell record, UAR page.
    (3, 0, "CREATE_CQ", &[1, 4, 5], &[(0, 8), (8, 8), (24, 2)]),
    // Sizes, type, flags. Buffer, doorbell record, user index, doorbell.
    (
        4,
        0,
        "CREATE_QP",
        &[8, 9, 10],
        &[(0, 8), (8, 8), (32, 4), (36, 4), (40, 8)],
    ),
    // Scatter/gather entries, limit, type. Buffer, doorbell record, user index.
    (5, 0, "CREATE_SRQ", &[6, 7, 9], &[(0, 8), (8, 8), (24, 4)]),
];

/// Offset of the flags' first byte in `struct mlx5_ib_create_qp`, and `MLX5_QP_FLAG_SCATTER_CQE`.
const QP_FLAGS: usize = 28;
/// Range of the doorbell record's address in the same struct.
const QP_RECORD: std::ops::Range<usize> = 8..16;
const SCATTER_CQE: u8 = 1 << 1;

/// The legacy commands that are compared.
const WRITTEN: [(u32, &str); 3] = [
    (5, "CREATE_AH"),
    (26, "MODIFY_QP"),
    // The extended one has a rate after the same words.
    (0x8000_001a, "MODIFY_QP"),
];

impl Request {
    fn new(line: &Line) -> Option<Self> {
        let part = |number| line.attributes.get(&number).map(|text| unhex(text));
        let mut parts = BTreeMap::new();
        if (line.object, line.method) == (0, 0) {
            let command = part(WRITE_CMD)?;
            let command = u32::from_le_bytes(command.get(..4)?.try_into().ok()?);
            let (_, name) = WRITTEN.iter().find(|(number, _)| *number == command)?;
            let mut name = (*name).to_owned();
            if name == "MODIFY_QP" {
                let mut core = part(CORE_IN)?;
                name = format!("{name} {}", core.get(STATE)?);
                numbers_out(&mut core, &[(HANDLE, 4), (PEER, 4)]);
                parts.insert(CORE_IN, core);
            }
            parts.extend(part(DRIVER).map(|data| (DRIVER, data)));
            without_zeros(&mut parts);
            return Some(Self {
                name,
                parts,
                places: None,
                target: Vec::new(),
                scatters: false,
            });
        }
        let (.., name, compared, numbers) = KINDS
            .iter()
            .find(|(object, method, ..)| (line.object, line.method) == (*object, *method))?;
        parts.extend(compared.iter().filter_map(|&at| Some((at, part(at)?))));
        let mut scatters = false;
        if let Some(mut data) = part(DRIVER) {
            if *name == "CREATE_QP"
                && let Some(flags) = data.get_mut(QP_FLAGS)
            {
                scatters = *flags & SCATTER_CQE != 0;
                *flags &= !SCATTER_CQE;
            }
            numbers_out(&mut data, numbers);
            parts.insert(DRIVER, data);
        }
        without_zeros(&mut parts);
        let mut target = Vec::new();
        if *name == "CREATE_QP" && parts.get(&QP_TYPE).is_some_and(|kind| *kind == XRC_TARGET) {
            target.extend([QP_CAP, DRIVER].map(|at| parts.remove(&at).unwrap_or_default()));
        }
        if *name == "CREATE_QP" && parts.get(&QP_TYPE).is_some_and(|kind| *kind == DRIVER_TYPE) {
            let data = parts.get_mut(&DRIVER);
            if let Some(data) = data.filter(|data| {
                data.get(QP_FLAGS)
                    .is_some_and(|flags| flags & DC_TARGET != 0)
            }) {
                target.push(data[QP_RECORD].to_vec());
                data[QP_RECORD].fill(0);
            }
        }
        Some(Self {
            name: (*name).to_owned(),
            parts,
            target,
            scatters,
            places: (*name == "CREATE_SRQ").then(|| part(SRQ_MAX_WR)).flatten(),
        })
    }
}

fn without_zeros(parts: &mut BTreeMap<u16, Vec<u8>>) {
    for part in parts.values_mut() {
        let end = part.iter().rposition(|byte| *byte != 0);
        part.truncate(end.map_or(0, |last| last + 1));
    }
    parts.retain(|_, part| !part.is_empty());
}

fn numbers_out(data: &mut [u8], numbers: &[(usize, usize)]) {
    for &(at, length) in numbers {
        if let Some(number) = data.get_mut(at..at + length) {
            let is_address = length == 8 && number.iter().any(|byte| *byte != 0);
            number.fill(0);
            number[0] = u8::from(is_address);
        }
    }
}

/// The commands of a run, grouped by name and in order.
#[must_use]
pub fn requests(output: &str) -> Vec<Request> {
    let lines = output
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok());
    let mut requests: Vec<Request> = lines.filter_map(|line: Line| Request::new(&line)).collect();
    requests.sort_by(|one, other| one.name.cmp(&other.name));
    requests
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_taken_out_and_kinds_distinguished() {
        let cq = r#"{"object":3,"method":0,"attributes":{"0":"09000000","1":"00100000","4096":"00100000000000000000000000000000400000000000010005"}}"#;
        let other = r#"{"object":1,"method":0,"attributes":{}}"#;
        let said = requests(&format!("{other}\n{{}}\n{cq}"));
        assert_eq!(said.len(), 1);
        assert_eq!(said[0].name, "CREATE_CQ");
        assert_eq!(said[0].parts[&1], [0, 0x10]);
        let data = &said[0].parts[&DRIVER];
        assert_eq!((data[0], data[1], data[8], data[16]), (1, 0, 0, 0x40));
    }
}
