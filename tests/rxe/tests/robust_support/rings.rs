//! The queues of this process in memory, examined from outside the library.

use std::fs::File;
use std::os::unix::fs::FileExt as _;

/// Offsets of the two indexes in rxe's queue header (`struct rxe_queue_buf`).
const PRODUCER: usize = 128;
const CONSUMER: usize = 256;

/// A mapping of the device.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Ring {
    start: u64,
    bytes: Vec<u8>,
}

/// All queues that this process has mapped.
pub(crate) fn all() -> Vec<Ring> {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("/proc is mounted");
    let memory = File::open("/proc/self/mem").expect("/proc is mounted");
    let rings: Vec<_> = maps
        .lines()
        .filter(|line| line.contains("/dev/infiniband/"))
        .map(|line| ring(line, &memory).unwrap_or_else(|| panic!("cannot read {line}")))
        .collect();
    assert!(!rings.is_empty(), "no queue is mapped: {maps}");
    rings
}

fn ring(line: &str, memory: &File) -> Option<Ring> {
    let (start, end) = line.split_whitespace().next()?.split_once('-')?;
    let start = u64::from_str_radix(start, 16).ok()?;
    let end = u64::from_str_radix(end, 16).ok()?;
    let mut bytes = vec![0; usize::try_from(end - start).ok()?];
    memory.read_exact_at(&mut bytes, start).ok()?;
    Some(Ring { start, bytes })
}

impl Ring {
    /// The producer and the consumer index.
    pub(crate) fn indexes(&self) -> (u32, u32) {
        let word = |at: usize| {
            let bytes = self.bytes[at..].first_chunk().expect("a header");
            u32::from_ne_bytes(*bytes)
        };
        (word(PRODUCER), word(CONSUMER))
    }
}
