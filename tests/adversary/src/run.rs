//! Runs random programs, one after another.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

use crate::World;
use crate::device::Device;
use crate::fake::Fakes;
use crate::finding::{Finding, Rule};
use crate::mlx5::Cards;
use crate::op::{BYTES, Op, program};
use crate::shaky::Sprung;

/// Creates devices, new ones for each program.
pub type Devices = fn() -> Box<dyn Device>;

/// All device models, by name.
pub const MODELS: [(&str, Devices); 3] = [
    ("fake", || Box::<Fakes>::default()),
    ("connectx", || Box::new(Cards::new(1))),
    ("connectx-v0", || Box::new(Cards::new(0))),
];

/// Runs a program, given as bytes, on new devices: called by fuzzers.
///
/// # Panics
/// If a guarantee was broken.
#[expect(clippy::panic, reason = "that is how a fuzzer is told")]
pub fn fuzz(devices: Devices, bytes: &[u8]) {
    if let Err(found) = play(devices, &program(bytes), None) {
        panic!("{found}");
    }
}

/// Runs a program on new devices.
///
/// # Errors
/// The first guarantee that was broken; a panic of the library counts as one.
pub fn play(devices: Devices, ops: &[Op], only: Option<Rule>) -> Result<(), Finding> {
    hush();
    let device = devices();
    let played = catch_unwind(AssertUnwindSafe(|| World::new(&*device, only).play(ops)));
    played.unwrap_or_else(|payload| {
        let text = payload
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| payload.downcast_ref::<&str>().copied());
        Err(Finding::new(Rule::Panicked, text.unwrap_or("a panic")))
    })
}

/// Silences the panics that programs cause on purpose.
fn hush() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !info.payload().is::<Sprung>() {
                before(info);
            }
        }));
    });
}

/// Random numbers derived from a seed (SplitMix64).
#[derive(Clone, Copy, Debug)]
pub struct Random(u64);

impl Random {
    /// The generator for one program of a run: it starts far from those of other programs, which
    /// would otherwise be the same sequence one step later.
    pub fn of(seed: u64, number: u64) -> Self {
        Self(Self::mixed(Self::mixed(seed) ^ number))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        Self::mixed(self.0)
    }

    fn mixed(state: u64) -> u64 {
        let mut mixed = state;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// A program of at most this many steps. It usually begins by creating objects to work with.
    pub fn program(&mut self, most: usize) -> Vec<Op> {
        use crate::op::What::{Allocate, Expose, Hub, Lend, MakeCq, MakePair};
        let start = self.next();
        let count = most / 2 + usize::try_from(start >> 8).unwrap_or(0) % (most / 2).max(1);
        let mut ops = Vec::new();
        if start & 0xf != 0 {
            let made = [MakeCq, MakePair, Allocate, Expose];
            ops.extend(made.map(|what| Op {
                what,
                a: 0,
                b: 3,
                c: 0,
            }));
        }
        while ops.len() < count {
            let bytes = self.next().to_le_bytes();
            ops.extend(program(&bytes[..2 * BYTES]));
        }
        // One program in four is mostly about hubs, and one in eight half about memory of its own.
        let (mostly, every) = match start >> 4 & 7 {
            0 | 4 => (Hub, 4),
            1 => (Lend, 2),
            _ => return ops,
        };
        let changed = ops.iter_mut().enumerate().skip(4);
        changed
            .filter(|(at, _)| at % every != 0)
            .for_each(|(_, op)| op.what = mostly);
        ops
    }
}

/// The shortest program found that breaks the same guarantee.
pub fn shrink(devices: Devices, ops: &[Op], finding: &Finding, only: Option<Rule>) -> Vec<Op> {
    let mut best = ops.to_vec();
    let fails =
        |ops: &[Op]| play(devices, ops, only).is_err_and(|found| found.rule == finding.rule);
    loop {
        let before = best.clone();
        let mut len = best.len().next_power_of_two();
        while len > 0 {
            let mut at = 0;
            while at < best.len() {
                let mut fewer = best.clone();
                fewer.drain(at..(at + len).min(best.len()));
                if fails(&fewer) {
                    best = fewer;
                } else {
                    at += len;
                }
            }
            len /= 2;
        }
        for at in 0..best.len() {
            for part in 0..3 {
                for value in [0, 1, 2, 3, 8] {
                    let mut simpler = best.clone();
                    let op = &mut simpler[at];
                    let field = [&mut op.a, &mut op.b, &mut op.c];
                    let [a, b, c] = field;
                    let field = [a, b, c].into_iter().nth(part);
                    let Some(field) = field.filter(|field| **field > value) else {
                        break;
                    };
                    *field = value;
                    if fails(&simpler) {
                        best = simpler;
                        break;
                    }
                }
            }
        }
        if best == before {
            return best;
        }
    }
}
