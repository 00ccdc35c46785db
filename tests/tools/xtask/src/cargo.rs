//! Cargo, called from within `cargo xtask`.

use testbed::host;

/// The tests of the library for C programs, called as these call it.
pub(crate) const C_CALLERS: &str = "c-callers-tests";

/// The packages that need no machine: the stack, and the tests that run it on the fake kernel, on
/// rings and against hostile kernels, and as C programs.
pub(crate) const PACKAGES: [&str; 8] = [
    "uverbs-core",
    "uverbs-rxe",
    "uverbs-mlx5",
    "uverbs-any",
    "uverbs-fake",
    "fake-tests",
    "hostile-tests",
    C_CALLERS,
];

/// The test that measures what objects cost.
pub(crate) const GROWTH: &str = "the_cost_per_object_does_not_grow";

/// Tests that measure time: what translates, instruments or interprets a program adds its own.
pub(crate) const TIMED: [&str; 2] = [GROWTH, "a_server_of_tasks_outlives_200_peers_a_second"];

/// Makes tests run only a sample of many similar cases, when it is set.
pub(crate) const THINNED: &str = "UVERBS_TEST_THINNED";

/// Sanitizers require an explicit target.
pub(crate) const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Runs cargo with these arguments in the root of the workspace; its output goes where ours goes.
pub(crate) fn cargo(args: &[&str], env: &[(&str, &str)]) -> anyhow::Result<()> {
    host::say(format_args!("runs cargo {}", args.join(" ")));
    let mut command = testbed::cargo::command();
    command.args(args).envs(env.iter().copied());
    Ok(host::run(&mut command)?)
}
