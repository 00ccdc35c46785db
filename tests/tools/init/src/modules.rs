//! Kernel modules.

use crate::error::{Doing as _, Error};
use guest_init::ModuleFile;
use nix::errno::Errno;
use nix::kmod::{ModuleInitFlags, finit_module};
use std::ffi::CString;
use std::fs::{self, File};

/// Folder of the module files.
pub(crate) const FOLDER: &str = "/usr/lib/testbed-modules";

/// Loads the modules in order. If an optional one fails, that is only reported on the console.
pub(crate) fn load_all(modules: &[ModuleFile]) -> Result<(), Error> {
    for module in modules {
        match load(module) {
            Err(error) if module.required => return Err(error),
            Err(error) => eprintln!("testbed: {error}"),
            Ok(()) => {}
        }
    }
    Ok(())
}

/// Whether a module's file contains a symbol.
pub(crate) fn has_symbol(module: &str, symbol: &[u8]) -> bool {
    fs::read(format!("{FOLDER}/{module}.ko"))
        .is_ok_and(|bytes| bytes.windows(symbol.len()).any(|window| window == symbol))
}

fn load(module: &ModuleFile) -> Result<(), Error> {
    let doing = || format!("loading the kernel module {}", module.path);
    let file = File::open(&module.path).doing(doing)?;
    let parameters = CString::new(module.parameters.as_str()).doing(doing)?;
    match finit_module(file, &parameters, ModuleInitFlags::empty()) {
        Ok(()) | Err(Errno::EEXIST) => Ok(()),
        Err(errno) => Err(Error::new(doing(), errno)),
    }
}
