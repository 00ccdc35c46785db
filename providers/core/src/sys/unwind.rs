//! Calls foreign code and catches its panics.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs `code`, which is not part of this library; `None` if it panicked.
///
/// The panic hook has reported the panic by then. What `code` shares with its caller must be valid
/// wherever it stops.
pub(crate) fn catch_panic<R>(code: impl FnOnce() -> R) -> Option<R> {
    match catch_unwind(AssertUnwindSafe(code)) {
        Ok(result) => Some(result),
        Err(payload) => {
            // The payload of a panic is a foreign value, whose drop may panic as well.
            if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
                give_up(again);
            }
            None
        }
    }
}

#[expect(clippy::mem_forget, reason = "its drop panics, once more each time")]
fn give_up(payload: Box<dyn std::any::Any + Send>) {
    std::mem::forget(payload);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::panic, reason = "tests panic on purpose")]
    use super::*;

    #[test]
    fn catch_panic_returns_none_after_a_panic() {
        assert_eq!(catch_panic(|| 7), Some(7));
        assert_eq!(catch_panic(|| -> u32 { panic!("on purpose") }), None);
    }

    #[test]
    fn catch_panic_survives_a_payload_that_panics_in_drop() {
        struct Payload(u32);
        impl Drop for Payload {
            fn drop(&mut self) {
                std::panic::panic_any(Self(self.0 + 1));
            }
        }
        let stopped = catch_panic(|| std::panic::panic_any(Payload(0)));
        assert_eq!(stopped, None);
    }
}
