//! Keys with signatures, to which completions about wrong ones belong.
//!
//! Such a completion carries the number of a key, and no request's. It is rare, so that a lock is
//! good enough.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock, PoisonError};

use crate::cqe::{Entry, KeyReport};
use crate::sync::{Mutex, MutexGuard};

/// What was reported of a key.
#[derive(Debug)]
pub(crate) struct KeyErrors(Mutex<State>);

#[derive(Clone, Copy, Debug)]
struct State {
    /// The last report that nobody has fetched.
    found: Option<KeyReport>,
    /// Reports, and the next one.
    count: u32,
    /// The device has not been told that count.
    is_news: bool,
}

impl Default for KeyErrors {
    fn default() -> Self {
        Self(Mutex::new(State {
            found: None,
            count: 1,
            is_news: true,
        }))
    }
}

impl KeyErrors {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn report(&self, report: KeyReport) {
        let mut state = self.lock();
        state.found = Some(report);
        state.count = state.count.wrapping_add(1);
        state.is_news = true;
    }

    /// The last report, until it is [forgotten](Self::forget).
    pub(crate) fn found(&self) -> Option<KeyReport> {
        self.lock().found
    }

    /// Forgets a report that was fetched, unless there is another one.
    pub(crate) fn forget(&self, report: &KeyReport) {
        let mut state = self.lock();
        if state.found.as_ref() == Some(report) {
            state.found = None;
        }
    }

    /// The count that the device has to be told.
    pub(crate) fn news(&self) -> Option<u32> {
        let state = self.lock();
        state.is_news.then_some(state.count)
    }

    /// A request tells the device this count.
    pub(crate) fn told(&self, count: u32) {
        let mut state = self.lock();
        if state.count == count {
            state.is_news = false;
        }
    }
}

/// Keys with signatures of a context. Only programs that create some contain the table of them.
#[derive(Debug, Default)]
pub(crate) struct SignedKeys(OnceLock<Box<dyn Keys>>);

trait Keys: fmt::Debug + Send + Sync {
    fn add(&self, number: u32, errors: &Arc<KeyErrors>);
    fn remove(&self, number: u32, errors: &Arc<KeyErrors>);
    fn report(&self, entry: Entry<'_>);
}

impl SignedKeys {
    /// A key was created.
    pub(crate) fn add(&self, number: u32, errors: &Arc<KeyErrors>) {
        let keys = self.0.get_or_init(|| Box::new(Table::default()));
        keys.add(number, errors);
    }

    /// It is gone. Another one may have its number already.
    pub(crate) fn remove(&self, number: u32, errors: &Arc<KeyErrors>) {
        if let Some(keys) = self.0.get() {
            keys.remove(number, errors);
        }
    }

    /// Records what an entry says of its key, if that is still there.
    #[cold]
    #[inline(never)]
    pub(crate) fn report(&self, entry: Entry<'_>) {
        if let Some(keys) = self.0.get() {
            keys.report(entry);
        }
    }
}

/// Keys by their numbers, without the variant.
#[derive(Debug, Default)]
struct Table(Mutex<BTreeMap<u32, Arc<KeyErrors>>>);

impl Table {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u32, Arc<KeyErrors>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Keys for Table {
    fn add(&self, number: u32, errors: &Arc<KeyErrors>) {
        self.lock().insert(number, Arc::clone(errors));
    }

    fn remove(&self, number: u32, errors: &Arc<KeyErrors>) {
        let mut keys = self.lock();
        if keys
            .get(&number)
            .is_some_and(|own| Arc::ptr_eq(own, errors))
        {
            keys.remove(&number);
        }
    }

    fn report(&self, entry: Entry<'_>) {
        let (key, report) = entry.key_report();
        let found = self.lock().get(&(key >> 8)).cloned();
        if let Some(errors) = found {
            errors.report(report);
        }
    }
}
