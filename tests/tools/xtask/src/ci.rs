//! `cargo xtask ci`: everything that has to pass before a change is accepted.

use crate::cargo::cargo;
use crate::test::Level;
use crate::{
    abi, api, asan, coverage, cross, faults, licences, loom, miri, package, pyverbs, sizes,
    surface, sys, test, tsan,
};
use anyhow::bail;
use clap::Args;
use std::fs;
use std::io::ErrorKind;
use std::process::ExitCode;
use std::time::Instant;
use testbed::cargo::workspace;
use testbed::host;

/// Run everything that has to pass: formatting, lints, subsets of the providers and their sizes,
/// documentation, what safe programs can reach, public items, package contents, licences, tests of
/// faults, ABI, concurrency models, Miri, another architecture, every level of tests, and
/// rdma-core's own suite on rxe.
///
/// On two cores without KVM that takes about an hour. The last lines say what was left
/// out, and the commands that run it.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Stop at the first step that fails.
    #[arg(long)]
    fail_fast: bool,
    /// Also fail if a test is flaky, that is, passes only when retried: for releases.
    #[arg(long)]
    steady: bool,
    /// Also run the steps that are left out because they take long: for releases.
    #[arg(long, conflicts_with = "steps")]
    all: bool,
    /// Run only these steps, whether they take long or not.
    #[arg(value_name = "STEP")]
    steps: Vec<String>,
}

/// The sanitizers: each has a build of its own of everything. Loom and Miri look for the same in
/// smaller parts.
const TSAN: &str = "tsan";
const ASAN: &str = "asan";

/// Compiles bindgen where it is not installed.
const SYS: &str = "sys";

/// Steps that run only by name and with `--all`.
const LONG: [&str; 3] = [TSAN, ASAN, SYS];

/// What the steps leave out of what they check, and the command that runs it.
const MORE: [(&str, &str); 7] = [
    (
        "cargo xtask test --full",
        "more of Debian's programs, the tests and examples on more kernels, more paths to the kernel",
    ),
    (
        "cargo xtask tsan",
        "other packages than the tests on the fake kernel and those of C callers",
    ),
    (
        "cargo xtask miri",
        "the interpreter for more than the smaller provider",
    ),
    (
        "cargo xtask cross",
        "other machines than aarch64, and more cases there",
    ),
    (
        "cargo xtask test --level mlx5 --all --strict",
        "every kernel with every path and kind of function",
    ),
    (
        "cargo xtask pyverbs --ours",
        "rdma-core's own suite over this library on devices other than rxe",
    ),
    ("cargo xtask fuzz", "the fuzz targets"),
];

type Step = (&'static str, fn(&Options) -> anyhow::Result<()>);

const STEPS: [Step; 26] = [
    ("fmt", |_| cargo(&["fmt", "--all", "--check"], &[])),
    ("clippy", |_| {
        cargo(
            &[
                "clippy",
                "--workspace",
                "--all-targets",
                "--all-features",
                "--",
                "-D",
                "warnings",
            ],
            &[],
        )
    }),
    ("subsets", |_| subsets()),
    ("sizes", |_| sizes::compare()),
    ("docs", |_| {
        cargo(
            &["doc", "--workspace", "--all-features", "--no-deps"],
            &[("RUSTDOCFLAGS", "-D warnings")],
        )
    }),
    ("surface", |_| surface::compare()),
    ("api", |_| api::compare()),
    ("package", |_| package::compare()),
    ("licences", |_| licences::compare()),
    ("faults", |_| faults::compare()),
    ("abi", |_| abi::compare(false, false)),
    (SYS, |_| sys::compare()),
    ("coverage", |_| coverage::compare()),
    ("loom", |_| loom::explore(&[])),
    (TSAN, |_| tsan::run(&tsan::Options::share()).map(drop)),
    (ASAN, |_| asan::run(&asan::Options::default()).map(drop)),
    ("miri", |_| miri::run(&miri::Options::share()).map(drop)),
    ("aarch64", |_| {
        cross::run(&cross::Options::share()).map(drop)
    }),
    ("unit", |options| {
        test::level(Level::Unit, !options.all, options.steady)
    }),
    ("fake", |options| {
        test::level(Level::Fake, !options.all, options.steady)
    }),
    ("testbed", |options| {
        test::level(Level::Testbed, !options.all, options.steady)
    }),
    ("rxe", |options| {
        test::level(Level::Rxe, !options.all, options.steady)
    }),
    ("mlx5", |options| {
        test::level(Level::Mlx5, !options.all, options.steady)
    }),
    ("interop", |options| {
        test::level(Level::Interop, !options.all, options.steady)
    }),
    ("pyverbs", |_| pyverbs::check()),
    ("connectx", |options| {
        test::level(Level::Connectx, !options.all, options.steady)
    }),
];

/// What a step builds for itself alone, below `target`. It is removed after the step: together
/// these would take more room than all else.
const OWN_BUILDS: [(&str, &str); 7] = [
    ("surface", "surface"),
    ("api", "api"),
    ("package", "package-check"),
    ("loom", "loom"),
    ("tsan", "tsan"),
    ("asan", "asan"),
    ("miri", "miri"),
];

/// Removes what `step` built for itself alone.
fn tidy(step: &str) {
    for (_, folder) in OWN_BUILDS.iter().filter(|(name, _)| *name == step) {
        let folder = workspace().join("target").join(folder);
        if let Err(error) = fs::remove_dir_all(&folder)
            && error.kind() != ErrorKind::NotFound
        {
            eprintln!("warning: {}: {error}", folder.display());
        }
    }
}

/// Builds the library with some of its providers, and with none.
fn subsets() -> anyhow::Result<()> {
    for features in ["", "mlx5", "rxe"] {
        let features = format!("--features={features}");
        let args = [
            "clippy",
            "--package=uverbs",
            "--no-default-features",
            &features,
            "--",
            "-D",
            "warnings",
        ];
        cargo(&args, &[])?;
    }
    Ok(())
}

pub(crate) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    if let Some(unknown) = options
        .steps
        .iter()
        .find(|step| !STEPS.iter().any(|(name, _)| name == step))
    {
        bail!(
            "there is no step {unknown}; there are: {}",
            STEPS.map(|(name, _)| name).join(", ")
        );
    }
    let start = Instant::now();
    let mut results = Vec::new();
    for (name, step) in STEPS {
        if !options.wants(name) {
            continue;
        }
        let minutes = start.elapsed().as_secs() / 60;
        host::say(format_args!("checks: {name} (after {minutes} min)"));
        let since = Instant::now();
        let result = step(options);
        if let Err(error) = &result {
            eprintln!("error: {name}: {error:#}");
        }
        tidy(name);
        let failed = result.is_err();
        results.push((name, failed, since.elapsed().as_secs()));
        if failed && options.fail_fast {
            break;
        }
    }
    for (name, failed, seconds) in &results {
        println!(
            "{name:<10} {:<6} {seconds:>5} s",
            if *failed { "FAILED" } else { "ok" }
        );
    }
    if options.steps.is_empty() {
        println!("{}", options.left_out());
    }
    let failed = results.iter().any(|(_, failed, _)| *failed);
    Ok(if failed {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

impl Options {
    fn wants(&self, step: &str) -> bool {
        if self.steps.is_empty() {
            return self.all || !LONG.contains(&step);
        }
        self.steps.iter().any(|wanted| wanted == step)
    }

    /// What was not run, and the command that runs it, one line each.
    fn left_out(&self) -> String {
        let steps = LONG.iter().filter(|_| !self.all);
        let steps = steps.map(|step| format!("\n  cargo xtask ci {step}"));
        let more = MORE.map(|(command, what)| format!("\n  {command:<45} {what}"));
        format!("left out:{}{}", steps.collect::<String>(), more.concat())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(options: &Options) -> Vec<&'static str> {
        let names = STEPS.iter().map(|(name, _)| *name);
        names.filter(|name| options.wants(name)).collect()
    }

    fn with(all: bool, steps: &[&str]) -> Options {
        Options {
            fail_fast: false,
            steady: false,
            all,
            steps: steps.iter().map(|step| (*step).to_owned()).collect(),
        }
    }

    #[test]
    fn long_steps_run_when_asked_for_and_are_listed_otherwise() {
        assert_eq!(wanted(&with(false, &[])).len(), STEPS.len() - LONG.len());
        assert_eq!(wanted(&with(true, &[])).len(), STEPS.len());
        assert_eq!(wanted(&with(false, &["fmt", ASAN])), ["fmt", ASAN]);
        for (all, listed) in [(false, true), (true, false)] {
            let text = with(all, &[]).left_out();
            for step in LONG {
                let command = format!("cargo xtask ci {step}");
                assert_eq!(text.contains(&command), listed, "{text}");
            }
        }
    }

    #[test]
    fn every_long_step_exists() {
        for long in LONG {
            assert!(STEPS.iter().any(|(name, _)| *name == long), "{long}");
        }
    }

    #[test]
    fn the_workflow_runs_every_step_once() {
        let file = workspace().join(".github/workflows/ci.yml");
        let workflow = fs::read_to_string(file).unwrap();
        let jobs = workflow.lines().skip_while(|line| !line.contains("steps:"));
        let jobs = jobs
            .skip(1)
            .map_while(|line| line.trim().strip_prefix("- "));
        let mut run: Vec<_> = jobs.flat_map(str::split_whitespace).collect();
        let mut steps: Vec<_> = STEPS.iter().map(|(name, _)| *name).collect();
        run.sort_unstable();
        steps.sort_unstable();
        assert_eq!(run, steps);
    }
}
