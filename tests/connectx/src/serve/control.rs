//! The control socket: faults on request and questions about the state, one line each.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;

use crate::serve::Shared;

/// What the socket understands.
pub(crate) const HELP: &str = "\
census FUNCTION            objects that exist, by kind
reports                    wrong use seen so far
doorbells                  how work requests came: plain doorbells, whole and partial copies
link FUNCTION up|down      change the port's state
drop FUNCTION COUNT        lose the next COUNT messages the function sends
fail FUNCTION OPCODE COUNT fail the next COUNT commands with that opcode (hexadecimal)
slow FUNCTION OPCODE MS    hold commands with that opcode back for so many milliseconds, 0 ends it
spoil FUNCTION COUNT       give the next COUNT completions an opcode that does not exist
remove FUNCTION            pull the function out: everything reads as ones
health FUNCTION SYNDROME   set the health syndrome, 0 is healthy
help                       this list
";

/// Listens in a thread of its own.
pub(crate) fn listen(path: &Path, shared: Arc<Shared>) -> std::io::Result<()> {
    let listener = UnixListener::bind(path)?;
    std::thread::Builder::new()
        .name("control".to_owned())
        .spawn(move || {
            for stream in listener.incoming().flatten() {
                if let Err(error) = talk(&stream, &shared) {
                    eprintln!("connectx: control: {error}");
                }
            }
        })?;
    Ok(())
}

fn talk(stream: &UnixStream, shared: &Shared) -> std::io::Result<()> {
    let mut writer = stream;
    for line in BufReader::new(stream).lines() {
        let reply =
            command(&line?, shared).unwrap_or_else(|| "not understood; try help\n".to_owned());
        writer.write_all(reply.as_bytes())?;
    }
    Ok(())
}

fn command(line: &str, shared: &Shared) -> Option<String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let mut fabric = shared.lock();
    let done = "ok\n".to_owned();
    match words.as_slice() {
        ["help"] => Some(HELP.to_owned()),
        ["reports"] => Some(format!("{:?}\n", fabric.reports())),
        ["doorbells"] => Some(format!("{:?}\n", fabric.doorbells())),
        ["census", function] => {
            let census = fabric.census(function.parse().ok()?);
            let live: Vec<_> = census
                .into_iter()
                .filter(|(_, count)| *count != 0)
                .collect();
            Some(format!("{live:?}\n"))
        }
        ["link", function, state @ ("up" | "down")] => {
            fabric.set_link(function.parse().ok()?, *state == "up");
            Some(done)
        }
        ["drop", function, count] => {
            fabric.drop_messages(function.parse().ok()?, count.parse().ok()?);
            Some(done)
        }
        ["fail", function, opcode, count] => {
            let opcode = u16::from_str_radix(opcode.trim_start_matches("0x"), 16).ok()?;
            fabric.fail_commands(function.parse().ok()?, opcode, count.parse().ok()?);
            Some(done)
        }
        ["slow", function, opcode, milliseconds] => {
            let opcode = u16::from_str_radix(opcode.trim_start_matches("0x"), 16).ok()?;
            let milliseconds: u32 = milliseconds.parse().ok()?;
            let nanoseconds = u64::from(milliseconds) * 1_000_000;
            fabric.slow_commands(function.parse().ok()?, opcode, nanoseconds);
            Some(done)
        }
        ["spoil", function, count] => {
            fabric.spoil_completions(function.parse().ok()?, count.parse().ok()?);
            Some(done)
        }
        ["remove", function] => {
            fabric.remove(function.parse().ok()?);
            Some(done)
        }
        ["health", function, syndrome] => {
            fabric.set_health(function.parse().ok()?, syndrome.parse().ok()?);
            Some(done)
        }
        _ => None,
    }
}
