//! Many connections by address at once: the tool's storm with itself, and with librdmacm's
//! `cmtime` (of Debian 12, whose sides agree on nothing but their connections).
#![allow(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

use std::time::Duration;

use interop::by_address::{PATIENCE, boot, finish, in_terminal, started};
use testbed::Guest;

/// How long a storm may take on an emulated machine that others slow down.
const LONG: Duration = Duration::from_secs(240);

/// Runs the tool as server and as client, and returns what both said.
fn both(guest: &Guest, server: &[&str], client: &[&str]) -> [String; 2] {
    let storm = |arguments: &[&str]| {
        let arguments = [&["cm", "storm", "--wait", "60"], arguments].concat();
        in_terminal("uverbs", &arguments).timeout(LONG)
    };
    let server = guest.spawn(storm(server)).unwrap();
    server.wait_for_text("listening at", PATIENCE).unwrap();
    let client = guest.run(storm(&[client, &["10.1.0.1"]].concat())).unwrap();
    let server = server.wait().unwrap();
    let said = format!("{}{}", server.stdout_text(), client.stdout_text());
    [server, client].map(|side| match side.check() {
        Ok(side) => side.stdout_text(),
        Err(error) => panic!("{error}: {said}"),
    })
}

#[test]
fn a_storm_of_the_tool_with_itself() {
    let guest = boot().unwrap();
    let [server, client] = both(&guest, &[], &[]);
    for (said, steps) in [
        (
            &server,
            &[
                "create qp",
                "accept",
                "disconnect",
                "destroy qp",
                "destroy id",
            ][..],
        ),
        (
            &client,
            &[
                "create id",
                "resolve address",
                "resolve route",
                "create qp",
                "connect",
                "disconnect",
                "destroy qp",
                "destroy id",
            ],
        ),
    ] {
        for step in steps {
            let line = said.lines().find(|line| line.starts_with(step));
            let line = line.unwrap_or_else(|| panic!("no {step}: {said}"));
            assert!(line.split_whitespace().any(|word| word == "100"), "{line}");
        }
        assert!(
            said.contains("100 connections on rxe0: all connected after"),
            "{said}"
        );
    }
    println!("{server}{client}");
    let few = ["-n", "30", "--in-flight", "4"];
    let [server, client] = both(&guest, &few[..2], &few);
    assert!(server.contains("30 connections on rxe0"), "{server}");
    assert!(client.contains("30 connections on rxe0"), "{client}");
    assert_eq!(finish(guest).unwrap(), [""; 0]);
}

#[test]
fn a_thousand_connections_at_once() {
    let guest = boot().unwrap();
    let count = ["-n", "1000"];
    for said in both(&guest, &count, &count) {
        println!("{said}");
        assert!(said.contains("1000 connections on rxe0: all"), "{said}");
    }
    assert_eq!(finish(guest).unwrap(), [""; 0]);
}

#[test]
fn cmtime_as_client_and_as_server() {
    let guest = boot().unwrap();
    let ours = ("uverbs", &["cm", "storm"][..]);
    let ours = started(&guest, ours, "listening at").unwrap();
    let theirs = guest.run(in_terminal("cmtime", &["-s", "10.1.0.1"]));
    let (theirs, ours) = (theirs.unwrap().check().unwrap(), ours.wait().unwrap());
    let theirs = theirs.stdout_text();
    assert!(theirs.contains("destroy"), "{theirs}");
    assert!(!theirs.contains("error"), "{theirs}");
    let ours = ours.check().unwrap().stdout_text();
    assert!(ours.contains("100 connections on rxe0"), "{ours} {theirs}");
    println!("{theirs}{ours}");

    // It says nothing, and never ends.
    let theirs = guest.spawn(in_terminal("cmtime", &[])).unwrap();
    std::thread::sleep(Duration::from_secs(3));
    let ours = in_terminal("uverbs", &["cm", "storm", "10.1.0.1"]);
    let ours = guest.run(ours).unwrap().check().unwrap().stdout_text();
    assert!(ours.contains("100 connections on rxe0"), "{ours}");
    println!("{ours}");
    assert!(!theirs.has_ended());
    theirs.kill().unwrap();
    theirs.wait().unwrap();
    assert_eq!(finish(guest).unwrap(), [""; 0]);
}
