//! Decodes send requests from a ring: written from the tables of the reference manual, not from the
//! encoder.

/// The contents of a ring, byte by byte.
pub(super) struct Bytes<'a> {
    pub(super) ring: &'a [u8],
    pub(super) at: usize,
}

impl Bytes<'_> {
    pub(super) fn take(&mut self, count: usize) -> Vec<u8> {
        let bytes = (self.at..self.at + count)
            .map(|at| self.ring[at % self.ring.len()])
            .collect();
        self.at += count;
        bytes
    }

    fn number(&mut self, count: usize) -> u64 {
        self.take(count)
            .into_iter()
            .fold(0, |number, byte| number << 8 | u64::from(byte))
    }
}

/// A send request.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Decoded {
    pub(super) opcode: u64,
    pub(super) index: u64,
    pub(super) qpn: u64,
    pub(super) units: usize,
    pub(super) flags: u64,
    pub(super) immediate: u64,
    pub(super) route: Vec<u8>,
    /// Address and key.
    pub(super) remote: Option<(u64, u64)>,
    pub(super) operands: Option<(u64, u64)>,
    /// Length, key and address.
    pub(super) sges: Vec<(u64, u64, u64)>,
    pub(super) inline: Option<Vec<u8>>,
    /// The bytes after the control segment of a change of a key.
    pub(super) change: Vec<u8>,
}

/// Decodes the request at byte `at`, with `route` bytes between the control segment and the
/// operation.
pub(super) fn decode(ring: &[u8], at: usize, route: usize) -> Decoded {
    let mut bytes = Bytes { ring, at };
    let mut found = Decoded {
        ..Decoded::default()
    };
    assert_eq!(bytes.number(1), 0, "opmod");
    found.index = bytes.number(2);
    found.opcode = bytes.number(1);
    found.qpn = bytes.number(3);
    found.units = bytes.number(1) as usize;
    assert_eq!(bytes.number(3), 0, "signature and stream");
    found.flags = bytes.number(1);
    found.immediate = bytes.number(4);
    let end = at + found.units * 16;
    if found.opcode == 0x25 {
        found.change = bytes.take(end - bytes.at);
        return found;
    }
    found.route = bytes.take(route);
    if matches!(found.opcode, 0x08 | 0x09 | 0x10..=0x12) {
        found.remote = Some((bytes.number(8), bytes.number(4)));
        assert_eq!(bytes.number(4), 0);
    }
    if matches!(found.opcode, 0x11 | 0x12) {
        found.operands = Some((bytes.number(8), bytes.number(8)));
    }
    while bytes.at < end {
        let length = bytes.number(4);
        if length >> 31 == 0 {
            found.sges.push((length, bytes.number(4), bytes.number(8)));
            continue;
        }
        let length = (length & 0x7fff_ffff) as usize;
        found.inline = Some(bytes.take(length));
        let padding = bytes.take(end - bytes.at);
        assert!(padding.len() < 16 && padding.iter().all(|byte| *byte == 0));
    }
    assert_eq!(bytes.at, end, "segments fill the request");
    found
}
