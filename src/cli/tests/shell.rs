//! The program as a shell or a script runs it: exit codes, what goes where, JSON by its schema.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

const SCHEMA: &str = include_str!("../../../docs/json/uverbs.schema.json");

/// Runs it without input and without a terminal.
fn uverbs(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_uverbs"))
        .args(args)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// Parses a document and checks it against the definition `name` of the schema.
fn valid(name: &str, document: &[u8]) -> Value {
    let document: Value = serde_json::from_slice(document).unwrap();
    let mut compiler = boon::Compiler::new();
    let schema = serde_json::from_str(SCHEMA).unwrap();
    compiler.add_resource("uverbs.json", schema).unwrap();
    let mut schemas = boon::Schemas::new();
    let place = format!("uverbs.json#/$defs/{name}");
    let index = compiler.compile(&place, &mut schemas).unwrap();
    let checked = schemas
        .validate(&document, index)
        .map_err(|error| format!("{error:#}"));
    assert_eq!(checked, Ok(()), "{name}: {document}");
    document
}

#[test]
fn a_device_that_is_not_there_ends_every_command_at_once() {
    for args in [
        &["info", "nope"][..],
        &["pingpong", "-d", "nope"],
        &["bench", "serve", "-d", "nope"],
        &["bench", "send", "-d", "nope"],
        &["bench", "send", "-d", "nope", "127.0.0.1"],
        &["events", "nope"],
        &["selftest", "-d", "nope"],
        &["rings", "-d", "nope"],
        &["top", "-d", "nope", "--once"],
    ] {
        let start = Instant::now();
        let output = uverbs(args);
        assert_eq!(output.status.code(), Some(3), "{args:?}: {output:?}");
        assert!(output.stdout.is_empty(), "{args:?}: {output:?}");
        let said = text(&output.stderr);
        assert!(
            said.starts_with("error: ") && said.contains("\nhint: "),
            "{said}"
        );
        assert!(start.elapsed() < Duration::from_secs(5), "{args:?}");
    }
}

#[test]
fn a_node_of_something_else_is_named() {
    let output = uverbs(&["info", "/dev/null"]);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert!(
        text(&output.stderr).contains("/dev/null is a device of class mem"),
        "{output:?}"
    );
}

#[test]
fn errors_are_one_json_object_on_stderr() {
    for (args, code, part) in [
        (&["info", "nope", "--json"][..], 3, "nope"),
        (&["info", "/dev/null", "--json"], 3, "/dev/null"),
        (&["pingpong", "-d", "nope", "--json"], 3, "nope"),
        (&["sched", "plan", "/nofile", "--json"], 1, "/nofile"),
        (&["bench", "send", "--json", "--size"], 2, "--size"),
        (&["info", "--json=x"], 2, "--json"),
        (&["--json"], 2, "--json"),
    ] {
        let output = uverbs(args);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {output:?}");
        assert!(output.stdout.is_empty(), "{args:?}: {output:?}");
        assert_eq!(text(&output.stderr).lines().count(), 1, "{output:?}");
        let error = valid("error", &output.stderr);
        assert_eq!(error["error"]["code"], code);
        let message = error["error"]["message"].as_str().unwrap();
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn a_misspelled_command_has_its_tip_also_as_json() {
    let output = uverbs(&["lst", "--json"]);
    let error = valid("error", &output.stderr);
    let hint = error["error"]["hint"].as_str().unwrap();
    assert!(hint.contains("'list'"), "{hint}");
}

#[test]
fn usage_errors_are_text_unless_json_is_requested() {
    for args in [
        &["lst"][..],
        &["selftest", "--json"],
        &["info", "-i", "0", "--", "--json"],
        &["pingpong", "--cm", "-d", "rxe0"],
        &["pingpong", "--rping", "-s", "65536"],
        &["bench", "send", "--cm", "-d", "rxe0", "127.0.0.1"],
        &["bench", "send", "--cm", "-t", "ud", "127.0.0.1"],
        &["cm", "listen", "--bare", "-d", "rxe0", "127.0.0.1:1"],
        &["cm", "storm", "-n", "0"],
        &["cm", "storm", "--in-flight", "5"],
        &["cm", "storm", "--in-flight", "0", "127.0.0.1"],
        &["cm", "storm", "--first", "5", "127.0.0.1"],
    ] {
        let output = uverbs(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {output:?}");
        assert!(text(&output.stderr).starts_with("error: "), "{output:?}");
    }
}

#[test]
fn what_needs_no_device_prints_what_its_schema_says() {
    let list = uverbs(&["list", "--json"]);
    assert_eq!(list.status.code(), Some(0), "{list:?}");
    valid("list", &list.stdout);

    let rates = valid("rates", &uverbs(&["rates", "--json"]).stdout);
    assert!(rates["rates"].as_array().unwrap().len() > 20);
    let one = valid(
        "rates",
        &uverbs(&["rates", "--mbps", "103125", "--json"]).stdout,
    );
    assert_eq!(one["rates"][0]["name"], "IBV_RATE_100_GBPS");

    let doctor = uverbs(&["doctor", "--json"]);
    let findings = valid("doctor", &doctor.stdout);
    let failed = findings["findings"]
        .as_array()
        .unwrap()
        .iter()
        .any(|finding| finding["status"] == "fail");
    assert_eq!(doctor.status.code(), Some(i32::from(failed)), "{doctor:?}");
}

#[test]
fn a_plan_is_as_its_schema_says() {
    let file = std::env::temp_dir().join(format!("uverbs-plan-{}.toml", std::process::id()));
    std::fs::write(&file, "[[children]]\nname = \"g1\"\nshare = 7\n").unwrap();
    let output = uverbs(&["sched", "plan", file.to_str().unwrap(), "--json"]);
    std::fs::remove_file(&file).unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let plan = valid("plan", &output.stdout);
    assert!(!plan["steps"].as_array().unwrap().is_empty(), "{plan}");
}

#[test]
fn completions_name_their_shell_and_nothing_else_is_printed() {
    for (shell, part) in [
        ("bash", "complete -F _uverbs"),
        ("zsh", "#compdef uverbs"),
        ("fish", "complete -c uverbs"),
    ] {
        let output = uverbs(&["completions", shell]);
        assert_eq!(output.status.code(), Some(0));
        assert!(text(&output.stdout).contains(part), "{shell}");
        assert!(output.stderr.is_empty(), "{output:?}");
    }
    assert_eq!(uverbs(&["completions", "tcsh"]).status.code(), Some(2));
}

#[test]
fn every_command_has_help_of_readable_width() {
    let commands = [
        "list",
        "info",
        "pingpong",
        "cm",
        "bench",
        "events",
        "doctor",
        "sched",
        "selftest",
        "rings",
        "trace",
        "rates",
        "top",
        "completions",
        "man",
    ];
    let help = uverbs(&["-h"]);
    for command in commands {
        assert!(
            text(&help.stdout).contains(&format!("\n  {command} ")),
            "{command}"
        );
        let output = uverbs(&[command, "-h"]);
        assert_eq!(output.status.code(), Some(0), "{command}");
        for line in text(&output.stdout).lines() {
            assert!(line.chars().count() <= 100, "{command}: {line}");
        }
    }
}
