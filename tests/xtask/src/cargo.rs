//! Cargo, called from within `cargo xtask`.

use testbed::host;

/// Runs cargo with these arguments in the root of the workspace; its output goes where ours goes.
pub(crate) fn cargo(args: &[&str], env: &[(&str, &str)]) -> anyhow::Result<()> {
    host::say(format_args!("runs cargo {}", args.join(" ")));
    let mut command = testbed::cargo::command();
    command.args(args).envs(env.iter().copied());
    Ok(host::run(&mut command)?)
}
