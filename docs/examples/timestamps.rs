//! Has the device's clock timestamp completions, and shows how long messages took: from posting
//! until the device had carried them out, and until this process saw the completion.
//!
//! `timestamps [DEVICE]`

use std::error::Error;
use std::process::ExitCode;

use uverbs::completion::Timestamps;
use uverbs::mlx5::Clock;
use uverbs::transport::Rc;
use uverbs::{Context, owned};

const MESSAGES: usize = 5;

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
    let device = std::env::args()
        .nth(1)
        .unwrap_or_else(|| "mlx5_0".to_owned());
    let context = Context::open(&device)?;
    let clock: Clock = context.mlx5()?.clock()?;
    println!("{device} counts at {} kHz", clock.frequency_khz());

    let pd = context.alloc_pd()?;
    let stamped = context.completion_queue(16).timestamps(Timestamps::Raw);
    let mut cq = stamped.build()?;
    let prepared = pd.queue_pair(Rc, &cq, &cq).build()?;
    let itself = prepared.endpoint();
    let mut qp = owned::QueuePair::new(prepared.handshake(itself)?);

    let mut stamps = 0;
    for _ in 0..MESSAGES {
        let [message, reply] = pd.buffers::<2>(64)?;
        qp.recv(reply, 0)?;
        let posted = clock.count()?;
        qp.send(message, 64, 1)?;
        let mut left = 2;
        while left > 0 {
            let Some((completion, stamp)) = cq.poll_stamped()? else {
                continue;
            };
            let (done, seen) = (stamp.ok_or("a failure")?, clock.count()?);
            // The conversion from counts to time changes when the clock is set, so it is queried
            // each time.
            let info = clock.info()?;
            let [posted, done, seen] = [posted, done, seen].map(|at| info.to_nanoseconds(at));
            let (took, until_seen) = (done - posted, seen - posted);
            println!(
                "{}: done after {took} ns, seen after {until_seen} ns",
                completion.opcode
            );
            stamps += 1;
            // Nothing else is posted.
            drop(qp.complete(completion));
            left -= 1;
        }
    }
    println!("{stamps} stamps");
    Ok(())
}
