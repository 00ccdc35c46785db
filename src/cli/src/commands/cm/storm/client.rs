//! The side that connects.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Instant;

use uverbs::Context;
use uverbs::cm::{Event, EventChannel, EventKind, IdKey, PortSpace};

use super::side::{self, Conn, Devices, Settings};
use super::table::{Report, Role, Step, Timing};
use crate::failure::{Failure, Result};

/// The connections.
struct Storm<'c> {
    channel: &'c EventChannel,
    settings: Settings,
    conns: Vec<Conn>,
    places: HashMap<IdKey, usize>,
}

pub(super) fn run(
    channel: &EventChannel,
    server: SocketAddr,
    settings: Settings,
    open: impl FnMut(u32) -> Result<Context>,
) -> Result<Report> {
    let (start, wait) = (Instant::now(), settings.wait);
    let mut devices = Devices::new(open);
    let mut storm = Storm {
        channel,
        settings,
        conns: Vec::new(),
        places: HashMap::new(),
    };
    let ids = storm.create_ids()?;
    let addresses = storm.wave(
        Step::ResolveAddress,
        |conn| Ok(conn.id.resolve_address(None, server, wait)?),
        |_, event| Ok(event.kind == EventKind::AddressResolved),
    )?;
    let mut at = Vec::new();
    let routes = storm.wave(
        Step::ResolveRoute,
        |conn| Ok(conn.id.resolve_route(wait)?),
        |_, event| Ok(event.kind == EventKind::RouteResolved),
    )?;
    for conn in &storm.conns {
        at.push(devices.find(&conn.id)?);
    }
    let mut queues = Timing::new(Step::CreateQp);
    for (conn, at) in storm.conns.iter_mut().zip(at) {
        let since = Instant::now();
        conn.queue = Some(devices.queue_pair(at, &conn.id)?);
        queues.record(since);
    }
    let connects = storm.wave(Step::Connect, Conn::connect, |conn, event| {
        match event.kind {
            EventKind::ConnectResponse => conn.confirm()?,
            // The driver of iWARP moves the queue pair.
            EventKind::Established => {}
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    let connected = start.elapsed();
    let ends = storm.wave(Step::Disconnect, Conn::disconnect, |_, event| {
        Ok(event.kind == EventKind::Disconnected)
    })?;
    let [queues_gone, ids_gone] = side::destroy(storm.conns, channel, wait)?;
    let timings = [
        &ids,
        &addresses,
        &routes,
        &queues,
        &connects,
        &ends,
        &queues_gone,
        &ids_gone,
    ];
    let times = (connected, start.elapsed());
    let in_flight = settings.in_flight.min(settings.connections);
    Ok(Report::new(
        Role::Client,
        devices.names(),
        in_flight,
        &timings,
        times,
    ))
}

impl Storm<'_> {
    fn create_ids(&mut self) -> Result<Timing> {
        let mut timing = Timing::new(Step::CreateId);
        for place in 0..self.settings.connections {
            let since = Instant::now();
            let id = self.channel.create_id(PortSpace::Tcp)?;
            timing.record(since);
            self.places.extend(id.key().map(|key| (key, place)));
            self.conns.push(Conn::new(id, None));
        }
        Ok(timing)
    }

    /// A step that ends with an event: all connections begin it, as many at a time as are allowed
    /// to, and `ends` says which event is the end.
    fn wave(
        &mut self,
        step: Step,
        mut begin: impl FnMut(&mut Conn) -> Result<()>,
        mut ends: impl FnMut(&mut Conn, &Event) -> Result<bool>,
    ) -> Result<Timing> {
        let Settings {
            in_flight, wait, ..
        } = self.settings;
        let (mut timing, of) = (Timing::new(step), self.conns.len());
        let mut started = 0;
        while timing.count() < of {
            let has_room = started - timing.count() < in_flight;
            let event = match self.conns.get_mut(started).filter(|_| has_room) {
                Some(conn) => {
                    conn.since = Instant::now();
                    begin(conn).map_err(|failure| failure.while_doing(place(step, started, of)))?;
                    started += 1;
                    // What has come meanwhile is not to wait for all others to begin.
                    self.channel.try_event()?
                }
                None => match self.channel.event(Some(wait))? {
                    None => return Err(side::late(step, timing.count(), of).hint(side::LONGER)),
                    event => event,
                },
            };
            let Some(event) = event else { continue };
            let Some(at) = self.places.get(&event.of).copied() else {
                continue;
            };
            let Some(conn) = self.conns.get_mut(at) else {
                continue;
            };
            let doing = |failure: Failure| failure.while_doing(place(step, at, of));
            if at < started && ends(conn, &event.event).map_err(doing)? {
                timing.record(conn.since);
            } else if let Some(failure) = side::over(&event.event) {
                return Err(doing(failure));
            }
        }
        Ok(timing)
    }
}

/// Where something failed.
fn place(step: Step, at: usize, of: usize) -> String {
    format!("{step}, connection {} of {of}", at + 1)
}
