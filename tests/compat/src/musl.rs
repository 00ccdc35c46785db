//! A C compiler for musl: the machine's own, with the headers and start files of Debian's musl.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;

use testbed::cargo::workspace;
use testbed::{Error, Packages, host};

use crate::SUITE;
use crate::crates::file;

const PACKAGES: [&str; 2] = ["linux-libc-dev", "musl-dev"];

/// Where the machine's compiler has one of its own files.
fn own(name: &str) -> Result<String, Error> {
    let mut compiler = Command::new("cc");
    compiler.arg(format!("-print-file-name={name}"));
    Ok(host::capture(&mut compiler)?.trim().to_owned())
}

/// Writes the compiler, a shell script, and a configuration by which cargo uses it for packages
/// that bring C. Libraries of these names are empty there: for build scripts that ask for libraries
/// whose functions come from elsewhere. Returns the configuration.
///
/// # Errors
/// Debian's packages cannot be obtained, or there is no C compiler.
pub fn cargo_configuration(empty: &[&str]) -> Result<PathBuf, Error> {
    let root = Packages::new(SUITE, &PACKAGES).alone().folder()?;
    let root = root.display();
    let (headers, runtime) = (own("include")?, own("libgcc.a")?);
    let folder = workspace().join("target/compat-musl");
    fs::create_dir_all(&folder).map_err(file(&folder))?;
    let script = format!(
        "#!/bin/sh\n\
         headers='-nostdinc -isystem {headers} -isystem {root}/usr/include/x86_64-linux-musl \
         -isystem {root}/usr/include -isystem {root}/usr/include/x86_64-linux-gnu'\n\
         for word; do case $word in -c|-E|-S) exec cc $headers \"$@\";; esac; done\n\
         musl={root}/usr/lib/x86_64-linux-musl\n\
         exec cc $headers -static -nostdlib $musl/crt1.o $musl/crti.o \"$@\" \
         $musl/libc.a {runtime} $musl/libc.a $musl/crtn.o\n"
    );
    let compiler = folder.join("cc");
    fs::write(&compiler, script).map_err(file(&compiler))?;
    let executable = fs::Permissions::from_mode(0o755);
    fs::set_permissions(&compiler, executable).map_err(file(&compiler))?;
    for name in empty {
        let library = folder.join(format!("lib{name}.a"));
        fs::write(&library, "!<arch>\n").map_err(file(&library))?;
    }
    // Warnings of packages of crates.io are none of the user's: cargo caps them unless, as here,
    // the package is the workspace's own.
    let text = format!(
        "[env]\nCC_x86_64_unknown_linux_musl = \"{}\"\n\
         [target.x86_64-unknown-linux-musl]\n\
         rustflags = [\"--cap-lints=warn\", \"-L\", \"{}\"]\n",
        compiler.display(),
        folder.display()
    );
    let configuration = folder.join("config.toml");
    fs::write(&configuration, text).map_err(file(&configuration))?;
    Ok(configuration)
}
