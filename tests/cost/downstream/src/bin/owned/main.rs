//! Loops over the safe data path on a ConnectX in this process: `owned ROUNDS [time]`.
//!
//! Functions whose names begin with `counted_` are counted, as in the program beside this one, and
//! with `time` their times are printed. It is built like a user's crate, so it also tells what is
//! not inlined across crates.
#![forbid(unsafe_code)]

mod hub;
mod queue;

use adversary::device::Device;
use adversary::mlx5::Cards;
use cost_downstream::{MANY, Outcome, Times, run};
use uverbs::QpType;
use uverbs::owned::QueuePair;

const MESSAGE: usize = 64;
const INLINE: usize = 32;

fn main() -> Outcome {
    let mut arguments = std::env::args().skip(1);
    let rounds: u32 = arguments.next().ok_or("ROUNDS")?.parse()?;
    let mode = arguments.next();
    let cards = Cards::new(1);
    let context = cards.open(0, None)?;
    let pd = context.alloc_pd()?;
    let mut send_cq = context.create_cq(4 * MANY)?;
    let mut recv_cq = context.create_cq(4 * MANY)?;
    let prepared = pd
        .queue_pair(QpType::Rc, &send_cq, &recv_cq)
        .max_send_wr(2 * MANY)
        .max_recv_wr(2 * MANY)
        .max_inline_data(32)
        .build()?;
    let endpoint = prepared.endpoint();
    let mut qp = QueuePair::new(prepared.handshake(endpoint)?);
    let mut free = pd.buffer_list(3 * MANY as usize, MESSAGE)?;
    let mut sum = 0;
    let mut times = Times::default();
    for _ in 0..rounds {
        run!(times, queue::counted_receive(&mut qp, &mut free));
        run!(times, queue::counted_send(&mut qp, &mut free));
        cards.run();
        run!(
            times,
            queue::counted_complete(&mut qp, &mut send_cq, &mut free, &mut sum)
        );
        run!(
            times,
            queue::counted_complete_received(&mut qp, &mut recv_cq, &mut free, &mut sum)
        );
        queue::receive(&mut qp, &mut free)?;
        run!(times, queue::counted_inline(&mut qp, &[7; INLINE]));
        cards.run();
        run!(
            times,
            queue::counted_complete_inline(&mut qp, &mut send_cq, &mut sum)
        );
        queue::complete_received(&mut qp, &mut recv_cq, &mut free, &mut sum)?;
    }
    sum += hub::run(&cards, &pd, rounds, &mut times)?;
    println!("sum {sum}");
    if mode.as_deref() == Some("time") {
        times.print();
    }
    Ok(())
}
