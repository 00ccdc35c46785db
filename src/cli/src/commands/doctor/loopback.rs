//! The whole path once: a queue pair that is connected to itself sends itself a message.

use std::time::{Duration, Instant};

use uverbs::time::AckTimeout;
use uverbs::{Context, QpType, owned};

use super::finding::Finding;
use crate::failure::{Failure, Result};
use crate::idle::Idle;

const CHECK: &str = "loopback";
const MESSAGE: &[u8] = b"is anybody there?";
const PATIENCE: Duration = Duration::from_secs(3);

pub(super) fn look(context: &Context, port: u8) -> Finding {
    match send_to_self(context, port) {
        Ok(elapsed) => Finding::ok(
            CHECK,
            format_args!(
                "a message through port {port} and back took {} µs",
                elapsed.as_micros()
            ),
        ),
        Err(Failure::Said { message, .. }) => Finding::fail(
            CHECK,
            format_args!("a message to this device itself through port {port} failed: {message}"),
        )
        .fix("is the GID's address still on the interface (ip address), and UDP port 4791 open?"),
        Err(_) => Finding::fail(CHECK, "failed"),
    }
}

fn send_to_self(context: &Context, port: u8) -> Result<Duration> {
    let pd = context.alloc_pd()?;
    let mut cq = context.create_cq(4)?;
    let prepared = pd
        .queue_pair(QpType::Rc, &cq, &cq)
        .port(port)
        .timeout(AckTimeout::code(14)?)
        .build()?;
    let endpoint = prepared.endpoint();
    let mut qp = owned::QueuePair::new(prepared.handshake(endpoint)?);
    let [mut message, room] = pd.buffers(64)?;
    if let Some(head) = message.get_mut(..MESSAGE.len()) {
        head.copy_from_slice(MESSAGE);
    }
    let start = Instant::now();
    qp.recv(room, 0).map_err(|refused| refused.error)?;
    qp.send(message, MESSAGE.len(), 1)
        .map_err(|refused| refused.error)?;
    let mut idle = Idle::new();
    let mut left = 2;
    while left > 0 {
        let Some(completion) = cq.poll()? else {
            let nap = Duration::from_millis(10);
            if start.elapsed() > PATIENCE {
                return Err(Failure::new("it did not arrive"));
            }
            idle.wait(&mut cq, None, nap)?;
            continue;
        };
        if !completion.is_success() {
            return Err(Failure::new(completion.status.ibv_str()));
        }
        let received = completion.is_receive();
        let finished = qp.complete(completion);
        let arrived = finished.as_ref().ok().and_then(owned::Finished::bytes);
        if received && arrived != Some(MESSAGE) {
            return Err(Failure::new("it arrived changed"));
        }
        left -= 1;
    }
    Ok(start.elapsed())
}
