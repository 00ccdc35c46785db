//! `linux/ioctl.h`: the composition of ioctl numbers.

/// PowerPC, MIPS, SPARC, Alpha and PA-RISC use the numbers of the Unix that they replaced.
#[cfg(any(
    target_arch = "powerpc",
    target_arch = "powerpc64",
    target_arch = "mips",
    target_arch = "mips32r6",
    target_arch = "mips64",
    target_arch = "mips64r6",
    target_arch = "sparc",
    target_arch = "sparc64",
))]
mod arch {
    pub(super) const NONE: u32 = 1;
    pub(super) const READ: u32 = 2;
    pub(super) const WRITE: u32 = 4;
    pub(super) const SIZE_BITS: u32 = 13;
}

/// All other architectures.
#[cfg(not(any(
    target_arch = "powerpc",
    target_arch = "powerpc64",
    target_arch = "mips",
    target_arch = "mips32r6",
    target_arch = "mips64",
    target_arch = "mips64r6",
    target_arch = "sparc",
    target_arch = "sparc64",
)))]
mod arch {
    pub(super) const NONE: u32 = 0;
    pub(super) const WRITE: u32 = 1;
    pub(super) const READ: u32 = 2;
    pub(super) const SIZE_BITS: u32 = 14;
}

const TYPE_SHIFT: u32 = 8;
const SIZE_SHIFT: u32 = 16;

#[expect(clippy::cast_possible_truncation, reason = "asserted just before")]
const fn ioc(direction: u32, magic: u8, number: u8, size: usize) -> u32 {
    assert!(
        size < 1 << arch::SIZE_BITS,
        "an ioctl argument this large has no number"
    );
    (direction << (SIZE_SHIFT + arch::SIZE_BITS))
        | ((size as u32) << SIZE_SHIFT)
        | ((magic as u32) << TYPE_SHIFT)
        | number as u32
}

/// `_IO`: no argument.
pub const fn io(magic: u8, number: u8) -> u32 {
    ioc(arch::NONE, magic, number, 0)
}

/// `_IOR`: the kernel fills an argument of `size` bytes.
pub const fn ior(magic: u8, number: u8, size: usize) -> u32 {
    ioc(arch::READ, magic, number, size)
}

/// `_IOW`: the kernel reads an argument of `size` bytes.
pub const fn iow(magic: u8, number: u8, size: usize) -> u32 {
    ioc(arch::WRITE, magic, number, size)
}

/// `_IOWR`: the kernel reads and fills an argument of `size` bytes.
pub const fn iowr(magic: u8, number: u8, size: usize) -> u32 {
    ioc(arch::READ | arch::WRITE, magic, number, size)
}
