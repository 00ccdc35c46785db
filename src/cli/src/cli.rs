//! The command line.

use clap::{Parser, Subcommand};

use crate::commands;
use crate::failure::Result;
use crate::output::Output;
use crate::session::{CommandPathArg, Session};

const EXIT_CODES: &str = "\
Exit codes:
  0  success
  1  something failed (doctor, selftest: something is wrong)
  2  the command line is invalid
  3  no such device
  4  not allowed for this user
  5  the device or the kernel cannot do it";

/// Inspect RDMA devices, try them, measure them, and find out what is wrong with them
#[derive(Debug, Parser)]
#[command(name = "uverbs", version, after_help = EXIT_CODES, max_term_width = 100)]
#[command(propagate_version = true, disable_help_subcommand = true)]
pub(crate) struct Cli {
    /// How commands are passed to the kernel
    #[arg(
        long,
        global = true,
        value_enum,
        default_value_t,
        value_name = "ENCODING",
        help_heading = "Global options"
    )]
    command_path: CommandPathArg,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    List(commands::list::Args),
    #[command(flatten)]
    Run(Run),
    Trace(commands::trace::Args),
    Rates(commands::rates::Args),
    Top(commands::top::Args),
    Completions(commands::packaging::Completions),
    Man(commands::packaging::Man),
}

/// The commands that open devices.
#[derive(Debug, Subcommand)]
pub(crate) enum Run {
    Info(commands::info::Args),
    Pingpong(commands::pingpong::Args),
    Bench(commands::bench::Args),
    Cm(commands::cm::Args),
    Events(commands::events::Args),
    Doctor(commands::doctor::Args),
    Sched(commands::sched::Args),
    Selftest(commands::selftest::Args),
    Rings(commands::rings::Args),
}

impl Cli {
    pub(crate) fn run(&self, out: &mut Output) -> Result<()> {
        let session = Session {
            path: self.command_path.into(),
            recorder: None,
            observer: None,
        };
        match &self.command {
            Command::List(args) => commands::list::run(args, out),
            Command::Run(run) => run.run(&session, out),
            Command::Trace(args) => commands::trace::run(args, &session, out),
            Command::Rates(args) => commands::rates::run(args, out),
            Command::Top(args) => commands::top::run(args, out),
            Command::Completions(args) => commands::packaging::completions(args, out),
            Command::Man(args) => commands::packaging::man(args),
        }
    }
}

impl Run {
    pub(crate) fn run(&self, session: &Session, out: &mut Output) -> Result<()> {
        match self {
            Self::Info(args) => commands::info::run(args, session, out),
            Self::Pingpong(args) => commands::pingpong::run(args, session, out),
            Self::Bench(args) => commands::bench::run(args, session, out),
            Self::Cm(args) => commands::cm::run(args, session, out),
            Self::Events(args) => commands::events::run(args, session, out),
            Self::Doctor(args) => commands::doctor::run(args, session, out),
            Self::Sched(args) => commands::sched::run(args, session, out),
            Self::Selftest(args) => commands::selftest::run(args, session, out),
            Self::Rings(args) => commands::rings::run(args, session, out),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Cli;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_contradicts_itself_nowhere() {
        Cli::command().debug_assert();
    }
}
