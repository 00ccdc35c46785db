//! The server: does what clients request.

use std::net::TcpStream;

use super::args::Endpoint;
use super::by_address::Door;
use super::exchanged::{Ready, active_mtu};
use super::rig::{Rig, is_mutual};
use super::spec::{Measure, Spec};
use super::wire::{Message, VERSION, Wire, out_of_turn};
use super::{Local, bandwidth, latency};
use crate::dial::keep_alive;
use crate::exchange::tcp;
use crate::failure::{Failure, Result};
use crate::output::Output;
use crate::session::Session;

pub(super) fn run(
    endpoint: &Endpoint,
    once: bool,
    session: &Session,
    out: &mut Output,
) -> Result<()> {
    check(&endpoint.local(), session)?;
    let listener = tcp::listen(endpoint.port)?;
    out.line(format_args!("listening on TCP port {}", endpoint.port))?;
    out.flush()?;
    loop {
        let stream = tcp::accept(&listener)?;
        let served = serve(stream, &endpoint.local(), session, out);
        if once || matches!(served, Err(Failure::Closed)) {
            return served;
        }
        if let Err(failure) = served {
            failure.report();
        }
    }
}

/// Fails now rather than at the first client if the device, its port or its GID is not there.
fn check(local: &Local<'_>, session: &Session) -> Result<()> {
    let context = session.open(local.device)?;
    context.query_port(local.ib_port)?;
    match local.gid_idx {
        Some(index) if context.gid(local.ib_port, index.into())?.is_none() => Err(Failure::usage(
            format_args!("port {} has no GID with index {index}", local.ib_port),
        )
        .hint("uverbs info shows the GIDs")),
        _ => Ok(()),
    }
}

fn serve(stream: TcpStream, local: &Local<'_>, session: &Session, out: &mut Output) -> Result<()> {
    let peer = stream.peer_addr().map_or_else(
        |_| "somebody".to_owned(),
        |address| address.ip().to_canonical().to_string(),
    );
    keep_alive(&stream)?;
    let mut wire = Wire::new(stream);
    let result = meet(&mut wire, local, session).and_then(|(mut rig, spec)| {
        let (verb, measure) = (spec.verb.name(), spec.measure);
        let what = match measure {
            Measure::Bandwidth => "bandwidth",
            Measure::Latency => "latency",
        };
        out.line(format_args!("{peer}: {verb} {what}"))?;
        out.flush()?;
        rounds(&mut rig, &spec, &mut wire)
    });
    if let Err(Failure::Said { message, .. }) = &result {
        // The client may already be gone.
        let _ = wire.say(&Message::Refused {
            why: message.clone(),
        });
    }
    result.map_err(|failure| failure.while_doing(peer))
}

/// Receives what is requested, and connects.
fn meet(wire: &mut Wire, local: &Local<'_>, session: &Session) -> Result<(Rig, Spec)> {
    let Message::Hello { version, spec, mtu } = wire.hear()? else {
        return Err(out_of_turn());
    };
    if version != VERSION {
        return Err(Failure::new(format_args!(
            "the client speaks version {version}, this is version {VERSION}"
        )));
    }
    spec.check()?;
    let rig = if spec.by_address {
        let address = wire.local_address()?;
        let door = Door::open(address, &spec, session)?;
        wire.say(&Message::Listening { port: door.port() })?;
        door.accept(&spec, session)?
    } else {
        let context = session.open(local.device)?;
        let mtu = active_mtu(&context, local, &spec)?.min(mtu);
        let ready = Ready::make(&spec, local, &context, mtu)?;
        let ends = ready.ends(&spec)?;
        wire.say(&Message::Welcome { ends, mtu })?;
        let Message::Join { ends } = wire.hear()? else {
            return Err(out_of_turn());
        };
        ready.connect(&spec, &ends)?
    };
    wire.say(&Message::Ready)?;
    wire.patient()?;
    Ok((rig, *spec))
}

fn rounds(rig: &mut Rig, spec: &Spec, wire: &mut Wire) -> Result<()> {
    loop {
        let size = match wire.hear()? {
            Message::Round { size } if size <= spec.largest() => size,
            Message::Bye => return Ok(()),
            _ => return Err(out_of_turn()),
        };
        wire.say(&Message::Ready)?;
        let messages = if is_mutual(spec) {
            let messages = latency::answer(rig, spec, size, wire)?;
            bandwidth::over(wire)?;
            messages
        } else if spec.receives() {
            bandwidth::absorb(rig, spec, wire)?
        } else {
            // A server is not notified of writes and reads.
            bandwidth::over(wire)?
        };
        wire.say(&Message::Tally { messages })?;
    }
}
