//! Unpredictable numbers, without a system call.
//!
//! The kernel passes each program 16 random bytes when it starts (`AT_RANDOM`, `fs/binfmt_elf.c`).
//! They are hashed together with the time, so that forked children and reused queue pairs get
//! different numbers, and with a counter, so that numbers drawn at the same instant differ. That is
//! good enough for numbers that are sent in the clear, such as first packet numbers and source
//! ports. It is not for keys.
//!
//! # Safety
//!
//! `getauxval(AT_RANDOM)` is the address of those bytes, on the main thread's stack above
//! everything that is ever pushed there. They stay for the life of the process, and nothing writes
//! to them.
#![allow(
    unsafe_code,
    reason = "reads the bytes that the auxiliary vector points to"
)]

use std::ffi::c_ulong;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use linux_raw_sys::auxvec::AT_RANDOM;

use crate::error::Errno;

unsafe extern "C" {
    /// A value that the kernel passed to the program when it started; 0 if there is none.
    fn getauxval(kind: c_ulong) -> c_ulong;
}

/// Bytes of the kernel's seed.
const SEED_LEN: usize = 16;

/// 32 random bits. No system call, if the kernel lets the time be read without one.
///
/// # Errors
/// The errno of `getrandom(2)`, which is used if the kernel gave the program no seed.
pub fn random_u32() -> Result<u32, Errno> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let Some(seed) = seed() else {
        let mut bytes = [0; 4];
        rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
        return Ok(u32::from_ne_bytes(bytes));
    };
    let mut hasher = DefaultHasher::new();
    seed.hash(&mut hasher);
    COUNT.fetch_add(1, Ordering::Relaxed).hash(&mut hasher);
    Instant::now().hash(&mut hasher);
    Ok((hasher.finish() >> 32) as u32)
}

fn seed() -> Option<[u8; SEED_LEN]> {
    if cfg!(miri) {
        // Miri starts programs without an auxiliary vector.
        return None;
    }
    // SAFETY: the function reads a table of the C library and accepts any number.
    let address = unsafe { getauxval(c_ulong::from(AT_RANDOM)) };
    let bytes = std::ptr::with_exposed_provenance::<[u8; SEED_LEN]>(usize::try_from(address).ok()?);
    // SAFETY: a non-zero address is that of the kernel's 16 bytes; see the module's documentation.
    (!bytes.is_null()).then(|| unsafe { bytes.read() })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn numbers_differ_and_use_all_bits() {
        let numbers: Vec<_> = (0..64).map(|_| random_u32().unwrap()).collect();
        let (mut ones, mut zeros) = (0, 0);
        for number in &numbers {
            ones |= number;
            zeros |= !number;
        }
        assert_eq!((ones, zeros), (u32::MAX, u32::MAX));
        let mut distinct = numbers;
        distinct.sort_unstable();
        distinct.dedup();
        assert!(distinct.len() >= 62, "{} of 64", distinct.len());
    }

    #[test]
    fn the_seed_of_the_process_stays_the_same() {
        let seed = seed().expect("Linux gives one");
        assert_ne!(seed, [0; SEED_LEN]);
        assert_eq!(super::seed(), Some(seed));
    }
}
