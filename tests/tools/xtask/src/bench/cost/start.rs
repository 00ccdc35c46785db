//! The cost of getting queue pairs ready to send: system calls, time, memory, files. Our ping-pong
//! and Debian's, in one guest.

use anyhow::{Context as _, bail};
use serde_json::{Value, json};
use std::time::Duration;
use testbed::{Command, Guest};

/// Ours may make at most this fraction of rdma-core's system calls.
const GOAL: f64 = 0.2;
/// The time is the median of this many runs.
const RUNS: usize = 9;
/// The length of a server's answer, which it writes when its queue pair is ready to send.
const ANSWER: &str = ", 52) = 52";
/// The variable that selects the device of our program.
const DEVICE_VARIABLE: &str = "UVERBS_TEST_DEVICE";
/// Where strace writes its output.
const CALLS: &str = "/tmp/calls";
const PATIENCE: Duration = Duration::from_secs(20);

/// The same program twice: Debian's and ours.
const THEIRS: &str = "ibv_rc_pingpong";
const OURS: &str = "uverbs pingpong";

/// The example whose memory and size are compared, with both ends in one process. Our tool's are
/// those of all its commands.
pub(super) const EXAMPLE: &str = "ping_pong_rc";

/// A program that connects a queue pair to itself and does nothing else; `sched_yield` marks the
/// start of `main` and the end. Most system calls of our ping-pong are made by musl's allocator
/// while the command line is parsed.
pub(super) const REACH_RTS: &str = "reach-rts";
const MARK: &str = "sched_yield(";

/// One figure of both programs.
pub(super) struct Row {
    name: &'static str,
    unit: &'static str,
    theirs: f64,
    ours: f64,
}

impl Row {
    fn ratio(&self) -> f64 {
        self.ours / self.theirs
    }

    /// The number of system calls is the only figure with a goal.
    pub(super) fn is_good(&self) -> bool {
        self.unit != CALLS_UNIT || self.ratio() <= GOAL
    }

    pub(super) fn json(&self) -> Value {
        json!({ "name": self.name, "unit": self.unit, "rdma-core": self.theirs, "uverbs": self.ours, "ratio": self.ratio() })
    }
}

const CALLS_UNIT: &str = "calls";

/// Measures in a guest with two functions of a software ConnectX.
pub(super) fn measure(guest: &Guest) -> anyhow::Result<Vec<Row>> {
    let row = |name, unit, [theirs, ours]: [f64; 2]| Row {
        name,
        unit,
        theirs,
        ours,
    };
    let [theirs, ours, tool] = sizes(guest)?;
    Ok(vec![
        row(
            "system calls until RTS",
            CALLS_UNIT,
            [their_calls(guest)?, our_calls(guest)?],
        ),
        row("a whole run with one message", "ms", times(guest)?),
        row("most memory resident", "KiB", [theirs[0], ours[0]]),
        row("program and libraries", "KiB", [theirs[1], ours[1]]),
        row(
            "most memory resident, our whole tool",
            "KiB",
            [theirs[0], tool[0]],
        ),
        row(
            "program and libraries, our whole tool",
            "KiB",
            [theirs[1], tool[1]],
        ),
    ])
}

pub(super) fn print(release: &str, rows: &[Row]) {
    println!("\nLinux {release}, software ConnectX, RC ping-pong\n");
    println!(
        "{:<42} {:>9} {:>9} {:>7}",
        "", "rdma-core", "uverbs", "ratio"
    );
    for row in rows {
        println!(
            "{:<42} {:>9.1} {:>9.1} {:>7.2}  {}{}",
            row.name,
            row.theirs,
            row.ours,
            row.ratio(),
            row.unit,
            if row.is_good() { "" } else { "  too many" }
        );
    }
}

/// System calls of a server from its start to the answer that announces that it is ready.
fn their_calls(guest: &Guest) -> anyhow::Result<f64> {
    let server = format!("exec strace -f -qq -o {CALLS} {THEIRS} -d mlx5_0 -n 1");
    let server = guest.spawn(Command::shell(server))?;
    client(guest, &format!("{THEIRS} -d mlx5_1 -n 1 127.0.0.1"))?;
    server.wait()?.check()?;
    count(guest, |calls| {
        calls
            .iter()
            .position(|call| call.starts_with("write(") && call.contains(ANSWER))
    })
}

/// System calls of our program until its last mark, without the marks.
fn our_calls(guest: &Guest) -> anyhow::Result<f64> {
    let program = Command::new("strace")
        .args(["-f", "-qq", "-o", CALLS, REACH_RTS])
        .env(DEVICE_VARIABLE, "mlx5_0");
    guest.run(program)?.check()?;
    count(guest, |calls| {
        let last = calls.iter().rposition(|call| call.starts_with(MARK))?;
        let marks = calls[..last].iter().filter(|call| call.starts_with(MARK));
        Some(last - marks.count())
    })
}

/// How many of the calls that strace recorded come first.
fn count(guest: &Guest, first: impl Fn(&[&str]) -> Option<usize>) -> anyhow::Result<f64> {
    let text = guest.run(Command::new("cat").arg(CALLS))?.check()?;
    let text = text.stdout_text();
    // Each line begins with the number of the process.
    let calls: Vec<_> = text
        .lines()
        .filter_map(|line| Some(line.split_once(' ')?.1.trim_start()))
        .collect();
    let first = first(&calls).with_context(|| format!("it was not ready:\n{text}"))?;
    Ok(f64::from(u32::try_from(first)?))
}

/// Milliseconds that clients take from start to end, alternately: theirs and ours.
fn times(guest: &Guest) -> anyhow::Result<[f64; 2]> {
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..RUNS {
        for (program, times) in [THEIRS, OURS].iter().zip(&mut times) {
            let server = guest.spawn(Command::new(THEIRS).args(["-d", "mlx5_0", "-n", "1"]))?;
            times.push(client(
                guest,
                &format!("{program} -d mlx5_1 -n 1 127.0.0.1"),
            )?);
            server.wait()?.check()?;
        }
    }
    Ok(times.map(|mut times| {
        times.sort_unstable();
        times[RUNS / 2].as_secs_f64() * 1e3
    }))
}

/// Runs a client as soon as the server listens.
fn client(guest: &Guest, line: &str) -> anyhow::Result<Duration> {
    let listens =
        "until grep -q ':4853 .* 0A ' /proc/net/tcp /proc/net/tcp6; do usleep 10000; done";
    guest
        .run(Command::shell(listens).timeout(PATIENCE))?
        .check()?;
    let mut words = line.split(' ');
    let program = words.next().context("a program")?;
    let output = guest.run(Command::new(program).args(words))?.check()?;
    Ok(output.elapsed)
}

/// The peak resident size of each in KiB, and the size of the files it maps, while they exchange
/// messages: of theirs with our tool, and of our example.
fn sizes(guest: &Guest) -> anyhow::Result<[[f64; 2]; 3]> {
    let many = "100000000";
    let server = guest.spawn(Command::new(THEIRS).args(["-d", "mlx5_0", "-n", many]))?;
    let tool = format!("until {OURS} -d mlx5_1 -n {many} --wait 20 127.0.0.1; do :; done");
    let tool = guest.spawn(Command::shell(tool))?;
    let example = guest.spawn(Command::new(EXAMPLE).args(["mlx5_1", many]))?;
    let look = format!(
        r#"
        until [ "$(pidof uverbs)" ] && [ "$(pidof {EXAMPLE})" ]; do usleep 10000; done; sleep 2
        for name in {THEIRS} {EXAMPLE} uverbs; do
            process=/proc/$(pidof $name)
            awk '/VmHWM/ {{ print $2 }}' $process/status
            awk '$6 ~ "^/" {{ print $6 }}' $process/maps | sort -u | xargs stat -c %s | awk '{{ sum += $1 }} END {{ print sum / 1024 }}'
        done
    "#
    );
    let seen = guest.run(Command::shell(look).timeout(PATIENCE))?.check()?;
    for child in [&example, &tool, &server] {
        child.kill()?;
    }
    let figures: Vec<f64> = seen
        .stdout_text()
        .lines()
        .map(str::parse)
        .collect::<Result<_, _>>()
        .with_context(|| seen.stdout_text())?;
    let (programs, []) = figures.as_chunks::<2>() else {
        bail!("two figures of each program were expected: {figures:?}");
    };
    let programs = programs.try_into();
    programs.with_context(|| format!("figures of three programs were expected: {figures:?}"))
}
