//! From the start to a connection by address, and then to a second one. Its system calls are
//! counted.
//!
//! `reach-connection ADDRESS:PORT`, where somebody accepts both. `sched_yield` marks the start of
//! `main`, and the moment when each is established.

use rustix::thread::sched_yield;
use uverbs::cm::{self, EventChannel};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    sched_yield();
    let address = std::env::args().nth(1).ok_or("where to?")?.parse()?;
    let channel = EventChannel::open()?;
    let connector = cm::connect(address).channel(&channel);
    let resolved = connector.clone().resolve()?;
    let pd = resolved.open()?.alloc_pd()?;
    let cq = pd.context().create_cq(16)?;
    let prepared = resolved.queue_pair(&pd, &cq, &cq).build()?;
    let _first = resolved.connect(prepared)?;
    sched_yield();
    let resolved = connector.resolve()?;
    let prepared = resolved.queue_pair(&pd, &cq, &cq).build()?;
    let _second = resolved.connect(prepared)?;
    sched_yield();
    Ok(())
}
