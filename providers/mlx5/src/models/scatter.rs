//! A message is copied out of its completion while its queue pair is reset or destroyed.

use std::sync::Arc;

use uverbs_core::types::Sge;

use super::explore;
use super::world::own;
use crate::sync::thread;
use crate::tracker::table::{Marks, Owner, Trackers};
use crate::tracker::{QueuePairTracker, Receives, Request, ScatterTracker};

const MESSAGE: [u8; 8] = *b"message!";

/// How memory of a request is returned without a completion.
#[derive(Clone, Copy, Debug)]
enum Back {
    Reset,
    Destroy,
}

/// Once the memory of a request is returned, it does not change any more, and no message is
/// reported that is not in it.
#[test]
fn returned_memory_is_not_written_any_more() {
    for back in [Back::Reset, Back::Destroy] {
        explore(
            &format!("a message is copied during a {back:?}"),
            None,
            move || {
                let mut memory = Box::new([0_u8; 8]);
                let sge = Sge {
                    address: memory.as_mut_ptr().expose_provenance() as u64,
                    length: 8,
                    ..Sge::default()
                };
                let trackers = Arc::<Trackers>::default();
                let pair = QueuePairTracker::new(0, own()).scattering(ScatterTracker::new(2, 1));
                let pair = Arc::new(pair);
                pair.restart(0, 0);
                let number = trackers.add(Owner::QueuePair(Arc::clone(&pair))).unwrap();
                let Receives::Own(queue) = &pair.recv else {
                    panic!("a queue of its own");
                };
                queue.posted(0, 5);
                let scatter = pair.scatter().unwrap();
                scatter.note(0, &[sge]);
                scatter.posted(1);
                let polls = thread::spawn({
                    let pair = Arc::clone(&pair);
                    move || pair.received_inside(0, &MESSAGE)
                });
                match back {
                    Back::Reset => pair.restart(1, 1),
                    Back::Destroy => trackers.remove(number, Marks::default()),
                }
                let then = *memory;
                let found = polls.join().unwrap();
                assert_eq!(*memory, then, "it changed afterwards");
                match found {
                    Request::Of(wr_id) => assert_eq!((wr_id, then), (5, MESSAGE)),
                    Request::Former => assert_eq!(then, [0; 8]),
                    Request::Unknown => panic!("it was under way"),
                }
            },
        );
    }
}
