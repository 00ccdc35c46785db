//! What cargo knows about the workspace and its dependencies.

use anyhow::Context as _;
use serde::Deserialize;
use std::collections::HashSet;
use testbed::host;

/// The part of `cargo metadata` that is used here.
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
    /// Runs cargo metadata, for the target of static programs.
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

    /// The package of this name in the workspace.
    pub(crate) fn member(&self, name: &str) -> Option<&Package> {
        self.members().find(|package| package.name == name)
    }
}
