//! The client: tells the server what is measured, and measures it.

use std::path::Path;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::args::Test;
use super::exchanged::{Ready, active_mtu};
use super::report::{Outcome, Report, Row};
use super::rig::Rig;
use super::spec::{Amount, Measure, Spec, Verb};
use super::wire::{Message, VERSION, Wire, out_of_turn};
use super::{bandwidth, by_address, latency, plot, report};
use crate::dial::{self, Deadline};
use crate::exchange::tcp;
use crate::failure::{Failure, Result};
use crate::output::Output;
use crate::session::Session;
use crate::units;

pub(super) fn run(
    test: &Test,
    verb: Verb,
    host: &str,
    session: &Session,
    out: &mut Output,
) -> Result<()> {
    let (mut rig, mut wire, spec, mut result) = if test.cm {
        called(test, verb, host, session)?
    } else {
        exchanged(test, verb, host, session)?
    };
    expect_ready(&mut wire)?;

    if !test.json {
        report::headline(&result, out)?;
    }
    let mut columns = report::Columns::of(&spec);
    for size in spec.sizes.clone() {
        let row = round(&mut rig, &spec, size, &mut wire)?;
        if !test.json {
            columns.write(&row, out)?;
        }
        result.results.push(row);
        // After each size, so that a run which is interrupted leaves what it has.
        if let Some(file) = test.plot.as_deref().filter(|file| *file != Path::new("-")) {
            plot::write(&result, test.log_x, file)?;
        }
    }
    wire.say(&Message::Bye)?;
    if test.json {
        out.json(&result)?;
    }
    match &test.plot {
        Some(file) if file == Path::new("-") => plot::show(&result, test.log_x, test.json, out),
        _ => Ok(()),
    }
}

type Connected = (Rig, Wire, Spec, Report);

/// Connects by what the sides tell each other.
fn exchanged(test: &Test, verb: Verb, host: &str, session: &Session) -> Result<Connected> {
    let local = test.endpoint.local();
    let context = session.open(local.device)?;
    let datagram = context
        .query_port(local.ib_port)?
        .active_mtu
        .bytes()
        .unwrap_or(256);
    let spec = test.spec(verb, datagram);
    spec.check()?;
    let own_mtu = active_mtu(&context, &local, &spec)?;
    let mut wire = hello(test, host, &spec, own_mtu)?;
    let Message::Welcome { ends, mtu } = wire.hear()? else {
        return Err(out_of_turn());
    };
    let ready = Ready::make(&spec, &local, &context, mtu)?;
    let own = ready.ends(&spec)?;
    let rig = ready.connect(&spec, &ends)?;
    wire.say(&Message::Join { ends: own })?;
    let report = Report::new(&context, &spec, mtu);
    Ok((rig, wire, spec, report))
}

/// Connects by the address at which the server was reached.
fn called(test: &Test, verb: Verb, host: &str, session: &Session) -> Result<Connected> {
    let spec = test.spec(verb, 0);
    spec.check()?;
    let mut wire = hello(test, host, &spec, 0)?;
    let Message::Listening { port } = wire.hear()? else {
        return Err(out_of_turn());
    };
    let mut server = wire.peer_address()?;
    server.set_port(port);
    let (rig, context, mtu) = by_address::connect(&spec, server, session)?;
    let report = Report::new(&context, &spec, mtu);
    Ok((rig, wire, spec, report))
}

/// Tells the server what is measured.
fn hello(test: &Test, host: &str, spec: &Spec, mtu: u32) -> Result<Wire> {
    let stream = dial::connect(host, test.endpoint.port, Deadline::after(test.wait))?;
    let stream = tcp::prepared(stream).map_err(|error| tcp::broken(&error))?;
    let mut wire = Wire::new(stream);
    wire.say(&Message::Hello {
        version: VERSION,
        spec: Box::new(spec.clone()),
        mtu,
    })?;
    Ok(wire)
}

fn round(rig: &mut Rig, spec: &Spec, size: u32, wire: &mut Wire) -> Result<Row> {
    wire.say(&Message::Round { size })?;
    expect_ready(wire)?;
    let bar = progress(spec, size);
    let tick = |done: u64, elapsed: Duration| match spec.amount {
        Amount::Iterations(_) => bar.set_position(done),
        Amount::Seconds(_) => bar.set_position(millis(elapsed)),
    };
    let (messages, elapsed, outcome) = match spec.measure {
        Measure::Bandwidth => {
            let flow = bandwidth::request(rig, spec, size, tick)?;
            let outcome = Outcome::bandwidth(size, &flow);
            (flow.messages, flow.elapsed, outcome)
        }
        Measure::Latency => {
            let rounds = latency::request(rig, spec, size, tick)?;
            let outcome = Outcome::latency(&rounds.times);
            (rounds.times.count(), rounds.elapsed, outcome)
        }
    };
    bar.finish_and_clear();
    wire.say(&Message::Over { messages })?;
    let Message::Tally { messages: arrived } = wire.hear()? else {
        return Err(out_of_turn());
    };
    if spec.transport.is_reliable() && arrived != messages {
        return Err(Failure::new(format_args!(
            "{messages} messages were acknowledged, the server saw {arrived}"
        )));
    }
    Ok(Row {
        size,
        messages,
        arrived,
        seconds: elapsed.as_secs_f64(),
        outcome,
    })
}

fn expect_ready(wire: &mut Wire) -> Result<()> {
    match wire.hear()? {
        Message::Ready => Ok(()),
        _ => Err(out_of_turn()),
    }
}

/// A progress bar on stderr; it shows nothing unless stderr is a terminal.
fn progress(spec: &Spec, size: u32) -> ProgressBar {
    let length = match spec.amount {
        Amount::Iterations(count) => count,
        Amount::Seconds(seconds) => millis(Duration::from_secs_f64(seconds)),
    };
    let bar = ProgressBar::with_draw_target(Some(length), ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template("{msg:>10} {bar:40} {percent:>3} % {eta}") {
        bar.set_style(style);
    }
    bar.set_message(units::bytes(size.into()));
    bar
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
