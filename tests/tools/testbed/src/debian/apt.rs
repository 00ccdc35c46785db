//! `apt-get` in a folder of its own: the host's packages and lists are neither used nor changed.

use super::mirror;
use crate::host::{Tool, capture, ensure, say};
use crate::{Error, Processor};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Keys of Debian's archive.
pub(crate) const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// An apt that knows some of Debian's suites and assumes that nothing is installed.
#[derive(Debug)]
pub(super) struct Apt {
    config: PathBuf,
    archives: PathBuf,
}

impl Apt {
    /// Sets apt up in `folder` for these suites (those named `…-security` are fetched from the
    /// archive of security updates) and fetches the package lists for a processor.
    pub(super) fn set_up(
        folder: &Path,
        suites: &[&str],
        processor: Processor,
    ) -> Result<Self, Error> {
        ensure(&[Tool::DebianKeyring])?;
        let mirror = mirror::find()?;
        for name in ["lists/partial", "cache/archives/partial"] {
            let path = folder.join(name);
            fs::create_dir_all(&path).map_err(Error::file("making the folder", path))?;
        }
        let source = |suite: &&str| {
            let base = if suite.ends_with("-security") {
                mirror.security.as_ref()
            } else {
                Some(&mirror.main)
            };
            base.map(|base| {
                format!(
                    "deb [arch={} signed-by={KEYRING}] {base} {suite} main\n",
                    processor.debian()
                )
            })
        };
        let sources: String = suites.iter().filter_map(source).collect();
        write(&folder.join("sources.list"), &sources)?;
        write(&folder.join("status"), "")?;
        let config = folder.join("apt.conf");
        let preferred = suites.iter().find(|suite| suite.ends_with("-backports"));
        write(
            &config,
            &configuration(folder, preferred.copied(), processor),
        )?;
        let apt = Self {
            config,
            archives: folder.join("cache/archives"),
        };
        say(format_args!(
            "fetches Debian's lists of packages ({})",
            suites.join(", ")
        ));
        apt.get(&["update", "-q"])?;
        Ok(apt)
    }

    /// The names of packages that match a regular expression.
    pub(super) fn search(&self, pattern: &str) -> Result<Vec<String>, Error> {
        let text = capture(
            self.command("apt-cache")
                .args(["search", "--names-only", pattern]),
        )?;
        Ok(text
            .lines()
            .filter_map(|line| line.split_whitespace().next())
            .map(str::to_owned)
            .collect())
    }

    /// The packages that a package declares as its dependencies.
    pub(super) fn depends(&self, package: &str) -> Result<Vec<String>, Error> {
        let text = capture(self.command("apt-cache").args([
            "depends",
            "--no-recommends",
            "--no-suggests",
            package,
        ]))?;
        Ok(text
            .lines()
            .filter_map(|line| line.trim().strip_prefix("Depends: "))
            .map(str::to_owned)
            .collect())
    }

    /// Downloads exactly these packages.
    pub(super) fn download(&self, packages: &[String], into: &Path) -> Result<Vec<PathBuf>, Error> {
        capture(
            self.command("apt-get")
                .args(["-q", "download"])
                .args(packages)
                .current_dir(into),
        )?;
        packages_in(into)
    }

    /// Downloads these packages with all their dependencies, down to the C library.
    pub(super) fn download_closure(&self, packages: &[String]) -> Result<Vec<PathBuf>, Error> {
        let args = [
            "-q",
            "-y",
            "--no-install-recommends",
            "--download-only",
            "install",
        ];
        capture(self.command("apt-get").args(args).args(packages))?;
        packages_in(&self.archives)
    }

    fn get(&self, args: &[&str]) -> Result<(), Error> {
        capture(self.command("apt-get").args(args)).map(drop)
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env("APT_CONFIG", &self.config).env("LC_ALL", "C");
        command
    }
}

/// Unpacks packages on top of each other into a folder.
pub(super) fn unpack(packages: &[PathBuf], into: &Path) -> Result<(), Error> {
    for package in packages {
        capture(Command::new("dpkg-deb").arg("-x").arg(package).arg(into))?;
    }
    Ok(())
}

fn packages_in(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let entries = fs::read_dir(folder).map_err(Error::file("reading", folder))?;
    let mut found: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    found.retain(|path| path.extension().is_some_and(|extension| extension == "deb"));
    found.sort();
    Ok(found)
}

/// Backports are only used on request; a preference never downgrades security updates.
fn configuration(folder: &Path, preferred: Option<&str>, processor: Processor) -> String {
    let processor = processor.debian();
    let folder = folder.display();
    let preference = preferred.map_or_else(String::new, |suite| {
        format!("APT::Default-Release \"{suite}\";\n")
    });
    format!(
        "{preference}\
         Dir::Etc::SourceList \"{folder}/sources.list\";\n\
         Dir::Etc::SourceParts \"/dev/null\";\n\
         Dir::Etc::Preferences \"/dev/null\";\n\
         Dir::Etc::PreferencesParts \"/dev/null\";\n\
         Dir::State::Lists \"{folder}/lists\";\n\
         Dir::State::Status \"{folder}/status\";\n\
         Dir::State::Extended_States \"{folder}/extended_states\";\n\
         Dir::Cache \"{folder}/cache\";\n\
         Dir::Log \"{folder}\";\n\
         APT::Architecture \"{processor}\";\n\
         APT::Architectures \"{processor}\";\n\
         APT::Sandbox::User \"root\";\n\
         Acquire::Languages \"none\";\n\
         Acquire::IndexTargets::deb::DEP-11::DefaultEnabled \"false\";\n\
         Debug::NoLocking \"true\";\n"
    )
}

fn write(path: &Path, text: &str) -> Result<(), Error> {
    fs::write(path, text).map_err(Error::file("writing", path))
}
