//! Writes to memory that a request names by its address, on behalf of the device.
//!
//! # Safety
//!
//! The caller passes the address and promises that memory of this process is there; it is accessed
//! only through [`Words`] of the range that is written.
#![allow(unsafe_code, reason = "writes to an address that the caller passes")]

use super::words::Words;

/// Copies `bytes` to `address`, as the device would do: by atomic accesses (with the widths of
/// [`Pages`](super::Pages)).
///
/// # Safety
/// That many bytes at `address` are memory of this process, and may be written. Concurrent accesses
/// to them are atomic and of the same width.
pub unsafe fn write_in_place(address: u64, bytes: &[u8]) {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "an address of this process"
    )]
    let start = std::ptr::with_exposed_provenance_mut::<u8>(address as usize);
    // SAFETY: the caller's promise.
    let words = unsafe { Words::new(start, bytes.len()) };
    words.write(0, bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_land_where_they_are_sent_and_nowhere_else() {
        for (at, len) in [(0, 0), (3, 1), (5, 8), (0, 32), (7, 33)] {
            let mut memory = [0xee_u8; 64];
            let start = memory.as_mut_ptr().expose_provenance() as u64;
            let bytes: Vec<u8> = (1..=64).take(len).collect();
            // SAFETY: inside the array, which nothing else accesses.
            unsafe { write_in_place(start + at as u64, &bytes) };
            let mut expected = [0xee_u8; 64];
            expected[at..at + len].copy_from_slice(&bytes);
            assert_eq!(memory, expected, "{len} bytes at {at}");
        }
    }
}
