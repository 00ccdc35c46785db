//! PCI configuration space: identity, BAR0, the PCI Express and MSI-X capabilities and a
//! vendor-specific one.

use crate::profile::{FunctionConfig, FunctionKind};

/// Size of the configuration space.
pub const CONFIG_SIZE: usize = 4096;
/// Size of BAR0.
pub const BAR0_SIZE: u64 = 32 << 20;
/// Number of MSI-X vectors.
pub const VECTORS: u32 = 64;

const COMMAND: usize = 0x04;
const BAR0: usize = 0x10;
const CAPABILITIES: usize = 0x34;
const EXPRESS: usize = 0x40;
const MSIX: usize = 0x9c;
const VENDOR: usize = 0xb0;

/// Offset in BAR0 of the MSI-X table and of its pending bits.
pub(crate) const MSIX_TABLE: u32 = 0x2000;
const MSIX_PENDING: u32 = 0x3000;

/// Configuration space with a mask of the bits that software may change.
#[derive(Debug)]
pub(crate) struct ConfigSpace {
    bytes: Vec<u8>,
    writable: Vec<u8>,
}

impl ConfigSpace {
    pub(crate) fn new(config: &FunctionConfig) -> Self {
        let mut space = Self {
            bytes: vec![0; CONFIG_SIZE],
            writable: vec![0; CONFIG_SIZE],
        };
        space.put(0x00, &0x15b3u16.to_le_bytes());
        space.put(0x02, &config.device_id.to_le_bytes());
        space.put(0x06, &0x0010u16.to_le_bytes());
        let class = match config.kind {
            FunctionKind::InfiniBand => [0x00, 0x00, 0x07, 0x02],
            FunctionKind::EthernetRaw | FunctionKind::Roce => [0x00, 0x00, 0x00, 0x02],
        };
        space.put(0x08, &class);
        space.put(BAR0, &[0x0c]);
        space.put(0x2c, &0x15b3u16.to_le_bytes());
        space.put(0x2e, &0x0020u16.to_le_bytes());
        space.put(CAPABILITIES, &[EXPRESS as u8]);
        // Express capability version 2, endpoint; 8 GT/s with 16 lanes, both supported and current.
        space.put(EXPRESS, &[0x10, MSIX as u8, 0x02, 0x00]);
        space.put(EXPRESS + 0x04, &0x1000_8002u32.to_le_bytes());
        space.put(EXPRESS + 0x0c, &0x0000_0103u32.to_le_bytes());
        space.put(EXPRESS + 0x12, &0x0103u16.to_le_bytes());
        space.put(EXPRESS + 0x2c, &0x0000_000eu32.to_le_bytes());
        space.put(EXPRESS + 0x30, &0x0003u16.to_le_bytes());
        let [low, high] = ((VECTORS - 1) as u16).to_le_bytes();
        space.put(MSIX, &[0x11, VENDOR as u8, low, high]);
        space.put(MSIX + 4, &MSIX_TABLE.to_le_bytes());
        space.put(MSIX + 8, &MSIX_PENDING.to_le_bytes());
        // The gateway to the configuration registers; its syndrome bit stays 0, so access to a
        // space is never granted.
        space.put(VENDOR, &[0x09, 0x00, 0x18, 0x00]);

        space.allow(COMMAND, &[0x06, 0x04]);
        space.allow(BAR0, &(!(BAR0_SIZE as u32 - 1)).to_le_bytes());
        space.allow(BAR0 + 4, &[0xff; 4]);
        space.allow(0x3c, &[0xff]);
        space.allow(EXPRESS + 0x08, &[0xff, 0x7f]);
        space.allow(EXPRESS + 0x28, &[0xff, 0xff]);
        space.allow(MSIX + 2, &[0x00, 0xc0]);
        space
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn allow(&mut self, at: usize, mask: &[u8]) {
        self.writable[at..at + mask.len()].copy_from_slice(mask);
    }

    /// Reads configuration bytes; outside the space every byte is zero.
    pub(crate) fn read(&self, offset: u64, data: &mut [u8]) {
        for (i, byte) in data.iter_mut().enumerate() {
            *byte = usize::try_from(offset)
                .ok()
                .and_then(|o| self.bytes.get(o.checked_add(i)?))
                .copied()
                .unwrap_or(0);
        }
    }

    /// Writes configuration bytes where software may.
    pub(crate) fn write(&mut self, offset: u64, data: &[u8]) {
        for (i, byte) in data.iter().enumerate() {
            let Some(at) = usize::try_from(offset).ok().and_then(|o| o.checked_add(i)) else {
                return;
            };
            let (Some(old), Some(mask)) = (self.bytes.get_mut(at), self.writable.get(at)) else {
                return;
            };
            *old = *old & !mask | byte & mask;
        }
    }

    /// Whether the function may reach guest memory.
    pub(crate) fn bus_master(&self) -> bool {
        self.bytes[COMMAND] & 0x04 != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bar0_sizes_as_a_64_bit_prefetchable_bar() {
        let mut space = ConfigSpace::new(&FunctionConfig::numbered(FunctionKind::InfiniBand, 0));
        space.write(0x10, &[0xff; 8]);
        let mut bar = [0; 8];
        space.read(0x10, &mut bar);
        assert_eq!(u64::from_le_bytes(bar), !(BAR0_SIZE - 1) | 0x0c);
    }

    #[test]
    fn identity_cannot_be_written_and_bus_mastering_can() {
        let mut space = ConfigSpace::new(&FunctionConfig::numbered(FunctionKind::InfiniBand, 0));
        space.write(0, &[0; 8]);
        let mut id = [0; 4];
        space.read(0, &mut id);
        assert_eq!(id, [0xb3, 0x15, 0x17, 0x10]);
        assert!(!space.bus_master());
        space.write(4, &[0x06]);
        assert!(space.bus_master());
        space.write(u64::MAX, &[0; 4]);
    }
}
