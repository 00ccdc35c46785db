//! Bytes in both directions of a [stream](uverbs::stream).

use std::io::{self, Read as _, Write as _, stdin, stdout};
use std::sync::Arc;
use std::thread;

use uverbs::Context;
use uverbs::cm::EventChannel;
use uverbs::stream::{Stream, Streams};

use crate::failure::{Failure, Result};

/// Bytes that are read and written at a time, and of a message.
const SIZE: u32 = 64 * 1024;

/// What a stream on the device needs: one, and a queue pair whose number the peer still knows.
pub(super) fn streams(context: &Context, channel: &EventChannel) -> Result<Streams> {
    let pd = context.alloc_pd()?;
    let streams = pd.streams().connections(2).message_size(SIZE);
    Ok(streams.channel(channel).build()?)
}

/// Pipes until both directions have ended.
pub(super) fn run(stream: Stream) -> Result<()> {
    let stream = Arc::new(stream);
    let ours = Arc::clone(&stream);
    // If the peer goes away first, the thread is left reading standard input.
    let sender = thread::spawn(move || send(&ours));
    receive(&stream)?;
    sender
        .join()
        .unwrap_or_else(|_| Err(Failure::new("the thread that sends has panicked")))
}

/// Standard input to the peer, and its end.
fn send(stream: &Stream) -> Result<()> {
    let mut part = vec![0; SIZE as usize];
    loop {
        let len = match stdin().lock().read(&mut part) {
            Ok(len) => len,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(Failure::new(format_args!("standard input: {error}"))),
        };
        let part = part.get(..len).unwrap_or_default();
        if part.is_empty() {
            return Ok(stream.shutdown()?);
        }
        let mut stream = stream;
        stream.write_all(part).map_err(Failure::new)?;
    }
}

/// What the peer sends to standard output.
fn receive(stream: &Stream) -> Result<()> {
    while let Some(part) = stream.recv()? {
        let mut output = stdout().lock();
        let written = output.write_all(&part).and_then(|()| output.flush());
        written.map_err(|error| match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::Closed,
            _ => Failure::new(format_args!("standard output: {error}")),
        })?;
    }
    Ok(())
}
