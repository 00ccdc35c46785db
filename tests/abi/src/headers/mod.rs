//! Finds kernel headers: this machine's, and the newest that Debian has.

mod mirror;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::compile::run;

/// A set of kernel headers.
#[derive(Clone, Debug)]
pub struct Headers {
    /// The folder that contains `rdma/` and `linux/`.
    pub root: PathBuf,
    /// The kernel version, major and minor: `7.2`. Stable updates do not change the ABI.
    pub version: String,
}

impl Headers {
    /// The headers below `root`.
    ///
    /// # Errors
    /// If there are none.
    pub fn at(root: &Path) -> Result<Self> {
        let file = root.join("linux/version.h");
        let text = fs::read_to_string(&file).with_context(|| {
            format!(
                "no kernel headers ({} is missing): apt install linux-libc-dev",
                file.display()
            )
        })?;
        let number = |name: &str| -> Result<&str> {
            let line = text
                .lines()
                .find_map(|line| line.strip_prefix("#define ")?.strip_prefix(name));
            line.map(str::trim)
                .with_context(|| format!("{} does not define {name}", file.display()))
        };
        let version = format!(
            "{}.{}",
            number("LINUX_VERSION_MAJOR")?,
            number("LINUX_VERSION_PATCHLEVEL")?
        );
        Ok(Self {
            root: root.to_owned(),
            version,
        })
    }

    /// The headers of this machine.
    ///
    /// # Errors
    /// If they are not installed.
    pub fn of_host() -> Result<Self> {
        Self::at(Path::new("/usr/include"))
    }

    /// The newest headers that Debian has, fetched by apt into `cache` without changing the
    /// system's own package lists. With `offline`, those of the last run.
    ///
    /// # Errors
    /// If a tool is missing, the mirror cannot be reached, or the cache is still empty.
    pub fn newest(cache: &Path, offline: bool) -> Result<Self> {
        fs::create_dir_all(cache).with_context(|| format!("cannot make {}", cache.display()))?;
        let root = cache.join("newest");
        if !offline {
            let package = download(cache)?;
            let fresh = cache.join("unpacking");
            remove(&fresh)?;
            run(Command::new("dpkg-deb").arg("-x").arg(&package).arg(&fresh))?;
            remove(&root)?;
            fs::rename(&fresh, &root).context("cannot keep the headers")?;
        }
        Self::at(&root.join("usr/include"))
            .with_context(|| format!("in the cache {}", cache.display()))
    }
}

/// Where new kernels appear first: sid, and soon after the backports. A mirror may be late with
/// either of them, so both are queried and the higher version is used.
const SUITES: [&str; 2] = ["sid", "trixie-backports"];

/// Fetches Debian's newest `linux-libc-dev`.
fn download(cache: &Path) -> Result<PathBuf> {
    let cache = cache.canonicalize()?;
    let apt = cache.join("apt");
    for folder in ["lists/partial", "archives/partial"] {
        fs::create_dir_all(apt.join(folder))?;
    }
    let sources = apt.join("sources.list");
    let keyring = mirror::keyring()?;
    let mirror = mirror::find()?;
    let line = |suite| {
        format!(
            "deb [signed-by={}] {mirror} {suite} main\n",
            keyring.display()
        )
    };
    fs::write(&sources, SUITES.map(line).concat())?;
    // Equal priorities: the highest version wins, whichever suite has it.
    let preferences = apt.join("preferences");
    fs::write(
        &preferences,
        "Package: *\nPin: release o=Debian*\nPin-Priority: 500\n",
    )?;
    fs::write(apt.join("status"), "")?;

    let packages = cache.join("packages");
    remove(&packages)?;
    fs::create_dir_all(&packages)?;
    let apt_get = || {
        let mut command = Command::new("apt-get");
        command.current_dir(&packages);
        let mut option = |name: &str, value: &Path| {
            command.arg("-o").arg(format!("{name}={}", value.display()));
        };
        option("Dir::Etc::SourceList", &sources);
        option("Dir::Etc::SourceParts", Path::new("/dev/null"));
        option("Dir::Etc::Preferences", &preferences);
        option("Dir::Etc::PreferencesParts", Path::new("/dev/null"));
        option("Dir::State", &apt);
        option("Dir::State::Lists", &apt.join("lists"));
        option("Dir::State::Status", &apt.join("status"));
        option("Dir::Cache", &apt);
        // The cache may be where apt's own user cannot write.
        command.args([
            "-o",
            "APT::Sandbox::User=root",
            "-o",
            "Acquire::Languages=none",
        ]);
        command.args([
            "-o",
            "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false",
        ]);
        command.args(["-q", "-o", "APT::Update::Error-Mode=any"]);
        command
    };
    run(apt_get().arg("update")).context("cannot read Debian's list of packages")?;
    run(apt_get().args(["download", "linux-libc-dev"])).context("cannot fetch linux-libc-dev")?;
    let mut found = fs::read_dir(&packages)?.filter_map(|file| Some(file.ok()?.path()));
    match (found.next(), found.next()) {
        (Some(package), None) => Ok(package),
        _ => bail!("apt left not one package in {}", packages.display()),
    }
}

fn remove(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", folder.display()))
        }
        _ => Ok(()),
    }
}
