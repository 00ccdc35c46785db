//! Prints every command that reaches the kernel while a queue pair is created, with the names of
//! the kernel's headers. Nothing else changes: a recorder sits between the library and the kernel.
//!
//! `record [DEVICE]`

use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;

use uverbs::recorder::{Collector, Record};
use uverbs::transport::Rc;
use uverbs::{Context, OpenOptions};

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
    // `Lines::new(std::io::stderr())` prints each command as it is carried out; this keeps them.
    let collector = Arc::new(Collector::new());
    let context = OpenOptions::new().record(collector.clone()).open(&device)?;
    use_it(&context)?;
    drop(context);

    let records = collector.take();
    for record in &records {
        println!("{record}");
    }
    // Keys are left out unless they are asked for, here too.
    let failed = records
        .iter()
        .filter(|record| record.errno.is_some())
        .count();
    let longest = records.iter().max_by_key(|record| record.duration);
    println!(
        "{}",
        longest
            .map(|record| record.to_json(false))
            .unwrap_or_default()
    );
    println!(
        "{} calls, {failed} refused, {:?} in the kernel",
        records.len(),
        total(&records)
    );
    Ok(())
}

fn use_it(context: &Context) -> Result<(), Box<dyn Error>> {
    let pd = context.alloc_pd()?;
    let cq = context.create_cq(16)?;
    let [buffer] = pd.buffers::<1>(4096)?;
    let prepared = pd.queue_pair(Rc, &cq, &cq).build()?;
    let itself = prepared.endpoint();
    let qp = prepared.handshake(itself)?;
    println!(
        "queue pair {} is ready, with a buffer of {} bytes",
        qp.qp_num(),
        buffer.len()
    );
    Ok(())
}

fn total(records: &[Record]) -> std::time::Duration {
    records.iter().map(|record| record.duration).sum()
}
