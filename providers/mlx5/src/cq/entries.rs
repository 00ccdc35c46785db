//! The parameters of a completion queue beyond those of the verbs: the format in which the device
//! writes entries.

use uverbs_core::{Error, ErrorKind, Op, Result};
use uverbs_uapi::mlx5_abi::{MLX5_IB_CREATE_CQ_FLAGS_CQE_128B_PAD, mlx5_ib_create_cq};

use crate::context::caps::Caps;
use crate::cqe::Results;

/// The size of a completion queue's entries.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum EntrySize {
    /// 64 bytes.
    #[default]
    Short,
    /// 128 bytes, of which the device writes the second half.
    Long,
    /// 128 bytes, all of which the device writes, so that it writes no partial cache line
    /// (`MLX5DV_CQ_INIT_ATTR_FLAGS_CQE_PAD`).
    Padded,
}

/// `mlx5dv_cq_init_attr`—the format in which the device writes entries into a completion queue.
#[doc(alias = "mlx5dv_cq_init_attr")]
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Entries {
    /// The device may write several completions as one entry, and keeps this field of each.
    /// Default: one entry for each completion.
    pub compressed: Option<Results>,
    /// The size of entries.
    pub size: EntrySize,
}

impl Entries {
    /// Refuses what the device does not support.
    pub(crate) fn check(self, caps: &Caps) -> Result<()> {
        let unsupported = || Error::new(Op::CreateCompletionQueue, ErrorKind::Unsupported);
        if self.size == EntrySize::Padded && !caps.padded_entries {
            return Err(unsupported().hint("the device does not pad entries to 128 bytes"));
        }
        let Some(results) = self.compressed else {
            return Ok(());
        };
        if caps.max_compressed == 0 || caps.compressed_formats & results.format() == 0 {
            return Err(unsupported()
                .fact("format", format!("{results:?}"))
                .fact("max_compressed", caps.max_compressed)
                .hint("the device does not compress completions this way"));
        }
        if self.size != EntrySize::Short && !caps.long_compressed {
            return Err(unsupported().hint("the device compresses entries of 64 bytes only"));
        }
        Ok(())
    }

    /// Bytes of an entry.
    pub(crate) const fn bytes(self) -> u32 {
        match self.size {
            EntrySize::Short => 64,
            EntrySize::Long | EntrySize::Padded => 128,
        }
    }

    /// Encodes it in the driver data.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "flags of a word of 16 bits, and a format of 8"
    )]
    pub(crate) fn encode(self, driver_data: &mut mlx5_ib_create_cq) {
        driver_data.cqe_size = self.bytes();
        if self.size == EntrySize::Padded {
            driver_data.flags |= MLX5_IB_CREATE_CQ_FLAGS_CQE_128B_PAD as u16;
        }
        if let Some(results) = self.compressed {
            driver_data.cqe_comp_en = 1;
            driver_data.cqe_comp_res_format = results.format() as u8;
        }
    }
}

#[cfg(test)]
mod tests {
    use uverbs_uapi::mlx5_abi::{MLX5_IB_CQE_RES_FORMAT_CSUM, MLX5_IB_CQE_RES_FORMAT_HASH};

    use super::*;

    #[test]
    fn what_a_device_lacks_is_refused() {
        let mut caps = Caps::default();
        let hash = Entries {
            compressed: Some(Results::Hash),
            ..Entries::default()
        };
        let long = Entries {
            size: EntrySize::Long,
            ..hash
        };
        let padded = Entries {
            compressed: None,
            size: EntrySize::Padded,
        };
        assert!(Entries::default().check(&caps).is_ok());
        let refused = |entries: Entries, caps: &Caps| {
            let error = entries.check(caps).err();
            error.is_some_and(|error| error.kind() == ErrorKind::Unsupported)
        };
        assert!(refused(hash, &caps) && refused(padded, &caps));
        (caps.max_compressed, caps.compressed_formats) = (64, MLX5_IB_CQE_RES_FORMAT_CSUM);
        assert!(refused(hash, &caps));
        caps.compressed_formats |= MLX5_IB_CQE_RES_FORMAT_HASH;
        assert!(hash.check(&caps).is_ok() && refused(long, &caps));
        (caps.long_compressed, caps.padded_entries) = (true, true);
        assert!(long.check(&caps).is_ok() && padded.check(&caps).is_ok());
        let mut driver_data = mlx5_ib_create_cq::default();
        Entries {
            size: EntrySize::Padded,
            ..hash
        }
        .encode(&mut driver_data);
        assert_eq!((driver_data.cqe_size, driver_data.flags), (128, 1));
        assert_eq!(
            (driver_data.cqe_comp_en, driver_data.cqe_comp_res_format),
            (1, 1)
        );
    }
}
