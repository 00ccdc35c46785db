//! Determines which Debian mirror this machine uses.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::compile::run;

/// The mirror of a Debian system; on another system that has apt, debootstrap's default.
pub(super) fn find() -> Result<String> {
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    if release.lines().any(|line| line == "ID=debian") {
        let format = "$(ORIGIN) $(REPO_URI)";
        let targets = run(Command::new("apt-get").args(["indextargets", "--format", format]))?;
        let targets = String::from_utf8_lossy(&targets).into_owned();
        let mut repositories = targets.lines().filter_map(|line| line.split_once(' '));
        // The origin is known once the lists have been read; until then the path has to suffice.
        let mirror = repositories.find(|(origin, uri)| {
            let named = uri.trim_end_matches('/').ends_with("/debian");
            (*origin == "Debian" || named) && !uri.contains("security")
        });
        if let Some((_, mirror)) = mirror {
            return Ok(mirror.to_owned());
        }
    }
    debootstrap().context(
        "no Debian mirror: neither is this a Debian with a mirror in its apt configuration, nor \
         does debootstrap know one: apt install debootstrap",
    )
}

/// The default in debootstrap's script for sid, or in debootstrap itself.
fn debootstrap() -> Option<String> {
    let script = fs::read_to_string("/usr/share/debootstrap/scripts/sid").unwrap_or_default();
    let program = fs::read_to_string("/usr/sbin/debootstrap").unwrap_or_default();
    let in_script = script
        .lines()
        .find_map(|line| line.trim().strip_prefix("default_mirror "));
    let in_program = program
        .lines()
        .find_map(|line| line.trim().strip_prefix("DEF_MIRROR="));
    in_script
        .or(in_program)
        .map(|mirror| mirror.trim_matches('"').to_owned())
}

/// The keys with which Debian's lists are signed.
pub(super) fn keyring() -> Result<PathBuf> {
    let names = ["debian-archive-keyring.pgp", "debian-archive-keyring.gpg"];
    names
        .iter()
        .map(|name| Path::new("/usr/share/keyrings").join(name))
        .find(|path| path.is_file())
        .context("Debian's signing keys are missing: apt install debian-archive-keyring")
}
