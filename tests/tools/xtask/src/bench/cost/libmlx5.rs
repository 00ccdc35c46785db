//! What libmlx5 takes for the same loops: as it is, without its locks, and by its newer functions.
//! Its instructions are counted in a guest, and it is [timed on this machine](super::native).

use anyhow::Context as _;
use testbed::{Command, Connectx, Function, Kernel, Machine, host};

use super::callgrind::Counts;
use super::oracle::{EXTENDED, HEAP, Programs, USUAL};
use super::{MEMORY_MIB, loops};

/// The Debian suite that it is from, and the kernel it runs on, which its loops do not enter.
pub(super) const SUITE: &str = "trixie";
const KERNEL: &str = "6.12";

/// It takes no locks if this is 1.
pub(super) const ONE_THREAD: &str = "MLX5_SINGLE_THREADED";

/// A way to use it: its name in the table, program, and whether it takes no locks.
pub(super) type Way = (&'static str, (&'static str, &'static str), bool);
pub(super) const WAYS: [Way; 3] = [
    ("libmlx5", USUAL, false),
    ("one thread", USUAL, true),
    ("`ibv_wr_…`, one thread", EXTENDED, true),
];

/// Its instructions by way and loop, and the bytes of the heap that an object takes.
pub(super) struct Libmlx5 {
    counts: [Counts; WAYS.len()],
    heap: Vec<(String, u32)>,
}

impl Libmlx5 {
    /// Counts them on a device that takes doorbells of 8 bytes.
    pub(super) fn measure(programs: &Programs) -> anyhow::Result<Self> {
        let guest = Machine::new(Kernel::named(KERNEL)?)
            .connectx(Connectx::new(&[Function::Ib]))
            .memory_mib(MEMORY_MIB)
            .with_debian_tools()
            .with_debian_packages(&["valgrind"])
            .debian_suite(SUITE)
            .with_binary(programs.path(USUAL), USUAL.1)
            .with_binary(programs.path(EXTENDED), EXTENDED.1)
            .with_binary(programs.path(HEAP), HEAP.1)
            .boot()?;
        host::say(format_args!("counts libmlx5 on {}", guest.release()));
        let [first, second, third] = WAYS.map(|(_, (_, program), alone)| {
            let environment = if alone {
                format!("{ONE_THREAD}=1")
            } else {
                String::new()
            };
            loops(&guest, program, &environment)
        });
        let heap = guest
            .run(Command::shell(format!("{} mlx5_0", HEAP.1)))?
            .check()?;
        let measured = Self {
            counts: [first?, second?, third?],
            heap: objects(&heap.stdout_text())?,
        };
        guest.power_off()?;
        Ok(measured)
    }

    /// The bytes of the heap that an object takes, by its kind.
    pub(super) fn heap(&self) -> &[(String, u32)] {
        &self.heap
    }

    /// The names of the ways.
    pub(super) fn names() -> [&'static str; WAYS.len()] {
        WAYS.map(|(name, _, _)| name)
    }

    /// What a loop takes each way, where it has that loop.
    pub(super) fn instructions(&self, function: &str) -> [Option<f64>; WAYS.len()] {
        self.counts.each_ref().map(|counts| counts.get(function))
    }
}

/// Kinds and numbers, separated by colons.
fn objects(text: &str) -> anyhow::Result<Vec<(String, u32)>> {
    let each = text.lines().map(|line| {
        let parts = line.split_once(':');
        let (kind, bytes) = parts.with_context(|| format!("{}: {line}", HEAP.1))?;
        Ok((kind.to_owned(), bytes.parse()?))
    });
    each.collect()
}
