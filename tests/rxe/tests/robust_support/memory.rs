//! Memory use of this process.

/// Memory of a process, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory {
    /// In memory.
    pub(crate) resident: u64,
    /// Mapped.
    pub(crate) mapped: u64,
    /// Locked or pinned.
    pub(crate) pinned: u64,
}

impl Memory {
    /// The present memory use of this process.
    pub(crate) fn now() -> Self {
        let status = std::fs::read_to_string("/proc/self/status").expect("/proc is mounted");
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let number = line.and_then(|line| line.split_whitespace().next());
            1024 * number
                .and_then(|text| text.parse::<u64>().ok())
                .unwrap_or(0)
        };
        Self {
            resident: field("VmRSS:"),
            mapped: field("VmSize:"),
            pinned: field("VmPin:"),
        }
    }
}

/// Number of open descriptors of this process.
pub(crate) fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd")
        .expect("/proc is mounted")
        .count()
}
