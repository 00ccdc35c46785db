//! The word that asks for an event (PRM, "Completion Queue Doorbell").

use super::COUNTER;

/// For completions of solicited messages and errors only.
const SOLICITED: u32 = 1 << 24;

/// Asks for an event after the completion `count`; `events` is how many were taken so far, of which
/// the device compares two bits.
pub(super) fn word(events: u32, solicited_only: bool, count: u64) -> u32 {
    let command = if solicited_only { SOLICITED } else { 0 };
    (events & 3) << 28 | command | (count & COUNTER) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_the_arm_word_do_not_overlap() {
        assert_eq!(word(0, false, 0), 0);
        assert_eq!(word(0b1110, false, 0x1234_5678_9abc), 0x2078_9abc);
        assert_eq!(word(0b0101, true, 0xff01_0203), 0x1101_0203);
        assert_eq!(word(3, true, 0xff_ffff), 0x31ff_ffff);
    }
}
