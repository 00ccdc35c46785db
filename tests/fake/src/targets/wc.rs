//! Completions of any content.

use std::collections::BTreeSet;

use uverbs_fake::{RingOf, RingView};

use super::Input;
use crate::{Bench, Loopback};

/// Length of a completion in bytes.
const WC: usize = 48;

/// Posts work whose completions the device holds back, replaces them by the completions given by
/// the bytes, and polls those: no request may end twice, and none that was never posted.
///
/// # Panics
/// If one does.
/// When one does.
pub fn wc(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let bench = Bench::newest();
    let Ok(context) = bench.context() else { return };
    let Ok(mut looped) = Loopback::new(&context) else {
        return;
    };
    let Ok(buffers) = looped.buffers::<4>(16) else {
        return;
    };
    bench.fake.freeze(true);
    let mut posted = BTreeSet::new();
    for (number, buffer) in (0_u64..).zip(buffers) {
        let done = if number % 2 == 0 {
            looped.qp.recv(buffer, number).is_ok()
        } else {
            looped.qp.send(buffer, 16, number).is_ok()
        };
        if done {
            posted.insert(number);
        }
    }
    let Some(ring) = bench.ring(RingOf::Cq(1)) else {
        return;
    };
    // The ids of posted work, so that the bytes can match them.
    let number = looped.qp.qp_num();
    let user_data = [RingOf::Send(number), RingOf::Receive(number)].map(|queue| {
        bench
            .ring(queue)
            .map_or(0, |ring| ring.read::<u64>(ring.element(0)))
    });
    while !input.is_empty() {
        let aim = input.byte();
        let mut wc = [0; WC];
        let rest = input.take(WC - 8);
        wc[8..8 + rest.len()].copy_from_slice(rest);
        let low = aim & 0x7f;
        let user_data = match low % 3 {
            0 => input.number(8),
            side => user_data[usize::from(side) - 1].wrapping_add(u64::from(low / 3)),
        };
        wc[..8].copy_from_slice(&user_data.to_ne_bytes());
        if aim & 0x80 != 0 {
            // The queue pair's own number, where the bytes would have to guess it.
            wc[32..36].copy_from_slice(&number.to_ne_bytes());
        }
        let producer = ring.load(RingView::PRODUCER);
        ring.write(ring.element(producer), &wc);
        ring.store(RingView::PRODUCER, (producer + 1) & ring.load(4));
        while let Ok(Some(completion)) = looped.cq.poll() {
            if let Ok(finished) = looped.qp.complete(completion) {
                assert!(
                    posted.remove(&finished.user_data()),
                    "{finished:?} ended twice"
                );
                assert!(finished.len() <= 16);
            }
        }
    }
    let left = looped.qp.destroy().map_or(0, |memory| memory.len());
    assert_eq!(left, posted.len(), "every buffer comes back once");
}
