//! 16 bytes at once, where the processor has such loads and stores.

/// What is loaded and stored as one where that is possible; aligned to 16.
#[cfg(target_arch = "x86_64")]
pub(super) type Wide = std::arch::x86_64::__m128i;

/// Two words elsewhere, or a pair of registers.
#[cfg(not(target_arch = "x86_64"))]
pub(super) type Wide = u128;

/// The same at any address.
#[derive(Clone, Copy)]
#[repr(C, packed)]
pub(super) struct Unaligned(pub(super) Wide);
