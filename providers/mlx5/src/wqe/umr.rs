//! Changes of memory keys as work requests: binding a window, invalidating a key.
//!
//! The control segment of such a request names the key in its last word. Layout: Programmer's
//! Reference Manual, "UMR WQE"; flags as in the kernel's `include/linux/mlx5/qp.h` and `device.h`.

use uverbs_core::PostError;
use uverbs_core::types::{AccessFlags, MwType, WindowBinding};

use crate::wqe::{Unit, data};

/// Units of a request that binds: control segment of the change, context of the key, translation.
pub(crate) const BIND_UNITS: usize = 3 + 4 + 4;

/// Units of a request that invalidates or unbinds: the same without translation.
pub(crate) const INVALIDATE_UNITS: usize = 3 + 4;

/// The longest entry of a translation.
const MAX_LENGTH: u64 = 1 << 31;

/// Octowords (16 bytes) of the translation: one entry, padded to a block.
const TRANSLATION_OCTOWORDS: u64 = 4;

/// Flags of the change.
pub(super) mod flag {
    /// The translation is inline in the request.
    pub(in crate::wqe) const INLINE: u8 = 1 << 7;
    /// Fails unless the key is free.
    pub(super) const CHECK_FREE: u8 = 1 << 5;
    /// The translation is replaced from an offset on.
    pub(super) const TRANSLATION_OFFSET: u8 = 1 << 4;
    /// Fails unless the key is bound to this queue pair.
    pub(super) const CHECK_QPN: u8 = 1 << 3;
}

/// The fields of the key that change.
pub(super) mod mask {
    pub(in crate::wqe) const LENGTH: u64 = 1 << 0;
    pub(super) const START: u64 = 1 << 6;
    pub(in crate::wqe) const KEY: u64 = 1 << 13;
    pub(super) const QPN: u64 = 1 << 14;
    const LOCAL_WRITE: u64 = 1 << 18;
    const REMOTE_READ: u64 = 1 << 19;
    const REMOTE_WRITE: u64 = 1 << 20;
    const ATOMIC: u64 = 1 << 21;
    pub(in crate::wqe) const FREE: u64 = 1 << 29;
    pub(in crate::wqe) const ACCESS: u64 = LOCAL_WRITE | REMOTE_READ | REMOTE_WRITE | ATOMIC;
    pub(super) const BOUND: u64 = LENGTH | START | ACCESS;
}

/// The context of a key that is free.
const CONTEXT_FREE: u8 = 1 << 6;

/// A key that belongs to no queue pair.
pub(super) const NO_QPN: u32 = 0xff_ffff;

/// Access flags, and their bits in the context of a key. Local read was set by the kernel.
const ACCESS: [(AccessFlags, u8); 4] = [
    (AccessFlags::LOCAL_WRITE, 1 << 3),
    (AccessFlags::REMOTE_READ, 1 << 4),
    (AccessFlags::REMOTE_WRITE, 1 << 5),
    (AccessFlags::REMOTE_ATOMIC, 1 << 6),
];

/// The bits of a key's context for these rights.
pub(super) fn access_bits(rights: AccessFlags) -> u8 {
    ACCESS
        .iter()
        .filter(|(right, _)| rights.contains(*right))
        .fold(0, |access, (_, bit)| access | bit)
}

/// The units of a bind; the first [`INVALIDATE_UNITS`] of them if its length is 0, which unbinds.
///
/// # Errors
/// [`PostError::MessageTooLong`] for more than 2 GiB; those of [`WindowBinding::checked`].
pub(crate) fn bind(binding: &WindowBinding, qpn: u32) -> Result<[Unit; BIND_UNITS], PostError> {
    if binding.length > MAX_LENGTH {
        return Err(PostError::MessageTooLong {
            requested: binding.length,
            max: MAX_LENGTH,
        });
    }
    let rights = binding.checked()?;
    let owned = binding.kind == MwType::Type2;
    let variant = binding.new_key.raw() & 0xff;
    if binding.length == 0 {
        return Ok(extend(freed(variant, owned)));
    }
    let mut flags = flag::TRANSLATION_OFFSET | flag::INLINE;
    let mut mask = mask::FREE | mask::KEY | mask::BOUND;
    if owned {
        flags |= flag::CHECK_FREE;
        mask |= mask::QPN;
    }
    let access = access_bits(rights);
    let start = if rights.contains(AccessFlags::ZERO_BASED) {
        0
    } else {
        binding.address
    };
    let qpn = if owned { qpn } else { NO_QPN };
    let mut units = [[0; 2]; BIND_UNITS];
    units[0] = change(flags, TRANSLATION_OCTOWORDS, mask);
    units[3] = context(0, access, qpn, variant);
    units[4] = [start.to_be(), binding.length.to_be()];
    units[7] = data(&uverbs_core::types::Sge {
        address: binding.address,
        length: u32::try_from(binding.length).unwrap_or(u32::MAX),
        key: binding.region_key,
    });
    Ok(units)
}

/// The units that free a key: local invalidate.
pub(crate) fn invalidate() -> [Unit; INVALIDATE_UNITS] {
    freed(0, true)
}

fn freed(variant: u32, owned: bool) -> [Unit; INVALIDATE_UNITS] {
    let mut flags = flag::TRANSLATION_OFFSET | flag::INLINE;
    let mut mask = mask::FREE | mask::KEY;
    if owned {
        flags |= flag::CHECK_QPN;
        mask |= mask::QPN;
    }
    let mut units = [[0; 2]; INVALIDATE_UNITS];
    units[0] = change(flags, 0, mask);
    units[3] = context(CONTEXT_FREE, 0, NO_QPN, variant);
    units
}

fn extend(units: [Unit; INVALIDATE_UNITS]) -> [Unit; BIND_UNITS] {
    let mut extended = [[0; 2]; BIND_UNITS];
    extended[..INVALIDATE_UNITS].copy_from_slice(&units);
    extended
}

/// The first unit of the change's control; the other two are reserved.
pub(super) fn change(flags: u8, octowords: u64, mask: u64) -> Unit {
    [
        (u64::from(flags) << 56 | octowords << 16).to_be(),
        mask.to_be(),
    ]
}

/// The first unit of a key's context.
pub(super) fn context(free: u8, access: u8, qpn: u32, variant: u32) -> Unit {
    let high = u64::from(free) << 56 | u64::from(access) << 40;
    [(high | u64::from(qpn << 8 | variant)).to_be(), 0]
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use uverbs_core::types::{LocalKey, RemoteKey};

    fn binding(kind: MwType, length: u64, access: AccessFlags) -> WindowBinding {
        WindowBinding {
            kind,
            window_key: RemoteKey::from_raw(0x1200),
            new_key: RemoteKey::from_raw(0x1201),
            region_key: LocalKey::from_raw(0x0056_7800),
            address: 0x7000_0000_1000,
            length,
            access,
        }
    }

    fn units(words: [(u64, u64); BIND_UNITS]) -> [Unit; BIND_UNITS] {
        words.map(|(first, second)| [first.to_be(), second.to_be()])
    }

    const REMOTE: AccessFlags = AccessFlags::REMOTE_READ.union(AccessFlags::REMOTE_WRITE);

    #[test]
    fn a_window_of_type_2_belongs_to_its_queue_pair() {
        let bound = bind(&binding(MwType::Type2, 0x2000, REMOTE), 0x00ab_cdef).unwrap();
        let mut words = [(0, 0); BIND_UNITS];
        words[0] = (0xb000_0000_0004_0000, 0x203c_6041);
        words[3] = (0x0000_3000_abcd_ef01, 0);
        words[4] = (0x7000_0000_1000, 0x2000);
        words[7] = (0x2000_0056_7800, 0x7000_0000_1000);
        assert_eq!(bound, units(words));
    }

    #[test]
    fn a_window_of_type_1_belongs_to_no_queue_pair() {
        let access = REMOTE | AccessFlags::ZERO_BASED | AccessFlags::REMOTE_ATOMIC;
        let bound = bind(&binding(MwType::Type1, 0x2000, access), 0x00ab_cdef).unwrap();
        let mut words = [(0, 0); BIND_UNITS];
        words[0] = (0x9000_0000_0004_0000, 0x203c_2041);
        words[3] = (0x0000_7000_ffff_ff01, 0);
        words[4] = (0, 0x2000);
        words[7] = (0x2000_0056_7800, 0x7000_0000_1000);
        assert_eq!(bound, units(words));
    }

    #[test]
    fn freeing_changes_nothing_but_the_key() {
        let unbound = bind(&binding(MwType::Type2, 0, REMOTE), 5).unwrap();
        let mut words = [(0, 0); BIND_UNITS];
        words[0] = (0x9800_0000_0000_0000, 0x2000_6000);
        words[3] = (0x4000_0000_ffff_ff01, 0);
        assert_eq!(unbound, units(words));
        words[3] = (0x4000_0000_ffff_ff00, 0);
        assert_eq!(invalidate(), units(words)[..INVALIDATE_UNITS]);
    }

    #[test]
    fn nothing_without_a_meaning_is_bound() {
        let bind = |kind, access| bind(&binding(MwType::from_raw(kind), 0x2000, access), 5);
        let plain = bind(2, REMOTE).unwrap();
        for at in 0..32 {
            let bit = AccessFlags::from_bits_retain(1 << at);
            let bound = bind(2, REMOTE | bit);
            match at {
                0 | 3 | 5 => assert_ne!(bound.unwrap(), plain, "bit {at}"),
                // A window has it already, does not concern it, or may not know it.
                1 | 2 | 8 | 9 | 20..=29 => assert_eq!(bound.unwrap(), plain, "bit {at}"),
                _ => assert_eq!(bound, Err(PostError::InvalidRequest), "bit {at}"),
            }
        }
        for kind in [0, 3, 255] {
            assert_eq!(bind(kind, REMOTE), Err(PostError::InvalidRequest), "{kind}");
        }
    }

    #[test]
    fn a_window_has_at_most_2_gib() {
        let bind = |length| bind(&binding(MwType::Type2, length, REMOTE), 5);
        assert!(bind(1 << 31).is_ok());
        assert!(matches!(
            bind((1 << 31) + 1),
            Err(PostError::MessageTooLong { .. })
        ));
    }
}
