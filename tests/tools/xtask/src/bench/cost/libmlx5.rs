//! What libmlx5 takes for the same loops, counted in a guest: as it is, without its locks, and by
//! its newer functions.

use testbed::{Connectx, Function, Kernel, Machine, host};

use super::callgrind::Counts;
use super::oracle::{self, EXTENDED, USUAL};
use super::{MEMORY_MIB, loops};

/// The Debian suite that it is from, and the kernel it runs on, which its loops do not enter.
const SUITE: &str = "trixie";
const KERNEL: &str = "6.12";

/// It takes no locks then.
const ONE_THREAD: &str = "MLX5_SINGLE_THREADED=1";

/// A way to use it: its name in the table, program, and environment.
const WAYS: [(&str, (&str, &str), &str); 3] = [
    ("libmlx5", USUAL, ""),
    ("one thread", USUAL, ONE_THREAD),
    ("`ibv_wr_…`, one thread", EXTENDED, ONE_THREAD),
];

/// Its instructions by way and loop.
pub(super) struct Libmlx5([Counts; WAYS.len()]);

impl Libmlx5 {
    /// Counts them on a device that takes doorbells of 8 bytes.
    pub(super) fn measure() -> anyhow::Result<Self> {
        let programs = oracle::build(SUITE)?;
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
        let [first, second, third] =
            WAYS.map(|(_, (_, program), environment)| loops(&guest, program, environment));
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
