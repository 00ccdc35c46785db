//! One thread sleeps in poll(2) until something happens: completions of a queue, or asynchronous
//! events of the device. No descriptor needs a thread of its own.
//!
//! `events [DEVICE]`

use std::error::Error;
use std::os::fd::AsFd;
use std::process::ExitCode;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use uverbs::attr::SrqModify;
use uverbs::event::{AsyncEvent, AsyncEventType};
use uverbs::owned::{QueuePair, SharedReceiveQueue};
use uverbs::transport::Rc;
use uverbs::{CompletionChannel, CompletionQueue, Context, ErrorKind, Notify};

/// How many messages are sent, and how many receive requests are posted for them.
const MESSAGES: usize = 8;
/// The size of a message in bytes.
const SIZE: usize = 16;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let device = std::env::args().nth(1).unwrap_or_else(|| "rxe0".to_owned());
    let context = Context::open(&device)?;
    let pd = context.alloc_pd()?;
    let channel = context.create_completion_channel()?;
    let mut cq = context.completion_queue(64).channel(&channel).build()?;
    let sent = context.create_cq(64)?;

    // A shared receive queue, because it has events of its own.
    let mut srq = SharedReceiveQueue::new(pd.create_srq(MESSAGES.try_into()?, 1)?);
    for buffer in pd.buffer_list(MESSAGES, SIZE)? {
        srq.recv(buffer, 0)?;
    }
    srq.modify(&SrqModify::new().limit(2))?;
    let sender = pd
        .queue_pair(Rc, &sent, &sent)
        .max_inline_data(SIZE.try_into()?)
        .build()?;
    let receiver = pd.queue_pair(Rc, &cq, &cq).srq(srq.queue()).build()?;
    let (to_sender, to_receiver) = (sender.endpoint(), receiver.endpoint());
    let _receiver = receiver.handshake(to_sender)?;
    let mut sender = QueuePair::new(sender.handshake(to_receiver)?);

    // Ask before the first wait; whatever arrives from now on ends the wait.
    cq.request_notification(Notify::Any)?;
    for number in 0..MESSAGES {
        sender.send_inline(&[u8::try_from(number)?; SIZE], 0)?;
    }

    let mut messages = 0;
    let mut limit_reached = false;
    let mut wakeups = 0;
    while messages < MESSAGES || !limit_reached {
        let [completions, events] = sleep(&context, &channel)?;
        wakeups += 1;
        if completions {
            messages += take_completions(&channel, &mut cq, &mut srq)?;
        }
        if events {
            while let Some(event) = next_event(&context)? {
                println!("event: {} of {:?}", event.event, event.source);
                limit_reached |= event.event == AsyncEventType::SrqLimitReached;
            }
        }
    }
    println!("{messages} messages and the limit event in {wakeups} wake-ups");
    Ok(())
}

/// Sleeps until there is an event; returns whether for the completion queue, and whether for the
/// device.
fn sleep(context: &Context, channel: &CompletionChannel) -> Result<[bool; 2], Box<dyn Error>> {
    let (completions, events) = (channel.as_fd(), context.event_fd()?);
    let mut fds = [completions, events].map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
    let limit = Timespec {
        tv_sec: 10,
        tv_nsec: 0,
    };
    if poll(&mut fds, Some(&limit))? == 0 {
        return Err("nothing happened within 10 s".into());
    }
    Ok(fds.map(|fd| !fd.revents().is_empty()))
}

/// Takes the event and all completions. Asks for the next event before it polls one last time, so
/// that no completion is missed in between.
fn take_completions(
    channel: &CompletionChannel,
    cq: &mut CompletionQueue,
    srq: &mut SharedReceiveQueue,
) -> Result<usize, Box<dyn Error>> {
    let event = channel.try_event()?;
    if event.queue() != cq.id() {
        return Err("an event of a queue that nobody made".into());
    }
    cq.request_notification(Notify::Any)?;
    let mut count = 0;
    while let Some(completion) = cq.poll()? {
        let finished = srq
            .complete(completion)
            .map_err(|_| "a completion of another queue")?;
        if !finished.status().is_success() {
            return Err(finished.status().to_string().into());
        }
        count += 1;
    }
    Ok(count)
}

fn next_event(context: &Context) -> Result<Option<AsyncEvent>, uverbs::Error> {
    match context.try_async_event() {
        Ok(event) => Ok(Some(event)),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}
