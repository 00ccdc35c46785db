//! From the start to a queue pair connected to itself, which is then printed; with `traffic` it
//! then sends to itself until it is killed. Its system calls are counted, and it is killed at each
//! of them.
//!
//! `sched_yield` marks the start of `main` and the moment when the queue pair is ready to send.

use std::io::Write as _;

use rustix::thread::sched_yield;
use uverbs::{QpType, owned};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    sched_yield();
    let context = verbs_tests::options().open(&verbs_tests::device_name())?;
    let pd = context.alloc_pd()?;
    let mut cq = context.create_cq(16)?;
    let prepared = pd.queue_pair(QpType::Rc, &cq, &cq).build()?;
    let endpoint = prepared.endpoint();
    let qp = prepared.handshake(endpoint)?;
    sched_yield();
    let buffers = pd.buffers::<2>(4096)?;
    let mut qp = owned::QueuePair::new(qp);
    std::io::stdout().write_all(b"ready to send\n")?;

    if std::env::args().nth(1).as_deref() != Some("traffic") {
        return Ok(());
    }
    let [message, reply] = buffers;
    qp.recv(reply, 0)?;
    qp.send(message, 4096, 1)?;
    let mut round = 0_u64;
    loop {
        let Some(done) = cq.poll()? else { continue };
        let Ok(finished) = qp.complete(done) else {
            return Err("a completion that belongs to no request".into());
        };
        if !finished.status().is_success() {
            return Err(finished.status().to_string().into());
        }
        let user_data = finished.user_data();
        let Some(buffer) = finished.into_buffer() else {
            return Err("a buffer is missing".into());
        };
        if user_data == 0 {
            qp.recv(buffer, 0)?;
        } else {
            qp.send(buffer, 4096, 1)?;
        }
        // Objects are created and destroyed meanwhile, so that a kill interrupts their creation.
        round += 1;
        if round.is_multiple_of(64) {
            let _short_lived = (
                pd.buffers::<1>(64)?,
                context.create_cq(4)?,
                context.alloc_pd()?,
            );
        }
    }
}
