//! The Rust files of the working tree or of a commit.

use anyhow::{Context as _, ensure};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use testbed::cargo::workspace;

/// Paths below the workspace, with the text of each.
#[derive(Debug)]
pub(super) struct Tree(BTreeMap<String, String>);

impl Tree {
    pub(super) fn read(revision: Option<&str>) -> anyhow::Result<Self> {
        let paths = match revision {
            None => git(&["ls-files", "*.rs"])?,
            Some(revision) => git(&["ls-tree", "-r", "--name-only", revision])?,
        };
        let rust = paths
            .lines()
            .filter(|path| Path::new(path).extension() == Some("rs".as_ref()));
        let read = |path: &str| {
            let text = match revision {
                None => fs::read_to_string(workspace().join(path)).context(path.to_owned())?,
                Some(revision) => git(&["show", &format!("{revision}:{path}")])?,
            };
            Ok((path.to_owned(), text))
        };
        rust.map(read).collect::<anyhow::Result<_>>().map(Self)
    }

    pub(super) fn files(&self) -> impl Iterator<Item = (&str, &str)> {
        let files = self.0.iter();
        files.map(|(path, text)| (path.as_str(), text.as_str()))
    }
}

fn git(arguments: &[&str]) -> anyhow::Result<String> {
    let mut command = Command::new("git");
    let output = command.args(arguments).current_dir(workspace()).output();
    let output = output.context("git")?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "git {}: {complaint}",
        arguments.join(" ")
    );
    String::from_utf8(output.stdout).context("git: a file is no text")
}
