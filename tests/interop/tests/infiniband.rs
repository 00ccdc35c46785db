//! Connections by address between two hosts on InfiniBand: two functions of a software ConnectX
//! with a subnet administrator, each in a network namespace of its own with IP over InfiniBand.
#![allow(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

use std::time::{Duration, Instant};

use interop::by_address::{PATIENCE, finish};
use interop::two_hosts::{Host, Hosts, Program, Wire};
use testbed::Guest;

const HOSTS: Hosts = Hosts(Wire::InfiniBand);

/// Our example of datagrams by address, and the other end of `ucmatose`.
const DATAGRAMS: &str = "datagrams_by_address";
const PEER: &str = "ucmatose-peer";

/// A server, what it says once a client may come, its client, and what both have said in the end.
type Game<'a> = (Program<'a>, &'a str, Program<'a>, &'a [&'a str]);

/// One side is ours, the other librdmacm's.
const GAMES: [Game<'_>; 12] = [
    (
        ("uverbs", "pingpong --rping"),
        "listening at",
        ("rping", "-c -a THERE -C 20 -S 4096 -V"),
        &["20 iters in"],
    ),
    (
        ("rping", "-s -a HERE -S 4096 -d -v"),
        "rdma_listen",
        ("uverbs", "pingpong --rping -n 20 -s 4096 -c THERE"),
        &["20 messages validated"],
    ),
    (
        (PEER, "serve HERE:7471"),
        "serving at",
        ("ucmatose", "-s THERE"),
        &[
            "10 messages sent, 10 answers heard",
            "data transfers complete",
        ],
    ),
    (
        ("ucmatose", ""),
        "starting server",
        (PEER, "ask THERE:7471"),
        &[
            "10 messages heard, 10 answers sent",
            "data transfers complete",
        ],
    ),
    (
        (DATAGRAMS, "serve HERE"),
        "serving at",
        ("udaddy", "-s THERE"),
        &[
            "10 messages heard, 10 answers sent",
            "data transfers complete",
        ],
    ),
    (
        ("udaddy", ""),
        "starting server",
        (DATAGRAMS, "ask THERE"),
        &[
            "10 messages sent, 10 answers heard",
            "data transfers complete",
        ],
    ),
    (
        (DATAGRAMS, "hear 239.1.2.3 HERE"),
        "listening to",
        ("mckey", "-s -b HERE -m 239.1.2.3"),
        &["10 messages heard", "data transfers complete"],
    ),
    (
        ("mckey", "-b HERE -m 239.1.2.4"),
        "receiving data transfers",
        (DATAGRAMS, "tell 239.1.2.4 HERE"),
        &["10 messages sent", "data transfers complete"],
    ),
    (
        ("uverbs", "cm storm --wait 60"),
        "listening at",
        ("cmtime", "-s THERE"),
        &["100 connections on mlx5_", "destroy"],
    ),
    // The tool with itself: messages, many connections at once, and data in bulk.
    (
        ("uverbs", "pingpong --cm -c -n 100"),
        "listening at",
        ("uverbs", "pingpong --cm -c -n 100 THERE"),
        &["100 iters in"],
    ),
    (
        ("uverbs", "cm storm --wait 60 -n 30"),
        "listening at",
        ("uverbs", "cm storm --wait 60 -n 30 THERE"),
        &["30 connections on mlx5_0", "30 connections on mlx5_1"],
    ),
    (
        ("uverbs", "bench serve --once"),
        "listening on",
        ("uverbs", "bench write -n 200 -s 4K --cm THERE"),
        &["MTU 4096 bytes"],
    ),
];

/// Without IP. Kernels look for such listeners in the initial network namespace alone.
const WITHOUT_IP: [Game<'_>; 3] = [
    (
        (PEER, "serve-gid HERE_GID 7471"),
        "serving at [fe80::",
        ("ucmatose", "-f gid -b HERE_GID -s THERE_GID"),
        &["10 messages sent, 10 answers heard", "asks [fe80::"],
    ),
    (
        ("ucmatose", "-f gid -b HERE_GID"),
        "starting server",
        (PEER, "ask-gid HERE_GID THERE_GID 7471"),
        &["10 messages heard, 10 answers sent", "asks [fe80::"],
    ),
    (
        (PEER, "serve-gid :: 7472"),
        "serving at [::]:7472",
        (PEER, "ask-gid HERE_GID THERE_GID 7472"),
        &["10 messages heard, 10 answers sent"],
    ),
];

/// What `rdma_client` and `rdma_server` exchange: 16 bytes each way.
const MESSAGE: &str = "0123456789abcdef";

fn boot() -> Guest {
    let build = [
        "build",
        "--release",
        "--package",
        "uverbs",
        "--example",
        DATAGRAMS,
    ];
    let example = testbed::cargo::build_program(DATAGRAMS, &build).unwrap();
    let peer = testbed::cargo::program_of("interop", PEER).unwrap();
    HOSTS.boot(&[(example, DATAGRAMS), (peer, PEER)]).unwrap()
}

/// Ends the guest, after which neither its kernel nor the model must have complained.
fn end(guest: Guest) {
    let reports = guest.connectx().unwrap().ask("reports").unwrap();
    assert_eq!(reports, testbed::connectx::NO_REPORTS);
    assert_eq!(finish(guest).unwrap(), [""; 0]);
}

#[test]
fn programs_of_two_hosts_find_each_other_by_address() {
    let guest = boot();
    for at in Host::ALL {
        play(&guest, at, &GAMES);
        bare_messages(&guest, at);
        cmtime_as_server(&guest, at);
    }
    play(&guest, Host::A, &WITHOUT_IP);
    end(guest);
}

fn play(guest: &Guest, at: Host, games: &[Game<'_>]) {
    for (server, ready, client, expected) in games {
        let said = HOSTS.both(guest, at, *server, ready, *client);
        let said = said.unwrap_or_else(|error| panic!("{error}"));
        for words in *expected {
            assert!(said.contains(words), "{server:?}: no {words:?} in {said}");
        }
        assert!(!said.contains("mismatch"), "{said}");
    }
}

/// `rdma_client` and `rdma_server`, with the tool's pipe as their peer.
fn bare_messages(guest: &Guest, at: Host) {
    let ours = |host: Host, what: &str| {
        let line = format!(
            "(printf {MESSAGE}; sleep 2) | uverbs cm {what}:7471 2>&1 >/tmp/out; \\
             echo $(wc -c </tmp/out) arrived"
        );
        HOSTS.shell(host, &line)
    };
    let waiting = guest.spawn(ours(at, "listen --bare HERE")).unwrap();
    waiting.wait_for_text("listening at", PATIENCE).unwrap();
    let client = HOSTS.on(at.other(), ("rdma_client", "-s THERE -p 7471"));
    let client = guest.run(client).unwrap().stdout_text();
    let said = waiting.wait().unwrap().stdout_text();
    assert!(client.contains("rdma_client: end 0"), "{client} {said}");
    assert!(said.contains("16 arrived"), "{client} {said}");

    let waiting = guest
        .spawn(HOSTS.on(at, ("rdma_server", "-p 7471")))
        .unwrap();
    waiting.wait_for_text("start", PATIENCE).unwrap();
    let client = guest.run(ours(at.other(), "connect --bare THERE")).unwrap();
    let said = waiting.wait().unwrap().stdout_text();
    let client = client.stdout_text();
    assert!(said.contains("rdma_server: end 0"), "{client} {said}");
    assert!(client.contains("16 arrived"), "{client} {said}");
}

/// It says nothing, and never ends.
fn cmtime_as_server(guest: &Guest, at: Host) {
    let theirs = guest.spawn(HOSTS.on(at, ("cmtime", ""))).unwrap();
    std::thread::sleep(Duration::from_secs(2));
    let ours = HOSTS.on(at.other(), ("uverbs", "cm storm --wait 60 THERE"));
    let ours = guest.run(ours).unwrap().check().unwrap().stdout_text();
    assert!(ours.contains("100 connections on mlx5_"), "{ours}");
    assert!(!theirs.has_ended());
    theirs.kill().unwrap();
    theirs.wait().unwrap();
}

/// Kernels newer than 6.12 ask the administrator where a service is.
#[test]
fn a_service_is_found_by_its_name() {
    let guest = boot();
    let model = guest.connectx().unwrap();
    for number in ["1234", "1235"] {
        let registered = model.ask(&format!("service 0 {number} store"));
        assert_eq!(registered.unwrap(), "ok");
    }
    let find = |name: &str| {
        let found = HOSTS.on(Host::B, (PEER, &format!("find {name} HERE")));
        let found = guest.run(found).unwrap();
        let said = found.stdout_text();
        (found.check().is_ok(), said)
    };
    let newest = std::env::var("UVERBS_TEST_KERNEL").is_ok_and(|kernel| kernel == "newest");
    let (found, said) = find("store");
    assert_eq!(found, newest, "{said}");
    if newest {
        for number in ["0x1234", "0x1235"] {
            let line = format!("service {number} at {}", Host::A.gid());
            assert!(said.contains(&line), "no {line} in {said}");
        }
        let (found, said) = find("nothing");
        assert!(!found && said.contains("ServiceError"), "{said}");
    } else {
        assert!(said.contains("does not have the command"), "{said}");
    }
    end(guest);
}

#[test]
fn a_subnet_administrator_that_does_not_answer() {
    let guest = boot();
    let model = guest.connectx().unwrap();
    let connect = || {
        let server = ("uverbs", "pingpong --cm -n 10");
        let client = ("uverbs", "pingpong --cm -n 10 THERE");
        HOSTS.both(&guest, Host::A, server, "listening at", client)
    };
    connect().unwrap();
    assert_eq!(model.ask("subnet-administrator off").unwrap(), "ok");
    // The peer's link address is known, the path is asked for anew by every connection.
    let start = Instant::now();
    let refused = ("uverbs", "cm connect --wait 3 THERE:7471");
    let refused = guest.run(HOSTS.on(Host::B, refused)).unwrap();
    let (said, took) = (refused.stdout_text(), start.elapsed());
    assert!(refused.check().is_err(), "{said}");
    assert!(said.contains("timed out resolving the route"), "{said}");
    assert!((2..30).contains(&took.as_secs()), "{took:?}");
    let refused = guest
        .run(HOSTS.on(Host::B, (DATAGRAMS, "hear 239.1.2.9 HERE")))
        .unwrap();
    let said = refused.stdout_text();
    assert!(refused.check().is_err(), "{said}");
    assert!(said.contains("joining the group"), "{said}");

    // When one starts, clients register again, and the interfaces with them.
    assert_eq!(model.ask("subnet-administrator on").unwrap(), "ok");
    connect().unwrap();
    end(guest);
}
