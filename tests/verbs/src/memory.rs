//! Registered memory for tests that post raw requests.
//!
//! # Safety
//!
//! The bytes are atomics, so a device may write them while references to them exist, and they are
//! never freed, so it may do so whatever a test drops.
#![allow(unsafe_code, reason = "registers memory of its own")]

use std::sync::atomic::{AtomicU8, Ordering};

use uverbs::memory::{LocalKey, RemoteKey};
use uverbs::{AccessFlags, MemoryRegion, ProtectionDomain, Remote, Result, Sge};

/// Bytes of this process and their registration.
#[derive(Debug)]
pub struct Registered {
    mr: MemoryRegion,
    bytes: &'static [AtomicU8],
}

impl Registered {
    /// Registers `len` zeroed bytes.
    pub fn new(pd: &ProtectionDomain, len: usize, access: AccessFlags) -> Self {
        Self::try_new(pd, len, access)
            .unwrap_or_else(|error| panic!("cannot register {len} bytes for {access}: {error}"))
    }

    /// The same; returns an error if it fails.
    ///
    /// # Errors
    /// Those of registering.
    pub fn try_new(pd: &ProtectionDomain, len: usize, access: AccessFlags) -> Result<Self> {
        let bytes: Box<[AtomicU8]> = (0..len).map(|_| AtomicU8::new(0)).collect();
        let bytes: &'static [AtomicU8] = Box::leak(bytes);
        let start = bytes.as_ptr().cast::<u8>().cast_mut();
        // SAFETY: the bytes are atomics without invalid values that live as long as the process.
        let mr = unsafe { pd.register(start, len, access) }?;
        Ok(Self { mr, bytes })
    }

    /// For everything a peer can do except binding windows.
    pub fn remote_all(pd: &ProtectionDomain, len: usize) -> Self {
        let access = AccessFlags::LOCAL_WRITE
            | AccessFlags::REMOTE_READ
            | AccessFlags::REMOTE_WRITE
            | AccessFlags::REMOTE_ATOMIC;
        Self::new(pd, len, access)
    }

    /// For local use.
    pub fn local(pd: &ProtectionDomain, len: usize) -> Self {
        Self::new(pd, len, AccessFlags::LOCAL_WRITE)
    }

    /// Registers `len` zeroed bytes whose addresses, in requests, are those of bytes of `other`,
    /// which is at least a page longer. Also returns the offset in it.
    pub fn addressed_as(other: &Self, pd: &ProtectionDomain, len: usize) -> (Self, usize) {
        const PAGE: usize = 4096;
        let bytes: Box<[AtomicU8]> = (0..len).map(|_| AtomicU8::new(0)).collect();
        let bytes: &'static [AtomicU8] = Box::leak(bytes);
        let start = bytes.as_ptr().cast::<u8>().cast_mut();
        let offset = start.addr().wrapping_sub(other.bytes.as_ptr().addr()) % PAGE;
        assert!(offset + len <= other.bytes.len());
        let iova = other.mr.address() + offset as u64;
        // SAFETY: the bytes are atomics without invalid values that live as long as the process.
        let mr = unsafe { pd.register_at(start, len, iova, AccessFlags::LOCAL_WRITE) }
            .unwrap_or_else(|error| panic!("cannot register {len} bytes elsewhere: {error}"));
        (Self { mr, bytes }, offset)
    }

    /// The region.
    pub fn mr(&self) -> &MemoryRegion {
        &self.mr
    }

    /// Deregisters it.
    ///
    /// # Errors
    /// As [`MemoryRegion::deregister`].
    pub fn deregister(self) -> Result<()> {
        self.mr.deregister()
    }

    /// The aligned 8 bytes at `offset`, as a number.
    pub fn word(&self, offset: usize) -> u64 {
        u64::from_ne_bytes(self.get(offset, 8).try_into().expect("8 bytes"))
    }

    /// The region, mutably.
    pub fn mr_mut(&mut self) -> &mut MemoryRegion {
        &mut self.mr
    }

    /// A scatter/gather entry for part of it.
    pub fn sge(&self, offset: u64, length: u32) -> Sge {
        self.mr
            .sge(offset, length)
            .unwrap_or_else(|| panic!("{length} bytes at {offset} are outside of the region"))
    }

    /// A scatter/gather entry that need not be inside.
    pub fn raw_sge(&self, offset: u64, length: u32, key: LocalKey) -> Sge {
        Sge {
            address: self.mr.address().wrapping_add(offset),
            length,
            key,
        }
    }

    /// An address in it for a peer.
    pub fn remote(&self, offset: u64) -> Remote {
        self.remote_by(offset, self.mr.rkey())
    }

    /// An address in it for a peer, with another key.
    pub fn remote_by(&self, offset: u64, key: RemoteKey) -> Remote {
        Remote {
            address: self.mr.address().wrapping_add(offset),
            key,
        }
    }

    /// Fills it with `byte(position)`.
    pub fn fill(&self, byte: impl Fn(usize) -> u8) {
        for (at, cell) in self.bytes.iter().enumerate() {
            cell.store(byte(at), Ordering::Relaxed);
        }
    }

    /// Writes `bytes` at `offset`.
    pub fn put(&self, offset: usize, bytes: &[u8]) {
        for (cell, byte) in self.bytes[offset..][..bytes.len()].iter().zip(bytes) {
            cell.store(*byte, Ordering::Relaxed);
        }
    }

    /// The bytes at `offset`.
    pub fn get(&self, offset: usize, len: usize) -> Vec<u8> {
        let cells = &self.bytes[offset..][..len];
        cells
            .iter()
            .map(|cell| cell.load(Ordering::Relaxed))
            .collect()
    }

    /// All of it.
    pub fn all(&self) -> Vec<u8> {
        self.get(0, self.bytes.len())
    }
}
