//! The ways of polling, which must agree.

use uverbs_core::contract::{self, CompletionSlot, Success};

use super::*;

/// A place for a completion, decoded where it is found, or (`LATE`) when it is read.
#[derive(Clone, Copy)]
struct Place<const LATE: bool>(WorkCompletion);

impl<const LATE: bool> CompletionSlot for Place<LATE> {
    fn found(&mut self, done: &impl contract::Found) {
        let success = if LATE {
            Success {
                wr_id: done.wr_id(),
                ..read(&done.raw())
            }
        } else {
            done.success()
        };
        self.0 = success.into();
    }

    fn any(&mut self, done: &WorkCompletion) {
        self.0 = *done;
    }
}

/// Polls as many as there are places for.
fn filled<F: Fill<T>, T: Copy>(
    consumer: &mut Consumer,
    place: T,
    places: usize,
    whole: impl Fn(T) -> WorkCompletion,
) -> Result<Vec<WorkCompletion>, PollError> {
    let mut out = vec![place; places];
    let count = consumer.fill::<F, T>(&mut out)?;
    Ok(out.into_iter().take(count).map(whole).collect())
}

/// The ways of polling below.
pub(super) const WAYS: usize = 8;

/// Polls in one of the ways: one by one by a fast path, by the slow path, or as many as possible at
/// once, in different forms.
pub(super) fn polled(device: &mut Device, way: usize) -> Vec<Result<WorkCompletion, PollError>> {
    let mut results = Vec::new();
    loop {
        let consumer = &mut device.consumer;
        let result = match way {
            0 => consumer.next(),
            1 => match consumer.take_usual() {
                Usual::Taken(done) => Ok(Some(done)),
                Usual::Other => consumer.next(),
                Usual::None => Ok(None),
            },
            2 => {
                let mut place = Place::<true>(GARBAGE);
                match consumer.take_short(&mut At::<Formed, _>::new(&mut place)) {
                    Short::Taken => Ok(Some(place.0)),
                    Short::Other => consumer.next(),
                    Short::None => Ok(None),
                }
            }
            // The former contents of the slots must not show.
            way => {
                let places = way - 2;
                let many = match way % 3 {
                    0 => filled::<Own, _>(consumer, GARBAGE, places, |done| done),
                    1 => filled::<Formed, _>(consumer, Place::<false>(GARBAGE), places, |at| at.0),
                    _ => filled::<Formed, _>(consumer, Place::<true>(GARBAGE), places, |at| at.0),
                };
                match many {
                    Ok(many) if many.is_empty() => Ok(None),
                    Ok(many) => {
                        results.extend(many.into_iter().map(Ok));
                        continue;
                    }
                    Err(error) => Err(error),
                }
            }
        };
        match result {
            Ok(None) => return results,
            Ok(Some(done)) => results.push(Ok(done)),
            Err(error) => results.push(Err(error)),
        }
    }
}
