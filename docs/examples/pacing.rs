//! Limits how fast a queue pair sends. Raw packets can be paced on all kernels, datagrams and
//! unreliable connections on newer adapters and kernels; a reliable connection cannot be paced, and
//! returns an error.
//!
//! `pacing [DEVICE]`

use std::error::Error;
use std::process::ExitCode;

use uverbs::mlx5::caps::PacingCaps;
use uverbs::mlx5::pacing::RateLimit;
use uverbs::{Context, QpType};

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

    // What the device can do is known before anything is tried.
    let caps: PacingCaps = context.mlx5()?.caps().pacing;
    println!(
        "{} to {} kb/s for {}",
        caps.min_rate, caps.max_rate, caps.qp_types
    );

    let limit = RateLimit::kbps(1_000_000)
        .max_burst(16 * 1024)
        .typical_packet(1500);
    for kind in [QpType::RawPacket, QpType::Ud, QpType::Uc, QpType::Rc] {
        match caps.check(&limit, kind) {
            Ok(()) => println!("{kind}: can be paced"),
            Err(error) => println!("{kind}: {error}"),
        }
    }

    // A queue pair can be given a rate once it is ready to send.
    let pd = context.alloc_pd()?;
    let cq = context.create_cq(16)?;
    let a = pd.queue_pair(QpType::Rc, &cq, &cq).build()?;
    let b = pd.queue_pair(QpType::Rc, &cq, &cq).build()?;
    let (to_a, to_b) = (a.endpoint(), b.endpoint());
    let mut a = a.handshake(to_b)?;
    let _b = b.handshake(to_a)?;
    match a.modify_rate_limit(&limit) {
        Ok(()) => println!("paced"),
        Err(error) => println!("refused: {error}"),
    }

    // Queues that are created by DEVX commands name an index in the device's table of rates
    // instead.
    let entry = context.mlx5()?.devx()?.pace(&limit, false)?;
    println!("place {} of the table of rates", entry.index());
    entry.free()?;
    Ok(())
}
