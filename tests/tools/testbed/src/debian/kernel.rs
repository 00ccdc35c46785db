//! Stock kernels of Debian.

use super::apt::{self, Apt};
use crate::host::say;
use crate::{Error, Processor, cache};
use std::fs;
use std::path::{Path, PathBuf};
use walkdir::WalkDir;

/// A kernel of Debian, for amd64 unless another processor is [said](Kernel::on).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Kernel {
    series: &'static Series,
    processor: Processor,
}

/// Where the kernels of a name are found.
#[derive(Debug, Eq, PartialEq)]
struct Series {
    name: &'static str,
    suites: &'static [&'static str],
    /// Regular expression for the package's name, without that of the processor.
    package: &'static str,
    /// Whether it is used when no kernel is specified: mirrors keep it for as long as its Debian is
    /// maintained.
    usual: bool,
}

const SERIES: [Series; 4] = [
    Series {
        name: "5.10",
        suites: &["bullseye", "bullseye-security"],
        package: r"^linux-image-5\.10\..*-",
        usual: false,
    },
    Series {
        name: "6.1",
        suites: &["bookworm", "bookworm-security"],
        package: r"^linux-image-6\.1\..*-",
        usual: true,
    },
    Series {
        name: "6.12",
        suites: &["trixie", "trixie-security"],
        package: r"^linux-image-6\.12\..*-",
        usual: true,
    },
    Series {
        name: "newest",
        suites: &["sid", "trixie-backports"],
        package: r"^linux-image-[0-9].*-",
        usual: true,
    },
];

/// Kernels that are not for ordinary machines, and packages that contain no bootable kernel.
const OTHERS: [&str; 4] = ["-cloud-", "-rt-", "-unsigned", "-dbg"];

/// The files of a kernel in the cache.
#[derive(Clone, Debug)]
pub(crate) struct Files {
    /// The image that the machine boots.
    pub(crate) image: PathBuf,
    /// `uname -r`.
    pub(crate) release: String,
    /// The folder of its modules.
    pub(crate) modules: PathBuf,
}

impl Kernel {
    /// The kernel of this name: `5.10` (Debian 11), `6.1` (Debian 12), `6.12` (Debian 13), `newest`
    /// (the newer of unstable and backports).
    ///
    /// # Errors
    /// [`Error::UnknownKernel`] for any other name.
    pub fn named(name: &str) -> Result<Self, Error> {
        let known = || {
            SERIES
                .iter()
                .map(|series| series.name)
                .collect::<Vec<_>>()
                .join(", ")
        };
        let series = SERIES.iter().find(|series| series.name == name);
        series.map(Self::of).ok_or_else(|| Error::UnknownKernel {
            name: name.into(),
            known: known(),
        })
    }

    /// Every kernel that has a name, oldest first.
    pub fn all() -> impl Iterator<Item = Self> {
        SERIES.iter().map(Self::of)
    }

    /// The kernels that are used when none is specified, oldest first: without `5.10`, which
    /// mirrors may drop at any time.
    pub fn usual() -> impl Iterator<Item = Self> {
        SERIES.iter().filter(|series| series.usual).map(Self::of)
    }

    fn of(series: &'static Series) -> Self {
        Self {
            series,
            processor: Processor::Amd64,
        }
    }

    /// The same kernel for this processor.
    #[must_use]
    pub fn on(mut self, processor: Processor) -> Self {
        self.processor = processor;
        self
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        self.series.name
    }

    /// The processor it runs on.
    pub fn processor(self) -> Processor {
        self.processor
    }

    /// Downloads it unless it is in the cache; returns `uname -r`.
    ///
    /// # Errors
    /// Debian's packages cannot be fetched or unpacked.
    pub fn fetch(self) -> Result<String, Error> {
        self.files().map(|files| files.release)
    }

    /// Removes it from the cache, so that the next use fetches the kernel that Debian then has.
    ///
    /// # Errors
    /// The folder cannot be removed.
    pub fn forget(self) -> Result<(), Error> {
        cache::forget(&self.folder())
    }

    pub(crate) fn files(self) -> Result<Files, Error> {
        let root = cache::filled(&self.folder(), |folder| self.download(folder))?;
        locate(&root.join("root"))
    }

    fn folder(self) -> String {
        match self.processor {
            Processor::Amd64 => format!("kernel-{}", self.name()),
            Processor::Arm64 => format!("kernel-{}-arm64", self.name()),
        }
    }

    fn download(self, folder: &Path) -> Result<(), Error> {
        let apt = Apt::set_up(&folder.join("apt"), self.series.suites, self.processor)?;
        let processor = self.processor.debian();
        let mut found = apt.search(&format!("{}{processor}$", self.series.package))?;
        found.retain(|name| !OTHERS.iter().any(|other| name.contains(other)));
        let image = found.into_iter().max_by_key(|name| numbers(name));
        let image = image.ok_or_else(|| {
            Error::packages(
                format!("kernel {} for {processor}", self.name()),
                "no package in Debian's lists",
            )
        })?;
        // Newer kernels have separate packages for the image and the modules.
        let parts = apt.depends(&image)?.into_iter();
        let parts = parts.filter(|name| {
            ["linux-base-", "linux-binary-", "linux-modules-"]
                .iter()
                .any(|start| name.starts_with(start))
        });
        let wanted: Vec<_> = std::iter::once(image.clone()).chain(parts).collect();
        say(format_args!(
            "downloads the kernel package {}",
            wanted.join(", ")
        ));
        let packages = apt.download(&wanted, folder)?;
        let root = folder.join("root");
        fs::create_dir_all(&root).map_err(Error::file("making the folder", &root))?;
        apt::unpack(&packages, &root)?;
        for path in packages.iter().chain([&folder.join("apt")]) {
            let removed = if path.is_dir() {
                fs::remove_dir_all(path)
            } else {
                fs::remove_file(path)
            };
            removed.map_err(Error::file("removing", path))?;
        }
        locate(&root).map(drop)
    }
}

/// Finds the files of the only kernel unpacked in `root`.
fn locate(root: &Path) -> Result<Files, Error> {
    let bases = [root.join("lib/modules"), root.join("usr/lib/modules")];
    let folders = bases
        .iter()
        .filter_map(|base| fs::read_dir(base).ok())
        .flatten()
        .flatten();
    let modules = folders
        .map(|entry| entry.path())
        .find(|path| path.join("kernel").is_dir());
    let modules = modules.ok_or_else(|| {
        Error::packages(root.display().to_string(), "no folder of kernel modules")
    })?;
    let release = modules
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let names = ["vmlinuz".to_owned(), format!("vmlinuz-{release}")];
    let mut files = WalkDir::new(root).max_depth(5).into_iter().flatten();
    let image = files.find(|entry| {
        names.iter().any(|name| entry.file_name() == name.as_str()) && entry.file_type().is_file()
    });
    let image = image
        .ok_or_else(|| Error::packages(root.display().to_string(), "no kernel image"))?
        .into_path();
    Ok(Files {
        image,
        release,
        modules,
    })
}

/// The numbers in a name, to determine which is newer.
fn numbers(name: &str) -> Vec<u64> {
    // The processor's name contains numbers, too.
    let name = name.rsplit_once('-').map_or(name, |(name, _)| name);
    name.split(|character: char| !character.is_ascii_digit())
        .filter_map(|part| part.parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{Kernel, numbers};

    #[test]
    fn newer_kernels_are_known_by_their_numbers() {
        assert!(
            numbers("linux-image-6.12.9+deb13-amd64") < numbers("linux-image-6.12.117+deb13-amd64")
        );
        assert!(
            numbers("linux-image-6.12.90+deb13-amd64")
                < numbers("linux-image-6.12.90+deb13.1-amd64")
        );
        assert!(numbers("linux-image-6.1.0-9-amd64") < numbers("linux-image-6.1.0-47-amd64"));
    }

    #[test]
    fn a_name_that_is_none_lists_those_that_are() {
        let error = Kernel::named("2.6")
            .map(Kernel::name)
            .map_err(|error| error.to_string());
        assert_eq!(
            error,
            Err("there is no kernel named \"2.6\"; there are: 5.10, 6.1, 6.12, newest".into())
        );
    }
}
