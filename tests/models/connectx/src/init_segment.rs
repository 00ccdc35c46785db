//! The initialization segment at the start of BAR0.

use crate::layout::{bit, field, word};

/// Length of the segment, including the clock page behind it.
pub(crate) const LEN: u64 = 0x2010;
/// The command doorbell.
pub(crate) const COMMAND_DOORBELL: u64 = 0x18;

const FIRMWARE_REV: usize = 0x000;
const COMMAND_REV: usize = 0x004;
const QUEUE_HIGH: usize = 0x010;
const QUEUE_LOW: usize = 0x014;
const TIMER_HIGH: usize = 0x1000;
const TIMER_LOW: usize = 0x1004;
const HEALTH_SYNDROME: usize = 0x23d;
/// Its top bit asks the driver for a reset; without it the driver takes no syndrome for fatal.
const HEALTH_SEVERITY: usize = HEALTH_SYNDROME - 5;
const HEALTH_COUNTER: usize = 0x1010;

/// log2 of the number of command slots, and of their stride in bytes.
pub(crate) const LOG_SLOTS: u32 = 5;
const LOG_STRIDE: u32 = 6;

/// What the driver has written to the segment.
#[derive(Debug, Default)]
pub(crate) struct InitSegment {
    queue: u64,
    nic_interface: u32,
    /// Fatal health syndrome, 0 if healthy.
    pub(crate) health: u8,
}

impl InitSegment {
    /// Bus address of the command queue; `None` until the driver has set it.
    pub(crate) fn command_queue(&self) -> Option<u64> {
        (self.queue != 0).then_some(self.queue)
    }

    /// Reads from the segment at time `now` in nanoseconds, which is also the unit of the
    /// free-running timer.
    pub(crate) fn read(&self, now: u64, offset: u64, data: &mut [u8]) {
        let mut image = vec![0u8; LEN as usize];
        word(FIRMWARE_REV).set(&mut image, 35 << 16 | 16);
        field(COMMAND_REV, 31, 16).set(&mut image, 5);
        field(COMMAND_REV, 15, 0).set(&mut image, 2000);
        word(QUEUE_HIGH).set(&mut image, (self.queue >> 32) as u32);
        word(QUEUE_LOW).set(&mut image, (self.queue & 0xffff_f000) as u32);
        field(QUEUE_LOW, 10, 8).set(&mut image, self.nic_interface);
        field(QUEUE_LOW, 7, 4).set(&mut image, LOG_SLOTS);
        field(QUEUE_LOW, 3, 0).set(&mut image, LOG_STRIDE);
        bit(0x1fc, 31).set(&mut image, 0);
        image[HEALTH_SYNDROME] = self.health;
        image[HEALTH_SEVERITY] = u8::from(self.health != 0) << 7;
        word(TIMER_HIGH).set(&mut image, (now >> 32) as u32);
        word(TIMER_LOW).set(&mut image, now as u32);
        // The driver compares two reads about two seconds apart; the counter must move in between,
        // even across a wrap.
        field(HEALTH_COUNTER, 23, 0).set(&mut image, (now / 100_000_000) as u32);
        for (i, byte) in data.iter_mut().enumerate() {
            *byte = usize::try_from(offset)
                .ok()
                .and_then(|o| image.get(o + i))
                .copied()
                .unwrap_or(0);
        }
    }

    /// Writes to the segment; the command doorbell is not kept here.
    pub(crate) fn write(&mut self, offset: u64, value: u32) {
        match usize::try_from(offset) {
            Ok(QUEUE_HIGH) => self.queue = self.queue & 0xffff_ffff | u64::from(value) << 32,
            Ok(QUEUE_LOW) => {
                self.queue = self.queue & !0xffff_ffff | u64::from(value & 0xffff_f000);
                self.nic_interface = value >> 8 & 7;
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_geometry_stays_readable_after_the_driver_wrote_its_address() {
        let mut segment = InitSegment::default();
        segment.write(0x10, 1);
        segment.write(0x14, 0x2345_6000);
        assert_eq!(segment.command_queue(), Some(0x1_2345_6000));
        let mut data = [0; 4];
        segment.read(0, 0x14, &mut data);
        assert_eq!(u32::from_be_bytes(data), 0x2345_6056);
        segment.read(0, 0x04, &mut data);
        assert_eq!(data[..2], [0, 5]);
    }

    #[test]
    fn the_health_counter_moves() {
        let segment = InitSegment::default();
        let read = |now| {
            let mut data = [0; 4];
            segment.read(now, 0x1010, &mut data);
            u32::from_be_bytes(data)
        };
        assert_ne!(read(0), read(2_000_000_000));
    }
}
