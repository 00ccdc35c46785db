//! `uverbs events`.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::Serialize;
use uverbs::event::{AsyncEvent, EventSource};
use uverbs::{Context, Error, ErrorKind};

use crate::failure::{Failure, Result};
use crate::output::Output;
use crate::session::Session;
use crate::units;

/// Print what happens to devices and ports, until interrupted
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  uverbs events\n  uverbs events --json rxe0 mlx5_0\n  uverbs events --count 1 --timeout 60 && echo something happened\n\nEvents of queues go to the process that owns the queues, not here."
)]
pub(crate) struct Args {
    /// Exit after this many events
    #[arg(short = 'n', long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,

    /// Exit after this many seconds; with --count, fail if there were fewer events
    #[arg(long, value_name = "SECONDS", value_parser = units::parse_seconds)]
    timeout: Option<Duration>,

    /// Print one JSON object per line
    #[arg(long)]
    json: bool,

    /// The devices. Default: all that can be opened
    #[arg(value_name = "DEVICE")]
    devices: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Line<'a> {
    /// Seconds since 1970.
    time: f64,
    device: &'a str,
    event: String,
    name: Option<&'static str>,
    port: Option<u8>,
    port_state: Option<String>,
}

/// What a watching thread reports.
type News = (Context, uverbs::Result<AsyncEvent>);

pub(crate) fn run(args: &Args, session: &Session, out: &mut Output) -> Result<()> {
    let contexts = if args.devices.is_empty() {
        session.open_all()?
    } else {
        args.devices
            .iter()
            .map(|name| session.open(Some(name)))
            .collect::<Result<Vec<_>>>()?
    };
    let (sender, news) = mpsc::channel();
    for context in contexts {
        if !args.json {
            out.line(format_args!("watching {}", context.name()))?;
        }
        let sender = sender.clone();
        thread::spawn(move || watch(&context, &sender));
    }
    drop(sender);
    out.flush()?;
    let deadline = args.timeout.map(|timeout| Instant::now() + timeout);
    let mut seen = 0;
    loop {
        let next = match deadline {
            Some(deadline) => news.recv_timeout(deadline.saturating_duration_since(Instant::now())),
            None => news.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match next {
            Ok((context, Ok(event))) => {
                print(args, &context, &event, out)?;
                seen += 1;
                if args.count.is_some_and(|count| seen >= count) {
                    return Ok(());
                }
            }
            Ok((context, Err(error))) => gone(args, &context, error, out)?,
            Err(RecvTimeoutError::Timeout) => {
                return match args.count {
                    Some(count) => Err(Failure::new(format_args!(
                        "{seen} of {count} events in the time given"
                    ))),
                    None => Ok(()),
                };
            }
            // Every device is gone.
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
    }
}

/// Forwards the events of a device until it is gone or there is no receiver.
fn watch(context: &Context, sender: &Sender<News>) {
    loop {
        let event = match context.async_event(None) {
            Ok(Some(event)) => Ok(event),
            Ok(None) => continue,
            Err(error) => Err(error),
        };
        let last = event.is_err();
        if sender.send((context.clone(), event)).is_err() || last {
            return;
        }
    }
}

fn print(args: &Args, context: &Context, event: &AsyncEvent, out: &mut Output) -> Result<()> {
    let port = match event.source {
        EventSource::Port(port) => Some(port),
        _ => None,
    };
    let line = Line {
        time: now(),
        device: context.name(),
        event: event.event.ibv_str().to_owned(),
        name: event.event.c_name(),
        port,
        port_state: port
            .and_then(|port| context.query_port(port).ok())
            .map(|attr| attr.state.to_string()),
    };
    write(args, &line, out)
}

/// A device that was removed ends its watch; any other error ends the run.
fn gone(args: &Args, context: &Context, error: Error, out: &mut Output) -> Result<()> {
    if error.kind() != ErrorKind::DeviceRemoved {
        return Err(error.into());
    }
    let line = Line {
        time: now(),
        device: context.name(),
        event: "removed".to_owned(),
        name: None,
        port: None,
        port_state: None,
    };
    write(args, &line, out)
}

fn write(args: &Args, line: &Line<'_>, out: &mut Output) -> Result<()> {
    if args.json {
        return out.json_line(line);
    }
    let port = line.port.map(|port| format!(" port {port}"));
    let state = line
        .port_state
        .as_ref()
        .map(|state| format!(" (now {state})"));
    out.line(format_args!(
        "{:.3} {}{}: {}{}",
        line.time,
        line.device,
        port.unwrap_or_default(),
        line.event,
        state.unwrap_or_default()
    ))?;
    out.flush()
}

fn now() -> f64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0.0, |since| since.as_secs_f64())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn lines_are_as_their_schema_says() {
        let mut line = Line {
            time: now(),
            device: "rxe0",
            event: "port active".to_owned(),
            name: Some("IBV_EVENT_PORT_ACTIVE"),
            port: Some(1),
            port_state: Some("active".to_owned()),
        };
        crate::json::tests::valid("events", &line).unwrap();
        (line.name, line.port, line.port_state) = (None, None, None);
        crate::json::tests::valid("events", &line).unwrap();
    }
}
