//! The normal form: lives of objects, without what differs from run to run.

mod names;

use std::collections::BTreeMap;
use std::fmt;

use crate::decode::{self, AsyncQueries, Command};
use crate::raw::Call;
use names::Names;

/// One call in its normal form.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Step {
    /// The command.
    pub name: String,
    /// Fields by name; those that the kernel wrote are prefixed with an arrow.
    pub fields: Vec<(String, String)>,
    /// The errno, or 0.
    pub errno: i32,
}

/// What happened to one object.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Life {
    /// The kind: `PD`, `CQ`; `CONTEXT` for the device itself.
    pub kind: String,
    /// Its calls.
    pub steps: Vec<Step>,
}

/// A whole recording: the lives by name, `PD1`.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Recording {
    /// In the order of names.
    pub lives: BTreeMap<String, Life>,
}

impl Recording {
    /// Parses a recorder's lines.
    ///
    /// # Errors
    /// A line that is not a call.
    pub fn read(lines: &str, driver: u32) -> anyhow::Result<Self> {
        let calls: Result<Vec<Call>, _> = lines.lines().map(serde_json::from_str).collect();
        Ok(Self::of(&calls?, driver))
    }

    /// Converts calls to their normal form.
    #[must_use]
    pub fn of(calls: &[Call], driver: u32) -> Self {
        let mut names = Names::default();
        let mut queries = AsyncQueries::default();
        let mut recording = Self::default();
        let calls = calls.iter().filter(|call| !call.is_of_connection_manager());
        for call in calls {
            let command = decode::command(call, driver, &mut queries);
            if is_probe(&command) || found_nothing(&command) {
                continue;
            }
            let life = names.life(&command);
            let step = Step {
                fields: names.fields(&command, &life),
                name: command.name,
                errno: command.errno,
            };
            let kind = life
                .trim_end_matches(|c: char| c.is_ascii_digit())
                .to_owned();
            let life = recording.lives.entry(life).or_default();
            // Queries of the device have the same answer every time.
            if kind != "CONTEXT" || !life.steps.contains(&step) {
                life.push(step);
            }
            life.kind = kind;
        }
        recording
    }
}

/// A query whether the kernel supports an encoding, which is made to fail.
pub(crate) fn is_probe(command: &Command) -> bool {
    const ENOSPC: i32 = 28;
    command.errno == ENOSPC && command.object == "CONTEXT"
}

/// A read of events that came too early: their number depends on timing.
fn found_nothing(command: &Command) -> bool {
    const EAGAIN: i32 = 11;
    command.errno == EAGAIN && command.name.starts_with("read")
}

impl Life {
    /// Consecutive mappings are sorted by the names of their rings, because the order in which they
    /// were made is irrelevant.
    fn push(&mut self, step: Step) {
        let ring = |step: &Step| {
            let offset = step.fields.iter().find(|(name, _)| name == "offset");
            offset.map(|(_, ring)| ring.clone())
        };
        let mut at = self.steps.len();
        if step.name == "mmap" {
            while at > 0
                && self.steps[at - 1].name == "mmap"
                && ring(&self.steps[at - 1]) > ring(&step)
            {
                at -= 1;
            }
        }
        self.steps.insert(at, step);
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        for (name, value) in &self.fields {
            write!(f, " {name}={value}")?;
        }
        if self.errno != 0 {
            write!(f, " errno={}", self.errno)?;
        }
        Ok(())
    }
}

impl fmt::Display for Recording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, life) in &self.lives {
            writeln!(f, "{name}")?;
            for step in &life.steps {
                writeln!(f, "  {step}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use uverbs_uapi::ib_user_ioctl_cmds::{
        UVERBS_ATTR_CREATE_CQ_HANDLE, UVERBS_METHOD_CQ_CREATE, UVERBS_OBJECT_CQ,
    };
    use uverbs_uapi::ib_user_ioctl_verbs::RDMA_DRIVER_RXE;

    use super::*;
    use crate::raw::{Attr, Hex, What};

    fn call(errno: i32, what: What) -> Call {
        Call {
            pid: 1,
            fd: 3,
            file: "/dev/infiniband/uverbs0".to_owned(),
            errno,
            what,
        }
    }

    #[test]
    fn a_new_handle_may_be_0() {
        let handle = Attr {
            id: UVERBS_ATTR_CREATE_CQ_HANDLE,
            flags: 1,
            flags_after: 1,
            len: 0,
            element: 0,
            data: 0,
            data_after: 0,
            before: Hex::default(),
            after: Hex::default(),
        };
        let create = What::Ioctl {
            object: UVERBS_OBJECT_CQ,
            method: UVERBS_METHOD_CQ_CREATE,
            driver: RDMA_DRIVER_RXE,
            attrs: vec![handle],
        };
        let made = Recording::of(&[call(0, create.clone())], RDMA_DRIVER_RXE).to_string();
        assert_eq!(made, "CQ1\n  CQ_CREATE →CREATE_CQ_HANDLE=CQ1\n");
        let refused = Recording::of(&[call(12, create)], RDMA_DRIVER_RXE).to_string();
        assert_eq!(refused, "CQ\n  CQ_CREATE errno=12\n");
    }

    #[test]
    fn reads_that_found_nothing_are_left_out() {
        let read = What::Read {
            bytes: Hex::default(),
        };
        let waited = Recording::of(&[call(11, read.clone())], RDMA_DRIVER_RXE);
        assert!(waited.lives.is_empty(), "{waited}");
        let gone = Recording::of(&[call(5, read)], RDMA_DRIVER_RXE);
        assert_eq!(gone.to_string(), "ASYNC_EVENT\n  read errno=5\n");
    }

    #[test]
    fn rings_are_mapped_in_any_order() {
        let step = |name: &str, ring: &str| Step {
            name: name.to_owned(),
            fields: vec![("offset".to_owned(), ring.to_owned())],
            errno: 0,
        };
        let mut life = Life::default();
        for (name, ring) in [
            ("mmap", "sq_ring"),
            ("mmap", "rq_ring"),
            ("RESIZE", ""),
            ("mmap", "a"),
        ] {
            life.push(step(name, ring));
        }
        let order: Vec<String> = life.steps.iter().map(ToString::to_string).collect();
        let expected = [
            "mmap offset=rq_ring",
            "mmap offset=sq_ring",
            "RESIZE offset=",
            "mmap offset=a",
        ];
        assert_eq!(order, expected);
    }
}
