//! What cargo knows of the workspace and of all it depends on.

use anyhow::Context as _;
use serde::Deserialize;
use std::collections::{HashMap, HashSet};
use testbed::host;

/// `cargo metadata`, as far as it is looked at here.
#[derive(Debug, Deserialize)]
pub(crate) struct Metadata {
    pub(crate) packages: Vec<Package>,
    workspace_members: HashSet<String>,
    resolve: Option<Resolve>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Package {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) license: Option<String>,
    pub(crate) links: Option<String>,
    pub(crate) publish: Option<Vec<String>>,
    pub(crate) targets: Vec<Target>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Target {
    pub(crate) name: String,
    pub(crate) kind: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Debug, Deserialize)]
struct Node {
    id: String,
    deps: Vec<Edge>,
}

#[derive(Debug, Deserialize)]
struct Edge {
    pkg: String,
    dep_kinds: Vec<Kind>,
}

/// The kind of a dependency: none for an ordinary one, else `build` or `dev`.
#[derive(Debug, Deserialize)]
struct Kind {
    kind: Option<String>,
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
    pub(crate) fn members(&self) -> impl Iterator<Item = &Package> {
        self.packages
            .iter()
            .filter(|package| self.workspace_members.contains(&package.id))
    }

    /// The package of the workspace of this name.
    pub(crate) fn member(&self, name: &str) -> Option<&Package> {
        self.members().find(|package| package.name == name)
    }

    /// The packages that others get: members of the workspace that may be published.
    pub(crate) fn shipped(&self) -> impl Iterator<Item = &Package> {
        self.members().filter(|package| package.publish.is_none())
    }

    /// The direct dependencies of a package, of the ordinary kind and for its build script.
    pub(crate) fn dependencies(&self, id: &str) -> Vec<&Package> {
        let nodes = self.resolve.iter().flat_map(|resolve| &resolve.nodes);
        let edges = nodes
            .filter(|node| node.id == id)
            .flat_map(|node| &node.deps);
        let built = edges.filter(|edge| {
            edge.dep_kinds
                .iter()
                .any(|kind| kind.kind.as_deref() != Some("dev"))
        });
        let by_id: HashMap<_, _> = self
            .packages
            .iter()
            .map(|package| (package.id.as_str(), package))
            .collect();
        built
            .filter_map(|edge| by_id.get(edge.pkg.as_str()).copied())
            .collect()
    }

    /// Everything that is built with a package, each with the one that needs it.
    pub(crate) fn closure<'a>(&'a self, root: &'a Package) -> Vec<(&'a Package, &'a Package)> {
        let mut seen = HashSet::from([root.id.as_str()]);
        let mut found = Vec::new();
        let mut open = vec![root];
        while let Some(package) = open.pop() {
            for dependency in self.dependencies(&package.id) {
                if seen.insert(&dependency.id) {
                    found.push((package, dependency));
                    open.push(dependency);
                }
            }
        }
        found
    }
}

impl Package {
    /// Whether it has a program of this name.
    pub(crate) fn has_program(&self, name: &str) -> bool {
        self.targets
            .iter()
            .any(|target| target.name == name && target.kind.iter().any(|kind| kind == "bin"))
    }
}
