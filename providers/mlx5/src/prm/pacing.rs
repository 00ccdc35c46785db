//! `set_pp_rate_limit_context`: a rate of the packet pacing table.

use super::field::{Field, field, word};

const RATE: Field = word(0x00);
const BURST: Field = word(0x04);
const PACKET_SIZE: Field = field(0x08, 15, 0);
const LEN: usize = 48;

/// The context of a rate: kb/s, the largest burst in bytes, and the typical packet size in bytes.
pub fn rate_context(rate_kbps: u32, max_burst: u32, typical_packet: u16) -> [u8; LEN] {
    let mut context = [0; LEN];
    RATE.set(&mut context, rate_kbps);
    BURST.set(&mut context, max_burst);
    PACKET_SIZE.set(&mut context, typical_packet.into());
    context
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_big_endian() {
        let context = rate_context(1_000_000, 0x2000, 1500);
        assert_eq!(
            &context[..12],
            [0, 0x0f, 0x42, 0x40, 0, 0, 0x20, 0, 0, 0, 0x05, 0xdc]
        );
    }
}
