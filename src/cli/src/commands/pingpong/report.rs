//! How a run went.

use serde::Serialize;

use super::play::Score;
use super::{Args, Transport};
use crate::failure::Result;
use crate::output::Output;
use crate::units;

#[derive(Debug, Serialize)]
struct Report {
    device: String,
    transport: Transport,
    shared_receive_queue: bool,
    queue_pairs: usize,
    message_bytes: u32,
    iterations: u64,
    bytes: u64,
    seconds: f64,
    mbit_per_second: f64,
    microseconds_per_iteration: f64,
    events: u64,
    validated: u64,
}

/// What was played, on which device.
pub(super) struct Played<'s> {
    pub(super) device: String,
    pub(super) queue_pairs: usize,
    /// Of one message, each way.
    pub(super) message_bytes: u32,
    pub(super) iterations: u64,
    pub(super) score: &'s Score,
}

impl<'s> Played<'s> {
    /// The game that the arguments ask for, to its end.
    pub(super) fn game(args: &Args, device: String, queue_pairs: usize, score: &'s Score) -> Self {
        Self {
            device,
            queue_pairs,
            message_bytes: args.message_size(),
            iterations: args.iters,
            score,
        }
    }

    pub(super) fn report(self, args: &Args, out: &mut Output) -> Result<()> {
        let (score, iterations) = (self.score, self.iterations);
        let seconds = score.elapsed.as_secs_f64();
        let bytes = u64::from(self.message_bytes) * iterations * 2;
        let report = Report {
            device: self.device,
            transport: args.transport,
            shared_receive_queue: args.srq,
            queue_pairs: self.queue_pairs,
            message_bytes: self.message_bytes,
            iterations,
            bytes,
            seconds,
            mbit_per_second: units::ratio(bytes) * 8.0 / 1e6 / seconds,
            microseconds_per_iteration: seconds * 1e6 / units::ratio(iterations),
            events: score.events,
            validated: score.validated,
        };
        if args.json {
            return out.json(&report);
        }
        out.line(format_args!(
            "{bytes} bytes in {seconds:.2} seconds = {:.2} Mbit/sec",
            report.mbit_per_second
        ))?;
        out.line(format_args!(
            "{iterations} iters in {seconds:.2} seconds = {:.2} usec/iter",
            report.microseconds_per_iteration
        ))?;
        if args.validate {
            out.line(format_args!("{} messages validated", score.validated))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn results_are_as_their_schema_says() {
        for transport in [Transport::Rc, Transport::Uc, Transport::Ud] {
            let report = Report {
                device: "rxe0".to_owned(),
                transport,
                shared_receive_queue: false,
                queue_pairs: 1,
                message_bytes: 4096,
                iterations: 1000,
                bytes: 8_192_000,
                seconds: 0.1,
                mbit_per_second: 655.4,
                microseconds_per_iteration: 100.0,
                events: 0,
                validated: 0,
            };
            crate::json::tests::valid("pingpong", &report).unwrap();
        }
    }
}
