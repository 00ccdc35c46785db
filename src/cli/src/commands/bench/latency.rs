//! Latency: one message at a time, and how long it takes to the other side.
//!
//! Sends and writes go back and forth, and half of a round trip counts, as in `ib_send_lat` and
//! `ib_write_lat`; a read is a round trip by itself, and all of it counts, as in `ib_read_lat`.

use std::time::{Duration, Instant};

use uverbs::WorkCompletion;

use super::bandwidth::{check, silence};
use super::post::Lane;
use super::rig::Rig;
use super::spec::{Amount, Spec, Verb};
use super::wire::Wire;
use crate::failure::{Failure, Result};
use crate::idle::Idle;
use crate::stats::Histogram;

/// How long a message may be in flight.
const SILENCE: Duration = Duration::from_secs(5);

/// How long the server waits before it checks whether the client is done.
const PAUSE: Duration = Duration::from_millis(20);

/// What the client measured.
pub(super) struct Rounds {
    pub(super) times: Histogram,
    pub(super) elapsed: Duration,
}

/// Measures messages of `size` bytes on the client's side.
pub(super) fn request(
    rig: &mut Rig,
    spec: &Spec,
    size: u32,
    mut progress: impl FnMut(u64, Duration),
) -> Result<Rounds> {
    let (count, limit) = match spec.amount {
        Amount::Iterations(count) => (count, None),
        Amount::Seconds(seconds) => (u64::MAX, Some(Duration::from_secs_f64(seconds))),
    };
    let mut times = Histogram::new();
    let mut own = Side::new(rig, spec, size);
    let divisor = if spec.verb == Verb::Read { 1 } else { 2 };
    let mut tick = Duration::from_millis(100);
    let start = Instant::now();
    let mut first = Duration::ZERO;
    let mut before = start;
    for round in 0..count {
        own.throw(round)?;
        // The clock is read and everything is recorded while the message is in flight, so that no
        // round waits for that: a round is from here to here.
        let now = Instant::now();
        let elapsed = now.duration_since(start);
        if round == 0 {
            first = elapsed;
        } else {
            times.record(nanoseconds(now.duration_since(before)) / divisor);
        }
        before = now;
        if elapsed >= tick {
            tick = elapsed + Duration::from_millis(100);
            progress(round, elapsed);
        }
        own.catch(round, |silent| {
            if silent > SILENCE {
                return Err(lost(spec));
            }
            Ok(false)
        })?;
        if limit.is_some_and(|limit| elapsed >= limit) {
            break;
        }
    }
    // Nothing is posted at the end of the last round; adding the post of the first one compensates
    // for it.
    times.record(nanoseconds(before.elapsed() + first) / divisor);
    let elapsed = start.elapsed();
    own.drain()?;
    Ok(Rounds { times, elapsed })
}

/// Replies until the client says that the test is over. Returns how many messages there were.
pub(super) fn answer(rig: &mut Rig, spec: &Spec, size: u32, wire: &mut Wire) -> Result<u64> {
    let mut own = Side::new(rig, spec, size);
    for round in 0.. {
        let caught = own.catch(round, |silent| Ok(silent > PAUSE && wire.has_news()?))?;
        if !caught {
            own.drain()?;
            return Ok(round);
        }
        own.throw(round)?;
    }
    Ok(u64::MAX)
}

/// One side of a round.
struct Side<'r> {
    rig: &'r mut Rig,
    spec: &'r Spec,
    size: u32,
    unsignaled: u32,
    idle: Idle,
}

impl<'r> Side<'r> {
    fn new(rig: &'r mut Rig, spec: &'r Spec, size: u32) -> Self {
        if spec.verb == Verb::Write {
            // The last byte of the previous round means nothing in this one.
            for lane in &rig.lanes {
                let last = lane.incoming + size.saturating_sub(1) as usize;
                rig.memory.store(last, 0);
            }
        }
        Self {
            rig,
            spec,
            size,
            unsignaled: 0,
            idle: Idle::spinning(),
        }
    }

    /// Sends, writes or reads once. Now and then the request is signaled, to make room in the
    /// queue.
    #[inline]
    fn throw(&mut self, round: u64) -> Result<()> {
        let Rig {
            lanes,
            memory,
            template,
            ..
        } = &mut *self.rig;
        let Some(lane) = lanes.first_mut() else {
            return Ok(());
        };
        self.unsignaled += 1;
        let count = self.unsignaled;
        let signal = count >= self.spec.group || self.spec.verb == Verb::Read;
        match self.spec.verb {
            Verb::Send if signal => lane.send_for(memory, template, self.size, count)?,
            Verb::Send => lane.send(memory, template, self.size, 1, false)?,
            Verb::Write => {
                let signal = signal.then_some(count);
                lane.stamp(memory, template, self.size, stamp(round), signal)?;
            }
            Verb::Read => lane.send(memory, template, self.size, 1, true)?,
        }
        if signal {
            self.unsignaled = 0;
        }
        // The message is in flight; posting the receives for its reply could wait until now.
        let missing = self.spec.rx_depth.saturating_sub(lane.receives);
        if self.spec.verb == Verb::Send && missing > self.spec.rx_depth / 2 {
            lane.receive(memory, template, self.spec.largest(), missing)?;
        }
        // Room for the next one.
        if self.spec.verb != Verb::Read && lane.under_way() >= u64::from(self.spec.tx_depth) {
            self.reap()?;
        }
        Ok(())
    }

    /// Waits for the other side's message. Calls `give_up` when nothing has arrived for a while;
    /// returns false if it returns true.
    #[inline]
    fn catch(
        &mut self,
        round: u64,
        mut give_up: impl FnMut(Duration) -> Result<bool>,
    ) -> Result<bool> {
        loop {
            if self.is_there(round)? {
                self.idle.busy();
                return Ok(true);
            }
            let Rig {
                send_cq,
                recv_cq,
                channel,
                ..
            } = &mut *self.rig;
            let (cq, channel) = match self.spec.verb {
                Verb::Send => (recv_cq, channel.as_ref()),
                Verb::Read => (send_cq, channel.as_ref()),
                // Nothing announces a write.
                Verb::Write => (recv_cq, None),
            };
            if let Some(silent) = self.idle.wait(cq, channel, PAUSE)?
                && give_up(silent)?
            {
                return Ok(false);
            }
        }
    }

    #[inline]
    fn is_there(&mut self, round: u64) -> Result<bool> {
        let mut completion = [WorkCompletion::default()];
        match self.spec.verb {
            Verb::Write => {
                let last = self.size.saturating_sub(1) as usize;
                let incoming = self.rig.lanes.first().map_or(0, |lane| lane.incoming);
                Ok(self.rig.memory.load(incoming + last) == stamp(round))
            }
            Verb::Read => Ok(self.take_sent()?),
            Verb::Send => {
                if self.rig.recv_cq.poll_into(&mut completion)? == 0 {
                    return Ok(false);
                }
                let [completion] = completion;
                check(&completion)?;
                if let Some(lane) = self.rig.lanes.first_mut() {
                    lane.receives = lane.receives.saturating_sub(1);
                }
                Ok(true)
            }
        }
    }

    /// Takes one completion of a request of this side, if there is one.
    #[inline]
    fn take_sent(&mut self) -> Result<bool> {
        let mut completion = [WorkCompletion::default()];
        if self.rig.send_cq.poll_into(&mut completion)? == 0 {
            return Ok(false);
        }
        let [completion] = completion;
        check(&completion)?;
        let (number, count) = Lane::of_completion(completion.wr_id);
        self.rig.lane(number)?.complete(count);
        Ok(true)
    }

    /// Waits for a completion of this side's requests.
    fn reap(&mut self) -> Result<()> {
        let start = Instant::now();
        while !self.take_sent()? {
            if start.elapsed() > SILENCE {
                return Err(silence());
            }
            std::thread::yield_now();
        }
        Ok(())
    }

    /// Takes the remaining completions of this side. Unsignaled requests are counted with the next
    /// signaled one.
    fn drain(&mut self) -> Result<()> {
        while self.under_way() > u64::from(self.unsignaled) {
            self.reap()?;
        }
        if let Some(lane) = self.rig.lanes.first_mut() {
            lane.complete(self.unsignaled.into());
        }
        Ok(())
    }

    fn under_way(&self) -> u64 {
        self.rig.lanes.first().map_or(0, Lane::under_way)
    }
}

/// Rounds time out after seconds; 64 bits are enough for 584 years.
fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// The last byte of a written message: never 0, and never the same as in the previous round.
const fn stamp(round: u64) -> u8 {
    let [low, ..] = (round % 255 + 1).to_le_bytes();
    low
}

fn lost(spec: &Spec) -> Failure {
    let failure = Failure::new(format_args!("no answer for {} s", SILENCE.as_secs()));
    if spec.transport.is_reliable() {
        failure.hint("did the server end? its output says why")
    } else {
        failure.hint("a packet was lost; this transport does not send it again")
    }
}

#[cfg(test)]
mod tests {
    use super::stamp;

    #[test]
    fn neighbouring_rounds_differ_and_none_is_zero() {
        for round in 0..1000 {
            assert_ne!(stamp(round), 0);
            assert_ne!(stamp(round), stamp(round + 1));
        }
    }
}
