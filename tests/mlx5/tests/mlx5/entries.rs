//! Corrupted completion entries, and full queues.

use mlx5_tests::{Model, model_may_report};
use uverbs::event::{AsyncEventType, EventSource};
use uverbs::{Operation, Payload, PollError, PostError, QpType, SendRequest, WcStatus};
use verbs_tests::{
    DEADLINE, Pair, Registered, kernel_may_say, next, nothing, queue_event, raw, requests_fail,
    until,
};

/// A pair of which one end writes to the other's memory; each write generates one completion.
struct Writer {
    model: Model,
    pair: Pair,
    there: Registered,
}

impl Writer {
    fn new() -> Self {
        let pair = Pair::new(QpType::Rc);
        Self {
            model: Model::open(),
            there: Registered::remote_all(&pair.b.pd, 64),
            pair,
        }
    }

    fn write(&mut self, wr_id: u64) -> Result<(), uverbs::error::PostFailed> {
        let bytes: [&[u8]; 1] = [b"eight.."];
        let request = SendRequest::new(
            Operation::Write(self.there.remote(0)),
            Payload::Inline(&bytes),
        );
        raw::send(&mut self.pair.a.qp, &[request.wr_id(wr_id).signaled()])
    }

    /// Posts one write whose completion is corrupted.
    fn spoil(&mut self, kind: &str) {
        self.model.make(&format!("spoil 0 1 {kind}"));
        self.write(1).unwrap();
        until("a spoilt completion", || {
            self.model
                .ask("faults 0")
                .contains("spoil: []")
                .then_some(())
        });
    }

    /// The first result of polling.
    fn poll(&mut self) -> Result<Option<uverbs::WorkCompletion>, PollError> {
        self.pair.a.cq.poll().map(|done| done.map(|done| *done))
    }

    /// Checks that the queue pair and its completion queue work.
    fn goes_on(&mut self) {
        for wr_id in 2..100 {
            self.write(wr_id).unwrap();
            let done = next(&mut self.pair.a.cq);
            assert!(done.is_success() && done.wr_id == wr_id, "{done:?}");
        }
    }
}

#[test]
fn f24_an_opcode_that_does_not_exist_is_an_error_and_the_next_entry_none() {
    let mut writer = Writer::new();
    writer.spoil("opcode");
    assert_eq!(writer.poll(), Err(PollError::Corrupt));
    assert_eq!(writer.poll(), Ok(None));
    writer.goes_on();
}

#[test]
fn f24_an_entry_of_no_queue_is_skipped() {
    let mut writer = Writer::new();
    writer.spoil("user-index");
    nothing(&mut writer.pair.a.cq);
    writer.goes_on();
}

#[test]
fn f24_fields_that_are_not_read_do_no_harm() {
    for kind in ["qpn", "signature", "length"] {
        let mut writer = Writer::new();
        writer.spoil(kind);
        let done = next(&mut writer.pair.a.cq);
        assert!(done.is_success() && done.wr_id == 1, "{kind}: {done:?}");
        assert_eq!(done.qp_num, writer.pair.a.qp.qp_num(), "{kind}");
        writer.goes_on();
    }
}

/// The device is trusted about which request completed; another slot of the queue has an old
/// request, or none yet.
#[test]
fn f24_a_wrong_counter_is_one_completion_and_harms_no_other() {
    let mut writer = Writer::new();
    writer.goes_on();
    writer.spoil("counter");
    match writer.poll() {
        Err(error) => assert_eq!(error, PollError::Corrupt),
        Ok(done) => assert_ne!(done.unwrap().wr_id, 1),
    }
    assert_eq!(writer.poll(), Ok(None));
    writer.goes_on();
}

#[test]
fn f24_an_unknown_syndrome_keeps_its_number() {
    let mut writer = Writer::new();
    writer.spoil("syndrome");
    let done = next(&mut writer.pair.a.cq);
    assert!(!done.is_success() && done.wr_id == 1, "{done:?}");
    println!("{}: {done:?}", done.status);
    writer.goes_on();
}

#[test]
fn f24_an_entry_that_the_device_keeps_is_not_seen() {
    let mut writer = Writer::new();
    writer.spoil("owner");
    nothing(&mut writer.pair.a.cq);
    writer.write(2).unwrap();
    nothing(&mut writer.pair.a.cq);
}

#[test]
fn received_bytes_are_reported_as_the_device_counts_them() {
    let mut pair = Pair::new(QpType::Rc);
    let to = Registered::local(&pair.b.pd, 64);
    raw::recv(&mut pair.b.qp, 5, &[to.sge(0, 64)]).unwrap();
    // The receive completes before the send does.
    Model::open().make("spoil 0 1 length");
    let bytes: [&[u8]; 1] = [b"eight.."];
    raw::send(
        &mut pair.a.qp,
        &[SendRequest::send_inline(&bytes).signaled()],
    )
    .unwrap();
    let got = next(&mut pair.b.cq);
    assert_eq!((got.wr_id, got.byte_len), (5, u32::MAX));
    assert!(next(&mut pair.a.cq).is_success());
}

#[test]
fn f22_a_full_send_queue_says_so_and_takes_more_once_it_is_polled() {
    let mut writer = Writer::new();
    let mut posted = 0;
    let full = loop {
        match writer.write(posted) {
            Ok(()) => posted += 1,
            Err(failed) => break failed,
        }
        assert!(posted < 10_000, "a queue without end");
    };
    assert_eq!((full.error, full.posted), (PostError::QueueFull, 0));
    assert!(posted >= 64, "{posted}");
    for wr_id in 0..posted {
        let done = next(&mut writer.pair.a.cq);
        assert!(done.is_success() && done.wr_id == wr_id, "{done:?}");
    }
    writer.goes_on();
}

#[test]
fn f23_an_overrun_is_reported_as_an_event_and_ends_in_errors() {
    requests_fail();
    kernel_may_say("CQ error on CQN");
    kernel_may_say("mlx5");
    model_may_report("completion queue overrun");
    let context = verbs_tests::open();
    let pd = context.alloc_pd().unwrap();
    let mut cq = context.completion_queue(4).user_data(0x77).build().unwrap();
    let mut other_cq = context.create_cq(64).unwrap();
    let room = u64::from(cq.entries());
    let builder = pd.queue_pair(QpType::Rc, &cq, &cq);
    let a = builder.max_send_wr(1024).build().unwrap();
    let b = pd
        .queue_pair(QpType::Rc, &other_cq, &other_cq)
        .access(uverbs::AccessFlags::REMOTE_WRITE | uverbs::AccessFlags::LOCAL_WRITE)
        .build()
        .unwrap();
    let (to_a, to_b) = (a.endpoint(), b.endpoint());
    let (mut a, _b) = (a.handshake(to_b).unwrap(), b.handshake(to_a).unwrap());
    let there = Registered::remote_all(&pd, 64);
    for wr_id in 0..room + 8 {
        let request = SendRequest::write(&[], there.remote(0)).wr_id(wr_id);
        raw::send(&mut a, &[request.signaled()]).unwrap();
    }
    let event = queue_event(&context, Some(DEADLINE)).expect("an event");
    assert_eq!(event.event, AsyncEventType::CqError, "{event:?}");
    assert_eq!(
        event.source,
        EventSource::CompletionQueue { user_data: 0x77 }
    );
    // The completions from before the overrun are still there, followed by an error or nothing.
    let mut seen = 0;
    while let Ok(Some(done)) = cq.poll().map(|done| done.map(|done| *done)) {
        assert_eq!((done.wr_id, done.status), (seen, WcStatus::Success));
        seen += 1;
    }
    assert!((room..room + 8).contains(&seen), "{seen} of {room}");
    println!("{seen} of {} completions, then {:?}", room + 8, cq.poll());
    assert!(other_cq.poll().unwrap().is_none());
    a.destroy().unwrap();
    cq.destroy().unwrap();
    assert_eq!(context.leaked(), 0);
}
