//! Reports to the test runner what a test requests of the kernel: object, method and attributes by
//! name, the encoding, and the kind of answer.
//!
//! It does so on standard output, if [`VARIABLE`] is set in the test's environment
//! (`cargo xtask test --full --seen`). Each line begins with [`MARK`] and is printed once per
//! process:
//! process:
//!
//! ```text
//! seen: # Linux 6.12.48+deb13-amd64
//! seen: ioctl ok UVERBS_OBJECT_PD UVERBS_METHOD_PD_DESTROY UVERBS_ATTR_DESTROY_PD_HANDLE
//! seen: write error IB_USER_VERBS_CMD_CREATE_CQ
//! seen: write ok RDMA_USER_CM_CMD_GET_EVENT RDMA_CM_EVENT_ESTABLISHED
//! ```
//!
//! Commands of the connection manager are followed by what they chose: port space, option, what was
//! queried, how a group was joined; and by the event that was read.

mod choice;

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use uverbs::recorder::{Record, Sink};

/// The variable whose presence requests the report.
pub const VARIABLE: &str = "UVERBS_TEST_SEEN";

/// How the lines begin.
pub const MARK: &str = "seen: ";

/// The sink for the records of this process, if the report was requested.
pub fn sink() -> Option<Arc<dyn Sink>> {
    static SEEN: LazyLock<Option<Arc<Seen>>> =
        LazyLock::new(|| std::env::var_os(VARIABLE).map(|_| Arc::new(Seen::new())));
    SEEN.clone().map(|seen| seen as Arc<dyn Sink>)
}

/// Passes each record to `sink`, and also to the runner if it requested the report.
pub fn and_to(sink: Arc<dyn Sink>) -> Arc<dyn Sink> {
    match self::sink() {
        Some(seen) => Arc::new(Both(seen, sink)),
        None => sink,
    }
}

/// Prints each new line.
#[derive(Debug)]
struct Seen(Mutex<BTreeSet<String>>);

impl Seen {
    fn new() -> Self {
        if let Ok(release) = fs::read_to_string("/proc/sys/kernel/osrelease") {
            report(&format!("# Linux {}", release.trim()));
        }
        Self(Mutex::default())
    }
}

impl Sink for Seen {
    fn record(&self, record: &Record) {
        let Some(mut line) = record.outline() else {
            return;
        };
        if let Some(choice) = choice::of(record) {
            line.push(' ');
            line.push_str(choice);
        }
        let mut reported = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !reported.contains(&line) {
            report(&line);
            reported.insert(line);
        }
    }
}

/// Bypasses the test harness, which would capture the line.
fn report(line: &str) {
    let line = format!("{MARK}{line}\n");
    // Nothing can be done if nobody reads.
    let _ = std::io::stdout().lock().write_all(line.as_bytes());
}

#[derive(Debug)]
struct Both(Arc<dyn Sink>, Arc<dyn Sink>);

impl Sink for Both {
    fn record(&self, record: &Record) {
        self.0.record(record);
        self.1.record(record);
    }
}
