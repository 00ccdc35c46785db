//! Rules that `cargo metadata` can prove.

mod layers;
mod licences;
mod native;

use anyhow::bail;

pub(crate) use layers::layers;
pub(crate) use licences::licences;
pub(crate) use native::native;

/// Nothing, or one error that names everything that is wrong.
fn verdict(rule: &str, wrong: &[String]) -> anyhow::Result<()> {
    if wrong.is_empty() {
        return Ok(());
    }
    bail!("{rule}:\n  {}", wrong.join("\n  "))
}
