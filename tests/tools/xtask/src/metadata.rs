//! What cargo knows of the workspace and of the crates it depends on.

use anyhow::Context as _;
use serde::Deserialize;
use std::collections::HashSet;
use testbed::host;

/// `cargo metadata`, as far as it is looked at here.
#[derive(Debug, Deserialize)]
pub(crate) struct Metadata {
    pub(crate) packages: Vec<Package>,
    workspace_members: HashSet<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Package {
    id: String,
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) license: Option<String>,
}

impl Metadata {
    /// Asks cargo, for the target of static programs.
    pub(crate) fn read() -> anyhow::Result<Self> {
        let mut command = testbed::cargo::command();
        command.args([
            "metadata",
            "--format-version",
            "1",
            "--all-features",
            "--filter-platform",
            testbed::cargo::MUSL,
        ]);
        serde_json::from_str(&host::capture(&mut command)?)
            .context("cargo metadata gives something else than expected")
    }

    /// The packages of the workspace.
    fn members(&self) -> impl Iterator<Item = &Package> {
        self.packages
            .iter()
            .filter(|package| self.workspace_members.contains(&package.id))
    }

    /// The package of the workspace of this name.
    pub(crate) fn member(&self, name: &str) -> Option<&Package> {
        self.members().find(|package| package.name == name)
    }
}
