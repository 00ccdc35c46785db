//! What tests were seen to request of kernels: the committed records.
//!
//! One file per kind of device and kernel. One line per command, encoding and kind of answer:
//!
//! ```text
//! # Linux 6.12.48+deb13-amd64
//! ioctl ok UVERBS_OBJECT_PD UVERBS_METHOD_PD_DESTROY UVERBS_ATTR_DESTROY_PD_HANDLE
//! write error IB_USER_VERBS_CMD_CREATE_CQ
//! ```

use anyhow::{Context as _, bail};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Kinds of ports, of which only what they requested of the connection manager is recorded, and
/// shown.
pub(crate) const OF_PORTS: [&str; 2] = ["ib", "roce"];

/// The kinds of devices that tests run on, with the kernels of each, in the order of the page's
/// columns.
const COLUMNS: [(&str, &str, &str); 16] = [
    ("unit", "", "unit"),
    ("fake", "", "fake"),
    ("rxe", "5.10", "rxe 5.10"),
    ("rxe", "6.1", "rxe 6.1"),
    ("rxe", "6.12", "rxe 6.12"),
    ("rxe", "newest", "rxe newest"),
    ("mlx5", "5.10", "mlx5 5.10"),
    ("mlx5", "6.1", "mlx5 6.1"),
    ("mlx5", "6.12", "mlx5 6.12"),
    ("mlx5", "newest", "mlx5 newest"),
    ("ib", "6.1", "InfiniBand 6.1"),
    ("ib", "6.12", "InfiniBand 6.12"),
    ("ib", "newest", "InfiniBand newest"),
    ("roce", "6.1", "RoCE 6.1"),
    ("roce", "6.12", "RoCE 6.12"),
    ("roce", "newest", "RoCE newest"),
];

/// What accompanies a command inside INVOKE_WRITE; the records have only the command.
const INVOKED: [&str; 4] = [
    "UVERBS_OBJECT_DEVICE",
    "UVERBS_METHOD_INVOKE_WRITE",
    "UVERBS_ATTR_CORE_IN",
    "UVERBS_ATTR_WRITE_CMD",
];

/// Commands that certainly request a reply.
const WITH_REPLY: [&[&str]; 2] = [
    &["IB_USER_VERBS_CMD_ALLOC_PD"],
    &["IB_USER_VERBS_CMD_QUERY_QP"],
];

/// A kernel's answer, the best first.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum Answer {
    /// The command was carried out.
    Ok,
    /// The command was refused.
    Error,
    /// The kernel or its driver does not support it.
    Unsupported,
}

/// What was seen on one kind of device with one kernel.
pub(super) struct Seen {
    /// The column's title.
    pub(super) title: &'static str,
    /// Whether it is of one kind of port.
    pub(super) is_of_port: bool,
    /// The kernel's release; `None` if no test has been recorded.
    pub(super) release: Option<String>,
    answers: BTreeMap<String, BTreeSet<(Answer, Way)>>,
}

/// How a command reached the kernel.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum Way {
    Ioctl,
    Invoke,
    Write,
}

impl Seen {
    /// Reads the records of a folder, one for each column.
    pub(super) fn read_all(folder: &Path) -> anyhow::Result<Vec<Self>> {
        let column = |(device, kernel, title): (&str, &str, &'static str)| {
            let path = folder.join(file(device, kernel));
            let text = if path.exists() {
                fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?
            } else {
                String::new()
            };
            let seen = Self::parse(title, &text)
                .with_context(|| format!("understanding {}", path.display()))?;
            Ok(Self {
                is_of_port: OF_PORTS.contains(&device),
                ..seen
            })
        };
        COLUMNS.into_iter().map(column).collect()
    }

    fn parse(title: &'static str, text: &str) -> anyhow::Result<Self> {
        let mut seen = Self {
            title,
            is_of_port: false,
            release: None,
            answers: BTreeMap::new(),
        };
        for line in text.lines() {
            if let Some(release) = line.strip_prefix("# ") {
                seen.release = Some(release.to_owned());
                continue;
            }
            let mut words = line.split(' ');
            let way = match words.next() {
                Some("ioctl") => Way::Ioctl,
                Some("invoke") => Way::Invoke,
                Some("write") => Way::Write,
                _ => bail!("no way to the kernel begins {line:?}"),
            };
            let answer = match words.next() {
                Some("ok") => Answer::Ok,
                Some("error") => Answer::Error,
                Some("unsupported") => Answer::Unsupported,
                _ => bail!("no kind of answer is in {line:?}"),
            };
            let words: Vec<_> = words.collect();
            for &name in &words {
                seen.add(name, answer, way);
            }
            if way == Way::Invoke {
                for name in INVOKED {
                    seen.add(name, answer, Way::Ioctl);
                }
                if WITH_REPLY.contains(&words.as_slice()) {
                    seen.add("UVERBS_ATTR_CORE_OUT", answer, Way::Ioctl);
                }
            }
        }
        Ok(seen)
    }

    fn add(&mut self, name: &str, answer: Answer, way: Way) {
        let answers = self.answers.entry(name.to_owned()).or_default();
        answers.insert((answer, way));
    }

    /// Names that were requested.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.answers.keys().map(String::as_str)
    }

    /// The best answer to anything with this name, and the encodings with which it was received.
    pub(super) fn of(&self, name: &str) -> Option<(Answer, BTreeSet<Way>)> {
        let answers = self.answers.get(name)?;
        let (best, _) = answers.first()?;
        let ways = answers.iter().filter(|(answer, _)| answer == best);
        Some((*best, ways.map(|(_, way)| *way).collect()))
    }
}

/// The name of a record.
pub(super) fn file(device: &str, kernel: &str) -> String {
    if kernel.is_empty() {
        format!("{device}.txt")
    } else {
        format!("{device}-{kernel}.txt")
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn the_best_answer_counts() {
        let text = "# Linux 6.1\nwrite error A\ninvoke ok A\nioctl unsupported B C D\n";
        let seen = Seen::parse("rxe 6.1", text).unwrap();
        assert_eq!(seen.release.as_deref(), Some("Linux 6.1"));
        assert_eq!(seen.of("A").unwrap(), (Answer::Ok, [Way::Invoke].into()));
        assert_eq!(seen.of("D").unwrap().0, Answer::Unsupported);
        assert!(seen.of("E").is_none());
        let invoke = seen.of("UVERBS_METHOD_INVOKE_WRITE").unwrap();
        assert_eq!(invoke, (Answer::Ok, [Way::Ioctl].into()));
        assert!(Seen::parse("", "pigeon ok A").is_err());
    }
}
