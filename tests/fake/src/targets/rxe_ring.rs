//! Rings whose indexes and contents change while the library works on them.

use uverbs_fake::{RingOf, RingView};

use super::Input;
use crate::{Bench, Loopback};

/// Posts, polls, resizes and overwrites shared words as the bytes say.
pub fn rxe_ring(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let bench = Bench::newest();
    let Ok(context) = bench.context() else { return };
    let Ok(mut looped) = Loopback::new(&context) else {
        return;
    };
    let number = looped.qp.qp_num();
    let mut steps = 0;
    while !input.is_empty() && steps < 512 {
        steps += 1;
        match input.byte() % 8 {
            0 => {
                if let Ok([buffer]) = looped.buffers::<1>(16) {
                    let _ = looped.qp.recv(buffer, 1);
                }
            }
            1 => {
                if let Ok([buffer]) = looped.buffers::<1>(16) {
                    let _ = looped.qp.send(buffer, usize::from(input.byte()) % 17, 2);
                }
            }
            2 | 3 => {
                if let Ok(Some(completion)) = looped.cq.poll() {
                    drop(looped.qp.complete(completion));
                }
            }
            4 => {
                let _ = looped.cq.resize(u32::from(input.byte()));
            }
            5 => bench.fake.freeze(input.byte().is_multiple_of(2)),
            _ => overwrite(&bench, number, &mut input),
        }
    }
}

fn overwrite(bench: &Bench, number: u32, input: &mut Input<'_>) {
    let pick = input.byte();
    let which = match pick % 3 {
        0 => RingOf::Cq(1),
        1 => RingOf::Send(number),
        _ => RingOf::Receive(number),
    };
    let Some(ring) = bench.ring(which) else {
        return;
    };
    match (pick / 3) % 6 {
        0 => ring.store(RingView::PRODUCER, input.word()),
        1 => ring.store(RingView::CONSUMER, input.word()),
        2 => ring.store(0, input.word()),
        3 => ring.store(4, input.word()),
        // The contents of the process's own queues hold addresses that the device trusts.
        _ if matches!(which, RingOf::Cq(_)) => {
            let at = RingView::DATA + input.small() % 4096;
            ring.write(at, input.take(48));
        }
        _ => {}
    }
}
