//! Where queues are in memory, for programs that write requests and read completions themselves.

/// Where a ring is: addresses in this process, which stay until its queue is destroyed (a
/// completion queue's until it is resized).
///
/// Addresses are reported, not lent: a program that writes there takes the queue over, and no
/// longer posts or polls through the library.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Place {
    /// The address of the first entry.
    pub buffer: u64,
    /// The address of the doorbell record: two words of 4 bytes.
    pub record: u64,
    /// How many entries there are.
    pub count: u32,
    /// Bytes from one entry to the next.
    pub stride: u32,
}
