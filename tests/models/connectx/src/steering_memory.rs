//! Memory on the device for steering by programs: no window of BAR0 leads to it, only keys of its
//! own kind and steering do. What is in it is not carried out.

/// Log2 of the unit of allocation.
pub(crate) const GRANULE: u32 = 12;
/// Log2 of the bytes for each kind.
pub(crate) const LOG_SIZE: u32 = 20;
/// The device's addresses of each kind: entries, changes of headers, patterns of such changes, and
/// headers to put frames behind.
pub(crate) const STARTS: [u64; 4] = [FIRST, FIRST + SIZE, FIRST + 2 * SIZE, FIRST + 3 * SIZE];
/// Bytes of all kinds.
pub(crate) const LENGTH: u64 = STARTS.len() as u64 * SIZE;

const FIRST: u64 = 0x40_0000_0000;
const SIZE: u64 = 1 << LOG_SIZE;

/// An allocated part.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub(crate) start: u64,
    pub(crate) length: u64,
}

impl Part {
    fn end(&self) -> u64 {
        self.start.saturating_add(self.length)
    }

    /// Whether it is in the memory of one kind.
    pub(crate) fn is_inside(&self) -> bool {
        let aligned = self.start.is_multiple_of(1 << GRANULE);
        let kind = |start: &u64| (*start..*start + SIZE).contains(&self.start);
        let kind = STARTS.into_iter().find(kind);
        aligned && kind.is_some_and(|start| self.end() <= start + SIZE)
    }

    /// Whether both have a byte in common.
    pub(crate) fn meets(&self, other: &Self) -> bool {
        self.start < other.end() && other.start < self.end()
    }

    /// Whether a range is in it.
    pub(crate) fn holds(&self, start: u64, length: u64) -> bool {
        let end = start.checked_add(length);
        start >= self.start && end.is_some_and(|end| end <= self.end())
    }
}

/// The offset in the memory of all kinds.
pub(crate) fn offset(address: u64) -> Option<u64> {
    let offset = address.checked_sub(FIRST);
    offset.filter(|offset| *offset < LENGTH)
}

#[cfg(test)]
mod tests {
    use super::{LENGTH, Part, SIZE, STARTS, offset};

    fn part(start: u64, length: u64) -> Part {
        Part { start, length }
    }

    #[test]
    fn parts_are_of_one_kind_and_apart() {
        assert!(part(STARTS[1], SIZE).is_inside());
        assert!(!part(STARTS[1] + 4096, SIZE).is_inside());
        assert!(!part(STARTS[0] + 64, 4096).is_inside());
        assert!(!part(0, 4096).is_inside() && !part(u64::MAX - 4095, 4096).is_inside());
        let (first, second) = (part(STARTS[0], 4096), part(STARTS[0] + 4096, 4096));
        assert!(first.meets(&first) && !first.meets(&second) && !second.meets(&first));
        assert!(first.holds(STARTS[0], 4096) && !first.holds(STARTS[0] + 1, 4096));
        assert!(!first.holds(u64::MAX, 2));
        assert_eq!(offset(STARTS[3] + SIZE - 1), Some(LENGTH - 1));
        assert_eq!((offset(STARTS[3] + SIZE), offset(0)), (None, None));
    }
}
