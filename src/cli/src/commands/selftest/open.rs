//! `open`: every way to open the device, and a message through each.

use std::time::Instant;

use uverbs::kernel::CommandPath;
use uverbs::mlx5::Doorbells;
use uverbs::{Context, OpenOptions, QpType};

use super::check::{Check, Found, Outcome, Trouble, ensure};
use super::pair::{Pair, buffer_of, compare, fill, usual};
use super::subject::Subject;

const PATHS: [(&str, CommandPath); 4] = [
    ("auto", CommandPath::Auto),
    ("ioctl", CommandPath::Ioctl),
    ("invoke-write", CommandPath::InvokeWrite),
    ("write", CommandPath::Write),
];

const EXPECTED: &str = "a message to itself";

pub(super) fn checks() -> Vec<Check> {
    let mut checks = Vec::new();
    for (name, path) in PATHS {
        // An older kernel does not have all of them, but one way always exists.
        let look = move |subject: &Subject| message(subject, path, Doorbells::AsNeeded);
        checks.push(match path {
            CommandPath::Auto => Check::new(name, EXPECTED, look),
            _ => Check::optional(name, EXPECTED, look),
        });
    }
    for (name, path) in PATHS {
        let name = format!("{name}, fixed doorbells");
        checks.push(Check::optional(name, EXPECTED, move |subject| {
            subject.mlx5()?;
            message(subject, path, Doorbells::Fixed)
        }));
    }
    checks.push(Check::optional("firmware commands", "", firmware));
    checks.push(Check::new("many contexts", "8 at once", many));
    checks
}

/// Opens the device this way and sends itself a message.
fn message(subject: &Subject, path: CommandPath, doorbells: Doorbells) -> Outcome {
    let start = Instant::now();
    let options = OpenOptions::new()
        .command_path(path)
        .doorbells_of_mlx5(doorbells);
    let context = subject.reopen(options)?;
    let again = subject.through(context, path);
    exchange(&again)?;
    nothing_left(&again.context)?;
    let took = start.elapsed().as_micros();
    Ok(Found::new(format_args!(
        "opened, connected and sent in {took} µs"
    )))
}

/// One message from one queue pair to another.
pub(super) fn exchange(subject: &Subject) -> Outcome<()> {
    let mut pair = Pair::new(subject, QpType::Rc, usual)?;
    let [mut text, room] = pair.pd.buffers(64)?;
    fill(&mut text, 1);
    pair.b.qp.recv(room, 0)?;
    pair.a.qp.send(text, 64, 0)?;
    pair.a.success()?;
    compare(&buffer_of(pair.b.success()?)?, 1)
}

/// Whether the kernel refused to destroy anything.
pub(super) fn nothing_left(context: &Context) -> Outcome<()> {
    let leaked = context.leaked();
    ensure(leaked == 0, || {
        format!("{leaked} objects could not be destroyed")
    })
}

fn firmware(subject: &Subject) -> Outcome {
    let devx = subject.mlx5()?.devx();
    devx.map_err(|_| Trouble::unsupported("the context may give none"))?;
    Ok(Found::new("the context may give them"))
}

fn many(subject: &Subject) -> Outcome {
    let open = |_| subject.reopen(OpenOptions::new().command_path(subject.path));
    let contexts: Vec<Context> = (0..8).map(open).collect::<Outcome<_>>()?;
    for context in contexts {
        exchange(&subject.through(context, subject.path))?;
    }
    Ok(Found::new("a message through each"))
}
