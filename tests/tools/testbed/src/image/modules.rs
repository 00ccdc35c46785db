//! Kernel modules: which files, in which order.

use crate::Error;
use object::{Object as _, ObjectSection as _};
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use walkdir::WalkDir;

/// A module that the guest is to load.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) name: String,
    pub(crate) parameters: String,
    /// Whether the guest is unusable without it. A kernel may lack the others.
    pub(crate) required: bool,
}

/// A module's uncompressed file.
#[derive(Clone, Debug)]
pub(crate) struct Module {
    pub(crate) name: String,
    pub(crate) parameters: String,
    pub(crate) required: bool,
    pub(crate) bytes: Vec<u8>,
}

impl Wanted {
    pub(crate) fn required(name: &str, parameters: &str) -> Self {
        Self {
            name: name.into(),
            parameters: parameters.into(),
            required: true,
        }
    }

    pub(crate) fn optional(name: &str) -> Self {
        Self {
            name: name.into(),
            parameters: String::new(),
            required: false,
        }
    }
}

/// The wanted modules and all their dependencies, each after those that it depends on.
pub(crate) fn in_order(folder: &Path, wanted: &[Wanted]) -> Result<Vec<Module>, Error> {
    let mut order = Order {
        files: files(folder),
        built_in: built_in(folder),
        found: Vec::new(),
    };
    for module in wanted {
        order.add(&module.name, module.required)?;
    }
    for module in wanted {
        if let Some(found) = order
            .found
            .iter_mut()
            .find(|found| found.name == module.name)
        {
            found.parameters.clone_from(&module.parameters);
        }
    }
    Ok(order.found)
}

#[derive(Debug)]
struct Order {
    files: HashMap<String, PathBuf>,
    built_in: Vec<String>,
    found: Vec<Module>,
}

impl Order {
    fn add(&mut self, name: &str, required: bool) -> Result<(), Error> {
        if let Some(found) = self.found.iter_mut().find(|found| found.name == name) {
            found.required |= required;
            return Ok(());
        }
        let Some(path) = self.files.get(name) else {
            if !required || self.built_in.iter().any(|other| other == name) {
                return Ok(());
            }
            return Err(Error::packages(
                format!("kernel module {name}"),
                "not among this kernel's packages",
            ));
        };
        let bytes = unpack(path)?;
        let depends =
            depends(&bytes).map_err(|error| Error::packages(path.display().to_string(), error))?;
        for other in &depends {
            self.add(other, required)?;
        }
        self.found.push(Module {
            name: name.into(),
            parameters: String::new(),
            required,
            bytes,
        });
        Ok(())
    }
}

/// Module files by the names of their modules.
fn files(folder: &Path) -> HashMap<String, PathBuf> {
    let entries = WalkDir::new(folder.join("kernel")).into_iter().flatten();
    entries
        .filter_map(|entry| Some((module_name(entry.file_name().to_str()?)?, entry.into_path())))
        .collect()
}

/// Modules that are built into the kernel image; not every package lists them.
fn built_in(folder: &Path) -> Vec<String> {
    let text = fs::read_to_string(folder.join("modules.builtin")).unwrap_or_default();
    text.lines()
        .filter_map(|line| module_name(line.rsplit('/').next()?))
        .collect()
}

/// The name of the module in a file of this name.
fn module_name(file: &str) -> Option<String> {
    let (stem, suffix) = file.split_once(".ko")?;
    ["", ".gz", ".xz", ".zst"]
        .contains(&suffix)
        .then(|| stem.replace('-', "_"))
}

fn unpack(path: &Path) -> Result<Vec<u8>, Error> {
    let packed = fs::read(path).map_err(Error::file("reading", path))?;
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("xz") => {
            let mut bytes = Vec::new();
            lzma_rs::xz_decompress(&mut packed.as_slice(), &mut bytes).map_err(|error| {
                Error::packages(path.display().to_string(), format!("{error:?}"))
            })?;
            Ok(bytes)
        }
        Some("zst") => crate::host::capture_bytes(Command::new("zstd").arg("-dcq").arg(path)),
        Some("gz") => crate::host::capture_bytes(Command::new("gzip").arg("-dc").arg(path)),
        _ => Ok(packed),
    }
}

/// The modules that a module declares as its dependencies.
fn depends(module: &[u8]) -> object::Result<Vec<String>> {
    let file = object::File::parse(module)?;
    let Some(section) = file.section_by_name(".modinfo") else {
        return Ok(Vec::new());
    };
    let facts = section.data()?.split(|&byte| byte == 0);
    let list = facts
        .filter_map(|fact| fact.strip_prefix(b"depends="))
        .map(String::from_utf8_lossy);
    let names = list.flat_map(|list| list.split(',').map(str::to_owned).collect::<Vec<_>>());
    Ok(names
        .filter(|name| !name.is_empty())
        .map(|name| name.replace('-', "_"))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::module_name;

    #[test]
    fn a_module_is_known_by_its_file() {
        assert_eq!(
            module_name("crc32-pclmul.ko.xz").as_deref(),
            Some("crc32_pclmul")
        );
        assert_eq!(module_name("ib_core.ko").as_deref(), Some("ib_core"));
        assert_eq!(module_name("modules.order"), None);
        assert_eq!(module_name("a.ko.sig"), None);
    }
}
