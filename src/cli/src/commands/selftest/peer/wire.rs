//! The protocol between both hosts over TCP: short lines. The other side is not trusted.

use std::fmt;
use std::io::{Read, Write};

use uverbs::link::Mtu;
use uverbs::memory::RemoteKey;
use uverbs::{QpType, Remote};

use super::super::check::{Outcome, Trouble, ensure};

/// What a request starts with; another version has another number.
const GREETING: &str = "uverbs selftest 1";

/// The longest line, without its newline.
const LONGEST: usize = 200;

/// The first line of a client.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Request {
    /// Messages over a transport, in packets of at most this many bytes.
    Talk(QpType, Mtu),
    /// Access to the server's memory, in packets of at most this many bytes.
    Reach(Mtu),
    /// There are no more requests.
    End,
}

/// The name of the memory check.
pub(super) const MEMORY: &str = "RC memory";

/// The keyword of a request for memory, and of the reply.
const REACH: &str = "memory";

/// Memory that the other host may access.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Place {
    pub(super) remote: Remote,
    /// Whether its device supports atomic operations.
    pub(super) atomics: bool,
}

/// The name of a transport.
pub(super) fn name(kind: QpType) -> &'static str {
    match kind {
        QpType::Uc => "UC",
        QpType::Ud => "UD",
        _ => "RC",
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Talk(kind, mtu) => {
                let bytes = mtu.bytes().unwrap_or_default();
                write!(f, "{GREETING} {} {bytes}", name(*kind))
            }
            Self::Reach(mtu) => {
                write!(f, "{GREETING} {REACH} {}", mtu.bytes().unwrap_or_default())
            }
            Self::End => write!(f, "{GREETING} end"),
        }
    }
}

impl Request {
    /// Parses a client's first line.
    pub(super) fn parse(line: &str) -> Outcome<Self> {
        let confused = || Trouble::failed("the peer is not uverbs selftest of this version");
        let rest = line.strip_prefix(GREETING).ok_or_else(confused)?;
        let words: Vec<&str> = rest.split_whitespace().collect();
        match words.as_slice() {
            ["end"] => Ok(Self::End),
            [REACH, bytes] => Ok(Self::Reach(mtu(bytes).ok_or_else(confused)?)),
            [service, bytes] => {
                let kinds = [QpType::Rc, QpType::Uc, QpType::Ud];
                let kind = kinds.into_iter().find(|kind| name(*kind) == *service);
                let kind = kind.ok_or_else(confused)?;
                Ok(Self::Talk(kind, mtu(bytes).ok_or_else(confused)?))
            }
            _ => Err(confused()),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Remote { address, key } = self.remote;
        let atomics = u8::from(self.atomics);
        write!(f, "{REACH} {address:x} {:x} {atomics}", key.raw())
    }
}

impl Place {
    /// Parses what memory the server exposes.
    pub(super) fn parse(line: &str) -> Outcome<Self> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [REACH, address, key, atomics] = words.as_slice() else {
            return Err(refused(line));
        };
        let confused = |_| refused(line);
        Ok(Self {
            remote: Remote {
                address: u64::from_str_radix(address, 16).map_err(confused)?,
                key: RemoteKey::from_raw(u32::from_str_radix(key, 16).map_err(confused)?),
            },
            atomics: *atomics == "1",
        })
    }
}

fn mtu(text: &str) -> Option<Mtu> {
    let all = [Mtu::B256, Mtu::B512, Mtu::B1024, Mtu::B2048, Mtu::B4096];
    all.into_iter()
        .find(|mtu| mtu.bytes().is_some_and(|bytes| bytes.to_string() == text))
}

/// The smaller of two.
pub(super) fn smaller(a: Mtu, b: Mtu) -> Mtu {
    if b.bytes() < a.bytes() { b } else { a }
}

/// The server's reply to a request: what both sides support.
pub(super) fn agree(mtu: Mtu) -> String {
    format!("ok {}", mtu.bytes().unwrap_or_default())
}

/// Parses that reply.
pub(super) fn agreed(line: &str, own: Mtu) -> Outcome<Mtu> {
    let bytes = line.strip_prefix("ok ").ok_or_else(|| refused(line))?;
    let agreed = mtu(bytes).ok_or_else(|| refused(line))?;
    ensure(smaller(agreed, own) == agreed, || {
        format!("the peer wants packets of {bytes} bytes")
    })?;
    Ok(agreed)
}

fn refused(line: &str) -> Trouble {
    Trouble::failed(format_args!("the peer says {line:?}"))
}

/// How it went on one side, as a line.
pub(super) fn verdict<T>(talked: &Outcome<T>) -> String {
    match talked {
        Ok(_) => "done".to_owned(),
        Err(trouble) => {
            let line = format!("failed: {}", trouble.text())
                .replace(|letter: char| letter.is_control(), " ");
            line.chars().take(LONGEST / 4).collect()
        }
    }
}

/// How it went on the other side.
pub(super) fn verdict_of(line: &str) -> Outcome<()> {
    match line {
        "done" => Ok(()),
        line => Err(Trouble::failed(format_args!("at the peer: {line:?}"))),
    }
}

/// Sends a line.
pub(super) fn put(stream: &mut impl Write, line: &str) -> Outcome<()> {
    let written = stream.write_all(format!("{line}\n").as_bytes());
    written.map_err(|error| Trouble::failed(format_args!("talking to the peer: {error}")))
}

/// Receives a line.
pub(super) fn line(stream: &mut impl Read) -> Outcome<String> {
    let mut bytes = Vec::new();
    loop {
        // One byte at a time, so that nothing after the line is read: it is not text.
        let mut byte = [0];
        let heard = stream.read_exact(&mut byte);
        heard.map_err(|error| Trouble::failed(format_args!("listening to the peer: {error}")))?;
        if byte == *b"\n" {
            break;
        }
        ensure(bytes.len() < LONGEST, || "the peer says too much".into())?;
        bytes.extend(byte);
    }
    String::from_utf8(bytes)
        .map_err(|_| Trouble::failed("the peer sent something that is not text"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn requests_are_understood() {
        for request in [
            Request::Talk(QpType::Rc, Mtu::B1024),
            Request::Talk(QpType::Ud, Mtu::B4096),
            Request::Reach(Mtu::B512),
            Request::End,
        ] {
            assert_eq!(Request::parse(&request.to_string()).unwrap(), request);
        }
    }

    #[test]
    fn what_is_no_request_is_an_error() {
        for line in [
            "",
            "GET / HTTP/1.1",
            "uverbs selftest 2 RC 1024",
            "uverbs selftest 1",
            "uverbs selftest 1 XRC 1024",
            "uverbs selftest 1 RC 1000",
            "uverbs selftest 1 RC 1024 more",
        ] {
            assert!(Request::parse(line).is_err(), "{line}");
        }
    }

    #[test]
    fn places_are_understood_and_nothing_else_is() {
        for atomics in [false, true] {
            let place = Place {
                remote: Remote {
                    address: 0x7f00_dead_b000,
                    key: RemoteKey::from_raw(0x1234),
                },
                atomics,
            };
            assert_eq!(Place::parse(&place.to_string()).unwrap(), place);
        }
        for line in [
            "",
            "done",
            "memory 1 2",
            "memory x 1 1",
            "memory 1 123456789 1",
        ] {
            assert!(Place::parse(line).is_err(), "{line}");
        }
    }

    #[test]
    fn malformed_lines_are_errors() {
        assert_eq!(line(&mut &b"done\nrest"[..]).unwrap(), "done");
        assert!(line(&mut &b"done"[..]).is_err());
        assert!(line(&mut &b"\xff\xfe\n"[..]).is_err());
        assert!(line(&mut &[b'a'; 1000][..]).is_err());
    }

    #[test]
    fn both_sides_agree_on_the_smaller_packets() {
        let smallest = smaller(Mtu::B1024, Mtu::B4096);
        assert_eq!(agreed(&agree(smallest), Mtu::B4096).unwrap(), Mtu::B1024);
        assert!(agreed("ok 4096", Mtu::B1024).is_err());
        assert!(agreed("ok 17", Mtu::B1024).is_err());
        assert!(agreed("no", Mtu::B1024).is_err());
    }

    #[test]
    fn a_verdict_is_one_line() {
        let failed: Outcome<()> = Err(Trouble::failed("a\nb".repeat(100)));
        let said = verdict(&failed);
        assert!(
            said.starts_with("failed: a b") && said.len() <= LONGEST,
            "{said}"
        );
        assert!(verdict_of(&said).is_err());
        assert!(verdict_of(&verdict(&Ok(()))).is_ok());
    }
}
