//! The fuzz targets: one function per untrusted input, from bytes to a verdict.
//!
//! Each takes arbitrary bytes and must neither panic nor hang. libFuzzer drives them in the `fuzz`
//! workspace; the tests here run them over the seeds of that workspace and over random bytes.

mod async_event;
mod cm_event;
mod gid_sysfs;
mod ioctl_reply;
mod nldev_dump;
mod rxe_ring;
mod stream_wire;
mod wc;

pub use async_event::async_event;
pub use cm_event::cm_event;
pub use gid_sysfs::gid_sysfs;
pub use ioctl_reply::ioctl_reply;
pub use nldev_dump::nldev_dump;
pub use rxe_ring::rxe_ring;
pub use stream_wire::stream_wire;
pub use wc::wc;

/// A target: its name, which is that of its folder of seeds, and its body.
pub type Target = (&'static str, fn(&[u8]));

/// Every target.
pub const ALL: [Target; 8] = [
    ("async_event", async_event),
    ("cm_event", cm_event),
    ("gid_sysfs", gid_sysfs),
    ("ioctl_reply", ioctl_reply),
    ("nldev_dump", nldev_dump),
    ("rxe_ring", rxe_ring),
    ("stream_wire", stream_wire),
    ("wc", wc),
];

/// Takes values from the front of a fuzzer's bytes.
#[derive(Debug)]
pub(crate) struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Up to `len` bytes.
    pub(crate) fn take(&mut self, len: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        taken
    }

    /// The next bytes as a number; bytes beyond the end are zero.
    pub(crate) fn number(&mut self, len: usize) -> u64 {
        let mut word = [0; 8];
        let bytes = self.take(len.min(8));
        word.iter_mut()
            .zip(bytes)
            .for_each(|(word, byte)| *word = *byte);
        u64::from_le_bytes(word)
    }

    pub(crate) fn byte(&mut self) -> u8 {
        self.take(1).first().copied().unwrap_or(0)
    }

    #[expect(clippy::cast_possible_truncation, reason = "four bytes were taken")]
    pub(crate) fn word(&mut self) -> u32 {
        self.number(4) as u32
    }

    #[expect(clippy::cast_possible_truncation, reason = "two bytes were taken")]
    pub(crate) fn small(&mut self) -> usize {
        self.number(2) as usize
    }
}
