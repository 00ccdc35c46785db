//! Where records go.

use std::fmt;
use std::io::Write;
use std::sync::{Mutex, PoisonError};

use super::record::Record;

/// Receives records. It is called after each call, on the thread that made the call, which may hold
/// locks of the recorded context: a sink must not use that context.
///
/// A sink that panics is not called again; see
/// [`Recorder::unrecorded`](super::Recorder::unrecorded).
pub trait Sink: fmt::Debug + Send + Sync {
    /// Receives one record.
    fn record(&self, record: &Record);
}

/// Keeps records in memory.
#[derive(Debug, Default)]
pub struct Collector(Mutex<Vec<Record>>);

impl Collector {
    /// An empty collector.
    pub fn new() -> Self {
        Self::default()
    }

    /// Removes and returns what was collected so far.
    pub fn take(&self) -> Vec<Record> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Sink for Collector {
    fn record(&self, record: &Record) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(record.clone());
    }
}

/// Writes one line per record.
///
/// If the writer fails, lines are lost, but no call fails.
pub struct Lines<W> {
    writer: Mutex<W>,
    keys: bool,
    json: bool,
}

impl<W: Write + Send> Lines<W> {
    /// Readable lines, without keys.
    pub const fn new(writer: W) -> Self {
        Self {
            writer: Mutex::new(writer),
            keys: false,
            json: false,
        }
    }

    /// Writes lkeys and rkeys, too. Default: they are omitted.
    #[must_use]
    pub fn with_keys(self) -> Self {
        Self { keys: true, ..self }
    }

    /// Writes JSON objects. Default: readable lines.
    #[must_use]
    pub fn with_json(self) -> Self {
        Self { json: true, ..self }
    }

    /// The writer, with all output written.
    pub fn into_inner(self) -> W {
        self.writer
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl<W: Write + Send> Lines<W> {
    /// Writes the output of `line(json, keys)`.
    pub(crate) fn write(&self, line: impl FnOnce(bool, bool) -> String) {
        let line = line(self.json, self.keys);
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = writeln!(writer, "{line}");
    }
}

impl<W: Write + Send> Sink for Lines<W> {
    fn record(&self, record: &Record) {
        self.write(|json, keys| match (json, keys) {
            (true, keys) => record.to_json(keys),
            (false, true) => record.with_keys().to_string(),
            (false, false) => record.to_string(),
        });
    }
}

impl<W> fmt::Debug for Lines<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lines")
            .field("keys", &self.keys)
            .field("json", &self.json)
            .finish_non_exhaustive()
    }
}
