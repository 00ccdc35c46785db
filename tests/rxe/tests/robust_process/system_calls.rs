//! Number of system calls from the start of a process to a connected queue pair.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use syscalls::Sysno;
use uverbs::cm;
use verbs_tests::link;

use crate::support::traced::{Program, SystemCall};

/// The project's guarantee for rxe, and without a runtime.
const PROMISED: usize = 40;
const PROMISED_BARE: usize = 30;

/// Number of calls that the C library and Rust's runtime may make before `main`.
const RUNTIME: usize = 14;

/// For a connection by address, of an ordinary program and of one without a runtime whose memory is
/// a part of it, and the commands of rdma_cm for one more.
const CONNECTED: usize = 61;
const CONNECTED_BARE: usize = 40;
const COMMANDS: usize = 11;

/// The address of the device's interface.
const ADDRESS: [u8; 4] = [10, 1, 0, 1];
const PATIENCE: Duration = Duration::from_secs(30);

/// What finding a device takes more if its index is not the number in its name, as that of one that
/// another test has added again.
const LOOKED_FOR: usize = 4;

/// Usually answered without a system call (vDSO), but not where the processor's clock is emulated.
const CLOCK: Sysno = Sysno::clock_gettime;

/// From the very start, without a runtime before the program.
#[test]
fn a_bare_process_is_ready_to_send_after_few_system_calls() {
    let (calls, marks) = calls_of("reach-rts-bare", 1);
    print(&calls, &marks);
    let total = calls.len();
    println!("FIGURE: {total} system calls from the start of a bare process to RTS");
    assert!(
        total <= PROMISED_BARE + more(),
        "{total} system calls, at most {PROMISED_BARE} promised"
    );
}

/// From the start of an ordinary program, including its runtime's.
#[test]
fn an_ordinary_program_is_ready_to_send_after_few_system_calls() {
    let (calls, marks) = calls_of("reach-rts", 2);
    print(&calls, &marks);
    let (before, total) = (marks[0], calls.len());
    println!(
        "FIGURE: {total} system calls from the start of a process to RTS, {before} of them before main"
    );
    assert!(before <= RUNTIME, "{before} system calls before main");
    assert!(
        total <= PROMISED + more(),
        "{total} system calls, at most {PROMISED} promised"
    );
}

/// What else is on the machine changes nothing: here, addresses, for each of which the port has a
/// GID.
#[test]
fn the_number_of_addresses_costs_no_system_call() {
    const INTERFACE: &str = "v0";
    let few = calls_of("reach-rts", 2).0.len();
    let mut added = Vec::new();
    let more = [1, 2, 5, 40].map(|count| {
        while added.len() < count {
            let last = 100 + u8::try_from(added.len()).expect("few addresses");
            let address = Ipv4Addr::new(10, 78, 0, last);
            link::set_address(INTERFACE, address, true);
            added.push(address);
        }
        calls_of("reach-rts", 2).0.len()
    });
    for address in added {
        link::set_address(INTERFACE, address, false);
    }
    assert_eq!(more, [few; 4]);
}

/// From the start of an ordinary program to a connection by address, and to a second one.
#[test]
fn an_ordinary_program_has_a_connection_by_address_after_few_system_calls() {
    let (calls, marks) = calls_to_connections("reach-connection", 3);
    print(&calls, &marks);
    let [before, first, second] = marks[..] else {
        panic!("{marks:?}")
    };
    let is_write = |call: &&SystemCall| call.number == Sysno::write;
    let writes = calls[first..].iter().filter(is_write).count();
    println!(
        "FIGURE: {first} system calls from the start of a process to a connection by address, \
         {before} of them before main; {} for a second one, {writes} of them commands of rdma_cm",
        second - first
    );
    assert!(
        first <= CONNECTED + more(),
        "{first} system calls, at most {CONNECTED} allowed"
    );
    assert!(
        writes <= COMMANDS,
        "{writes} commands, at most {COMMANDS} promised"
    );
}

/// The same without a runtime before the program, and without the C library's allocator.
#[test]
fn a_bare_program_has_a_connection_by_address_after_few_system_calls() {
    let (calls, marks) = calls_to_connections("reach-connection-bare", 2);
    print(&calls, &marks);
    let (first, second) = (marks[0], marks[1]);
    println!(
        "FIGURE: {first} system calls from the start of a bare process to a connection by address, \
         {} for a second one",
        second - first
    );
    assert!(
        first <= CONNECTED_BARE + more(),
        "{first} system calls, at most {CONNECTED_BARE} allowed"
    );
}

/// How many more than promised there may be.
fn more() -> usize {
    let devices = uverbs::devices().expect("the devices");
    let device = devices.iter().find(|device| device.name() == "rxe0");
    let index = device.expect("rxe0").info().index;
    if index == Some(0) { 0 } else { LOOKED_FOR }
}

/// The system calls of a helper that makes two connections by address.
fn calls_to_connections(name: &str, marks: usize) -> (Vec<SystemCall>, Vec<usize>) {
    let at = SocketAddr::from((ADDRESS, 0));
    let listener = cm::listen(at).build().expect("the connection manager");
    let to = listener.local_addr().to_string();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let accept = || {
                let request = listener.accept_timeout(PATIENCE);
                let request = request.expect("it listens").expect("a request");
                let pd = request.open().and_then(|context| context.alloc_pd());
                let pd = pd.expect("a protection domain");
                let cq = pd.context().create_cq(4).expect("a completion queue");
                let prepared = request.queue_pair(&pd, &cq, &cq).build();
                let prepared = prepared.expect("a queue pair");
                // The traced program is killed where it has what it wanted.
                request.accept(prepared).ok()
            };
            [accept(), accept()]
        });
        calls_with(name, &[&to], marks)
    })
}

/// The system calls of a helper up to its last mark, but for those that read the clock, and how
/// many there were at each mark.
fn calls_of(name: &str, marks: usize) -> (Vec<SystemCall>, Vec<usize>) {
    calls_with(name, &[], marks)
}

/// The same, of a helper with arguments.
fn calls_with(name: &str, args: &[&str], marks: usize) -> (Vec<SystemCall>, Vec<usize>) {
    let program = Program::named(name);
    let mut traced = program.trace_with(args);
    let (mut calls, mut at) = (Vec::new(), Vec::new());
    while at.len() < marks {
        let call = traced.step().expect("it says that it is ready");
        if call.number == Sysno::sched_yield {
            at.extend(call.result.map(|_| calls.len()));
        } else if call.result.is_some() && call.number != CLOCK {
            calls.push(call);
        }
    }
    traced.kill();
    (calls, at)
}

fn print(calls: &[SystemCall], marks: &[usize]) {
    for (at, call) in calls.iter().enumerate() {
        if marks.contains(&at) {
            println!("    main");
        }
        println!("{:3} {call}", at + 1);
    }
}
