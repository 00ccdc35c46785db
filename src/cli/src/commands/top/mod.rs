//! `uverbs top`.

mod counters;
mod rates;
mod sample;
mod screen;
mod signals;
mod terminal;
#[cfg(test)]
mod tests;

use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::failure::{Failure, NO_DEVICE, Result};
use crate::output::Output;
use crate::session::no_devices;
use crate::units;
use rates::Frame;
use sample::{Sample, Sampler};
use screen::{Sort, View};
use terminal::{Key, Terminal};

const NOTES: &str = "\
Keys: q quit, s sort by the next column, c counters that do not change, m memory regions, p pause,
+ and - interval, arrows and page keys scroll.

Without a terminal, one frame after another is printed as text. Packets of a queue pair are counted
by its packet sequence numbers, where the driver reports them. Traffic of RoCE may be missing from
the counters of a port: what they count is up to the driver. ERRORS/s adds up the error counters of
InfiniBand ports, mlx5 and rxe. Without RDMA netlink, devices, ports and counters come from sysfs,
which does not list queues.

Examples:
  uverbs top
  uverbs top -d mlx5_0 --interval 0.5
  uverbs top --once
  uverbs top --json --count 60 > minute.jsonl";

const KEYS: &str =
    " q quit  s sort  c all counters  m memory regions  p pause  +/- interval  arrows scroll ";

/// The interval that `+` and `-` do not leave.
const SHORTEST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(60);

/// Show rates and counters of devices, ports and queues, as they change
#[derive(Debug, clap::Args)]
#[command(after_help = NOTES)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "switches of the command line"
)]
pub(crate) struct Args {
    /// The device. Default: all
    #[arg(short = 'd', long, visible_alias = "ib-dev", value_name = "DEVICE")]
    device: Option<String>,

    /// Time between two samples, in seconds: 0.1 to 60
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = parse_interval)]
    interval: Duration,

    /// What queues are sorted by
    #[arg(long, value_enum, default_value_t, value_name = "ORDER")]
    sort: Sort,

    /// Show counters that do not change, too
    #[arg(long)]
    counters: bool,

    /// Show memory regions, too
    #[arg(long)]
    regions: bool,

    /// Print one frame, of two samples, and exit
    #[arg(long, conflicts_with = "count")]
    once: bool,

    /// Print this many frames and exit
    #[arg(short = 'n', long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,

    /// Print one JSON object per frame and line
    #[arg(long)]
    json: bool,
}

fn parse_interval(text: &str) -> std::result::Result<Duration, String> {
    let interval = units::parse_seconds(text)?;
    if (SHORTEST..=LONGEST).contains(&interval) {
        Ok(interval)
    } else {
        Err("the interval must be 0.1 to 60 seconds".to_owned())
    }
}

pub(crate) fn run(args: &Args, out: &mut Output) -> Result<()> {
    let mut sampler = Sampler::new();
    let only = args.device.as_deref();
    let first = sampler.take(only)?;
    if first.devices.is_empty() {
        return Err(match only {
            Some(name) => Failure::with_code(NO_DEVICE, format_args!("there is no device {name}"))
                .hint("uverbs list shows the devices"),
            None => no_devices(),
        });
    }
    let scripted = args.once || args.count.is_some() || args.json;
    let terminal = if scripted { None } else { Terminal::open()? };
    let Some(terminal) = terminal else {
        return printed(args, &mut sampler, first, out);
    };
    let end = live(args, &mut sampler, first, &terminal)?;
    drop(terminal);
    match end {
        End::Asked => Ok(()),
        End::Signal(number) => signals::end_by(number)
            .map_err(|error| Failure::new(format_args!("ending by signal {number}: {error}"))),
    }
}

/// Why there are no more frames.
enum End {
    /// A key.
    Asked,
    /// A signal, by its number.
    Signal(i32),
}

/// Frames one below the other. The first has rates, too.
fn printed(args: &Args, sampler: &mut Sampler, first: Sample, out: &mut Output) -> Result<()> {
    let mut before = first;
    let mut left = if args.once { Some(1) } else { args.count };
    while left != Some(0) {
        sleep(args.interval);
        let now = sampler.take(args.device.as_deref())?;
        let frame = Frame::between(Some(&before), now.clone());
        if args.json {
            out.json_line(&frame)?;
        } else {
            for line in screen::lines(&frame, args.view()) {
                out.line(line)?;
            }
            out.line("")?;
            out.flush()?;
        }
        before = now;
        left = left.map(|left| left - 1);
    }
    Ok(())
}

/// Frames in a terminal, until a key or a signal ends it.
fn live(args: &Args, sampler: &mut Sampler, first: Sample, terminal: &Terminal) -> Result<End> {
    let mut view = args.view();
    let mut interval = args.interval;
    let mut frame = Frame::between(None, first.clone());
    let mut before = first;
    let mut from = 0_usize;
    let mut last = Instant::now();
    loop {
        let lines = screen::lines(&frame, view);
        from = from.min(lines.len().saturating_sub(2));
        terminal.show(&lines, from, KEYS)?;
        // A key draws again, and does not make the interval shorter.
        match terminal.key(last + interval)? {
            Some(Key::Quit) => return Ok(End::Asked),
            Some(Key::Ended(number)) => return Ok(End::Signal(number)),
            Some(Key::Char('+')) => interval = (interval * 2).min(LONGEST),
            Some(Key::Char('-')) => interval = (interval / 2).max(SHORTEST),
            Some(Key::Char(letter)) => view.press(letter),
            Some(scroll) => from = scrolled(from, scroll),
            None => {}
        }
        if last.elapsed() < interval {
            continue;
        }
        last = Instant::now();
        if !view.paused {
            let now = sampler.take(args.device.as_deref())?;
            frame = Frame::between(Some(&before), now.clone());
            before = now;
        }
    }
}

fn scrolled(from: usize, key: Key) -> usize {
    let page = terminal::size().0.saturating_sub(3);
    match key {
        Key::Up => from.saturating_sub(1),
        Key::Down => from.saturating_add(1),
        Key::PageUp => from.saturating_sub(page),
        Key::PageDown => from.saturating_add(page),
        Key::Char(_) | Key::Quit | Key::Resized | Key::Ended(_) => from,
    }
}

impl Args {
    fn view(&self) -> View {
        View {
            sort: self.sort,
            all_counters: self.counters,
            regions: self.regions,
            paused: false,
        }
    }
}

impl View {
    fn press(&mut self, letter: char) {
        match letter {
            's' => self.sort = self.sort.next(),
            'c' => self.all_counters = !self.all_counters,
            'm' => self.regions = !self.regions,
            'p' => self.paused = !self.paused,
            _ => {}
        }
    }
}
