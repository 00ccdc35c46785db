//! The memory of a stopped program.

use std::io::IoSliceMut;

use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::unistd::Pid;

/// The largest length that is read: no attribute and no legacy command is longer.
const MOST: usize = 1 << 17;

/// Reads `len` bytes; returns an empty vector if they cannot be read.
pub(super) fn read(pid: Pid, address: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len.min(MOST)];
    let Ok(base) = usize::try_from(address) else {
        return Vec::new();
    };
    if bytes.is_empty() {
        return bytes;
    }
    let remote = [RemoteIoVec {
        base,
        len: bytes.len(),
    }];
    let count =
        process_vm_readv(pid, &mut [IoSliceMut::new(&mut bytes)], &remote).unwrap_or_default();
    bytes.truncate(count);
    bytes
}

/// A number of `N` bytes at an offset, 0 if it is out of range.
pub(super) fn word<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes
        .get(at..at + N)
        .and_then(|part| part.try_into().ok())
        .unwrap_or([0; N])
}
