//! Raw packets.

use std::collections::BTreeSet;

use serde::Deserialize;

use super::{Fetched, Line, unhex, word};

const UNIT: usize = 16;
/// Offset of the number in replies to creations.
const NUMBER: usize = 8;
/// In the Ethernet segment: the length of the inline header, and where the header begins. The rest
/// follows in the next unit.
const LENGTH: usize = 28;
const HEADER: usize = 30;
/// The mark of inline data.
const INLINE: u32 = 1 << 31;

/// A program's output about itself.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Frames {
    /// Its region's local key.
    pub lkey: u32,
    /// The region's start address.
    pub memory: u64,
}

/// The requests of a run's send queues in order, with the key replaced, addresses relative to the
/// region, and zeros after headers and inline data that end within a unit.
#[must_use]
pub fn frames(trace: &str, said: Frames) -> Vec<Fetched> {
    let mut queues = BTreeSet::new();
    let mut frames = Vec::new();
    for line in trace.lines() {
        let Ok(line) = serde_json::from_str::<Line>(line) else {
            continue;
        };
        match line.kind.as_str() {
            // The kernel also has send queues, but without a user context.
            "command" if line.name == "CREATE_SQ" && word(&unhex(&line.input), 0) & 0xffff != 0 => {
                queues.insert(word(&unhex(&line.output), NUMBER) & 0x00ff_ffff);
            }
            "wqe" if queues.contains(&line.qpn) => frames.push(frame(&line, said)),
            _ => {}
        }
    }
    frames
}

fn frame(line: &Line, said: Frames) -> Fetched {
    let mut bytes = unhex(&line.bytes);
    let units = bytes.get(7).map_or(0, |count| usize::from(count & 0x3f));
    bytes.resize(units.max(3) * UNIT, 0);
    bytes[4..7].fill(0);
    let header = usize::from(bytes[LENGTH]) << 8 | usize::from(bytes[LENGTH + 1]);
    let end = HEADER + header;
    let rest = end.next_multiple_of(UNIT).min(bytes.len());
    bytes[end.min(rest)..rest].fill(0);
    let inline = word(&bytes, rest);
    if inline & INLINE != 0 {
        let end = rest + 4 + (inline & !INLINE) as usize;
        let length = bytes.len();
        bytes[end.min(length)..].fill(0);
    } else {
        for sge in bytes[rest..].chunks_exact_mut(UNIT) {
            if word(sge, 4) != said.lkey {
                continue;
            }
            let address = u64::from(word(sge, 8)) << 32 | u64::from(word(sge, 12));
            sge[4..8].copy_from_slice(b"lkey");
            sge[8..].copy_from_slice(&address.wrapping_sub(said.memory).to_be_bytes());
        }
    }
    Fetched {
        index: line.index,
        bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_and_sges_are_distinguished_from_padding() {
        let said = Frames {
            lkey: 0x604,
            memory: 0x1000,
        };
        let header = "aa".repeat(14);
        let trace = [
            r#"{"kind":"command","name":"CREATE_SQ","in":"09040003","out":"000000000000000000000007"}"#.to_owned(),
            r#"{"kind":"wqe","qpn":9,"index":0,"bytes":"00"}"#.to_owned(),
            format!(
                r#"{{"kind":"wqe","qpn":7,"index":3,"bytes":"0000030a000007040000000800000000000000000000000000000000000e{header}eeee{}0000000500000604000000000000100f"}}"#,
                "00".repeat(2)
            ),
        ]
        .join("\n");
        let frames = frames(&trace, said);
        assert_eq!((frames.len(), frames[0].index), (1, 3));
        let bytes = &frames[0].bytes;
        assert_eq!(bytes[HEADER..HEADER + 14], [0xaa; 14]);
        assert_eq!(bytes[44..48], [0; 4]);
        assert_eq!(&bytes[52..56], b"lkey");
        assert_eq!(bytes[63], 0xf);
    }
}
