//! MSI-X vectors as the event file descriptors that QEMU passes.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::memory::Interrupts;

/// Event file descriptors by vector.
#[derive(Debug, Default)]
pub(crate) struct Vectors(Mutex<BTreeMap<u32, File>>);

impl Vectors {
    fn files(&self) -> MutexGuard<'_, BTreeMap<u32, File>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the descriptors of `count` vectors from `start` on; without descriptors the vectors
    /// are released.
    pub(crate) fn set(&self, start: u32, count: u32, files: Vec<File>) {
        let mut vectors = self.files();
        if files.is_empty() {
            // A count of 0 means all of them.
            let end = if count == 0 {
                u32::MAX
            } else {
                start.saturating_add(count)
            };
            vectors.retain(|vector, _| *vector < start || *vector >= end);
        }
        for (file, vector) in files.into_iter().zip(start..) {
            vectors.insert(vector, file);
        }
    }

    /// Releases all vectors.
    pub(crate) fn clear(&self) {
        self.files().clear();
    }
}

impl Interrupts for Vectors {
    fn raise(&self, vector: u32) {
        if let Some(mut file) = self.files().get(&vector) {
            // A full event counter already has an interrupt pending.
            let _ = file.write_all(&1u64.to_ne_bytes());
        }
    }
}
