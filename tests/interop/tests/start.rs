//! How many system calls a static program makes from exec until its queue pair is ready to send, on
//! either driver, and whose they are: with Rust's runtime, and without it and with memory of its
//! own.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fmt;
use std::time::Duration;

use testbed::{Command, Function, Guest, Kernel, Machine};

/// A program with Rust's runtime and one without, each with the calls that it may make on rxe and
/// on mlx5. The goal is 30 each.
const PROGRAMS: [(&str, usize, usize); 2] = [("reach-rts", 40, 45), ("reach-rts-bare", 25, 27)];

/// They make this call at the start of `main` (with the runtime) and when they are ready.
const MARK: &str = "sched_yield(";

/// Made by the C library before anything else.
const OF_C: [&str; 2] = ["arch_prctl(", "set_tid_address("];

/// Not counted: what starts it, its marks, and the clock, which is usually read without a system
/// call (vDSO), but not where the processor's clock is emulated.
const OTHERS: [&str; 3] = ["execve(", MARK, "clock_gettime("];

const PATIENCE: Duration = Duration::from_secs(60);

/// System calls by who makes them.
#[derive(Debug, Default, Eq, PartialEq)]
struct Calls {
    start_of_c: usize,
    start_of_rust: usize,
    allocator: usize,
    finding: usize,
    commands: usize,
    memory: usize,
}

impl Calls {
    fn total(&self) -> usize {
        let own = self.finding + self.commands + self.memory;
        self.start_of_c + self.start_of_rust + self.allocator + own
    }

    /// Of what strace wrote, up to the last mark.
    fn of(text: &str) -> Self {
        let lines: Vec<_> = text
            .lines()
            .filter_map(|line| line.split_once(' '))
            .collect();
        let calls: Vec<_> = lines.iter().map(|(_, call)| call.trim_start()).collect();
        let marks = || (0..calls.len()).filter(|at| calls[*at].starts_with(MARK));
        let ready = marks().next_back().unwrap();
        let main = marks().next().filter(|main| *main < ready).unwrap_or(0);
        let mut counted = Self::default();
        for (at, call) in calls[..ready].iter().enumerate() {
            let next = calls[at + 1];
            let name = call.split('(').next().unwrap();
            let is_anonymous = call.contains("MAP_ANONYMOUS");
            *match name {
                _ if OTHERS.iter().any(|other| call.starts_with(other)) => continue,
                _ if OF_C.iter().any(|of_c| call.starts_with(of_c)) => &mut counted.start_of_c,
                _ if at < main => &mut counted.start_of_rust,
                "brk" => &mut counted.allocator,
                // Memory of the library's own is kept from children next.
                "mmap" if is_anonymous && !next.starts_with("madvise(") => &mut counted.allocator,
                "mmap" | "madvise" => &mut counted.memory,
                "ioctl" | "write" => &mut counted.commands,
                _ => &mut counted.finding,
            } += 1;
        }
        counted
    }
}

/// As a row of a table.
impl fmt::Display for Calls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (c, rust, allocator) = (self.start_of_c, self.start_of_rust, self.allocator);
        write!(f, "{} | {c} | {rust} | {allocator} |", self.total())?;
        write!(
            f,
            " {} | {} | {} |",
            self.finding, self.commands, self.memory
        )
    }
}

#[test]
fn a_program_is_ready_to_send_after_few_system_calls_on_either_driver() {
    let rxe = counted(&machine(), "rxe0");
    let mlx5 = counted(&machine().connectx(&[Function::Ib; 2][..]), "mlx5_0");
    for (at, (program, on_rxe, on_mlx5)) in PROGRAMS.iter().enumerate() {
        for (device, calls, most) in [("rxe", &rxe[at], on_rxe), ("mlx5", &mlx5[at], on_mlx5)] {
            println!("FIGURE: | {program}, {device} | {calls}");
            assert!(calls.total() <= *most, "{calls:?}: at most {most}");
        }
    }
}

fn machine() -> Machine {
    let machine = Machine::new(Kernel::named("6.12").unwrap()).with_debian_tools();
    PROGRAMS.iter().fold(machine, |machine, (program, ..)| {
        let args = ["build", "--package", "rxe-tests", "--bin", program];
        machine.with_binary(
            testbed::cargo::build_program(program, &args).unwrap(),
            program,
        )
    })
}

fn counted(machine: &Machine, device: &str) -> Vec<Calls> {
    let guest = machine.boot().unwrap();
    let counted = PROGRAMS
        .iter()
        .map(|(program, ..)| traced(&guest, program, device));
    let counted = counted.collect();
    guest.power_off().unwrap();
    counted
}

fn traced(guest: &Guest, program: &str, device: &str) -> Calls {
    let line = format!(
        "export UVERBS_TEST_DEVICE={device}; strace -f -qq -o /tmp/calls {program} >/dev/null && cat /tmp/calls"
    );
    let output = guest.run(Command::shell(line).timeout(PATIENCE)).unwrap();
    Calls::of(&output.check().unwrap().stdout_text())
}

#[test]
fn calls_are_told_apart() {
    let text = "7 execve(\"p\")\n7 arch_prctl(1)\n7 poll(0)\n7 sched_yield() = 0\n7 brk(NULL)\n7 socket(AF_NETLINK)\n\
                7 mmap(NULL, MAP_ANONYMOUS)\n7 madvise(1)\n7 mmap(NULL, MAP_ANONYMOUS)\n7 ioctl(3)\n7 sched_yield()\n";
    let expected = Calls {
        start_of_c: 1,
        start_of_rust: 1,
        allocator: 2,
        finding: 1,
        commands: 1,
        memory: 2,
    };
    assert_eq!(Calls::of(text), expected);
    assert_eq!(expected.total(), 8);
}
