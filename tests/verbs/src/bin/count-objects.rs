//! Prints how many objects of each kind the kernel counts on each RDMA device, one line per device.
//!
//! The test runner compares the output before and after a test. With `--warm-up` it instead uses
//! each device, so that drivers have created what they create at first use and keep.

use std::process::ExitCode;

use uverbs::Result;
use uverbs::discover::netlink::Client;

fn main() -> ExitCode {
    let warm_up = std::env::args().any(|word| word == "--warm-up");
    let done = if warm_up { use_all() } else { count() };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("count-objects: {error}");
            ExitCode::FAILURE
        }
    }
}

fn count() -> Result<()> {
    for device in Client::connect()?.summaries()? {
        let counts: Vec<_> = device
            .counts
            .iter()
            .map(|(kind, count)| format!("{kind} {count}"))
            .collect();
        println!("{}: {}", device.name, counts.join(", "));
    }
    Ok(())
}

fn use_all() -> Result<()> {
    for device in uverbs::devices()? {
        let context = device.open()?;
        let pd = context.alloc_pd()?;
        drop(pd.buffers::<1>(4096)?);
    }
    Ok(())
}
