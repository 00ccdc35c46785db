//! What is copied where, and when nothing is.

use super::*;
use crate::tracker::{Receives, RecvTracker};

/// A queue pair with two receive requests of up to two pieces.
fn receiver() -> QueuePairTracker {
    let pair = QueuePairTracker::new(0, Receives::Own(RecvTracker::new(2)))
        .scattering(ScatterTracker::new(2, 2));
    pair.restart(0, 0);
    pair
}

/// Posts the `position`-th request into memory.
fn post(pair: &QueuePairTracker, position: u32, pieces: &mut [&mut [u8]]) {
    let pieces: Vec<Sge> = pieces
        .iter_mut()
        .map(|piece| Sge {
            address: piece.as_mut_ptr().expose_provenance() as u64,
            length: piece.len().try_into().unwrap(),
            ..Sge::default()
        })
        .collect();
    let Receives::Own(queue) = &pair.recv else {
        panic!("a queue of its own");
    };
    queue.posted(position & 1, 100 + u64::from(position));
    let scatter = pair.scatter().unwrap();
    scatter.note(position, &pieces);
    scatter.posted(position + 1);
}

#[test]
fn a_message_fills_the_pieces_of_its_request_one_after_another() {
    let pair = receiver();
    for position in 0..5_u32 {
        let (mut first, mut second) = ([0xee; 3], [0xee; 6]);
        post(&pair, position, &mut [&mut first, &mut second]);
        let length = [0, 2, 3, 4, 9][position as usize];
        let message = &[1, 2, 3, 4, 5, 6, 7, 8, 9][..length];
        let found = pair.received_inside(position.into(), message);
        assert_eq!(found, Request::Of(100 + u64::from(position)));
        let all: Vec<u8> = first.into_iter().chain(second).collect();
        assert_eq!(all[..length], *message);
        assert!(all[length..].iter().all(|byte| *byte == 0xee));
    }
    assert_eq!(pair.received_tail(), 5);
}

#[test]
fn what_is_not_under_way_or_too_long_is_copied_nowhere() {
    let pair = receiver();
    let mut memory = [0xee; 4];
    assert_eq!(
        pair.received_inside(0, &[1]),
        Request::Unknown,
        "not posted"
    );
    let pair = receiver();
    post(&pair, 0, &mut [&mut memory]);
    assert_eq!(pair.received_inside(0, &[1; 5]), Request::Unknown);
    assert_eq!(pair.received_inside(1, &[1]), Request::Unknown, "completed");
    assert_eq!(memory, [0xee; 4]);
    // A request of fewer pieces at the place of one with more.
    let pair = receiver();
    let mut other = [0xee; 4];
    post(&pair, 0, &mut [&mut memory, &mut other]);
    assert_eq!(pair.received_inside(0, &[]), Request::Of(100));
    post(&pair, 1, &mut []);
    assert_eq!(pair.received_inside(1, &[]), Request::Of(101));
    post(&pair, 2, &mut [&mut memory]);
    assert_eq!(pair.received_inside(2, &[1; 5]), Request::Unknown);
    assert_eq!((memory, other), ([0xee; 4], [0xee; 4]));
    let plain = QueuePairTracker::new(0, Receives::Own(RecvTracker::new(2)));
    assert_eq!(plain.received_inside(0, &[]), Request::Unknown);
}

#[test]
fn after_a_reset_or_the_end_nothing_is_copied() {
    let mut memory = [0xee; 4];
    let pair = receiver();
    post(&pair, 0, &mut [&mut memory]);
    pair.restart(1, 1);
    assert_eq!(pair.received_inside(0, &[1]), Request::Former);
    assert_eq!(
        pair.received_inside(1, &[1]),
        Request::Unknown,
        "not posted"
    );
    post(&pair, 0, &mut [&mut memory]);
    pair.scatter().unwrap().end();
    assert_eq!(pair.received_inside(2, &[1]), Request::Former);
    assert_eq!(memory, [0xee; 4]);
}
