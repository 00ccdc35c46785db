//! Pages divided into parts with one owner each.

use std::sync::Arc;

use super::Pages;

/// A part of pages that is accessed only through this value: the memory of a ring.
#[derive(Debug)]
pub struct Part {
    pages: Arc<Pages>,
    offset: usize,
    len: usize,
}

/// Keeps pages mapped, without access to their bytes.
#[derive(Clone, Debug)]
pub struct KeepMapped(#[expect(dead_code, reason = "kept for its drop")] Arc<Pages>);

impl From<Pages> for Part {
    /// All of the pages.
    fn from(pages: Pages) -> Self {
        Self {
            len: pages.len(),
            pages: Arc::new(pages),
            offset: 0,
        }
    }
}

impl Part {
    /// Bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True for no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The address of its first byte, for queues.
    pub fn address(&self) -> u64 {
        self.pages.address() + self.offset as u64
    }

    /// A value that keeps the pages mapped, to hold until the kernel has confirmed that they are no
    /// longer used.
    pub fn keep_mapped(&self) -> KeepMapped {
        KeepMapped(Arc::clone(&self.pages))
    }

    /// The same, consuming the part.
    pub(super) fn into_keep_mapped(self) -> KeepMapped {
        KeepMapped(self.pages)
    }

    /// Splits it into its first `at` bytes and the rest. `None` if it is shorter.
    pub fn split(self, at: usize) -> Option<(Self, Self)> {
        let rest = Self {
            pages: Arc::clone(&self.pages),
            offset: self.offset.checked_add(at)?,
            len: self.len.checked_sub(at)?,
        };
        Some((Self { len: at, ..self }, rest))
    }

    /// The first byte.
    #[inline]
    pub(super) fn start(&self) -> *mut u8 {
        self.pages.as_ptr().wrapping_add(self.offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_disjoint_and_together_the_whole() {
        let whole = Part::from(Pages::new(100).unwrap());
        let start = whole.address();
        let (one, rest) = whole.split(40).unwrap();
        let (two, none) = rest.split(60).unwrap();
        assert_eq!((one.address(), one.len()), (start, 40));
        assert_eq!((two.address(), two.len()), (start + 40, 60));
        assert_eq!((none.address(), none.len()), (start + 100, 0));
        assert!(none.is_empty() && none.split(1).is_none());
        assert!(two.split(usize::MAX).is_none());
    }
}
