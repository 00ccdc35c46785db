//! The parts of `cargo metadata` that are used here.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;

use crate::root;

/// The target of static programs. Crates that are only for other systems are not built for it.
const TARGET: &str = "x86_64-unknown-linux-musl";

/// The folder of crates with the names of others.
const STAND_INS: &str = "/src/compat/sys/";

/// All crates that are built from the workspace, with every feature.
#[derive(Debug)]
pub struct Crates {
    packages: BTreeMap<String, Package>,
}

/// One of them.
#[derive(Clone, Debug)]
pub struct Package {
    /// Its name.
    pub name: String,
    /// The value of its `links` key: the C library it links, if any.
    pub links: Option<String>,
    /// Whether it is a member of the workspace.
    pub ours: bool,
    /// Whether it is published.
    pub shipped: bool,
    /// Where its manifest is.
    pub manifest: String,
    /// What it is built with: normal dependencies and those of its build script, by id.
    needs: Vec<String>,
}

/// What the libraries for C programs are made of.
const FOR_C: [&str; 3] = ["uverbs-compat", "uverbs-compat-base", "uverbs-compat-cm"];

impl Package {
    /// Whether others get it: published, or in a library for C programs, or in place of a crate
    /// that binds one.
    pub fn delivered(&self) -> bool {
        let stands_in = self.ours && self.manifest.contains(STAND_INS);
        self.shipped || stands_in || FOR_C.contains(&self.name.as_str())
    }
}

impl Crates {
    /// Runs cargo metadata.
    pub fn read() -> Self {
        let output = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
            .current_dir(root())
            .args(["metadata", "--format-version", "1", "--all-features"])
            .args(["--filter-platform", TARGET])
            .output()
            .expect("cargo can be run");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "cargo metadata failed: {said}");
        let json: Value = serde_json::from_slice(&output.stdout).expect("cargo writes JSON");
        let members: BTreeSet<_> = list(&json["workspace_members"]).iter().map(text).collect();
        let nodes = list(&json["resolve"]["nodes"]);
        let needs: BTreeMap<_, _> = nodes
            .iter()
            .map(|node| (text(&node["id"]), needs(node)))
            .collect();
        let packages = list(&json["packages"]).iter().map(|package| {
            let id = text(&package["id"]);
            let ours = members.contains(&id);
            let made = Package {
                name: text(&package["name"]),
                links: package["links"].as_str().map(str::to_owned),
                ours,
                // An empty list of registries means that it is not published.
                shipped: ours && package["publish"].is_null(),
                manifest: text(&package["manifest_path"]),
                needs: needs.get(&id).cloned().unwrap_or_default(),
            };
            (id, made)
        });
        Self {
            packages: packages.collect(),
        }
    }

    /// The members of the workspace.
    pub fn ours(&self) -> impl Iterator<Item = &Package> {
        self.packages.values().filter(|package| package.ours)
    }

    /// The published crates.
    pub fn shipped(&self) -> impl Iterator<Item = &Package> {
        self.packages.values().filter(|package| package.shipped)
    }

    /// What others get.
    pub fn delivered(&self) -> impl Iterator<Item = &Package> {
        self.packages.values().filter(|package| package.delivered())
    }

    /// The direct dependencies that a crate is built with.
    pub fn direct<'a>(&'a self, of: &'a Package) -> impl Iterator<Item = &'a Package> {
        of.needs.iter().filter_map(|id| self.packages.get(id))
    }

    /// All dependencies that a crate is built with, each with the crate that needs it.
    pub fn closure<'a>(&'a self, of: &'a Package) -> Vec<(&'a Package, &'a Package)> {
        let mut seen = BTreeSet::new();
        let mut found = Vec::new();
        let mut open = vec![of];
        while let Some(package) = open.pop() {
            for id in &package.needs {
                if let Some(needed) = self.packages.get(id)
                    && seen.insert(id)
                {
                    found.push((package, needed));
                    open.push(needed);
                }
            }
        }
        found
    }
}

/// The dependencies of a node, except those of its tests.
fn needs(node: &Value) -> Vec<String> {
    let edges = list(&node["deps"]).iter();
    let built = edges.filter(|edge| {
        let kinds = list(&edge["dep_kinds"]);
        kinds.iter().any(|kind| kind["kind"] != "dev")
    });
    built.map(|edge| text(&edge["pkg"])).collect()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> String {
    value.as_str().expect("cargo writes a text here").to_owned()
}
