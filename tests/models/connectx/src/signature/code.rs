//! How the signature of a block is computed.

use crc::{CRC_16_T10_DIF, CRC_32_ISCSI, CRC_32_ISO_HDLC, CRC_64_NVME, Crc};

static DIF: Crc<u16> = Crc::<u16>::new(&CRC_16_T10_DIF);
static FIBRE_CHANNEL: Crc<u32> = Crc::<u32>::new(&CRC_32_ISO_HDLC);
static CASTAGNOLI: Crc<u32> = Crc::<u32>::new(&CRC_32_ISCSI);
/// NVMe took it from XP10.
static CRC64: Crc<u64> = Crc::<u64>::new(&CRC_64_NVME);

/// A signature of at most 8 bytes, from its first byte on.
pub(super) type Signature = [u8; 8];

/// The guard of a T10-DIF.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Guard {
    Crc,
    /// The checksum of IP.
    Checksum,
}

/// A kind of signature. `ones`: its computation begins with all ones, not with 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Code {
    Crc32 {
        ones: bool,
    },
    Crc32c {
        ones: bool,
    },
    Crc64 {
        ones: bool,
    },
    T10Dif {
        guard: Guard,
        ones: bool,
        application: u16,
        /// The bits of the application tag that are checked.
        application_mask: u16,
        /// Of the first block.
        reference: u32,
        /// The reference of each block is one more than that of the block before it.
        increments: bool,
        /// Blocks with an application tag of all ones are not checked.
        escapes_application: bool,
        /// The same of those whose reference is all ones, too.
        escapes_both: bool,
    },
}

fn seed(ones: bool) -> u32 {
    if ones { u32::MAX } else { 0 }
}

fn crc32(crc: &Crc<u32>, ones: bool, data: &[u8]) -> Signature {
    // The initial value is given as it stands in the register before reflection: both are
    // palindromes.
    let mut digest = crc.digest_with_initial(seed(ones));
    digest.update(data);
    let [a, b, c, d] = digest.finalize().to_be_bytes();
    [a, b, c, d, 0, 0, 0, 0]
}

fn checksum(ones: bool, data: &[u8]) -> u16 {
    let words = data.chunks(2).map(|pair| {
        let [high, low] = [pair[0], pair.get(1).copied().unwrap_or(0)];
        u32::from(u16::from_be_bytes([high, low]))
    });
    let mut sum: u32 = words.sum::<u32>() + (seed(ones) >> 16);
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

impl Code {
    /// Bytes of a signature.
    pub(super) fn length(&self) -> usize {
        match self {
            Self::Crc32 { .. } | Self::Crc32c { .. } => 4,
            Self::Crc64 { .. } | Self::T10Dif { .. } => 8,
        }
    }

    /// The signature of block `number` of a transfer.
    pub(super) fn of(&self, number: u64, data: &[u8]) -> Signature {
        match *self {
            Self::Crc32 { ones } => crc32(&FIBRE_CHANNEL, ones, data),
            Self::Crc32c { ones } => crc32(&CASTAGNOLI, ones, data),
            Self::Crc64 { ones } => {
                let initial = u64::from(seed(ones)) << 32 | u64::from(seed(ones));
                let mut digest = CRC64.digest_with_initial(initial);
                digest.update(data);
                digest.finalize().to_be_bytes()
            }
            Self::T10Dif {
                guard,
                ones,
                application,
                reference,
                increments,
                ..
            } => {
                let guard = match guard {
                    Guard::Crc => {
                        let mut digest = DIF.digest_with_initial(seed(ones) as u16);
                        digest.update(data);
                        digest.finalize()
                    }
                    Guard::Checksum => checksum(ones, data),
                };
                let step = if increments { number as u32 } else { 0 };
                let reference = reference.wrapping_add(step);
                dif(guard, application, reference).to_be_bytes()
            }
        }
    }

    /// Whether a block that came with this signature is not checked.
    pub(super) fn escapes(&self, came: Signature) -> bool {
        match self {
            Self::T10Dif {
                escapes_application,
                escapes_both,
                ..
            } => {
                let application = came[2..4] == [0xff; 2];
                let reference = came[4..] == [0xff; 4];
                *escapes_application && application || *escapes_both && application && reference
            }
            _ => false,
        }
    }

    /// The bytes of a signature that `check` selects and this kind compares.
    pub(super) fn compared(&self, check: u8) -> Signature {
        let mut mask = [0; 8];
        for (at, byte) in mask.iter_mut().enumerate().take(self.length()) {
            *byte = if check >> (7 - at) & 1 != 0 { 0xff } else { 0 };
        }
        if let Self::T10Dif {
            application_mask, ..
        } = self
        {
            let [high, low] = application_mask.to_be_bytes();
            mask[2] &= high;
            mask[3] &= low;
        }
        mask
    }

    pub(super) fn is_dif(&self) -> bool {
        matches!(self, Self::T10Dif { .. })
    }

    /// What is in a PSV before the first block.
    pub(super) fn begins_with(&self) -> u64 {
        match *self {
            Self::Crc32 { ones } | Self::Crc32c { ones } => u64::from(seed(ones)) << 32,
            Self::Crc64 { ones } => u64::from(seed(ones)) << 32 | u64::from(seed(ones)),
            Self::T10Dif {
                ones,
                application,
                reference,
                ..
            } => dif(seed(ones) as u16, application, reference),
        }
    }
}

fn dif(guard: u16, application: u16, reference: u32) -> u64 {
    u64::from(guard) << 48 | u64::from(application) << 32 | u64::from(reference)
}
