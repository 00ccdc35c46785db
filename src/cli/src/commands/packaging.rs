//! `uverbs completions` and `uverbs man`: what a package of this tool installs alongside it.

use std::fs;
use std::path::PathBuf;

use clap::CommandFactory as _;
use clap_complete::Shell;

use crate::cli::Cli;
use crate::failure::{Failure, Result};
use crate::output::Output;

const NAME: &str = "uverbs";

/// Print shell completions
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  uverbs completions bash > /usr/share/bash-completion/completions/uverbs
  uverbs completions zsh > /usr/share/zsh/site-functions/_uverbs
  uverbs completions fish > /usr/share/fish/vendor_completions.d/uverbs.fish
  source <(uverbs completions bash)          # for this shell only")]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

/// Write the manual pages: one for uverbs, and one for each subcommand
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  uverbs man /usr/share/man/man1
  uverbs man /tmp/man && man /tmp/man/uverbs-bench.1")]
pub(crate) struct Man {
    /// The directory; it is created if it does not exist
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

pub(crate) fn completions(args: &Completions, out: &mut Output) -> Result<()> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), NAME, &mut text);
    out.line(String::from_utf8_lossy(&text).trim_end())
}

pub(crate) fn man(args: &Man) -> Result<()> {
    let shown = args.directory.display();
    fs::create_dir_all(&args.directory)
        .and_then(|()| clap_mangen::generate_to(Cli::command(), &args.directory))
        .map_err(|error| Failure::new(format_args!("writing manual pages to {shown}: {error}")))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    /// The names of all subcommands, also of inner ones.
    fn subcommands(command: &clap::Command, all: &mut Vec<String>) {
        for inner in command.get_subcommands() {
            all.push(inner.get_name().to_owned());
            subcommands(inner, all);
        }
    }

    #[test]
    fn every_subcommand_can_be_completed_in_every_shell() {
        let mut names = Vec::new();
        subcommands(&Cli::command(), &mut names);
        assert!(names.len() > 15, "{names:?}");
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let mut text = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), NAME, &mut text);
            let text = String::from_utf8(text).unwrap();
            for name in &names {
                assert!(text.contains(name.as_str()), "{shell}: {name}");
            }
            assert!(text.contains("tx-depth"), "{shell}");
        }
    }

    #[test]
    fn every_subcommand_has_a_manual_page() {
        let directory = std::env::temp_dir().join(format!("uverbs-man-{}", std::process::id()));
        let args = Man {
            directory: directory.clone(),
        };
        man(&args).unwrap();
        for name in Cli::command()
            .get_subcommands()
            .map(clap::Command::get_name)
        {
            let page = directory.join(format!("uverbs-{name}.1"));
            let text = fs::read_to_string(&page).unwrap();
            assert!(
                text.contains(".SH OPTIONS") || text.contains(".SH SYNOPSIS"),
                "{name}"
            );
        }
        let bench = fs::read_to_string(directory.join("uverbs-bench-send.1")).unwrap();
        assert!(bench.contains("tx\\-depth"), "{bench}");
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn a_directory_that_cannot_be_made_is_named() {
        let args = Man {
            directory: "/dev/null/man".into(),
        };
        assert!(
            man(&args)
                .unwrap_err()
                .to_string()
                .contains("/dev/null/man")
        );
    }
}
