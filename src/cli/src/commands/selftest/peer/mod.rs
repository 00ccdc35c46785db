//! `peer`: messages to and from another host, where the same program runs as the server.

mod memory;
mod server;
mod talk;
mod wire;

use std::net::TcpStream;
use std::time::Duration;

use uverbs::QpType;
use uverbs::link::Mtu;

use super::check::{Check, Found, Outcome, Trouble};
use super::subject::Subject;
use crate::dial::{self, Deadline};
use crate::exchange::pingpong;
use crate::failure::Failure;
use talk::{Role, Side};
use wire::Request;

pub(super) use server::serve;

/// How long the server may take to appear, and to complete each step of the conversation.
const PATIENCE: Duration = Duration::from_secs(5);

const EXPECTED: &str = "both ways, bytes as sent";

/// Where the server is.
#[derive(Clone, Debug)]
pub(super) struct Peer {
    pub(super) host: String,
    pub(super) port: u16,
}

pub(super) fn checks() -> Vec<Check> {
    let each = |kind| {
        Check::new(wire::name(kind), EXPECTED, move |subject| {
            talk(subject, kind)
        })
    };
    vec![
        each(QpType::Rc),
        each(QpType::Uc),
        each(QpType::Ud),
        Check::new(wire::MEMORY, "read, written and changed by atomics", reach),
    ]
}

/// Tells the server that there are no more requests.
pub(super) fn end(peer: &Peer) -> Result<(), Failure> {
    let mut stream = dial::connect(&peer.host, peer.port, Deadline::after(Duration::ZERO))?;
    wire::put(&mut stream, &Request::End.to_string())
        .map_err(|trouble| Failure::new(trouble.text()))
}

/// Requests a conversation; returns when ready for it, with the packet size in bytes.
fn call(
    subject: &Subject,
    kind: QpType,
    request: impl FnOnce(Mtu) -> Request,
) -> Outcome<(TcpStream, Side, u32)> {
    let peer = subject.peer.as_ref();
    let peer = peer.ok_or_else(|| Trouble::unsupported("no other host was given"))?;
    let stream = dial::connect(&peer.host, peer.port, Deadline::after(PATIENCE));
    let mut stream = stream.map_err(said)?;
    patient(&stream)?;
    let own = subject.port_attr()?.active_mtu;
    wire::put(&mut stream, &request(own).to_string())?;
    let mtu = wire::agreed(&wire::line(&mut stream)?, own)?;
    let mut side = Side::new(subject, kind, mtu)?;
    let endpoint = [side.endpoint()?];
    pingpong::call(&mut stream, &endpoint, 1, |peers| side.connect(peers)).map_err(said)?;
    Ok((stream, side, mtu.bytes().unwrap_or_default()))
}

fn talk(subject: &Subject, kind: QpType) -> Outcome {
    let (mut stream, mut side, bytes) = call(subject, kind, |mtu| Request::Talk(kind, mtu))?;
    let talked = side.talk(Role::First);
    let count = settled(&mut stream, talked)?;
    Ok(Found::new(format_args!(
        "{count} lengths each way, packets of {bytes} bytes"
    )))
}

fn reach(subject: &Subject) -> Outcome {
    let (mut stream, mut side, bytes) = call(subject, QpType::Rc, Request::Reach)?;
    let reached = memory::reach(subject, &mut side, &mut stream);
    let atomics = settled(&mut stream, reached)?;
    let what = if atomics {
        "read, written, added to, swapped"
    } else {
        "read, written; not both hosts have atomics"
    };
    Ok(Found::new(format_args!("{what}, packets of {bytes} bytes")))
}

/// Exchanges how it went with the other side; returns what was found here if both succeeded.
fn settled<T>(stream: &mut TcpStream, here: Outcome<T>) -> Outcome<T> {
    wire::put(stream, &wire::verdict(&here))?;
    let theirs = wire::verdict_of(&wire::line(stream)?);
    let here = here?;
    theirs.map(|()| here)
}

fn patient(stream: &TcpStream) -> Outcome<()> {
    let set = stream
        .set_read_timeout(Some(2 * PATIENCE))
        .and_then(|()| stream.set_write_timeout(Some(2 * PATIENCE)));
    set.map_err(Trouble::failed)
}

/// The message of a failure; its hint only makes sense for a command of its own.
fn said(failure: Failure) -> Trouble {
    Trouble::failed(match failure {
        Failure::Said { message, .. } => message,
        Failure::Reported(_) | Failure::Closed => "the exchange ended".to_owned(),
    })
}
