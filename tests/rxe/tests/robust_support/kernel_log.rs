//! What the kernel logs while a test runs.

use std::fs::File;
use std::io::{ErrorKind, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::OpenOptionsExt as _;

/// Texts of the drivers under test, and of a kernel with a serious problem.
const OURS: [&str; 9] = [
    "rxe",
    "infiniband",
    "ib_uverbs",
    "ib_core",
    "BUG",
    "WARNING",
    "Call Trace",
    "Oops",
    "refcount",
];

/// The end of lines that count those of an earlier burst, often of another test's, whose first
/// lines were logged.
const COUNT: &str = "callbacks suppressed";

/// The log from one point in time on.
#[derive(Debug)]
pub(crate) struct KernelLog(File);

impl KernelLog {
    /// From now on.
    pub(crate) fn from_now() -> Self {
        let opened = File::options()
            .read(true)
            .custom_flags(nix::libc::O_NONBLOCK)
            .open("/dev/kmsg");
        let mut file = opened.expect("/dev/kmsg can be read");
        file.seek(SeekFrom::End(0)).expect("the log has an end");
        Self(file)
    }

    /// Lines about RDMA, or about a serious problem of the kernel, since the last call. Progress
    /// reports (level 7) are not included.
    pub(crate) fn lines(&mut self) -> Vec<String> {
        let mut lines = Vec::new();
        let mut record = [0; 8192];
        loop {
            match self.0.read(&mut record) {
                Ok(0) => return lines,
                Ok(length) => {
                    let text = String::from_utf8_lossy(&record[..length]).into_owned();
                    let level = text
                        .split(',')
                        .next()
                        .and_then(|number| number.parse::<u32>().ok());
                    let is_ours = OURS.iter().any(|word| text.contains(word));
                    if is_ours && !text.contains(COUNT) && level.is_none_or(|level| level & 7 < 7) {
                        lines.push(text.trim_end().to_owned());
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return lines,
                // Lines were overwritten before they were read.
                Err(error) if error.raw_os_error() == Some(nix::libc::EPIPE) => {}
                Err(error) => panic!("reading /dev/kmsg: {error}"),
            }
        }
    }

    /// Checks that nothing was logged since the last call.
    pub(crate) fn silent(&mut self, about: &str) {
        let lines = self.lines();
        assert!(
            lines.is_empty(),
            "the kernel complained about {about}: {lines:#?}"
        );
    }
}

/// Tells the test runner which complaints the test provokes from the kernel on purpose.
pub(crate) fn excuse(words: &str) {
    println!("\nthe kernel may say: {words}");
}

/// What rxe logs, since 6.4, about every request that fails.
pub(crate) const FAILED_REQUEST: &str = "non-flush error status";
