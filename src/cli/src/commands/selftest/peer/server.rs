//! The other host: serves what a client requests, one conversation after another, until the client
//! is done.

use std::net::TcpStream;

use uverbs::QpType;

use super::super::check::Outcome;
use super::super::subject::Subject;
use super::talk::{Role, Side};
use super::wire::{self, Request};
use super::{memory, patient, said, settled};
use crate::exchange::{pingpong, tcp};
use crate::failure::Result;
use crate::output::Output;

pub(in super::super) fn serve(subject: &Subject, port: u16, out: &mut Output) -> Result<()> {
    let listener = tcp::listen(port)?;
    out.line(format_args!("waiting for a client on TCP port {port}"))?;
    out.flush()?;
    loop {
        let mut stream = tcp::accept(&listener)?;
        // An error by a client ends only its own conversation.
        match answer(subject, &mut stream) {
            Ok(None) => return Ok(()),
            Ok(Some(line)) => out.line(format_args!("ok   {line}"))?,
            Err(trouble) => out.line(format_args!("FAIL {}", trouble.text()))?,
        }
        out.flush()?;
    }
}

/// One conversation; `None` when there are no more.
fn answer(subject: &Subject, stream: &mut TcpStream) -> Outcome<Option<String>> {
    patient(stream)?;
    let request = Request::parse(&wire::line(stream)?)?;
    let (kind, theirs) = match request {
        Request::End => return Ok(None),
        Request::Talk(kind, mtu) => (kind, mtu),
        Request::Reach(mtu) => (QpType::Rc, mtu),
    };
    let mtu = wire::smaller(theirs, subject.port_attr()?.active_mtu);
    let mut side = Side::new(subject, kind, mtu)?;
    wire::put(stream, &wire::agree(mtu))?;
    let endpoint = [side.endpoint()?];
    pingpong::serve(stream, &endpoint, 1, |peers| side.connect(peers)).map_err(said)?;
    if matches!(request, Request::Reach(_)) {
        let lent = memory::lend(subject, &side, stream);
        wire::put(stream, &wire::verdict(&lent))?;
        return lent.map(|()| Some(format!("{}  lent", wire::MEMORY)));
    }
    let talked = side.talk(Role::Second);
    let count = settled(stream, talked)?;
    Ok(Some(format!(
        "{}  {count} lengths each way",
        wire::name(kind)
    )))
}
