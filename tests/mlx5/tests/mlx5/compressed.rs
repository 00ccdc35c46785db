//! Compressed completions, and 128-byte entries.

use mlx5_tests::Model;
use uverbs::attr::QpAttr;
use uverbs::mlx5::{Entries, EntrySize, Results};
use uverbs::time::AckTimeout;
use uverbs::{
    AccessFlags, CompletionQueue, Context, PollError, QpState, QpType, QueuePair, SendRequest,
    WorkCompletion,
};
use verbs_tests::{Registered, nothing, open, raw, until};

const ALL: [Entries; 6] = {
    const fn of(compressed: Option<Results>, size: EntrySize) -> Entries {
        Entries { compressed, size }
    }
    [
        of(Some(Results::Hash), EntrySize::Short),
        of(Some(Results::Checksum), EntrySize::Short),
        of(Some(Results::Hash), EntrySize::Long),
        of(Some(Results::Checksum), EntrySize::Padded),
        of(None, EntrySize::Long),
        of(None, EntrySize::Padded),
    ]
};
const BYTES: u32 = 8;
/// Number of requests submitted at once.
const BATCH: u64 = 21;

/// A queue pair connected to another, with completion entries as `entries` says.
struct Ends {
    sender: QueuePair,
    receiver: QueuePair,
    sent: CompletionQueue,
    received: CompletionQueue,
    memory: Registered,
    /// Number of requests posted.
    posted: u64,
}

impl Ends {
    fn new(context: &Context, entries: Entries) -> Self {
        let pd = context.alloc_pd().unwrap();
        let [sent, received] = [(), ()].map(|()| {
            let builder = context.completion_queue(31).entries_of_mlx5(entries);
            builder.build().unwrap()
        });
        let [a, b] = [(), ()].map(|()| {
            let builder = pd
                .queue_pair(QpType::Rc, &sent, &received)
                .timeout(AckTimeout::code(14).unwrap())
                .max_send_wr(32)
                .max_recv_wr(32)
                .access(AccessFlags::REMOTE_WRITE | AccessFlags::REMOTE_READ);
            builder.build().unwrap()
        });
        let (to_a, to_b) = (a.endpoint(), b.endpoint());
        Self {
            sender: a.handshake(to_b).unwrap(),
            receiver: b.handshake(to_a).unwrap(),
            sent,
            received,
            memory: Registered::remote_all(&pd, 4096),
            posted: 0,
        }
    }

    /// Posts sends of several lengths, reads and writes, `count` in total, and submits them with
    /// one doorbell. Returns which of them were sends.
    fn post(&mut self, count: u64) -> Vec<u64> {
        let numbers: Vec<u64> = (self.posted..self.posted + count).collect();
        self.posted += count;
        let mut sends = Vec::new();
        for &number in &numbers {
            if number % 7 != 3 {
                let sges = [self.memory.sge(2048, 64)];
                raw::recv(&mut self.receiver, number, &sges).unwrap();
                sends.push(number);
            }
        }
        let mut batch = self.sender.send_batch();
        for &number in &numbers {
            let sges = [self.memory.sge(0, length(number))];
            let request = match number % 14 {
                3 => SendRequest::read(&sges, self.memory.remote(1024)),
                10 => SendRequest::write(&sges, self.memory.remote(1024)),
                _ => SendRequest::send(&sges),
            };
            raw::push(&mut batch, &request.wr_id(number).signaled()).unwrap();
        }
        batch.submit().unwrap();
        sends
    }

    /// Polls the completions of those, and finds nothing after them.
    fn take(&mut self, first: u64, sends: &[u64], at_once: bool) {
        for number in first..self.posted {
            let done = one(&mut self.sent, at_once);
            assert!(done.is_success(), "{done:?}");
            assert_eq!((done.wr_id, done.qp_num), (number, self.sender.qp_num()));
            if number % 14 == 3 {
                assert_eq!(done.byte_len, length(number));
            }
        }
        for &number in sends {
            let done = one(&mut self.received, at_once);
            assert!(done.is_success(), "{done:?}");
            assert_eq!((done.wr_id, done.byte_len), (number, length(number)));
            assert_eq!(done.qp_num, self.receiver.qp_num());
        }
        for cq in [&mut self.sent, &mut self.received] {
            assert!(cq.poll().unwrap().is_none());
        }
    }
}

fn length(number: u64) -> u32 {
    BYTES + u32::try_from(number % 5).unwrap()
}

/// The next completion, by one of two ways of polling.
fn one(cq: &mut CompletionQueue, at_once: bool) -> WorkCompletion {
    until("a completion", || {
        if at_once {
            let mut out = [WorkCompletion::default()];
            (cq.poll_into(&mut out).unwrap() == 1).then(|| out[0])
        } else {
            cq.poll().unwrap().map(|done| *done)
        }
    })
}

#[test]
fn compressed_completions_match_the_posts_through_many_wraps_of_the_ring() {
    let context = open();
    for entries in ALL {
        let mut ends = Ends::new(&context, entries);
        for round in 0..12 {
            let first = ends.posted;
            let sends = ends.post(BATCH - round % 4);
            ends.take(first, &sends, round % 2 == 1);
        }
    }
}

#[test]
fn compressed_completions_survive_a_resize() {
    let context = open();
    for entries in ALL {
        let mut ends = Ends::new(&context, entries);
        for (round, size) in [63, 31, 127, 40].into_iter().enumerate() {
            let first = ends.posted;
            let sends = ends.post(BATCH);
            if round % 2 == 1 {
                // Some are polled before.
                assert_eq!(one(&mut ends.sent, false).wr_id, first);
            }
            ends.sent.resize(size).unwrap();
            ends.received.resize(size).unwrap();
            ends.take(first + (round % 2) as u64, &sends, true);
        }
    }
}

#[test]
fn compressed_completions_of_a_former_incarnation_are_skipped() {
    let context = open();
    for entries in ALL {
        let mut ends = Ends::new(&context, entries);
        let sends = ends.post(BATCH);
        for _ in &sends {
            one(&mut ends.received, true);
        }
        ends.sender.modify(&QpAttr::to(QpState::Reset)).unwrap();
        nothing(&mut ends.sent);
    }
}

/// The device says that its entry represents more completions than possible. Where the next entry
/// is, is unknown then.
#[test]
fn f24_an_impossible_count_is_a_lasting_error() {
    let (context, mut model) = (open(), Model::open());
    let mut ends = Ends::new(&context, ALL[0]);
    model.make("spoil 0 1 length");
    ends.post(BATCH);
    let cqs = [&mut ends.sent, &mut ends.received];
    // One of the two is corrupted, the other is not.
    let [sent, received] = cqs.map(|cq| {
        until("an entry", || match cq.poll() {
            Ok(None) => None,
            Ok(Some(_)) => Some(false),
            Err(error) => {
                assert_eq!(error, PollError::Corrupt);
                assert_eq!(cq.poll().err(), Some(error), "it stays");
                Some(true)
            }
        })
    });
    assert_ne!(sent, received);
}
