//! What the device was given, from its trace.

mod commands;
mod frames;
mod lives;
mod qos;
mod receives;
mod rings;
mod sends;

pub use commands::FirmwareCommand;
pub use frames::{Frames, frames};
pub use lives::{Life, lives};
pub use qos::qos;
pub use receives::Received;
pub use rings::Rung;
pub use sends::Fetched;

use serde::Deserialize;

/// A line of the trace, whatever its kind.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Line {
    kind: String,
    /// For send requests.
    qpn: u32,
    /// For everything else.
    queue: u32,
    index: u32,
    bytes: String,
    /// For commands.
    name: String,
    status: u32,
    #[serde(rename = "in")]
    input: String,
    #[serde(rename = "out")]
    output: String,
    /// For receive requests.
    record: u32,
    /// For doorbells.
    place: u64,
    value: String,
    records: Vec<Option<u32>>,
    copied: bool,
}

pub(crate) fn unhex(text: &str) -> Vec<u8> {
    let digits = text.as_bytes().chunks(2);
    digits
        .map(|pair| {
            let pair = std::str::from_utf8(pair).unwrap_or_default();
            u8::from_str_radix(pair, 16).unwrap_or_default()
        })
        .collect()
}

/// A big-endian word; the trace leaves out trailing zeros.
fn word(bytes: &[u8], at: usize) -> u32 {
    (at..at + 4).fold(0, |value, at| {
        value << 8 | u32::from(bytes.get(at).copied().unwrap_or(0))
    })
}
