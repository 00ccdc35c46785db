//! Crates of crates.io that bind libibverbs: their own examples and tests, built unmodified over
//! the crates of `src/compat/sys`.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use testbed::cargo::{Built, MUSL, build, command, workspace};
use testbed::{Error, host};

/// A crate that depends on them as a user's program does.
#[derive(Clone, Copy, Debug)]
pub struct Downstream {
    /// Its folder.
    folder: &'static str,
    /// The crates, by name.
    pub crates: &'static [&'static str],
    /// The crates that take the place of others.
    pub patched: &'static [&'static str],
}

/// Crates that need no C at all.
pub const PURE: Downstream = Downstream {
    folder: "tests/compat/downstream",
    crates: &["ibverbs", "sideway"],
    patched: &["ibverbs-sys", "rdma-mummy-sys"],
};

/// The one that brings an allocator in C. Its lock file is the published one of the crate, with
/// what the patch changes: without it, cargo finds no version of `simd-abstraction` that is not
/// yanked.
pub const WITH_ALLOCATOR: Downstream = Downstream {
    folder: "tests/compat/downstream-async",
    crates: &["async-rdma"],
    patched: &["rdma-sys"],
};

/// A package that is built with them.
#[derive(Clone, Debug)]
pub struct Package {
    /// Its name.
    pub name: String,
    /// The C library that it links, if any.
    pub links: Option<String>,
    /// Whether it is from crates.io, and not of this repository.
    pub is_from_registry: bool,
    /// Its sources.
    pub folder: PathBuf,
}

impl Downstream {
    /// All packages that are built with them for musl, downloaded.
    ///
    /// # Errors
    /// Cargo fails.
    pub fn packages(&self) -> Result<Vec<Package>, Error> {
        let mut metadata = command();
        metadata
            .args(["metadata", "--format-version=1", "--quiet"])
            .args(["--filter-platform", MUSL, "--manifest-path"])
            .arg(workspace().join(self.folder).join("Cargo.toml"));
        let text = host::capture(&mut metadata)?;
        let json: Value = serde_json::from_str(&text).unwrap_or_default();
        let packages = json["packages"].as_array().into_iter().flatten();
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let packages = packages.filter_map(|package| {
            let manifest = PathBuf::from(package["manifest_path"].as_str()?);
            Some(Package {
                name: text(&package["name"])?,
                links: text(&package["links"]),
                is_from_registry: !package["source"].is_null(),
                folder: manifest.parent()?.to_owned(),
            })
        });
        Ok(packages.collect())
    }

    /// Builds examples and tests of them, static for musl, and returns where they are. Unit tests
    /// have the name of their crate.
    ///
    /// Cargo builds those of a workspace's own packages alone, so theirs are copied into one that
    /// has nothing else. What it may use is locked by the lock file beside the manifest of the
    /// crate that depends on them.
    ///
    /// # Errors
    /// A package that is missing, or does not build.
    pub fn build_programs(
        &self,
        examples: &[&'static str],
        tests: &[&'static str],
        more: &[&str],
    ) -> Result<Vec<Built>, Error> {
        let name = self.folder.rsplit('/').next().unwrap_or(self.folder);
        let folder = workspace().join(format!("target/compat-{name}"));
        fs::create_dir_all(&folder).map_err(file(&folder))?;
        for package in self.packages()? {
            if package.is_from_registry && self.crates.contains(&package.name.as_str()) {
                copy(&package.folder, &folder.join(&package.name))?;
            }
        }
        let lock = workspace().join(self.folder).join("Cargo.lock");
        fs::copy(&lock, folder.join("Cargo.lock")).map_err(file(&lock))?;
        let manifest = folder.join("Cargo.toml");
        fs::write(&manifest, self.workspace_manifest()).map_err(file(&manifest))?;
        let manifest = manifest.display().to_string();
        let fixed = ["--offline", "--profile=dev", "--manifest-path", &manifest];
        let fixed = [&fixed, more].concat();
        let each = |option: &'static str, names: &[&'static str]| {
            let words = names.iter().flat_map(|&name| [option, name]);
            words.collect::<Vec<_>>()
        };
        let examples = each("--example", examples);
        let tests = each("--test", tests);
        let mut built = build(&[&["build"], &fixed[..], &examples].concat())?;
        let test = ["test", "--no-run", "--lib"];
        built.extend(build(&[&test, &fixed[..], &tests].concat())?);
        Ok(built)
    }

    /// A workspace of these packages, with the lines that a user writes.
    fn workspace_manifest(&self) -> String {
        let members = self.crates.iter().map(|name| format!("\"{name}\""));
        let members = members.collect::<Vec<_>>().join(", ");
        let patches = self.patched.iter().map(|name| {
            let path = workspace().join("src/compat/sys").join(name);
            format!("{name} = {{ path = \"{}\" }}\n", path.display())
        });
        let patches: String = patches.collect();
        format!(
            "[workspace]\nmembers = [{members}]\nresolver = \"2\"\n\n[patch.crates-io]\n{patches}\n\
             [profile.dev]\ndebug = false\n"
        )
    }
}

/// Copies a folder's files, if they are not there with the same contents: what cargo built of them
/// stays valid.
fn copy(from: &Path, to: &Path) -> Result<(), Error> {
    fs::create_dir_all(to).map_err(file(to))?;
    for entry in fs::read_dir(from).map_err(file(from))? {
        let path = entry.map_err(file(from))?.path();
        let Some(name) = path.file_name() else {
            continue;
        };
        let target = to.join(name);
        if path.is_dir() {
            copy(&path, &target)?;
            continue;
        }
        let contents = fs::read(&path).map_err(file(&path))?;
        if fs::read(&target).ok().as_ref() != Some(&contents) {
            fs::write(&target, contents).map_err(file(&target))?;
        }
    }
    Ok(())
}

pub(crate) fn file(path: &Path) -> impl FnOnce(std::io::Error) -> Error + use<> {
    let path = path.to_owned();
    move |cause| Error::File {
        doing: "copying",
        path,
        cause,
    }
}
