//! `record-calls FILE PROGRAM [ARGUMENT...]`: runs a program and records its calls on RDMA
//! descriptors in a file.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::process::{Command, ExitCode};

use anyhow::{Context as _, bail};

fn main() -> anyhow::Result<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    let (Some(file), Some(program)) = (arguments.next(), arguments.next()) else {
        bail!("record-calls FILE PROGRAM [ARGUMENT...]");
    };
    let file = File::create(&file).with_context(|| format!("creating {}", file.display()))?;
    let mut out = BufWriter::new(file);
    let code = recordings::tracer::record(Command::new(program).args(arguments), &mut out)?;
    out.flush()?;
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX)))
}
