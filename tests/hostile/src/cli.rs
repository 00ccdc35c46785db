//! The parts of the command-line tool that parse untrusted input, built as in the tool.

pub(crate) use crate::exchange::pingpong::{SHARED, call, serve};
pub(crate) use crate::tree_file::read as read_tree;
use crate::wire::Message;

/// Parses a message of `uverbs bench` as the tool does, and examines its contents.
pub(crate) fn bench_message(bytes: &[u8]) {
    match serde_json::from_slice::<Message>(bytes) {
        Ok(Message::Hello { spec, .. }) => {
            if spec.check().is_ok() {
                assert!((1..=4096).contains(&spec.queue_pairs));
                assert!(spec.largest() <= 1 << 31);
            }
        }
        Ok(Message::Welcome { ends, .. } | Message::Join { ends }) => {
            for end in ends {
                let _ = (end.endpoint().is_ok(), end.memory());
            }
        }
        _ => {}
    }
}
