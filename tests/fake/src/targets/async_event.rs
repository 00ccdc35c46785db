//! Events of any type, about any object, truncated anywhere.

use uverbs::ErrorKind;
use uverbs_fake::{Effect, Source, When};

use super::Input;
use crate::Bench;

/// Raises the events given by the bytes and reads them all, while objects are created and destroyed
/// in between.
///
/// # Panics
/// If an event is lost, or is read twice.
pub fn async_event(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let bench = Bench::newest();
    let Ok(context) = bench.context() else { return };
    let mut queue = None;
    // Events of a queue vanish with it; those of elements never do.
    let (mut of_elements, mut of_queues, mut taken) = (0_u32, 0_u32, 0_u32);
    let take = || match context.try_async_event() {
        Ok(_) => true,
        Err(error) => {
            let kind = error.kind();
            let expected = matches!(kind, ErrorKind::WouldBlock | ErrorKind::BadReply);
            assert!(expected, "{error}");
            // A truncated event is gone, too.
            kind == ErrorKind::BadReply
        }
    };
    while !input.is_empty() && of_elements + of_queues < 512 {
        match input.byte() % 6 {
            0 => queue = context.create_cq(4).ok(),
            1 => queue = None,
            2 => {
                bench
                    .fake
                    .raise(Source::Element(input.number(8)), input.word());
                of_elements += 1;
            }
            3 => {
                let number = u32::from(input.byte()) % 4;
                bench.fake.raise(Source::Cq(number), input.word());
                of_queues += 1;
            }
            4 => {
                let len = usize::from(input.byte()) % 17;
                bench.inject(When::Read, Effect::ShortRead(len));
            }
            _ => taken += u32::from(take()),
        }
    }
    bench.fake.clear_faults();
    drop(queue);
    while take() {
        taken += 1;
    }
    assert!(
        (of_elements..=of_elements + of_queues).contains(&taken),
        "{taken} of {of_elements} and {of_queues}"
    );
}
