//! `atomics`: atomic operations on 8 bytes: what they change, what they return, and in which byte
//! order.

use uverbs::caps::AtomicCap;
use uverbs::owned::{ExposedMemory, Work};
use uverbs::{Operation, ProtectionDomain, QpType};

use super::check::{Check, Found, Outcome, Trouble, ensure};
use super::pair::{End, Pair, REMOTE, buffer_of, usual};
use super::subject::Subject;

pub(super) fn checks() -> Vec<Check> {
    vec![
        Check::optional(
            "compare and swap",
            "swaps if equal, returns the old value",
            compare_swap,
        ),
        Check::optional(
            "fetch and add",
            "adds modulo 2^64, returns the old value",
            fetch_add,
        ),
        Check::optional("byte order", "the machine's", order),
        Check::optional("at the same time", "no addition is lost", together),
    ]
}

/// Whether the device announces atomics.
pub(super) fn has(subject: &Subject) -> bool {
    subject.context.device_attr().atomic_cap != AtomicCap::None
}

/// A pair of queue pairs, and 8 bytes that both may change.
fn rig(subject: &Subject) -> Outcome<(Pair, ExposedMemory)> {
    if !has(subject) {
        return Err(Trouble::unsupported("the device announces no atomics"));
    }
    let pair = Pair::new(subject, QpType::Rc, usual)?;
    let word = pair.pd.expose(64, REMOTE)?;
    Ok((pair, word))
}

/// Carries out an operation; returns the old value, in this machine's byte order.
fn old(pair: &mut Pair, operation: Operation<'static>) -> Outcome<u64> {
    reported(&pair.pd, &mut pair.a, operation)
}

/// The same from one end.
pub(super) fn reported(
    pd: &ProtectionDomain,
    end: &mut End,
    operation: Operation<'static>,
) -> Outcome<u64> {
    let [room] = pd.buffers::<1>(8)?;
    end.qp.post(Work::new(operation).memory(room))?;
    let buffer = buffer_of(end.success()?)?;
    let bytes = buffer.first_chunk::<8>();
    let bytes = bytes.ok_or_else(|| Trouble::failed("a short answer"))?;
    Ok(u64::from_ne_bytes(*bytes))
}

/// Checks the old value and the current one.
fn is(what: &str, (old, was): (u64, u64), word: &ExposedMemory, now: u64) -> Outcome<()> {
    ensure(old == was, || {
        format!("{what}: returned {old:#x}, was {was:#x}")
    })?;
    let found = word.load(0);
    ensure(found == Some(now), || {
        format!("{what}: now {found:x?}, not {now:#x}")
    })
}

fn store(word: &ExposedMemory, value: u64) -> Outcome<()> {
    ensure(word.store(0, value), || "outside of the memory".into())
}

fn compare_swap(subject: &Subject) -> Outcome {
    const WAS: u64 = 0x0102_0304_0506_0708;
    const NEW: u64 = 0xf0e0_d0c0_b0a0_9080;
    let (mut pair, word) = rig(subject)?;
    let remote = word.remote().start();
    let swap = |compare| Operation::CompareSwap {
        remote,
        compare,
        swap: NEW,
    };
    // A difference in any single bit is a difference.
    for bit in [0, 8, 31, 32, 63] {
        store(&word, WAS)?;
        let found = old(&mut pair, swap(WAS ^ 1 << bit))?;
        is(&format!("bit {bit} differs"), (found, WAS), &word, WAS)?;
    }
    let found = old(&mut pair, swap(WAS))?;
    is("equal", (found, WAS), &word, NEW)?;
    Ok(Found::new("6 cases"))
}

fn fetch_add(subject: &Subject) -> Outcome {
    let (mut pair, word) = rig(subject)?;
    let remote = word.remote().start();
    let cases = [
        (0, 1),
        (u32::MAX.into(), 1),
        (u64::MAX, 1),
        (5, u64::MAX),
        (1 << 63, 1 << 63),
        (0x0102_0304_0506_0708, 0x1010_1010_1010_1010),
    ];
    for (was, add) in cases {
        store(&word, was)?;
        let found = old(&mut pair, Operation::FetchAdd { remote, add })?;
        let what = format!("{was:#x} + {add:#x}");
        is(&what, (found, was), &word, was.wrapping_add(add))?;
    }
    Ok(Found::new(format_args!("{} cases", cases.len())))
}

/// All bytes differ, so that a wrong byte order is detected.
fn order(subject: &Subject) -> Outcome {
    const BYTES: [u8; 8] = [1, 2, 3, 4, 5, 6, 7, 8];
    let (mut pair, word) = rig(subject)?;
    ensure(word.write(0, &BYTES), || "outside of the memory".into())?;
    let remote = word.remote().start();
    let found = old(&mut pair, Operation::FetchAdd { remote, add: 0 })?;
    ensure(found.to_ne_bytes() == BYTES, || {
        format!("returned {:x?}", found.to_ne_bytes())
    })?;
    old(&mut pair, Operation::FetchAdd { remote, add: 1 })?;
    let mut bytes = [0; 8];
    ensure(word.read(0, &mut bytes), || "outside of the memory".into())?;
    let right = u64::from_ne_bytes(BYTES).wrapping_add(1).to_ne_bytes();
    ensure(bytes == right, || format!("{bytes:x?} after adding 1"))?;
    let kind = subject.context.device_attr().atomic_cap;
    Ok(Found::new(format_args!(
        "the machine's, atomic for: {kind}"
    )))
}

/// From four queue pairs, with many outstanding on each: all return different values.
fn together(subject: &Subject) -> Outcome {
    const PAIRS: usize = 4;
    const EACH: usize = 48;
    let (first, word) = rig(subject)?;
    let remote = word.remote().start();
    let pd = first.pd.clone();
    let mut pairs = vec![first];
    while pairs.len() < PAIRS {
        pairs.push(Pair::within(subject, &pd, QpType::Rc, usual)?);
    }
    let mut rooms = pd.buffer_list(PAIRS * EACH, 8)?;
    for _ in 0..EACH {
        for pair in &mut pairs {
            let room = rooms.pop();
            let room = room.ok_or_else(|| Trouble::failed("a buffer is missing"))?;
            let add = Operation::FetchAdd { remote, add: 1 };
            pair.a.qp.post(Work::new(add).memory(room))?;
        }
    }
    let mut reported = Vec::new();
    for pair in &mut pairs {
        for _ in 0..EACH {
            let buffer = buffer_of(pair.a.success()?)?;
            reported.extend(buffer.first_chunk::<8>().copied().map(u64::from_ne_bytes));
        }
    }
    reported.sort_unstable();
    let right = reported.iter().copied().eq(0..(PAIRS * EACH) as u64);
    ensure(right, || {
        "some returned the same value, or one that was never there".into()
    })?;
    let sum = word.load(0);
    ensure(sum == Some((PAIRS * EACH) as u64), || format!("{sum:?}"))?;
    Ok(Found::new(format_args!(
        "{} additions from {PAIRS} queue pairs",
        PAIRS * EACH
    )))
}
