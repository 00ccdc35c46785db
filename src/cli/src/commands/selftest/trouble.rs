//! `trouble`: what happens when the port or the device fails while in use. A person has to cause
//! that, and is asked to.

use std::time::{Duration, Instant};

use uverbs::event::AsyncEventType;
use uverbs::owned::Work;
use uverbs::{Context, ErrorKind, OpenOptions, QpType};

use super::check::{Check, Found, Outcome, Trouble, ensure};
use super::open::exchange;
use super::pair::{Pair, usual};
use super::subject::Subject;

/// How long the person may take to do what is asked for.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long a device may take to come back: firmware starts slowly.
const BACK: Duration = Duration::from_secs(120);
/// The time between two attempts.
const PAUSE: Duration = Duration::from_millis(200);
/// How long it may take to destroy everything on a device that is gone.
const END: Duration = Duration::from_secs(5);

pub(super) fn checks() -> Vec<Check> {
    vec![
        Check::optional(
            "port down and up",
            "both are reported, and messages get through again",
            port,
        ),
        Check::optional(
            "device gone and back",
            "it is reported, everything ends, and messages get through again",
            device,
        ),
    ]
}

/// Asks the person at the terminal. The lines of checks go to the other output stream.
fn request(what: &str) {
    eprintln!("please {what}, within {} s", PATIENCE.as_secs());
}

/// Waits for one of these events.
fn event(context: &Context, wanted: &[AsyncEventType], end: Instant) -> Outcome<bool> {
    loop {
        let left = end.saturating_duration_since(Instant::now());
        match context.async_event(Some(left)) {
            Ok(Some(event)) if wanted.contains(&event.event) => return Ok(true),
            Ok(Some(_)) => {}
            Ok(None) => return Ok(false),
            // The device's last event was taken, and it was none of these.
            Err(error) if error.kind() == ErrorKind::DeviceRemoved => return Ok(false),
            Err(error) => return Err(error.into()),
        }
    }
}

fn port(subject: &Subject) -> Outcome {
    let context = subject.reopen(OpenOptions::new().command_path(subject.path))?;
    let again = subject.through(context, subject.path);
    exchange(&again)?;
    request("take the port down, or pull its cable");
    let end = Instant::now() + PATIENCE;
    if !event(&again.context, &[AsyncEventType::PortError], end)? {
        return Err(Trouble::unsupported("the port was not taken down"));
    }
    let state = again.port_attr()?;
    ensure(!state.is_active(), || {
        "the port is active all the same".into()
    })?;
    request("bring the port up again");
    let end = Instant::now() + PATIENCE;
    let up = event(&again.context, &[AsyncEventType::PortActive], end)?;
    ensure(up, || "no event of the port that came up".into())?;
    message(&again)?;
    Ok(Found::new("both reported; a message before and after"))
}

/// A message through a port that came up: its addresses may appear a moment later.
fn message(subject: &Subject) -> Outcome<()> {
    let end = Instant::now() + END;
    loop {
        match exchange(subject) {
            Err(_) if Instant::now() < end => std::thread::sleep(PAUSE),
            outcome => return outcome,
        }
    }
}

fn device(subject: &Subject) -> Outcome {
    let context = subject.reopen(OpenOptions::new().command_path(subject.path))?;
    let again = subject.through(context, subject.path);
    let mut pair = Pair::new(&again, QpType::Rc, usual)?;
    request("reset the device, such as by devlink dev reload, or take it out and put it back");
    let end = Instant::now() + PATIENCE;
    if !event(&again.context, &[AsyncEventType::DeviceFatal], end)? {
        return Err(Trouble::unsupported("the device was not reset"));
    }
    let refused = refused(&again.context)?;
    // Whatever their outcome, none of these may hang; none gets a reply.
    let start = Instant::now();
    let _ = pair.a.qp.post(Work::send());
    let _ = pair.a.cq.poll();
    drop(pair);
    drop(again);
    let took = start.elapsed();
    ensure(took < END, || format!("its teardown took {took:.0?}"))?;
    let end = Instant::now() + BACK;
    let back = loop {
        match came_back(subject) {
            Ok(back) => break back,
            Err(trouble) if Instant::now() > end => {
                return Err(trouble.with("it did not come back"));
            }
            Err(_) => std::thread::sleep(PAUSE),
        }
    };
    message(&back).map_err(|trouble| trouble.with("after it came back"))?;
    drop(back);
    Ok(Found::new(format_args!(
        "reported; commands refused ({refused}), all gone in {} ms, and back",
        took.as_millis()
    )))
}

/// The error of a command. The driver may report the removal before it refuses commands.
fn refused(context: &Context) -> Outcome<ErrorKind> {
    let end = Instant::now() + PATIENCE;
    loop {
        match context.alloc_pd() {
            Err(error) => return Ok(error.kind()),
            Ok(pd) => drop(pd),
        }
        ensure(Instant::now() < end, || {
            "commands are still answered".into()
        })?;
        std::thread::sleep(PAUSE);
    }
}

/// The device with the same name, which may now have another node, once its port is up.
fn came_back(subject: &Subject) -> Outcome<Subject> {
    let options = OpenOptions::new().command_path(subject.path);
    let context = options.open(subject.context.name())?;
    let again = subject.through(context, subject.path);
    let state = again.port_attr()?;
    ensure(state.is_active(), || "its port stays down".into())?;
    Ok(again)
}
