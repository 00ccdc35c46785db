//! What a device writes into completions of requests that fail: its own error words, for the file.

use std::sync::Arc;

use uverbs::OpenOptions;
use uverbs::rings::{Collector, Entry};

use super::check::{Check, Trouble};
use super::subject::Subject;

/// The fields that distinguish entries; the others depend on the queue and the request.
const WORDS: [&str; 4] = [
    "syndrome",
    "vendor_syndrome",
    "hardware_syndrome",
    "hardware_syndrome_type",
];

/// How many entries of one check are kept.
const MOST: usize = 4;

/// Runs the check through a context of its own; entries of failed requests are added to what it
/// finds.
pub(super) fn with_entries(check: Check) -> Check {
    let look = check.look;
    let watched = move |subject: &Subject| {
        let collector = Arc::new(Collector::new());
        let options = OpenOptions::new().command_path(subject.path);
        let context = subject.reopen(options.watch_rings(Arc::clone(&collector) as _))?;
        let outcome = look(&subject.through(context, subject.path));
        let lines = kept(collector.take()).join("; ");
        match outcome {
            Ok(found) if !lines.is_empty() => Ok(found.detail(lines)),
            Err(Trouble::Failed(why)) if !lines.is_empty() => {
                Err(Trouble::Failed(format!("{why}; entries: {lines}")))
            }
            outcome => outcome,
        }
    };
    Check {
        look: Box::new(watched),
        ..check
    }
}

/// Entries of failed requests, each with different error words.
fn kept(entries: Vec<Entry>) -> Vec<String> {
    let mut seen = Vec::new();
    let mut lines = Vec::new();
    for entry in entries
        .into_iter()
        .filter(|entry| entry.kind.ends_with("_ERR"))
    {
        let words: Vec<_> = WORDS
            .iter()
            .map(|word| entry.fields.iter().find(|(name, _)| name == word).cloned())
            .collect();
        if lines.len() < MOST && !seen.contains(&(entry.kind, words.clone())) {
            lines.push(entry.to_string());
            seen.push((entry.kind, words));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use uverbs::rings::{QueueKind, Value};

    fn entry(kind: &'static str, index: u32, syndrome: u64) -> Entry {
        Entry {
            queue: QueueKind::Completion,
            number: 1,
            index,
            kind,
            fields: vec![
                ("syndrome", Value::Hex(syndrome)),
                ("counter", Value::Number(index.into())),
            ],
            bytes: Vec::new(),
        }
    }

    #[test]
    fn one_of_each_failure_is_kept() {
        let entries = [
            entry("REQ", 0, 0),
            entry("REQ_ERR", 1, 0x13),
            entry("REQ_ERR", 2, 5),
            entry("REQ_ERR", 3, 5),
            entry("RESP_ERR", 4, 5),
        ];
        let lines = kept(entries.to_vec());
        assert_eq!(lines.len(), 3, "{lines:?}");
        assert!(lines[1].contains("counter=2"), "{lines:?}");
        let many = (0..100).map(|syndrome| entry("REQ_ERR", 0, syndrome));
        assert_eq!(kept(many.collect()).len(), MOST);
    }
}
