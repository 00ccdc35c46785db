//! Both sides on the fake kernel.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::net::SocketAddr;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use uverbs::cm::{ChannelOptions, EventChannel};
use uverbs::{Context, OpenOptions};
use uverbs_fake::{FakeKernel, Profile};

use super::side::Settings;
use super::table::Report;
use super::{client, server};
use crate::failure::{Failure, Result};

const PORT: u16 = 7471;
/// The address of the fake's device.
const AT: ([u8; 4], u16) = ([10, 0, 0, 1], PORT);
/// What a wait may take that is expected to end.
const PATIENCE: Duration = Duration::from_secs(if cfg!(miri) { 300 } else { 30 });
/// What one takes that is not; also longer than a busy machine makes a step wait.
const SHORT: Duration = Duration::from_secs(2);

fn settings(connections: usize, in_flight: usize) -> Settings {
    Settings {
        connections,
        in_flight,
        wait: PATIENCE,
        first: PATIENCE,
    }
}

fn kernel() -> FakeKernel {
    FakeKernel::new(Profile::v7_2())
}

fn channel(kernel: &FakeKernel) -> EventChannel {
    let fd = kernel.open_connection_manager().unwrap();
    let options = ChannelOptions::new();
    options.over(Arc::new(kernel.clone()), fd).unwrap()
}

fn open(kernel: &FakeKernel) -> Result<Context> {
    let options = OpenOptions::new().kernel(Arc::new(kernel.clone()));
    Ok(options.over(kernel.device_info(), kernel.open().unwrap())?)
}

fn serve(kernel: &FakeKernel, settings: Settings, ready: &mpsc::Sender<()>) -> Result<Report> {
    let listening = |at: SocketAddr| {
        assert_eq!(at.port(), PORT);
        ready.send(()).map_err(Failure::new)
    };
    server::run(
        &channel(kernel),
        PORT,
        settings,
        |_| open(kernel),
        listening,
    )
}

fn call(kernel: &FakeKernel, settings: Settings) -> Result<Report> {
    client::run(&channel(kernel), AT.into(), settings, |_| open(kernel))
}

/// What came of the server, and of the client.
fn both(kernel: &FakeKernel, here: Settings, there: Settings) -> (Result<Report>, Result<Report>) {
    let (ready, is_ready) = mpsc::channel();
    thread::scope(|scope| {
        let server = scope.spawn(move || serve(kernel, here, &ready));
        is_ready.recv().unwrap();
        let client = call(kernel, there);
        (server.join().unwrap(), client)
    })
}

/// The message of a failure, and its hint.
fn said(outcome: Result<Report>) -> (String, String) {
    match outcome {
        Err(Failure::Said { message, hint, .. }) => (message, hint.unwrap_or_default()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn all_connect_and_all_go_however_many_at_a_time() {
    for in_flight in [1, 3, 20] {
        let kernel = kernel();
        let both = both(&kernel, settings(20, 20), settings(20, in_flight));
        for (report, steps) in [(both.0.unwrap(), 5), (both.1.unwrap(), 8)] {
            let text = report.table().to_string();
            assert_eq!(text.lines().count(), steps + 1, "{text}");
            for line in text.lines().skip(1) {
                assert!(line.split_whitespace().any(|word| word == "20"), "{text}");
            }
            assert!(report.sum().starts_with("20 connections on "));
            crate::json::tests::valid("storm", &report).unwrap();
        }
        assert_eq!(kernel.connection_ids(), 0);
        assert_eq!(kernel.objects().total(), 0, "{:?}", kernel.objects());
    }
}

#[test]
fn a_client_without_a_server_says_so() {
    let (message, hint) = said(call(&kernel(), settings(3, 3)));
    assert!(message.starts_with("connect, connection "), "{message}");
    assert!(message.contains("nobody listens"), "{message}");
    assert!(hint.contains("start the server first"), "{hint}");
}

#[test]
fn a_server_without_a_client_ends() {
    let (ready, _is_ready) = mpsc::channel();
    let settings = Settings {
        first: SHORT,
        ..settings(3, 3)
    };
    let (message, hint) = said(serve(&kernel(), settings, &ready));
    assert!(message.contains("no client came"), "{message}");
    assert!(hint.contains("--first"), "{hint}");
}

#[test]
fn different_numbers_of_connections_are_reported_with_a_hint() {
    let fewer = Settings {
        wait: SHORT,
        ..settings(5, 5)
    };
    let (server, client) = both(&kernel(), fewer, settings(3, 3));
    client.unwrap();
    let (message, hint) = said(server);
    assert!(message.contains("accept, 3 of 5 connections"), "{message}");
    assert!(hint.contains("same -n"), "{hint}");

    let (_, client) = both(&kernel(), settings(3, 3), settings(5, 5));
    let (message, hint) = said(client);
    assert!(message.contains("rejected"), "{message}");
    assert!(hint.contains("same -n"), "{hint}");
}
