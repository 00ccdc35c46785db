//! One host exposes memory; the other reads it, writes it, and changes a word of it with atomic
//! operations.

use std::net::TcpStream;

use uverbs::owned::Work;
use uverbs::{Operation, Remote};

use super::super::atomics;
use super::super::check::{Outcome, Trouble, ensure};
use super::super::pair::{REMOTE, buffer_of, compare, fill};
use super::super::subject::Subject;
use super::talk::Side;
use super::wire::{self, Place};

/// How many bytes are read and written, after the word.
const LEN: usize = 1 << 16;
const DATA: usize = 64;

/// The seeds of the initial data, and of what the other host writes.
const SEEDS: (u64, u64) = (1, 2);

/// The word's initial value, what is added to it, and what the sum is swapped for.
const WAS: u64 = 0x0102_0304_0506_0708;
const ADD: u64 = 0x1011_1213_1415_1617;
const NEW: u64 = 0xf0e0_d0c0_b0a0_9080;

/// Exposes memory until the other host reports how it went.
pub(super) fn lend(subject: &Subject, side: &Side, stream: &mut TcpStream) -> Outcome<()> {
    let lent = side.pd.expose(DATA + LEN, REMOTE)?;
    let mut bytes = vec![0; LEN];
    fill(&mut bytes, SEEDS.0);
    let inside = lent.write(DATA, &bytes) && lent.store(0, WAS);
    ensure(inside, || "outside of the memory".into())?;
    let place = Place {
        remote: lent.remote().start(),
        atomics: atomics::has(subject),
    };
    wire::put(stream, &place.to_string())?;
    wire::verdict_of(&wire::line(stream)?)?;
    let inside = lent.read(DATA, &mut bytes);
    ensure(inside, || "outside of the memory".into())?;
    compare(&bytes, SEEDS.1)?;
    let word = lent.load(0);
    // The other host may not support atomics.
    ensure(word == Some(NEW) || word == Some(WAS), || {
        format!("the word is {word:x?}")
    })
}

/// Performs all operations on the memory that the other host exposes; returns whether none was left
/// out.
pub(super) fn reach(subject: &Subject, side: &mut Side, stream: &mut TcpStream) -> Outcome<bool> {
    let place = Place::parse(&wire::line(stream)?)?;
    let data = Remote {
        address: place.remote.address.wrapping_add(DATA as u64),
        ..place.remote
    };
    let [room] = side.pd.buffers::<1>(LEN)?;
    let end = side.end()?;
    end.qp.post(Work::read(data).memory(room))?;
    let mut bytes = buffer_of(end.success()?)?;
    compare(&bytes, SEEDS.0).map_err(|trouble| trouble.with("read"))?;
    fill(&mut bytes, SEEDS.1);
    end.qp.post(Work::write(data).memory(bytes))?;
    end.success()?;
    let atomics = place.atomics && atomics::has(subject);
    if atomics {
        change(side, place.remote)?;
    }
    Ok(atomics)
}

/// Adds to the word, and swaps the sum for another value.
fn change(side: &mut Side, remote: Remote) -> Outcome<()> {
    let sum = WAS.wrapping_add(ADD);
    let steps = [
        (Operation::FetchAdd { remote, add: ADD }, WAS),
        (
            Operation::CompareSwap {
                remote,
                compare: sum,
                swap: NEW,
            },
            sum,
        ),
    ];
    for (operation, right) in steps {
        let pd = side.pd.clone();
        let old = atomics::reported(&pd, side.end()?, operation)?;
        if old != right {
            let why = format_args!("returned {old:#x} as the old value, not {right:#x}");
            return Err(Trouble::failed(why));
        }
    }
    Ok(())
}
