//! Signatures of keys: what C says of them, and what is found wrong.
//!
//! # Safety
//!
//! Exports names of the library that this one stands for.
#![allow(unsafe_code, reason = "exports names")]

use std::ffi::c_int;

use uverbs_any::Of as _;
use uverbs_mlx5::devx::{Devx, SignatureCaps};
use uverbs_mlx5::{
    BlockSize, Crc, Escape, Guard, IndirectKey, QueuePair, Signature, SignatureError,
    SignaturePart, Signatures, SignedBlocks, T10Dif,
};

use super::abi::{
    mlx5dv_mkey_err, mlx5dv_sig_block_attr, mlx5dv_sig_block_domain, mlx5dv_sig_caps,
    mlx5dv_sig_crc, mlx5dv_sig_err, mlx5dv_sig_t10dif,
};
use super::changes;
use super::dynamic::Extended;
use super::keys::Mkey;
use crate::answer::{Answer, negative, number};
use crate::context::Context;
use crate::errno::Code;
use crate::pointer::{Handle, In, Out};

/// `MLX5DV_…_CAP_…`: one bit for each value of the enum.
mod cap {
    pub(super) const T10DIF_AND_CRC: u32 = 0b11;
    pub(super) const BOTH_GUARDS: u16 = 0b11;
    pub(super) const CRC32: u16 = 1;
    pub(super) const CRC32C: u16 = 1 << 1;
    pub(super) const CRC64_XP10: u16 = 1 << 2;
    /// 512, 520, 4,096 and 4,160 bytes.
    pub(super) const USUAL_BLOCKS: u64 = 0b1_1011;
    pub(super) const BLOCKS_OF_4048: u64 = 1 << 2;
}

/// What the device offers, as C knows it; nothing, if the firmware does not answer.
pub(super) fn caps(context: &Context) -> mlx5dv_sig_caps {
    let caps = Devx::new(context.file()).signature_caps();
    let caps: SignatureCaps = caps.unwrap_or_default();
    if !caps.signatures {
        return mlx5dv_sig_caps {
            block_size: 0,
            block_prot: 0,
            t10dif_bg: 0,
            crc_type: 0,
        };
    }
    let if_set = |has, bit| if has { bit } else { 0 };
    mlx5dv_sig_caps {
        block_size: cap::USUAL_BLOCKS
            | if caps.blocks_of_4048 {
                cap::BLOCKS_OF_4048
            } else {
                0
            },
        block_prot: cap::T10DIF_AND_CRC,
        t10dif_bg: cap::BOTH_GUARDS,
        crc_type: cap::CRC32
            | if_set(caps.crc32c, cap::CRC32C)
            | if_set(caps.crc64_xp10, cap::CRC64_XP10),
    }
}

/// A block size of C's.
pub(super) fn block_size(raw: u32) -> Answer<BlockSize> {
    Ok(match raw {
        0 => BlockSize::Bytes512,
        1 => BlockSize::Bytes520,
        2 => BlockSize::Bytes4048,
        3 => BlockSize::Bytes4096,
        4 => BlockSize::Bytes4160,
        _ => return Err(Code::INVALID),
    })
}

/// Whether a seed is all ones; it has to be that or 0.
fn starts_with_ones(seed: u64, ones: u64) -> Answer<bool> {
    match seed {
        0 => Ok(false),
        seed if seed == ones => Ok(true),
        _ => Err(Code::INVALID),
    }
}

fn crc(crc: &mlx5dv_sig_crc) -> Answer<Signature> {
    let (kind, ones) = match crc.r#type {
        0 => (Crc::Crc32, u64::from(u32::MAX)),
        1 => (Crc::Crc32c, u64::from(u32::MAX)),
        2 => (Crc::Crc64Xp10, u64::MAX),
        _ => return Err(Code::INVALID),
    };
    Ok(Signature::Crc {
        kind,
        starts_with_ones: starts_with_ones(crc.seed, ones)?,
    })
}

fn t10_dif(dif: &mlx5dv_sig_t10dif) -> Answer<Signature> {
    const INCREMENTS: u16 = 1;
    const ESCAPES_APPLICATION: u16 = 1 << 1;
    const ESCAPES_BOTH: u16 = 1 << 2;
    let starts_with_ones = starts_with_ones(dif.bg.into(), u16::MAX.into())?;
    let guard = match dif.bg_type {
        0 => Guard::Crc,
        1 => Guard::Checksum,
        _ => return Err(Code::INVALID),
    };
    if dif.flags & !(INCREMENTS | ESCAPES_APPLICATION | ESCAPES_BOTH) != 0 {
        return Err(Code::INVALID);
    }
    let escape = match dif.flags {
        flags if flags & ESCAPES_BOTH != 0 => Escape::Both,
        flags if flags & ESCAPES_APPLICATION != 0 => Escape::Application,
        _ => Escape::Never,
    };
    Ok(Signature::T10Dif(T10Dif {
        guard,
        starts_with_ones,
        application: dif.app_tag,
        reference: dif.ref_tag,
        increments: dif.flags & INCREMENTS != 0,
        escape,
    }))
}

/// One side, if there is one.
fn side(raw: *const mlx5dv_sig_block_domain) -> Answer<Option<SignedBlocks>> {
    const T10DIF: u32 = 0;
    const CRC: u32 = 1;
    let Ok(domain) = In::of(raw).get() else {
        return Ok(None);
    };
    let size = block_size(domain.block_size)?;
    if domain.comp_mask != 0 {
        return Err(Code::INVALID);
    }
    let signature = match domain.sig_type {
        T10DIF => t10_dif(In::<mlx5dv_sig_t10dif>::of(domain.sig.cast()).get()?)?,
        CRC => crc(In::<mlx5dv_sig_crc>::of(domain.sig.cast()).get()?)?,
        _ => return Err(Code::INVALID),
    };
    Ok(Some(SignedBlocks { size, signature }))
}

/// What C says that a key does with signatures.
fn signatures(attr: &mlx5dv_sig_block_attr) -> Answer<Signatures> {
    const COPY_MASK: u32 = 1;
    let none = attr.mem.is_null() && attr.wire.is_null();
    if none || attr.flags & !COPY_MASK != 0 || attr.comp_mask != 0 {
        return Err(Code::INVALID);
    }
    Ok(Signatures {
        memory: side(attr.mem)?,
        wire: side(attr.wire)?,
        check: attr.check_mask,
        copy: (attr.flags & COPY_MASK != 0).then_some(attr.copy_mask),
    })
}

pub(super) extern "C" fn set_sig_block(qp: Handle<Extended>, attr: In<mlx5dv_sig_block_attr>) {
    changes::set(qp, |change| {
        change.set_signatures(|| signatures(attr.get()?))
    });
}

/// `enum mlx5dv_mkey_err_type`.
const NO_ERROR: u32 = 0;

fn error_type(part: SignaturePart) -> u32 {
    match part {
        SignaturePart::Guard => 1,
        SignaturePart::Reference => 2,
        SignaturePart::Application => 3,
        _ => NO_ERROR,
    }
}

fn check(key: &IndirectKey, into: &mut mlx5dv_mkey_err) -> Answer<()> {
    let found = key.check().map_err(|_| Code::INVALID)?;
    let Some(SignatureError {
        part,
        expected,
        actual,
        offset,
    }) = found
    else {
        into.err_type = NO_ERROR;
        return Ok(());
    };
    into.err_type = error_type(part);
    into.err = mlx5dv_sig_err {
        actual_value: actual,
        expected_value: expected,
        offset,
    };
    Ok(())
}

/// EINVAL: a key without signatures, a report that has no meaning for it, and a struct that is
/// shorter than it has been since it is there.
#[unsafe(no_mangle)]
extern "C" fn _mlx5dv_mkey_check(
    key: Handle<Mkey>,
    into: Out<mlx5dv_mkey_err>,
    length: usize,
) -> c_int {
    number(|| {
        if length < size_of::<mlx5dv_mkey_err>() {
            return Err(Code::INVALID);
        }
        let key = key.get()?;
        key.with(|key| {
            if key.options().signatures {
                Ok(())
            } else {
                Err(Code::INVALID)
            }
        })?;
        let into = into.get()?;
        key.with(|key| check(key, into))
    })
}

/// How many requests there were, or a negative errno; EINVAL while the send queue has not drained.
#[unsafe(no_mangle)]
extern "C" fn mlx5dv_qp_cancel_posted_send_wrs(qp: Handle<Extended>, wr_id: u64) -> c_int {
    let mut count = 0;
    let failed = negative(|| {
        qp.get()?.queue_pair().sending(|queue| {
            let own: Option<&mut QueuePair> = queue.of_mut();
            let own = own.ok_or(Code::UNSUPPORTED)?;
            count = own.cancel_sends(wr_id)?;
            Ok(())
        })
    });
    if failed < 0 {
        return failed;
    }
    c_int::try_from(count).unwrap_or(c_int::MAX)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use std::ptr::null;

    use super::*;

    static CRC: mlx5dv_sig_crc = mlx5dv_sig_crc { r#type: 0, seed: 0 };
    const DIF: mlx5dv_sig_t10dif = mlx5dv_sig_t10dif {
        bg_type: 0,
        bg: 0,
        app_tag: 0,
        ref_tag: 0,
        flags: 0,
    };

    #[test]
    fn seeds_are_all_ones_or_none() {
        let refused = |r#type, seed| crc(&mlx5dv_sig_crc { r#type, seed }).is_err();
        assert!(!refused(0, 0) && !refused(1, 0xffff_ffff) && !refused(2, u64::MAX));
        assert!(refused(0, 1) && refused(1, u64::MAX) && refused(2, 0xffff_ffff));
        assert!(refused(3, 0));
        let refused = |bg| t10_dif(&mlx5dv_sig_t10dif { bg, ..DIF }).is_err();
        assert!(!refused(0) && !refused(0xffff) && refused(1));
    }

    #[test]
    fn what_libmlx5_refuses_is_refused() {
        let flags = |flags| t10_dif(&mlx5dv_sig_t10dif { flags, ..DIF }).is_err();
        assert!(!flags(7) && flags(8));
        let guard = |bg_type| t10_dif(&mlx5dv_sig_t10dif { bg_type, ..DIF }).is_err();
        assert!(!guard(1) && guard(2));
        let domain = |sig_type, block_size, comp_mask| mlx5dv_sig_block_domain {
            sig_type,
            sig: (&raw const CRC).cast(),
            block_size,
            comp_mask,
        };
        let attr = |mem: *const _, flags, comp_mask| mlx5dv_sig_block_attr {
            mem,
            wire: null(),
            flags,
            check_mask: 0,
            copy_mask: 3,
            comp_mask,
        };
        let good = domain(1, 4, 0);
        let made = signatures(&attr(&raw const good, 1, 0)).unwrap();
        assert_eq!(
            (made.memory.unwrap().size, made.copy),
            (BlockSize::Bytes4160, Some(3))
        );
        assert!(signatures(&attr(null(), 0, 0)).is_err());
        assert!(signatures(&attr(&raw const good, 2, 0)).is_err());
        assert!(signatures(&attr(&raw const good, 0, 1)).is_err());
        for bad in [domain(2, 0, 0), domain(1, 5, 0), domain(1, 0, 1)] {
            assert!(signatures(&attr(&raw const bad, 0, 0)).is_err());
        }
    }
}
