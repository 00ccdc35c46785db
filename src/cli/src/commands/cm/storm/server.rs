//! The side that accepts.

use std::collections::HashMap;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Instant;

use uverbs::Context;
use uverbs::cm::{CmAddress, EventChannel, EventKind, Id, IdKey, PortSpace};

use super::side::{self, Conn, Devices, Settings};
use super::table::{Report, Role, Step, Timing};
use crate::failure::{Failure, Result};

/// Accepts so many connections, and waits until their clients have ended all of them. `listening`
/// is told the address.
pub(super) fn run(
    channel: &EventChannel,
    port: u16,
    settings: Settings,
    open: impl FnMut(u32) -> Result<Context>,
    listening: impl FnOnce(SocketAddr) -> Result<()>,
) -> Result<Report> {
    let of = settings.connections;
    let (listener, at) = listen(channel, port, settings)?;
    listening(at)?;
    let mut devices = Devices::new(open);
    let mut conns: Vec<Conn> = Vec::new();
    let mut places: HashMap<IdKey, usize> = HashMap::new();
    let mut queues = Timing::new(Step::CreateQp);
    let mut accepts = Timing::new(Step::Accept);
    let mut ends = Timing::new(Step::Disconnect);
    let mut start = None;
    let mut connected = None;
    while ends.count() < of {
        let limit = match start {
            None => settings.first,
            Some(_) => settings.wait,
        };
        let Some(event) = channel.event(Some(limit))? else {
            return Err(match start {
                None => Failure::new("no client came")
                    .hint("uverbs cm storm HOST is one; --first SECONDS waits longer"),
                Some(_) if accepts.count() < of => side::late(Step::Accept, accepts.count(), of)
                    .hint("both sides need the same -n"),
                Some(_) => side::late(Step::Disconnect, ends.count(), of).hint(side::LONGER),
            });
        };
        if let Some(id) = event.request {
            // More than were asked for are rejected.
            if conns.len() == of {
                continue;
            }
            let device = devices.find(&id)?;
            let since = Instant::now();
            start.get_or_insert(since);
            let queue = devices.queue_pair(device, &id)?;
            queues.record(since);
            let mut conn = Conn::new(id, Some(queue));
            let doing = |failure: Failure| failure.while_doing(Step::Accept);
            conn.accept().map_err(doing)?;
            places.extend(conn.id.key().map(|key| (key, conns.len())));
            conns.push(conn);
            continue;
        }
        let conn = places.get(&event.of).and_then(|at| conns.get_mut(*at));
        match (conn, event.event.kind) {
            (Some(conn), EventKind::Established) => {
                accepts.record(conn.since);
                if accepts.count() == of {
                    connected = start.map(|start| start.elapsed());
                }
            }
            (Some(conn), EventKind::Disconnected) => {
                let since = Instant::now();
                conn.disconnect()?;
                ends.record(since);
            }
            (None, EventKind::DeviceRemoval) if Some(event.of) == listener.key() => {
                return Err(Failure::new("the device was removed"));
            }
            (None, _) => {}
            (Some(_), _) => {
                if let Some(failure) = side::over(&event.event) {
                    return Err(failure.while_doing(Step::Accept));
                }
            }
        }
    }
    drop(listener);
    let [queues_gone, ids_gone] = side::destroy(conns, channel, settings.wait)?;
    let over = start.map(|start| start.elapsed()).unwrap_or_default();
    Ok(Report::new(
        Role::Server,
        devices.names(),
        of,
        &[&queues, &accepts, &ends, &queues_gone, &ids_gone],
        (connected.unwrap_or(over), over),
    ))
}

/// At all addresses: both IPv6 and IPv4, where available.
fn listen(channel: &EventChannel, port: u16, settings: Settings) -> Result<(Id, SocketAddr)> {
    let backlog = u32::try_from(settings.connections).unwrap_or(u32::MAX);
    let at = |address: SocketAddr| {
        let id = channel.create_id(PortSpace::Tcp)?;
        id.bind(address)?;
        id.listen(backlog)?;
        let local = match id.route()?.source {
            Some(CmAddress::Ip(local)) => local,
            _ => address,
        };
        Ok::<_, uverbs::Error>((id, local))
    };
    at((Ipv6Addr::UNSPECIFIED, port).into())
        .or_else(|_| at((Ipv4Addr::UNSPECIFIED, port).into()))
        .map_err(|error| {
            Failure::from(error).hint("does another server listen there? -p chooses another port")
        })
}
