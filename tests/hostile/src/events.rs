//! Streams of events and replies read from a device's descriptors.

use std::cell::RefCell;

use fake_tests::Bench;
use uverbs::{CompletionChannel, Context, ErrorKind, Notify};
use uverbs_fake::{Effect, Source, When};
use uverbs_mlx5::devx::{Devx, DevxObject, EventType, QueryReplies};
use uverbs_mlx5::prm::{Mailbox, opcode};

use crate::reply::Run;
use crate::tape::Tape;

/// Raises completion events for queues that are created, destroyed and replaced, and reads them,
/// some truncated.
///
/// # Panics
/// If an event names a queue that never existed, or a destroyed one has a context.
pub fn completion_event(bytes: &[u8]) {
    let tape = Tape::new(bytes);
    let bench = Bench::newest();
    let Ok(context) = bench.context() else { return };
    let Ok(channel) = context.create_completion_channel() else {
        return;
    };
    let live = RefCell::new(Vec::new());
    let read = || take_one(&channel, &live.borrow());
    let mut made = 0_u64;
    for _ in 0..256 {
        if tape.is_empty() {
            break;
        }
        match tape.byte() % 6 {
            0 if live.borrow().len() < 8 => {
                made += 1;
                live.borrow_mut().extend(queue(&context, &channel, made));
            }
            1 => {
                let mut live = live.borrow_mut();
                if !live.is_empty() {
                    let at = tape.pick(live.len());
                    drop(live.swap_remove(at));
                }
            }
            2 => bench
                .fake
                .raise(Source::Cq(u32::from(tape.byte()) % 12), tape.word()),
            3 => {
                let len = usize::from(tape.byte()) % 17;
                bench.inject(When::Read, Effect::ShortRead(len));
            }
            4 => bench.fake.clear_faults(),
            _ => drop(read()),
        }
    }
    bench.fake.clear_faults();
    for _ in 0..512 {
        if read().is_none() {
            break;
        }
    }
}

fn queue(
    context: &Context,
    channel: &CompletionChannel,
    number: u64,
) -> Option<(u64, uverbs::CompletionQueue)> {
    let mut queue = context
        .completion_queue(4)
        .channel(channel)
        .user_data(number)
        .build()
        .ok()?;
    queue.request_notification(Notify::Any).ok()?;
    Some((number, queue))
}

fn take_one(channel: &CompletionChannel, live: &[(u64, uverbs::CompletionQueue)]) -> Option<()> {
    match channel.try_event() {
        Ok(event) => {
            if let Some(context) = event.user_data() {
                let found = live.iter().find(|(number, _)| *number == context);
                let (_, queue) = found.expect("an event of a queue that is there");
                assert_eq!(queue.id(), event.queue());
            }
            Some(())
        }
        Err(error) => {
            let kind = error.kind();
            let expected = matches!(kind, ErrorKind::WouldBlock | ErrorKind::BadReply);
            assert!(expected, "{error}");
            (kind == ErrorKind::BadReply).then_some(())
        }
    }
}

/// Reads DEVX events and replies of asynchronous queries of any content and length.
///
/// # Panics
/// If one has more bytes than were read.
pub fn devx_event(bytes: &[u8]) {
    let Some(run) = Run::new(bytes) else { return };
    let devx = Devx::new(&run.file);
    let object = object(&run, &devx);
    let [with_data, bare] = [false, true].map(|omits| run.examine(devx.event_channel(omits)));
    let replies = run.examine(devx.query_replies());
    run.commands(|run, which| match which % 5 {
        0 => read_replies(run, replies.as_ref(), object.as_ref()),
        1 => {
            let kinds: Vec<_> = (0..run.tape.pick(4))
                .map(|_| EventType::from_raw(run.tape.half()))
                .collect();
            let channel = if run.tape.flag() { &with_data } else { &bare };
            if let Some(channel) = channel {
                run.examine(channel.subscribe(object.as_ref(), &kinds, run.tape.long()));
            }
        }
        2 => drop(
            bare.as_ref()
                .and_then(|channel| run.examine(channel.next())),
        ),
        _ => {
            let event = with_data
                .as_ref()
                .and_then(|channel| run.examine(channel.next()));
            let Some(entry) = event.and_then(|event| event.entry) else {
                return;
            };
            let _ = (format!("{:?}", entry.kind()), entry.sub_kind());
            let _ = (entry.object_number(), entry.queue_type());
            assert!(entry.data().len() <= entry.as_bytes().len());
        }
    });
    run.liar.settle();
}

fn object(run: &Run, devx: &Devx) -> Option<DevxObject> {
    let command = Mailbox::command(opcode::ALLOC_PD, 0, 16);
    let made = crate::devx::create(devx, &command, 16);
    run.examine(made)
}

fn read_replies(run: &Run, replies: Option<&QueryReplies>, object: Option<&DevxObject>) {
    let Some(replies) = replies else { return };
    let command = Mailbox::command(opcode::QUERY_QP, 0, 16);
    if let Some(object) = object {
        run.examine(object.query_async(replies, &command, run.tape.half(), run.tape.long()));
    }
    if let Some(reply) = run.examine(replies.next()) {
        let _ = reply.into_result();
    }
}
