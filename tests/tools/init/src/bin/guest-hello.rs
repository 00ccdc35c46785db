//! The smallest payload of a guest: prints where it runs and which RDMA devices it sees. Tests use
//! it where there is no shell.
//!
//! `guest-hello` lists; `guest-hello exit CODE`, `guest-hello sleep`, `guest-hello echo` (input to
//! output) and `guest-hello write FILE TEXT` do what their names say.

use std::io::{self, Write as _};
use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let result = match args[..] {
        ["exit", code] => return ExitCode::from(code.parse().unwrap_or(u8::MAX)),
        ["sleep"] => loop {
            std::thread::park();
        },
        ["echo"] => io::copy(&mut io::stdin().lock(), &mut io::stdout().lock()).map(drop),
        ["write", file, text] => std::fs::write(file, text),
        _ => greet(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("guest-hello: {error}");
            ExitCode::FAILURE
        }
    }
}

fn greet() -> io::Result<()> {
    let mut out = io::stdout().lock();
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease")?;
    writeln!(out, "hello from {}", release.trim())?;
    let mut devices: Vec<_> = std::fs::read_dir("/sys/class/infiniband")?
        .flatten()
        .map(|entry| entry.file_name())
        .collect();
    devices.sort();
    for device in devices {
        writeln!(out, "device {}", device.to_string_lossy())?;
    }
    Ok(())
}
