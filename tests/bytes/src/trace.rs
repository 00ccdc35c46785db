//! What the device was given, from its trace.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::table::{Numbers, Request, Transport, Verb};

/// One work request as the device fetched it, with the numbers that differ from run to run replaced.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Fetched {
    /// Its index in the queue.
    pub index: u16,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

#[derive(Deserialize)]
struct Line {
    kind: String,
    qpn: Option<u32>,
    index: Option<u32>,
    bytes: Option<String>,
}

/// The send requests of each case, in order, of a trace (JSON lines) in which the cases' queue pairs follow each other.
///
/// A number may come again for a later case; the receiving side of a case posts no send request, so a request whose
/// index is 0 begins the next case of its number.
#[must_use]
pub fn sends(trace: &str, cases: &[Numbers]) -> Vec<Vec<Fetched>> {
    let mut of_number: BTreeMap<u32, Vec<Vec<Fetched>>> = BTreeMap::new();
    for line in trace.lines() {
        let Ok(Line {
            kind,
            qpn: Some(qpn),
            index: Some(index),
            bytes: Some(bytes),
        }) = serde_json::from_str(line)
        else {
            continue;
        };
        if kind != "wqe" {
            continue;
        }
        let lives = of_number.entry(qpn).or_default();
        let index = (index & 0xffff).try_into().unwrap_or(0);
        // The counter runs to 65535 and on; tables are too short for it to come back to 0.
        if index == 0 || lives.is_empty() {
            lives.push(Vec::new());
        }
        if let Some(life) = lives.last_mut() {
            life.push(Fetched {
                index,
                bytes: unhex(&bytes),
            });
        }
    }
    let mut next: BTreeMap<u32, usize> = BTreeMap::new();
    cases
        .iter()
        .map(|case| {
            let at = next.entry(case.qpn).or_insert(0);
            *at += 1;
            let life = of_number
                .get(&case.qpn)
                .and_then(|lives| lives.get(*at - 1));
            life.into_iter()
                .flatten()
                .map(|one| one.normalised(case))
                .collect()
        })
        .collect()
}

impl Fetched {
    /// The same with zeros behind inline data that ends before its unit does: nobody reads what stands there, libmlx5 leaves
    /// what was there before.
    #[must_use]
    pub fn without_padding(&self, transport: Transport, request: &Request) -> Self {
        let mut same = self.clone();
        let length: u32 = request.pieces.iter().map(|(_, length)| length).sum();
        if request.inline && length > 0 {
            let route = if transport == Transport::Ud { 3 } else { 0 };
            let remote = matches!(request.verb, Verb::RdmaWrite | Verb::RdmaWriteWithImm);
            let start = (1 + route + usize::from(remote)) * 16;
            let end = start + 4 + length as usize;
            if let Some(padding) = same.bytes.get_mut(end..) {
                padding.fill(0);
            }
        }
        same
    }

    fn normalised(&self, numbers: &Numbers) -> Self {
        let mut bytes = self.bytes.clone();
        // The count of 16-byte units says how long it is; the trace leaves out zeros at the end.
        let units = bytes.get(7).map_or(0, |count| usize::from(count & 0x3f));
        bytes.resize(units.max(1) * 16, 0);
        bytes[4..7].fill(0);
        for unit in bytes[16..].chunks_exact_mut(16) {
            // A piece has the local key in its second word; the remote key, and the peer of a datagram, stand in the third.
            for (at, number, name) in [
                (4, numbers.lkey, b"lkey"),
                (8, numbers.rkey, b"rkey"),
                (8, numbers.peer | 1 << 31, b"peer"),
            ] {
                if unit[at..at + 4] == number.to_be_bytes() {
                    unit[at..at + 4].copy_from_slice(name);
                }
            }
        }
        Self {
            index: self.index,
            bytes,
        }
    }
}

fn unhex(text: &str) -> Vec<u8> {
    let digits = text.as_bytes().chunks(2);
    digits
        .map(|pair| {
            let pair = std::str::from_utf8(pair).unwrap_or_default();
            u8::from_str_radix(pair, 16).unwrap_or_default()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_replaced_and_lives_told_apart() {
        let trace = concat!(
            r#"{"kind":"wqe","function":0,"qpn":7,"index":0,"bytes":"0000000a00000702"}"#,
            "\n",
            r#"{"kind":"wqe","function":0,"qpn":7,"index":1,"bytes":"0000010a0000070200000000000000000000004000000900"}"#,
            "\n",
            r#"{"kind":"cqe","function":0,"queue":7,"index":1,"bytes":"00"}"#,
            "\n",
            r#"{"kind":"wqe","function":0,"qpn":7,"index":0,"bytes":"0000000b00000701"}"#,
            "\n",
        );
        let numbers = Numbers {
            qpn: 7,
            peer: 8,
            lkey: 0x900,
            rkey: 0x901,
            caps: [0; 5],
        };
        let cases = sends(trace, &[numbers, numbers]);
        assert_eq!(cases[0].len(), 2);
        assert_eq!(&cases[0][1].bytes[20..24], b"lkey");
        assert_eq!(cases[0][0].bytes.len(), 32);
        assert_eq!(cases[1][0].bytes[3], 0x0b);
    }
}
