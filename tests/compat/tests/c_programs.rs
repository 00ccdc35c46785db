//! C programs of this project over both libraries: threads that are cancelled, and that destroy
//! what others wait for; and over this project's alone: what is refused.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::PathBuf;
use std::process::Command as Program;
use std::time::Duration;

use compat_tests::Library::{self, Debian, Ours};
use compat_tests::by_address::{Side, boot_with, finish};
use compat_tests::{SUITE, kernel, with_both};
use testbed::cargo::workspace;
use testbed::{Command, Connectx, Function, Machine, Packages, host};

/// How long a program may take to listen.
const PATIENCE: Duration = Duration::from_secs(60);

/// Compiles a program, with Debian's headers and libraries, whose functions of the vendor's are in
/// a library of their own.
fn compile(name: &str) -> PathBuf {
    let packages = [
        "libibverbs-dev",
        "libibverbs1",
        "ibverbs-providers",
        "librdmacm-dev",
        "librdmacm1t64",
        "linux-libc-dev",
    ];
    let root = Packages::new(SUITE, &packages).alone().folder().unwrap();
    let folder = workspace().join("target/compat-programs");
    fs::create_dir_all(&folder).unwrap();
    let program = folder.join(name);
    let mut link = Program::new("cc");
    link.args(["-O1", "-pthread", "-I"])
        .arg(root.join("usr/include"))
        .arg("-o")
        .arg(&program)
        .arg(workspace().join(format!("tests/compat/programs/{name}.c")))
        .arg("-L")
        .arg(root.join("usr/lib/x86_64-linux-gnu"))
        .arg("-Wl,--allow-shlib-undefined")
        .args(["-lrdmacm", "-lmlx5", "-libverbs"]);
    host::run(&mut link).unwrap();
    program
}

/// Runs it over each library, and compares what it prints.
fn over(libraries: &[Library], name: &str, expected: &str) {
    let program = compile(name);
    let guest = boot_with(|machine| machine.with_binary(program, name)).unwrap();
    for library in libraries {
        let side = Side {
            program: name,
            args: &[],
        };
        let output = guest.run(side.over(*library)).unwrap();
        let said = output.stdout_text();
        output.check().unwrap();
        assert_eq!(said.trim(), expected, "{library:?}");
    }
    assert_eq!(finish(guest).unwrap(), [""; 0]);
}

/// Waiting for completions, asynchronous events, events of a channel, and requests; then what
/// waited is destroyed.
#[test]
fn a_thread_that_waits_can_be_cancelled() {
    over(&[Ours, Debian], "cancelled", "1 1 1 1 0");
}

#[test]
fn ids_are_destroyed_while_others_read_their_events() {
    over(&[Ours, Debian], "threads", "0 failures, many events");
}

/// Listeners hear of it, and can be destroyed; nothing can be bound to the address any more.
#[test]
fn a_device_is_removed() {
    let program = compile("removed");
    for library in [Ours, Debian] {
        let add = |machine: Machine| machine.with_binary(program.clone(), "removed");
        let guest = boot_with(add).unwrap();
        let side = Side {
            program: "removed",
            args: &[],
        };
        let listening = guest.spawn(side.over(library)).unwrap();
        listening.wait_for_text("listening", PATIENCE).unwrap();
        let removed = guest.run(Command::shell("rdma link del rxe0")).unwrap();
        removed.check().unwrap();
        let output = listening.wait().unwrap();
        let said = output.stdout_text();
        output.check().unwrap();
        let expected = "RDMA_CM_EVENT_DEVICE_REMOVAL 0, 0, No such device";
        assert!(said.contains(expected), "{library:?}: {said}");
        assert_eq!(finish(guest).unwrap(), [""; 0]);
    }
}

/// Debian's library does not look for NULL.
#[test]
fn wrong_arguments_are_refused() {
    over(&[Ours], "refused", "55 refused, 0 not");
}

/// What a program prints over each library on two functions of the software ConnectX.
fn on_connectx(function: Function, libraries: &[Library], name: &str) -> Vec<String> {
    on_model(
        Connectx::new(&[function; 2]).on_demand_paging(),
        libraries,
        name,
    )
}

/// The same on these functions.
fn on_model(model: Connectx, libraries: &[Library], name: &str) -> Vec<String> {
    let program = compile(name);
    let machine = Machine::new(kernel().unwrap()).connectx(model);
    let machine = with_both(machine).unwrap().with_binary(program, name);
    let guest = machine.boot().unwrap();
    let said = libraries.iter().map(|library| {
        let side = Side {
            program: name,
            args: &[],
        };
        let output = guest.run(side.over(*library)).unwrap();
        let said = output.stdout_text();
        println!("{library:?}:\n{said}");
        output.check().unwrap();
        said
    });
    let said = said.collect();
    assert_eq!(finish(guest).unwrap(), [""; 0]);
    said
}

/// Debian's library ends by a fault where the child rings its parent's doorbell.
#[test]
fn a_child_uses_what_its_parent_opened() {
    let said = on_connectx(Function::Ib, &[Ours], "forked");
    assert_eq!(said[0].trim(), "child 0, parent 0");
}

/// Debian's library has other answers to some, and faults at others.
#[test]
fn unknown_bits_and_sizes_are_refused() {
    let said = on_connectx(Function::Ib, &[Ours], "masks");
    assert_eq!(said[0].trim(), "110 refused, 0 not");
}

/// The same, of functions that only devices of the vendor's have.
#[test]
fn wrong_arguments_of_the_vendors_functions_are_refused() {
    let model = Connectx::new(&[Function::Roce; 2]).extended_memory();
    let said = on_model(model, &[Ours], "misused");
    assert_eq!(said[0].trim(), "30 refused, 0 not");
}

/// Debian's library does not have these functions.
#[test]
fn objects_are_exported_and_imported() {
    let said = on_connectx(Function::Roce, &[Ours], "exported");
    let expected = [
        "sizes 1, export 0, import 1, query 0, destroy 22, own query 0, own destroy 0, \
         query of none 2",
        "memory: export 0, same 1, dereg 22, own dereg 0",
        "NULL: 22 22 22 1 1 1",
    ];
    assert_eq!(said[0].lines().collect::<Vec<_>>(), expected);
}

/// Nor does it have these, or Linux 6.12 what most of them ask for.
#[test]
fn what_is_newer_than_the_kernel_is_refused() {
    let said = on_connectx(Function::Roce, &[Ours], "newer");
    let expected = [
        "memory -1 95, page -1 95, NULL -1 22 -1 22",
        "hints 95 95, wrong 95 22 22 22 22, NULL 22 22 22",
        "region 0 0, wrong 22 22 22 9 95 22, hints 22, NULL 22 22",
        "ends 0 0 0",
    ];
    assert_eq!(said[0].lines().collect::<Vec<_>>(), expected);
}

#[test]
fn the_vendors_functions_return_the_same() {
    let said = on_connectx(Function::Roce, &[Ours, Debian], "vendor");
    assert!(said[0].lines().count() > 15, "{}", said[0]);
    assert_eq!(said[0], said[1], "ours (left), Debian's (right)");
}

#[test]
fn what_else_the_vendors_functions_return_is_the_same() {
    let said = on_connectx(Function::Roce, &[Ours, Debian], "striding");
    assert_eq!(said[0].lines().count(), 6, "{}", said[0]);
    assert_eq!(said[0], said[1], "ours (left), Debian's (right)");
}

/// CRC32C of 512 bytes that count in steps of 7, bit by bit.
fn crc32c_of_steps() -> u32 {
    !(0..512_u32).fold(u32::MAX, |crc, at| {
        let [step, ..] = (at * 7).to_le_bytes();
        (0..8).fold(crc ^ u32::from(step), |crc, _| {
            crc >> 1 ^ if crc & 1 == 0 { 0 } else { 0x82f6_3b78 }
        })
    })
}

/// The requests that set signatures and encryption up, word by word, and what the device does with
/// them: what it makes, takes away, finds wrong, encrypts and decrypts.
#[test]
fn keys_with_signatures_and_encryption_are_the_same() {
    let model = Connectx::new(&[Function::Ib]).signatures().encryption();
    let said = on_model(model, &[Ours, Debian], "signed");
    let [ours, debian] = [&said[0], &said[1]];
    assert!(ours.matches(":PSV1").count() > 20, "{ours}");
    let crc = crc32c_of_steps()
        .to_be_bytes()
        .map(|byte| format!("{byte:02x}"));
    assert!(ours.contains(&crc.join(" ")), "{crc:?}: {ours}");
    // The fourth vector of IEEE Std 1619-2007.
    assert!(
        ours.contains("27 a7 47 9b ef a1 d4 76 48 9f 30 8c"),
        "{ours}"
    );
    for part in 1..=3 {
        assert!(ours.contains(&format!("type {part} expected")), "{ours}");
    }
    assert_eq!(ours, debian, "ours (left), Debian's (right)");
}

/// A send queue that drains at a wrong signature, on a device with signatures and on one without.
#[test]
fn a_send_queue_stops_at_a_wrong_signature() {
    let model = Connectx::new(&[Function::Ib]).signatures();
    let said = on_model(model, &[Ours, Debian], "pipelining");
    let ours = &said[0];
    for what in [
        "not drained: -22, posted 0, event 0 5 of the queue pair: 1 (2: 0, 1), state 4, check 0 type 1",
        "cancelled 0, 2, 1",
        "wrote 97 0 0 100, added 0",
        "gone: 0 0 0 0 0",
    ] {
        assert!(ours.contains(what), "{what}: {ours}");
    }
    assert_eq!(said[0], said[1], "ours (left), Debian's (right)");
    let without = on_model(
        Connectx::new(&[Function::Ib]),
        &[Ours, Debian],
        "pipelining",
    );
    assert!(!without[0].contains("connected 0"), "{}", without[0]);
    assert_eq!(without[0], without[1], "ours (left), Debian's (right)");
}

/// Memory on the device, for data and for steering, and operations on it.
#[test]
fn memory_on_the_device_is_the_same() {
    let model = Connectx::new(&[Function::Roce]).extended_memory();
    let said = on_model(model, &[Ours, Debian], "device_memory");
    let ours = &said[0];
    for what in [
        "was 106, then 1, other 9",
        "copy 0: 01020305 00000100",
        "kind 2: 0 0 there 0, 5000 bytes, mask 1, at 0 of a page, new 1, region 0, write 0, \
         read 0, same 1, free 16 0 0",
    ] {
        assert!(ours.contains(what), "{what}: {ours}");
    }
    assert_eq!(said[0], said[1], "ours (left), Debian's (right)");
}

/// Streams that fail one by one, are flushed alone, and go on once they were reset.
#[test]
fn streams_fail_alone_and_are_reset() {
    let model = Connectx::new(&[Function::Ib]).streams();
    let said = on_model(model, &[Ours, Debian], "streams");
    let ours = &said[0];
    for what in [
        "000, 1: 10, 1: 5, 2: 0, queried 0, state 3",
        "reset 0, without an error 22",
        "0000, 3: 10, 1: 0, 2: 10, 1: 5, queried 0, state 6",
    ] {
        assert!(ours.contains(what), "{what}: {ours}");
    }
    assert_eq!(said[0], said[1], "ours (left), Debian's (right)");
}

/// Copies by the device, on a device that makes them and on one that does not.
#[test]
fn the_device_copies_local_memory() {
    let model = Connectx::new(&[Function::Ib]).copies();
    let said = on_model(model, &[Ours, Debian], "copies");
    let ours = &said[0];
    for what in [
        "caps 0: mask 1, most 16777216",
        "unreliable: none, 95",
        "short: 1, id 1, status 0, opcode 137",
        "differ: 0, 0, around 0 0 0",
        "none: 22, too long: 22",
        "dynamic: there, ready: 0",
        "failed: 1, id 4, status 4",
        "queried 0, state 6",
        "gone: 0 0 0",
    ] {
        assert!(ours.contains(what), "{what}: {ours}");
    }
    assert_eq!(said[0], said[1], "ours (left), Debian's (right)");
    let without = on_model(Connectx::new(&[Function::Ib]), &[Ours, Debian], "copies");
    assert!(without[0].contains("reliable: none, 95"), "{}", without[0]);
    assert_eq!(without[0], without[1], "ours (left), Debian's (right)");
}

/// Gives the other end of the cable to a host of its own.
const OTHER_HOST: &str = "set -e; ip netns add there; ip link set v1 netns there; \
                          ip -n there addr add 10.1.0.2/24 dev v1; ip -n there link set v1 up";

/// A neighbour that has to be asked, this host, a group, nobody, and no route.
#[test]
fn frames_to_an_address_go_to_the_same_neighbour() {
    let program = compile("neighbours");
    let machine = with_both(Machine::new(kernel().unwrap())).unwrap();
    let guest = machine.with_binary(program, "neighbours").boot().unwrap();
    let shell = |text| guest.run(Command::shell(text)).unwrap().check().unwrap();
    shell(OTHER_HOST);
    let args = [
        "rxe0",
        "10.1.0.2",
        "10.1.0.1",
        "239.1.2.3",
        "10.1.0.77",
        "192.0.2.1",
    ];
    let said = [Ours, Debian].map(|library| {
        shell("ip neigh flush all");
        let output = guest.run(library.run("neighbours", &args)).unwrap();
        println!("{library:?}:\n{}", output.stdout_text());
        output.check().unwrap().stdout_text()
    });
    guest.power_off().unwrap();
    let answers: Vec<_> = said[0].lines().map(|line| line.contains(": 0 ")).collect();
    assert_eq!(answers, [true, true, true, false, false], "{}", said[0]);
    assert_eq!(said[0], said[1], "ours (left), Debian's (right)");
}

/// What sockets do that `rstream` does not ask of them.
#[test]
fn sockets() {
    let expected = [
        "parts",
        "both ways",
        "events",
        "options",
        "refused",
        "forked",
        "ends",
        "early",
        "done",
    ];
    over(&[Ours], "sockets", &expected.join("\r\n"));
}

/// Nothing that a socket's peer says has it read or write outside of its memory, or wait for ever.
#[test]
fn peers_that_lie() {
    let expected = ["too much", "nothing", "vanished", "nowhere", "odd", "done"];
    over(&[Ours], "liar", &expected.join("\r\n"));
}

/// What sockets for datagrams do that `udpong` does not ask of them, and what peers tell them that
/// is not so.
#[test]
fn datagrams() {
    let expected = [
        "opened",
        "there and back",
        "parts",
        "events",
        "sets",
        "arguments",
        "liars by UDP",
        "liars by queue pair",
        "done",
    ];
    over(&[Ours], "datagrams", &expected.join("\r\n"));
}
