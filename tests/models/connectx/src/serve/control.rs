//! The control socket: faults on request and queries of the state, one line each.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;

use crate::serve::Shared;
use crate::{Fabric, Misbehaviour, Spoil};

/// The commands that the socket accepts.
pub(crate) const HELP: &str = "\
census FUNCTION            objects that exist, by kind
reports                    wrong use seen so far
expect WORDS               let reports that have these words be (*: all), although the server is strict; without words,
                           none any more
doorbells                  how work requests came: plain doorbells, whole and partial copies
page-faults FUNCTION       how often it asked the kernel for pages
served FUNCTION            the time in nanoseconds and the bytes that each send queue has carried, as JSON
shaper on|off              let rates, caps and shares take effect, or not
link FUNCTION up|down      change the port's state
subnet-administrator on|off
                           start the manager of the InfiniBand ports, or end it: queries are then not answered
service FUNCTION NUMBER NAME
                           the port registers a service with the subnet's administrator (the number hexadecimal)
drop FUNCTION COUNT        lose the next COUNT messages the function sends
duplicate FUNCTION COUNT   deliver the next COUNT messages twice
lose-ack FUNCTION COUNT    deliver the next COUNT messages and lose what is answered
fail FUNCTION OPCODE COUNT [SKIP [STATUS]]
                           let SKIP commands with that opcode pass and fail the COUNT after them with the
                           status (both hexadecimal; 1, an internal error, if left out); COUNT 0 ends that
slow FUNCTION OPCODE MS    hold commands with that opcode back for so many milliseconds, 0 ends it
spoil FUNCTION COUNT [KIND]
                           make something wrong about the next COUNT completions, COUNT 0 ends that; KIND is
                           opcode (if left out), qpn, user-index, counter, owner, syndrome, length, signature
misbehave FUNCTION [KIND…] do these things wrong from now on, and no others; without one, nothing (misbehaviours lists them)
misbehaviours              what can be done wrong, as JSON: name and words
event FUNCTION NAME NUMBER post an asynchronous event of the object with that number (hexadecimal; any for
                           events of the port): path-migrated, path-failed, established, sq-drained,
                           qp-fatal, request-error, access-error, last-wqe, srq-limit, srq-error, cq-error,
                           lid-change, pkey-change, gid-change, client-reregister, port-initialized
ece FUNCTION OPTIONS       what the function can do beyond the standard (hexadecimal), 0: it has no such options;
                           a driver asks when it is bound
faults FUNCTION            what has been asked for and has not happened yet
remove FUNCTION            stop the function: everything reads as ones
insert FUNCTION            start it again, as after a start of its firmware: what drivers and programs made is gone
health FUNCTION SYNDROME   set the health syndrome, 0 is healthy
help                       this list
";

/// Listens in a thread of its own; each connection also has a thread, so that one that stays open
/// blocks no other.
pub(crate) fn listen(path: &Path, shared: Arc<Shared>) -> std::io::Result<()> {
    let listener = UnixListener::bind(path)?;
    std::thread::Builder::new()
        .name("control".to_owned())
        .spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = Arc::clone(&shared);
                let talking = std::thread::Builder::new()
                    .name("control".to_owned())
                    .spawn(move || {
                        if let Err(error) = talk(&stream, &shared) {
                            eprintln!("connectx: control: {error}");
                        }
                    });
                if let Err(error) = talking {
                    eprintln!("connectx: control: {error}");
                }
            }
        })?;
    Ok(())
}

fn talk(stream: &UnixStream, shared: &Shared) -> std::io::Result<()> {
    let mut writer = stream;
    for line in BufReader::new(stream).lines() {
        let reply = command(&line?, &mut shared.lock())
            .unwrap_or_else(|| "not understood; try help\n".to_owned());
        writer.write_all(reply.as_bytes())?;
    }
    Ok(())
}

fn hexadecimal(word: &str) -> Option<u16> {
    u16::from_str_radix(word.trim_start_matches("0x"), 16).ok()
}

/// The kinds of objects that exist, and how many of each.
fn live(fabric: &Fabric, function: usize) -> Vec<(&'static str, usize)> {
    let mut census = fabric.census(function);
    census.retain(|(_, count)| *count != 0);
    census
}

/// Executes one line; `None` if it is not understood.
fn command(line: &str, fabric: &mut Fabric) -> Option<String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let done = "ok\n".to_owned();
    match words.as_slice() {
        ["help"] => Some(HELP.to_owned()),
        ["reports"] => Some(format!("{:?}\n", fabric.reports())),
        ["expect", words @ ..] => {
            fabric.expect_reports(&words.join(" "));
            Some(done)
        }
        ["doorbells"] => Some(format!("{:?}\n", fabric.doorbells())),
        ["census", function] => Some(format!("{:?}\n", live(fabric, function.parse().ok()?))),
        ["page-faults", function] => {
            let count = fabric.page_faults(function.parse().ok()?);
            Some(format!("{count}\n"))
        }
        ["served", function] => {
            let (now, bytes) = fabric.served(function.parse().ok()?);
            Some(format!(
                "{}\n",
                serde_json::json!({"nanoseconds": now, "bytes": bytes})
            ))
        }
        ["shaper", state @ ("on" | "off")] => {
            fabric.set_shaper(*state == "on");
            Some(done)
        }
        ["link", function, state @ ("up" | "down")] => {
            fabric.set_link(function.parse().ok()?, *state == "up");
            Some(done)
        }
        ["drop", function, count] => {
            fabric.drop_messages(function.parse().ok()?, count.parse().ok()?);
            Some(done)
        }
        ["duplicate", function, count] => {
            fabric.duplicate_messages(function.parse().ok()?, count.parse().ok()?);
            Some(done)
        }
        ["lose-ack", function, count] => {
            fabric.lose_acknowledges(function.parse().ok()?, count.parse().ok()?);
            Some(done)
        }
        ["fail", function, opcode, count, rest @ ..] if rest.len() <= 2 => {
            let skip = rest.first().map_or(Some(0), |skip| skip.parse().ok())?;
            let status = rest
                .get(1)
                .map_or(Some(1), |status| hexadecimal(status)?.try_into().ok())?;
            fabric
                .fail_commands(
                    function.parse().ok()?,
                    hexadecimal(opcode)?,
                    skip,
                    count.parse().ok()?,
                    status,
                )
                .then_some(done)
        }
        ["slow", function, opcode, milliseconds] => {
            let opcode = hexadecimal(opcode)?;
            let milliseconds: u32 = milliseconds.parse().ok()?;
            let nanoseconds = u64::from(milliseconds) * 1_000_000;
            fabric.slow_commands(function.parse().ok()?, opcode, nanoseconds);
            Some(done)
        }
        ["spoil", function, count, kind @ ..] if kind.len() <= 1 => {
            let kind = kind
                .first()
                .map_or(Some(Spoil::Opcode), |name| Spoil::parse(name))?;
            fabric.spoil_completions(function.parse().ok()?, count.parse().ok()?, kind);
            Some(done)
        }
        ["event", function, name, number] => {
            let number = u32::from_str_radix(number.trim_start_matches("0x"), 16).ok()?;
            fabric
                .request_event(function.parse().ok()?, name, number)
                .then_some(done)
        }
        ["ece", function, options] => {
            let options = u32::from_str_radix(options.trim_start_matches("0x"), 16).ok()?;
            fabric
                .set_ece(function.parse().ok()?, options)
                .then_some(done)
        }
        ["faults", function] => Some(format!(
            "{}\n",
            fabric.pending_faults(function.parse().ok()?)
        )),
        ["health", function, syndrome] => {
            fabric.set_health(function.parse().ok()?, syndrome.parse().ok()?);
            Some(done)
        }
        words => lasting(words, fabric),
    }
}

/// Executes commands whose effect lasts until it is cancelled.
fn lasting(words: &[&str], fabric: &mut Fabric) -> Option<String> {
    let done = "ok\n".to_owned();
    match words {
        ["subnet-administrator", state @ ("on" | "off")] => {
            fabric.set_subnet_administrator(*state == "on");
            Some(done)
        }
        ["service", function, number, name] => {
            let number = u64::from_str_radix(number.trim_start_matches("0x"), 16).ok()?;
            fabric
                .register_service(function.parse().ok()?, number, name)
                .then_some(done)
        }
        ["remove", function] => {
            fabric.remove(function.parse().ok()?);
            Some(done)
        }
        ["insert", function] => {
            fabric.reset(function.parse().ok()?);
            Some(done)
        }
        ["misbehave", function, kinds @ ..] => {
            let kinds: Option<Vec<_>> =
                kinds.iter().map(|kind| Misbehaviour::parse(kind)).collect();
            fabric.misbehave(function.parse().ok()?, &kinds?);
            Some(done)
        }
        ["misbehaviours"] => {
            let all = Misbehaviour::ALL.iter();
            let all: Vec<_> = all.map(|(name, _, words)| (name, words)).collect();
            Some(format!("{}\n", serde_json::json!(all)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use std::sync::Arc;

    use super::*;
    use crate::{Counted, FunctionConfig, FunctionKind, Options, Ram, Trace};

    fn fabric() -> Fabric {
        let mut fabric = Fabric::new(Options::default(), Arc::new(Trace::silent(false)));
        fabric.add_function(
            FunctionConfig::numbered(FunctionKind::InfiniBand, 0),
            Arc::new(Ram::new(4096)),
            Arc::new(Counted::default()),
        );
        fabric
    }

    #[test]
    fn every_line_of_the_help_is_understood() {
        let mut fabric = fabric();
        for line in [
            "reports",
            "expect send doorbell",
            "expect",
            "doorbells",
            "census 0",
            "served 0",
            "page-faults 0",
            "shaper on",
            "link 0 down",
            "link 0 up",
            "subnet-administrator on",
            "service 0 0x1234 store",
            "subnet-administrator off",
            "drop 0 1",
            "duplicate 0 1",
            "lose-ack 0 1",
            "fail 0 0x800 1",
            "fail 0 800 1 2",
            "fail 0 800 1 2 5",
            "slow 0 800 1",
            "spoil 0 1",
            "spoil 0 1 owner",
            "misbehave 0 data inline",
            "misbehave 0",
            "misbehaviours",
            "event 0 lid-change 0",
            "ece 0 0",
            "faults 0",
            "health 0 0",
            "remove 0",
            "insert 0",
            "help",
        ] {
            assert!(command(line, &mut fabric).is_some(), "{line}");
            let word = line.split(' ').next().unwrap();
            assert!(
                HELP.lines()
                    .any(|help| help.split(' ').next() == Some(word)),
                "{word} is not in the help"
            );
        }
        let kinds = Spoil::ALL.iter().map(|(name, _)| *name);
        for name in kinds.chain(Fabric::event_names()) {
            assert!(HELP.contains(name), "{name}");
        }
    }

    #[test]
    fn what_is_not_understood_does_nothing() {
        let mut fabric = fabric();
        for line in [
            "",
            "census",
            "census x",
            "ece 7 0",
            "fail 0 800 1 2 99",
            "fail 0 800 1 2 5 6",
            "spoil 0 1 colour",
            "misbehave 0 colour",
            "link 0 sideways",
            "subnet-administrator maybe",
            "service 0 1 store",
        ] {
            assert_eq!(command(line, &mut fabric), None, "{line}");
        }
        assert!(!command("faults 0", &mut fabric).unwrap().contains("Owner"));
    }
}
