//! Loops over the raw data path on a ConnectX in this process: `raw ROUNDS [time] [usual|shapes]`.
//!
//! Functions whose names begin with `counted_` are counted; with `time` the program prints the
//! least and the median time of each, in nanoseconds for an operation. With `usual` only the loops
//! of [`any`] and [`typed`] are run, with `shapes` only the others.
//!
//! # Safety
//!
//! Requests name the memory of `Setup`, which is registered until the end, and of which no
//! reference is formed meanwhile.

mod any;
mod setup;
mod shapes;
mod threads;
mod typed;

use std::hint::black_box;

use adversary::device::Device as _;
use cost_downstream::{Outcome, Times, run};
use setup::{Setup, drain};
use shapes::Crowds;

/// Every loop over one kind of handle.
macro_rules! round {
    ($module:ident, $times:ident, $setup:ident) => {{
        let setup = &mut *$setup;
        run!($times, $module::counted_write(&mut setup.qp, &setup.memory));
        setup.cards.run();
        run!(
            $times,
            $module::counted_poll(&mut setup.send_cq, &mut setup.sum)
        );
        run!($times, $module::counted_read(&mut setup.qp, &setup.memory));
        setup.cards.run();
        run!(
            $times,
            $module::counted_whole(&mut setup.send_cq, &mut setup.kept)
        );
        run!($times, $module::counted_batch(&mut setup.qp, &setup.memory));
        setup.cards.run();
        run!(
            $times,
            $module::counted_poll_many(&mut setup.send_cq, &mut setup.sum)
        );
        run!($times, $module::counted_poll_empty(&mut setup.send_cq));
        run!($times, $module::counted_poll_into_empty(&mut setup.send_cq));
        run!(
            $times,
            $module::counted_receive(&mut setup.qp, &setup.memory)
        );
        run!($times, $module::counted_send(&mut setup.qp, &setup.memory));
        setup.cards.run();
        setup.drain_sends()?;
        run!(
            $times,
            $module::counted_poll_received(&mut setup.recv_cq, &mut setup.sum)
        );
        run!(
            $times,
            $module::counted_receive_batch(&mut setup.qp, &setup.memory)
        );
        run!(
            $times,
            $module::counted_inline(&mut setup.qp, &setup.inline)
        );
        setup.cards.run();
        setup.drain_sends()?;
        run!(
            $times,
            $module::counted_poll_many_received(&mut setup.recv_cq, &mut setup.sum)
        );
        let data = setup.data.clone();
        let data = black_box(data.as_slice());
        run!(
            $times,
            $module::counted_list_of_data(&mut setup.qp, &setup.memory, data)
        );
        setup.cards.run();
        setup.drain_sends()?;
        run!(
            $times,
            $module::counted_one_of_data(&mut setup.qp, &setup.memory, data)
        );
        setup.cards.run();
        setup.drain_sends()?;
        run!(
            $times,
            $module::counted_atomic(&mut setup.qp, &setup.memory)
        );
        setup.cards.run();
        setup.drain_sends()?;
    }};
}

/// Every loop over queues of other shapes.
fn shapes(times: &mut Times, setup: &mut Setup) -> Outcome {
    let shared = &mut setup.shared;
    run!(
        times,
        shapes::counted_shared_receive(&mut shared.srq, &setup.memory)
    );
    shared.send(&setup.memory, &setup.cards)?;
    run!(
        times,
        shapes::counted_shared_poll(&mut shared.cq, &mut setup.sum)
    );
    run!(
        times,
        shapes::counted_shared_batch(&mut shared.srq, &setup.memory)
    );
    shared.send(&setup.memory, &setup.cards)?;
    drain(&mut shared.cq)?;
    run!(
        times,
        shapes::counted_datagram(&mut setup.datagrams, &setup.memory)
    );
    setup.cards.run();
    drain(&mut setup.datagrams.cq)
}

/// Every loop over queues of many queue pairs.
fn crowds(times: &mut Times, sum: &mut u64, crowds: &mut Crowds) -> Outcome {
    for typed in [false, true] {
        crowds.hundred.write()?;
        crowds.thousands.write()?;
        let (hundred, thousands) = (&mut crowds.hundred.cq, &mut crowds.thousands.cq);
        if typed {
            run!(times, shapes::counted_typed_among_100(hundred, sum));
            run!(times, shapes::counted_typed_among_10000(thousands, sum));
        } else {
            run!(times, shapes::counted_among_100(hundred, sum));
            run!(times, shapes::counted_among_10000(thousands, sum));
        }
    }
    Ok(())
}

fn main() -> Outcome {
    let mut arguments = std::env::args().skip(1);
    let rounds: u32 = arguments.next().ok_or("ROUNDS")?.parse()?;
    let modes: Vec<_> = arguments.collect();
    let has = |mode: &str| modes.iter().any(|given| given == mode);
    let mut setup = Setup::new()?;
    let mut times = Times::default();
    for _ in 0..if has("shapes") { 0 } else { rounds } {
        let setup = &mut setup;
        round!(any, times, setup);
        round!(typed, times, setup);
    }
    if !has("usual") {
        threads::run(rounds, &mut times, &mut setup)?;
        for _ in 0..rounds {
            shapes(&mut times, &mut setup)?;
        }
        // By themselves: thousands of queues displace the others from the processor's caches.
        let mut many = Crowds::new()?;
        for _ in 0..rounds {
            crowds(&mut times, &mut setup.sum, &mut many)?;
        }
    }
    println!("sum {} {}", setup.sum, setup.kept[0].wr_id);
    if has("time") {
        times.print();
    }
    Ok(())
}
