//! What libmlx5 takes for the same loops: as it is, without its locks, and by its newer functions.
//! Its instructions are counted in a guest, and it is [timed on this machine](super::native).

use testbed::{Connectx, Function, Kernel, Machine, host};

use super::callgrind::Counts;
use super::oracle::{EXTENDED, Programs, USUAL};
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

/// Its instructions by way and loop.
pub(super) struct Libmlx5([Counts; WAYS.len()]);

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
        let counts = Self([first?, second?, third?]);
        guest.power_off()?;
        Ok(counts)
    }

    /// The names of the ways.
    pub(super) fn names() -> [&'static str; WAYS.len()] {
        WAYS.map(|(name, _, _)| name)
    }

    /// What a loop takes each way, where it has that loop.
    pub(super) fn instructions(&self, function: &str) -> [Option<f64>; WAYS.len()] {
        self.0.each_ref().map(|counts| counts.get(function))
    }
}
