//! The JSON that `--json` prints: its version, and errors as objects.
//!
//! `docs/json/uverbs.schema.json` describes all of it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::process::ExitCode;

use clap::ArgMatches;
use serde::Serialize;
use uverbs::Error;
use uverbs::error::Fact;

use crate::failure::{Failure, USAGE};

/// The version of the shapes. It changes when a member goes away or means something else; members
/// may be added without a change.
pub(crate) const VERSION: u32 = 1;

/// A value with the version in front.
#[derive(Debug, Serialize)]
pub(crate) struct Versioned<T> {
    version: u32,
    #[serde(flatten)]
    value: T,
}

impl<T: Serialize> Versioned<T> {
    pub(crate) fn new(value: T) -> Self {
        Self {
            version: VERSION,
            value,
        }
    }
}

/// An unsuccessful run.
#[derive(Debug, Serialize)]
struct Report<'a> {
    error: Object<'a>,
}

#[derive(Debug, Serialize)]
struct Object<'a> {
    /// The exit code.
    code: u8,
    message: &'a str,
    hint: Option<&'a str>,
    /// What was asked of the library, if the error is one of its errors.
    #[serde(flatten)]
    cause: Option<Cause>,
}

#[derive(Debug, Serialize)]
struct Cause {
    operation: &'static str,
    kind: String,
    errno: Option<i32>,
    facts: BTreeMap<&'static str, serde_json::Value>,
}

impl Cause {
    fn of(error: &Error) -> Self {
        let value = |fact: &Fact| match fact {
            Fact::Number(number) => (*number).into(),
            other => other.to_string().into(),
        };
        Self {
            operation: error.op().name(),
            kind: format!("{:?}", error.kind()),
            errno: error.errno().map(uverbs::error::Errno::raw_os_error),
            facts: error
                .facts()
                .map(|(name, fact)| (name, value(fact)))
                .collect(),
        }
    }
}

/// The error object of a failure, on one line; none if the output already says what failed.
fn object(failure: &Failure) -> Option<String> {
    let Failure::Said {
        code,
        message,
        hint,
        cause,
    } = failure
    else {
        return None;
    };
    let report = Versioned::new(Report {
        error: Object {
            code: *code,
            message,
            hint: hint.as_deref(),
            cause: cause.as_ref().map(Cause::of),
        },
    });
    serde_json::to_string(&report).ok()
}

/// Writes a failure to stderr, as text or as an error object; returns the exit code.
pub(crate) fn report(failure: &Failure, json: bool) -> ExitCode {
    if let Some(line) = object(failure).filter(|_| json) {
        // If stderr is closed, there is still the exit code.
        let _ = writeln!(std::io::stderr(), "{line}");
        return ExitCode::from(failure.code());
    }
    failure.report()
}

/// Whether `--json` was given to the innermost subcommand (`selftest` takes a file there, and
/// prints text).
pub(crate) fn wanted(matches: &ArgMatches) -> bool {
    let here = matches!(matches.try_get_one::<bool>("json"), Ok(Some(true)));
    here || matches.subcommand().is_some_and(|(_, inner)| wanted(inner))
}

/// The failure that an invalid command line is, for programs that asked for JSON.
pub(crate) fn usage(error: &clap::Error) -> Option<Failure> {
    let arguments = std::env::args_os().skip(1);
    if !error.use_stderr() || !is_requested(arguments) {
        return None;
    }
    let text = error.render().to_string();
    let mut lines = text.lines().map(str::trim);
    let message = lines.next().unwrap_or_default();
    let failure = Failure::with_code(USAGE, message.trim_start_matches("error: "));
    let tip = lines.find_map(|line| line.strip_prefix("tip: "));
    Some(failure.hint(tip.unwrap_or("--help lists the options")))
}

/// Whether an invalid command line asks for JSON. `selftest --json` is followed by a file.
fn is_requested(arguments: impl Iterator<Item = OsString>) -> bool {
    let mut json = false;
    for argument in arguments.take_while(|argument| argument != "--") {
        if argument == "selftest" {
            return false;
        }
        json |= argument == "--json" || argument.as_bytes().starts_with(b"--json=");
    }
    json
}

#[cfg(test)]
pub(crate) mod tests {
    #![allow(
        clippy::unwrap_used,
        clippy::panic,
        reason = "a test fails by panicking"
    )]

    use super::*;
    use uverbs::error::{Errno, Op};

    const SCHEMA: &str = include_str!("../../../docs/json/uverbs.schema.json");

    /// Checks a document against the definition `name` of the schema.
    pub(crate) fn valid(name: &str, document: &impl Serialize) -> Result<(), String> {
        let document = serde_json::to_value(Versioned::new(document)).unwrap();
        valid_value(name, &document)
    }

    fn valid_value(name: &str, document: &serde_json::Value) -> Result<(), String> {
        let mut compiler = boon::Compiler::new();
        let schema = serde_json::from_str(SCHEMA).unwrap();
        compiler.add_resource("uverbs.json", schema).unwrap();
        let mut schemas = boon::Schemas::new();
        let place = format!("uverbs.json#/$defs/{name}");
        let index = compiler.compile(&place, &mut schemas).unwrap();
        schemas
            .validate(document, index)
            .map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn errors_of_the_library_are_objects_with_their_facts() {
        let error = Error::os(Op::RegisterMemory, Errno::NOMEM)
            .fact("length", 4096_u32)
            .hint("raise RLIMIT_MEMLOCK");
        let line = object(&Failure::from(error)).unwrap();
        let value: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(value["version"], 1);
        assert_eq!(value["error"]["operation"], "reg_mr");
        assert_eq!(value["error"]["errno"], 12);
        assert_eq!(value["error"]["facts"]["length"], 4096);
        assert_eq!(value["error"]["hint"], "raise RLIMIT_MEMLOCK");
        valid_value("error", &value).unwrap();
    }

    #[test]
    fn other_errors_are_objects_too_and_what_was_reported_is_not() {
        let line = object(&Failure::usage("no").hint("yes")).unwrap();
        let value: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(value["error"]["code"], 2);
        valid_value("error", &value).unwrap();
        assert!(object(&Failure::Reported(1)).is_none());
        assert!(object(&Failure::Closed).is_none());
    }

    #[test]
    fn the_schema_refuses_what_is_not_described() {
        for wrong in [
            serde_json::json!({"error": {"code": 1, "message": "x", "hint": null}}),
            serde_json::json!({"version": 2, "error": {"code": 1, "message": "x", "hint": null}}),
            serde_json::json!({"version": 1, "error": {"code": 9, "message": "x", "hint": null}}),
            serde_json::json!({"version": 1, "error": {"code": 1, "hint": null}}),
        ] {
            assert!(valid_value("error", &wrong).is_err(), "{wrong}");
        }
    }
}
