//! Bandwidth: the client keeps its queues full, the server takes what arrives.

use std::time::{Duration, Instant};

use uverbs::{CompletionQueue, WorkCompletion};

use super::post::Lane;
use super::rig::Rig;
use super::spec::{Amount, Spec};
use super::wire::{Message, Wire, out_of_turn};
use crate::failure::{Failure, Result};
use crate::idle::Idle;

/// The longest time without progress.
const SILENCE: Duration = Duration::from_secs(20);

/// How long a message of an unreliable transport may be in flight.
const STRAGGLERS: Duration = Duration::from_millis(200);

/// How often the clock is checked to record progress.
const TICK: Duration = Duration::from_millis(100);

/// What the client measured.
pub(super) struct Flow {
    pub(super) messages: u64,
    pub(super) elapsed: Duration,
    /// Messages completed so far, sampled ten times a second.
    pub(super) course: Vec<(Duration, u64)>,
}

/// Sends, writes or reads messages of `size` bytes.
pub(super) fn request(
    rig: &mut Rig,
    spec: &Spec,
    size: u32,
    mut progress: impl FnMut(u64, Duration),
) -> Result<Flow> {
    let (mut left, limit) = match spec.amount {
        Amount::Iterations(count) => (count, None),
        Amount::Seconds(seconds) => (u64::MAX, Some(Duration::from_secs_f64(seconds))),
    };
    let mut completions = [WorkCompletion::default(); 64];
    let mut idle = waiting(spec);
    let mut course = Vec::new();
    let mut done = 0;
    let mut next_tick = TICK;
    let start = Instant::now();
    loop {
        let mut under_way = 0;
        for lane in &mut rig.lanes {
            left = fill(lane, &rig.memory, &rig.template, spec, size, left)?;
            under_way += lane.under_way();
        }
        if under_way == 0 {
            break;
        }
        let found = poll(
            &mut rig.send_cq,
            rig.channel.as_ref(),
            &mut idle,
            &mut completions,
        )?;
        for completion in found {
            check(completion)?;
            let (number, count) = Lane::of_completion(completion.wr_id);
            rig.lane(number)?.complete(count);
            done += count;
        }
        let elapsed = start.elapsed();
        if limit.is_some_and(|limit| elapsed >= limit) {
            left = 0;
        }
        if elapsed >= next_tick {
            next_tick = elapsed + TICK;
            course.push((elapsed, done));
            progress(done, elapsed);
        }
    }
    let elapsed = start.elapsed();
    course.push((elapsed, done));
    Ok(Flow {
        messages: done,
        elapsed,
        course,
    })
}

/// Posts whole groups while there is room for them. Returns how many messages remain to be posted.
#[inline]
fn fill(
    lane: &mut Lane,
    memory: &super::memory::Memory,
    template: &super::post::Template,
    spec: &Spec,
    size: u32,
    mut left: u64,
) -> Result<u64> {
    let whole = spec.group_of(size);
    loop {
        let group = u64::from(whole).min(left);
        if group == 0 || lane.under_way() + group > u64::from(spec.tx_depth) {
            return Ok(left);
        }
        let count = u32::try_from(group).unwrap_or(whole);
        lane.send(memory, template, size, count, true)?;
        left -= group;
    }
}

/// With events it sleeps at once. By default it polls first, and leaves the processor to the
/// network stack when that does not help: on few processors rxe's own tasks would wait for it.
fn waiting(spec: &Spec) -> Idle {
    if spec.events {
        Idle::new()
    } else {
        Idle::adaptive()
    }
}

/// Takes completions; waits a little if there are none.
fn poll<'w>(
    cq: &mut CompletionQueue,
    channel: Option<&uverbs::CompletionChannel>,
    idle: &mut Idle,
    completions: &'w mut [WorkCompletion],
) -> Result<&'w [WorkCompletion]> {
    let found = cq.poll_into(completions)?;
    if found > 0 {
        idle.busy();
    } else if let Some(silent) = idle.wait(cq, channel, TICK)?
        && silent > SILENCE
    {
        return Err(silence());
    }
    Ok(completions.get(..found).unwrap_or_default())
}

/// Takes messages until the client says how many there were. Returns how many arrived.
pub(super) fn absorb(rig: &mut Rig, spec: &Spec, wire: &mut Wire) -> Result<u64> {
    let mut completions = [WorkCompletion::default(); 64];
    let mut idle = waiting(spec);
    let mut received = 0;
    let mut announced = None;
    let refill = (spec.rx_depth / 4).max(1);
    loop {
        let found = rig.recv_cq.poll_into(&mut completions)?;
        for completion in completions.get(..found).unwrap_or_default() {
            check(completion)?;
            let lane = rig.lane(completion.wr_id)?;
            lane.receives = lane.receives.saturating_sub(1);
            received += 1;
        }
        if found > 0 {
            idle.busy();
            for lane in &mut rig.lanes {
                let missing = spec.rx_depth.saturating_sub(lane.receives);
                if missing >= refill {
                    lane.receive(&rig.memory, &rig.template, spec.largest(), missing)?;
                }
            }
            continue;
        }
        if announced.is_some_and(|announced| received >= announced) {
            return Ok(received);
        }
        let nap = Duration::from_millis(10);
        let Some(silent) = idle.wait(&mut rig.recv_cq, rig.channel.as_ref(), nap)? else {
            continue;
        };
        match announced {
            None if silent > nap && wire.has_news()? => announced = Some(over(wire)?),
            Some(_) if !spec.transport.is_reliable() && silent > STRAGGLERS => return Ok(received),
            Some(_) if silent > SILENCE => return Err(silence()),
            _ => {}
        }
    }
}

/// How many messages the client sent.
pub(super) fn over(wire: &mut Wire) -> Result<u64> {
    match wire.hear()? {
        Message::Over { messages } => Ok(messages),
        _ => Err(out_of_turn()),
    }
}

#[inline]
pub(super) fn check(completion: &WorkCompletion) -> Result<()> {
    if completion.is_success() {
        return Ok(());
    }
    Err(Failure::new(format_args!(
        "a request failed: {} (vendor error {:#x}, queue pair {})",
        completion.status.ibv_str(),
        completion.vendor_err,
        completion.qp_num
    )))
}

pub(super) fn silence() -> Failure {
    Failure::new(format_args!(
        "nothing was completed for {} s",
        SILENCE.as_secs()
    ))
    .hint("do packets reach the peer? try: uverbs pingpong")
}
