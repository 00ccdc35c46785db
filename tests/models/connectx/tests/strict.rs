//! A server that was started as strict, as its process ends.
#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::io::Read as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use vfio_user::Client;

const LIMIT: Duration = Duration::from_secs(20);

/// Rings a doorbell for a queue that does not exist and returns how the server ended, if it did,
/// and its output.
fn ring_for_nothing(strict: bool) -> (Option<i32>, String) {
    let name = format!("connectx-strict-{}-{strict}", std::process::id());
    let folder = std::env::temp_dir().join(name);
    std::fs::create_dir_all(&folder).expect("a folder for the sockets");
    let mut server = Command::new(env!("CARGO_BIN_EXE_connectx"))
        .args(["--function", "ib", "--socket-dir"])
        .arg(&folder)
        .args(strict.then_some("--strict"))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the server starts");
    let start = Instant::now();
    // This socket is created last.
    while !folder.join("control.sock").exists() {
        assert!(start.elapsed() < LIMIT, "no sockets");
        std::thread::sleep(Duration::from_millis(5));
    }
    let mut client = Client::new(&folder.join("function0.sock")).expect("the server answers");
    let written = client.region_write(0, 0x4800, &[0; 8]);
    // A strict server may be gone before it has answered.
    assert!(strict || written.is_ok(), "{written:?}");
    // A lenient server keeps running for as long as the test waits.
    let patience = if strict {
        LIMIT
    } else {
        Duration::from_millis(200)
    };
    let start = Instant::now();
    let mut ended = None;
    while ended.is_none() && start.elapsed() < patience {
        ended = server.try_wait().expect("the server is a child");
        std::thread::sleep(Duration::from_millis(5));
    }
    if ended.is_none() {
        server.kill().expect("the server can be ended");
    }
    server.wait().expect("the server ends");
    let mut said = String::new();
    server
        .stderr
        .take()
        .expect("it is a pipe")
        .read_to_string(&mut said)
        .expect("the server says text");
    std::fs::remove_dir_all(&folder).expect("the folder is there");
    (ended.and_then(|status| status.code()), said)
}

#[test]
fn a_strict_server_fails_over_what_a_lenient_one_reports() {
    let (code, said) = ring_for_nothing(true);
    assert_eq!(code, Some(1), "{said}");
    assert!(
        said.contains("wrong use seen: {\"send doorbell\": 1}"),
        "{said}"
    );

    let (code, said) = ring_for_nothing(false);
    assert_eq!(code, None, "{said}");
    assert!(said.contains("send doorbell: no send queue 0x0"), "{said}");
}
