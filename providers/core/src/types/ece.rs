//! Enhanced connection establishment.

/// `ibv_ece`—vendor-specific options of a connection, which both sides negotiate.
///
/// Peers exchange it together with their endpoints; the messages of the connection manager have
/// fields for it.
#[doc(alias = "ibv_ece")]
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Ece {
    /// The vendor that defines the options, as a PCI vendor number ([`MELLANOX`](Self::MELLANOX));
    /// 0 for a device without options.
    pub vendor_id: u32,
    /// The options. Their meaning is defined by the vendor and known only to the adapters.
    pub options: u32,
    /// Which further fields are valid; none is defined.
    pub comp_mask: u32,
}

impl Ece {
    /// The vendor of mlx5 devices.
    pub const MELLANOX: u32 = 0x15b3;

    /// Bytes of [`to_bytes`](Self::to_bytes).
    pub const WIRE_LEN: usize = 12;

    /// Encodes it for a peer: three 32-bit words, most significant byte first.
    pub fn to_bytes(&self) -> [u8; Self::WIRE_LEN] {
        let mut bytes = [0; Self::WIRE_LEN];
        let words = [self.vendor_id, self.options, self.comp_mask];
        for (place, word) in bytes.chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_be_bytes());
        }
        bytes
    }

    /// Decodes what a peer encoded by [`to_bytes`](Self::to_bytes). Any bytes are accepted: the
    /// device agrees only to options that it knows.
    pub fn from_bytes(bytes: &[u8; Self::WIRE_LEN]) -> Self {
        let word = |at: usize| {
            let word = bytes.get(at * 4..).and_then(|rest| rest.first_chunk());
            word.map_or(0, |word| u32::from_be_bytes(*word))
        };
        Self {
            vendor_id: word(0),
            options: word(1),
            comp_mask: word(2),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_reads_what_was_sent() {
        let ece = Ece {
            vendor_id: Ece::MELLANOX,
            options: 0x1000_0007,
            comp_mask: 0,
        };
        let bytes = ece.to_bytes();
        assert_eq!(bytes, [0, 0, 0x15, 0xb3, 0x10, 0, 0, 7, 0, 0, 0, 0]);
        assert_eq!(Ece::from_bytes(&bytes), ece);
    }
}
