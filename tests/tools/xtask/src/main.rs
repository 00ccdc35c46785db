//! The project's own commands: `cargo xtask --help`. One file per command.

mod abi;
mod adversary;
mod api;
mod asan;
mod bench;
mod by_package;
mod cargo;
mod ci;
mod compat;
mod copies;
mod coverage;
mod cross;
mod demo;
mod examples;
mod faults;
mod fetch;
mod fuzz;
mod growth;
mod licences;
mod lines;
mod loom;
mod measure;
mod metadata;
mod miri;
mod mutants;
mod package;
mod programs;
mod pyverbs;
mod report;
mod selftest;
mod sizes;
mod surface;
mod sys;
mod terminal;
mod test;
mod tsan;
mod vm;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// The project's own commands.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    Abi(abi::Options),
    Adversary(adversary::Options),
    Api(api::Options),
    Asan(asan::Options),
    Bench(bench::Options),
    Ci(ci::Options),
    Compat(compat::Options),
    Copies(copies::Options),
    Coverage(coverage::Options),
    Cross(cross::Options),
    Demo(demo::Options),
    Faults(faults::Options),
    Fetch(fetch::Options),
    Fuzz(fuzz::Options),
    Growth(growth::Options),
    Lines(lines::Options),
    Loom(loom::Options),
    Measure(measure::Options),
    Miri(miri::Options),
    Mutants(mutants::Options),
    Package(package::Options),
    Pyverbs(pyverbs::Options),
    Report(report::Options),
    Selftest(selftest::Options),
    Sizes(sizes::Options),
    Surface(surface::Options),
    Sys(sys::Options),
    Test(test::Options),
    Tsan(tsan::Options),
    Vm(vm::Options),
}

fn main() -> ExitCode {
    let result = match Cli::parse().task {
        Task::Abi(options) => abi::run(&options),
        Task::Adversary(options) => adversary::run(&options),
        Task::Api(options) => api::run(&options),
        Task::Asan(options) => asan::run(&options),
        Task::Bench(options) => bench::run(&options),
        Task::Ci(options) => ci::run(&options),
        Task::Compat(options) => compat::run(&options),
        Task::Copies(options) => copies::run(&options),
        Task::Coverage(options) => coverage::run(&options),
        Task::Cross(options) => cross::run(&options),
        Task::Demo(options) => demo::run(&options),
        Task::Faults(options) => faults::run(&options),
        Task::Fetch(options) => fetch::run(&options),
        Task::Fuzz(options) => fuzz::run(&options),
        Task::Growth(options) => growth::run(&options),
        Task::Lines(options) => lines::run(&options),
        Task::Loom(options) => loom::run(&options),
        Task::Measure(options) => measure::run(&options),
        Task::Miri(options) => miri::run(&options),
        Task::Mutants(options) => mutants::run(&options),
        Task::Package(options) => package::run(&options),
        Task::Pyverbs(options) => pyverbs::run(&options),
        Task::Report(options) => report::run(&options),
        Task::Selftest(options) => selftest::run(&options),
        Task::Sizes(options) => sizes::run(&options),
        Task::Surface(options) => surface::run(&options),
        Task::Sys(options) => sys::run(&options),
        Task::Test(options) => test::run(&options),
        Task::Tsan(options) => tsan::run(&options),
        Task::Vm(options) => vm::run(&options),
    };
    result.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}
