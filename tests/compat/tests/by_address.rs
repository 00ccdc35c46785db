//! Programs of librdmacm, and perftest's that connect by address, over this project's `librdmacm`
//! and over Debian's.
#![allow(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

use compat_tests::Library::{self, Debian, OurCm, OurVerbs, Ours};
use compat_tests::by_address::{ADDRESS, Ready, Side, boot, finish, play};
use testbed::Guest;

/// Which library the server and the client are run over.
const PAIRS: [[Library; 2]; 3] = [[Ours, Ours], [Ours, Debian], [Debian, Ours]];

/// What a client of perftest says whose server does not listen yet: servers say that they wait
/// before they do.
const TOO_EARLY: &str = "RDMA_CM_EVENT_REJECTED; error: 8";
/// How often it comes again.
const ATTEMPTS: usize = 5;

/// One way to run a program.
struct Game {
    server: Side<'static>,
    /// When a client may come.
    ready: Ready,
    client: Side<'static>,
    /// What each prints at its end.
    ends: [&'static str; 2],
}

const fn side(program: &'static str, args: &'static [&'static str]) -> Side<'static> {
    Side { program, args }
}

/// A program that is server and client.
fn game(
    program: &'static str,
    ready: Ready,
    args: [&'static [&'static str]; 2],
    end: &'static str,
) -> Game {
    let [server, client] = args.map(|args| side(program, args));
    Game {
        server,
        ready,
        client,
        ends: [end; 2],
    }
}

/// Plays each with each library on each side.
fn with_each(guest: &Guest, games: &[Game]) {
    with(guest, games, &PAIRS);
}

fn with(guest: &Guest, games: &[Game], pairs: &[[Library; 2]]) {
    for game in games {
        for &libraries in pairs {
            let (server, client) = (game.server, game.client);
            let mut outputs = play(guest, server, game.ready, client, libraries);
            for _ in 0..ATTEMPTS {
                match &outputs {
                    Err(error) if error.to_string().contains(TOO_EARLY) => {
                        outputs = play(guest, server, game.ready, client, libraries);
                    }
                    _ => break,
                }
            }
            let outputs = outputs
                .unwrap_or_else(|error| panic!("{server:?}, {client:?}, {libraries:?}: {error}"));
            for (output, end) in outputs.iter().zip(game.ends) {
                let said = output.stdout_text();
                assert!(
                    said.contains(end),
                    "{server:?}, {client:?}, {libraries:?}: {said}"
                );
            }
        }
    }
}

#[test]
fn rping() {
    const READY: Ready = Ready::Says("rdma_listen");
    const END: [&str; 2] = ["server ping data: rdma-ping-4", "ping data: rdma-ping-4"];
    let game = |server, client| Game {
        server: side("rping", server),
        ready: READY,
        client: side("rping", client),
        ends: END,
    };
    let guest = boot().unwrap();
    with_each(
        &guest,
        &[
            game(
                &["-s", "-a", ADDRESS, "-d", "-v"],
                &["-c", "-a", ADDRESS, "-C", "5", "-v", "-V"],
            ),
            // At any address; a large message.
            game(
                &["-s", "-d", "-v", "-S", "65535"],
                &["-c", "-a", ADDRESS, "-C", "5", "-v", "-V", "-S", "65535"],
            ),
            game(
                &["-s", "-a", "fd00:1::1", "-d", "-v"],
                &["-c", "-a", "fd00:1::1", "-C", "5", "-v", "-V"],
            ),
            // From a given address; queue pairs that the program makes and moves itself.
            game(
                &["-s", "-a", ADDRESS, "-d", "-v", "-q"],
                &["-c", "-a", ADDRESS, "-I", ADDRESS, "-C", "5", "-v", "-q"],
            ),
        ],
    );
    assert_eq!(finish(guest).unwrap(), [""; 0]);
}

#[test]
fn connections_and_datagrams() {
    const STARTING: Ready = Ready::Says("starting server");
    const DONE: &str = "return status 0";
    let guest = boot().unwrap();
    let games = [
        game(
            "ucmatose",
            STARTING,
            [&["-c", "3"], &["-s", ADDRESS, "-c", "3"]],
            DONE,
        ),
        // Ids move to other channels.
        game(
            "ucmatose",
            STARTING,
            [&["-c", "3", "-m"], &["-s", ADDRESS, "-c", "3", "-m"]],
            DONE,
        ),
        // With a type of service, and from a given address.
        game(
            "ucmatose",
            STARTING,
            [&["-b", ADDRESS], &["-s", ADDRESS, "-t", "32"]],
            DONE,
        ),
        game(
            "udaddy",
            STARTING,
            [&["-c", "3"], &["-s", ADDRESS, "-c", "3"]],
            DONE,
        ),
    ];
    with_each(&guest, &games);
    assert_eq!(finish(guest).unwrap(), [""; 0]);
}

/// Ids without a channel, whose functions wait.
#[test]
fn synchronous_ids() {
    const STARTED: Ready = Ready::Says("start");
    let guest = boot().unwrap();
    let games = [
        game("rdma_server", STARTED, [&[], &["-s", ADDRESS]], "end 0"),
        game("rdma_xserver", STARTED, [&[], &["-s", ADDRESS]], "end 0"),
    ];
    let clients = ["rdma_client", "rdma_xclient"];
    let with = |(game, program): (Game, _)| Game {
        client: side(program, game.client.args),
        ..game
    };
    let games: Vec<_> = games.into_iter().zip(clients).map(with).collect();
    with_each(&guest, &games);
    assert_eq!(finish(guest).unwrap(), [""; 0]);
}

/// A program may have one library of this project and the other of Debian's.
#[test]
fn one_library_of_each() {
    const STARTING: Ready = Ready::Says("starting server");
    const DONE: &str = "return status 0";
    let asks: &[_] = &["-s", ADDRESS];
    let guest = boot().unwrap();
    let games = [
        game("ucmatose", STARTING, [&[], asks], DONE),
        game("udaddy", STARTING, [&[], asks], DONE),
    ];
    with(&guest, &games, &[[OurCm, OurVerbs], [OurVerbs, OurCm]]);
    assert_eq!(finish(guest).unwrap(), [""; 0]);
}

/// A hundred connections at a time, with queue pairs and without. Both ends are on one device, so
/// their made-up numbers of queue pairs differ.
#[test]
fn many_at_a_time() {
    let guest = boot().unwrap();
    let args: [&[_]; 2] = [&["-q", "100000"], &["-s", ADDRESS, "-q", "200000"]];
    with_each(
        &guest,
        &[game("cmtime", Ready::Listens(7471), args, "destroy qp")],
    );
    assert_eq!(finish(guest).unwrap(), [""; 0]);
}

/// The sender posts its messages and destroys its queue pair right after that, often before rxe has
/// sent any: `strace` has it go on a little later from each `write`.
#[test]
fn multicast() {
    const SLOWLY: &[&str] = &[
        "-f",
        "-o",
        "/dev/null",
        "-e",
        "trace=write",
        "-e",
        "inject=write:delay_exit=50000",
        "mckey",
        "-s",
        "-b",
        ADDRESS,
        "-m",
        "239.1.2.3",
    ];
    /// Joins only to send.
    const ONLY_SENDS: &[&str] = &[
        "-f",
        "-o",
        "/dev/null",
        "-e",
        "trace=write",
        "-e",
        "inject=write:delay_exit=50000",
        "mckey",
        "-s",
        "-b",
        ADDRESS,
        "-m",
        "239.1.2.3",
        "-o",
    ];
    const READY: Ready = Ready::Says("receiving data transfers");
    let receives: &[_] = &["-b", ADDRESS, "-m", "239.1.2.3"];
    let end = "data transfers complete";
    let game = game("mckey", READY, [receives, SLOWLY], end);
    let games = [SLOWLY, ONLY_SENDS].map(|args| Game {
        client: side("strace", args),
        ..game
    });
    let guest = boot().unwrap();
    with_each(&guest, &games);
    assert_eq!(finish(guest).unwrap(), [""; 0]);
}

#[test]
fn perftest() {
    const WAITING: Ready = Ready::Says("Waiting for client");
    let args: [&[_]; 2] = [
        &["-R", "-F", "-n", "50"],
        &["-R", "-F", "-n", "50", ADDRESS],
    ];
    let games = ["ib_send_lat", "ib_write_bw", "ib_read_bw"]
        .map(|program| game(program, WAITING, args, "#iterations"));
    let guest = boot().unwrap();
    with_each(&guest, &games);
    assert_eq!(finish(guest).unwrap(), [""; 0]);
}

/// What goes wrong is reported as Debian's library reports it.
#[test]
fn failures_are_told_alike() {
    // Nobody has the address; no way to it; nobody listens there; not an address of this host.
    let programs: [(&str, &[&str]); 7] = [
        ("rping", &["-c", "-a", "10.1.0.9", "-C", "1"]),
        ("ucmatose", &["-s", "192.0.2.7"]),
        ("ucmatose", &["-s", ADDRESS]),
        ("udaddy", &["-s", ADDRESS]),
        ("rdma_client", &["-s", ADDRESS]),
        ("rdma_client", &["-s", "192.0.2.7"]),
        ("rping", &["-s", "-a", "192.0.2.7"]),
    ];
    let guest = boot().unwrap();
    for (program, args) in programs {
        let [ours, theirs] = [Ours, Debian].map(|library| {
            let output = guest.run(side(program, args).over(library)).unwrap();
            // Another thread of rping tells what it waits for, and that its channel is gone, if it
            // comes to that.
            let text = output.stdout_text();
            let of_thread = ["wait", "rdma_get_cm_event"];
            let told = text
                .lines()
                .filter(|line| !of_thread.iter().any(|begin| line.starts_with(begin)));
            let told: Vec<_> = told.map(str::to_owned).collect();
            (told, output.check().is_ok())
        });
        assert_eq!(ours, theirs, "{program} {args:?}: ours (left)");
        assert!(!ours.1, "{program} {args:?} ended well: {ours:?}");
    }
    assert_eq!(finish(guest).unwrap(), [""; 0]);
}
