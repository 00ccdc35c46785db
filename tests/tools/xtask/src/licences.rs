//! Checks that every crate has an acceptable licence.

use crate::metadata::Metadata;
use anyhow::{Context as _, bail};
use serde::Deserialize;
use spdx::{Expression, ParseMode};
use std::fs;

/// The part of `deny.toml` that is used here; cargo-deny reads the same file.
#[derive(Debug, Deserialize)]
struct Deny {
    licenses: Licenses,
}

#[derive(Debug, Deserialize)]
struct Licenses {
    allow: Vec<String>,
    exceptions: Vec<Exception>,
}

/// Additional licences that one crate may have.
#[derive(Debug, Deserialize)]
struct Exception {
    #[serde(rename = "crate")]
    name: String,
    allow: Vec<String>,
}

/// Compares the licence of every crate, including those of tests and tools, with the list in
/// `deny.toml`.
pub(crate) fn compare() -> anyhow::Result<()> {
    let path = testbed::cargo::workspace().join("deny.toml");
    let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    let deny: Deny =
        toml::from_str(&text).with_context(|| format!("understanding {}", path.display()))?;
    let metadata = Metadata::read()?;
    let wrong = metadata.packages.iter().filter_map(|package| {
        let licence = package.license.as_deref().unwrap_or_default();
        let why = refused(licence, &deny.licenses.allowed_for(&package.name))?;
        Some(format!("{} {}: {why}", package.name, package.version))
    });
    let wrong: Vec<_> = wrong.collect();
    if !wrong.is_empty() {
        bail!(
            "licences that deny.toml does not allow:\n  {}",
            wrong.join("\n  ")
        );
    }
    println!(
        "licences: {} crates, all allowed by deny.toml",
        metadata.packages.len()
    );
    Ok(())
}

impl Licenses {
    fn allowed_for(&self, package: &str) -> Vec<String> {
        let exceptions = self
            .exceptions
            .iter()
            .filter(|exception| exception.name == package)
            .flat_map(|exception| &exception.allow);
        self.allow.iter().chain(exceptions).cloned().collect()
    }
}

/// Why a licence is refused, if it is.
fn refused(licence: &str, allowed: &[String]) -> Option<String> {
    if licence.is_empty() {
        return Some("no licence named".into());
    }
    match Expression::parse_mode(licence, ParseMode::LAX) {
        Err(error) => Some(format!("{licence:?} is no licence expression: {error}")),
        Ok(expression) => {
            let fits = expression.evaluate(|wanted| allowed.contains(&wanted.to_string()));
            (!fits).then(|| licence.to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::refused;

    #[test]
    fn one_allowed_choice_is_enough() {
        let allowed = ["Apache-2.0".to_owned(), "MIT".to_owned()];
        assert_eq!(refused("MIT OR GPL-2.0-only", &allowed), None);
        assert_eq!(refused("MIT/Apache-2.0", &allowed), None);
        assert_eq!(
            refused("MIT AND Zlib", &allowed).as_deref(),
            Some("MIT AND Zlib")
        );
        assert!(refused("", &allowed).is_some());
        assert!(refused("who knows", &allowed).is_some());
    }
}
