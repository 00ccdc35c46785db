//! Calls that must be refused, with an error of a certain kind and nothing else.

use std::fmt::Debug;

use uverbs::{Context, Error, ErrorKind};

use super::kernel_log::KernelLog;
use super::objects::Objects;

/// Checks a list of calls that must be refused.
#[derive(Debug)]
pub(crate) struct Refusals {
    context: Context,
    objects: Objects,
    log: KernelLog,
    count: usize,
    /// All failures; reported together at the end.
    wrong: Vec<String>,
}

impl Refusals {
    /// From now on nothing may be left behind on `context`.
    pub(crate) fn on(context: &Context) -> Self {
        Self {
            context: context.clone(),
            objects: Objects::now(),
            log: KernelLog::from_now(),
            count: 0,
            wrong: Vec::new(),
        }
    }

    /// Checks that a result is an error of one of these kinds, with nothing in the kernel's log.
    pub(crate) fn check<T: Debug>(
        &mut self,
        call: &str,
        result: Result<T, Error>,
        kinds: &[ErrorKind],
    ) {
        match result {
            Ok(value) => self
                .wrong
                .push(format!("{call}: not refused: {:.80}", format!("{value:?}"))),
            Err(error) if kinds.contains(&error.kind()) => {
                println!("{call}: {error}");
            }
            Err(error) => self
                .wrong
                .push(format!("{call}: {:?}: {error}", error.kind())),
        }
        self.look(call);
    }

    /// Checks a condition, with nothing in the kernel's log.
    pub(crate) fn hold(&mut self, call: &str, holds: bool) {
        if !holds {
            self.wrong.push(format!("{call}: does not hold"));
        }
        self.look(call);
    }

    /// A call that may succeed or be refused, with nothing in the kernel's log.
    pub(crate) fn any<T>(&mut self, call: &str, result: Result<T, Error>) {
        match result {
            Ok(value) => drop(value),
            Err(error) => println!("{call}: {error}"),
        }
        self.look(call);
    }

    fn look(&mut self, call: &str) {
        self.count += 1;
        for line in self.log.lines() {
            self.wrong.push(format!("{call}: the kernel says {line:?}"));
        }
        let now = Objects::now();
        if now != self.objects {
            self.wrong
                .push(format!("{call}: {now:?} instead of {:?}", self.objects));
            self.objects = now;
        }
    }

    /// Ignores log lines that were not caused by a refusal.
    pub(crate) fn forgive(&mut self) {
        drop(self.log.lines());
        self.objects = Objects::now();
    }

    /// Checks that nothing failed.
    pub(crate) fn end(self) {
        assert!(
            self.wrong.is_empty(),
            "{} of {} calls: {:#?}",
            self.wrong.len(),
            self.count,
            self.wrong
        );
        assert_eq!(self.context.leaked(), 0, "objects were given up");
        println!("FIGURE: {} calls", self.count);
    }
}
