//! Everything that a program holds, and what is known about it.
#![forbid(unsafe_code)]

mod batch;
mod change;
mod end;
mod ending;
mod hubs;
mod lent;
mod made;
mod make;
mod poll;
mod post;
mod special;
mod trap;

use std::any::Any;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::panic::resume_unwind;
use std::sync::Arc;

use uverbs::owned::{ExposedMemory, Memory, SharedMemory};

use self::hubs::Hubs;
use self::lent::Own;
use self::made::{Cq, Hand, Pair, Request, Site, Srq};
use self::trap::Trap;
use crate::device::{Device, Fault, SITES};
use crate::face::Held;
use crate::finding::{Finding, Rule};
use crate::op::{Op, What};

/// The largest number of objects of each kind that a program holds.
const ENOUGH: usize = 6;
/// The largest number of buffers that a program holds.
const FULL: usize = 24;

/// The result of steps.
type Outcome<T = ()> = Result<T, Finding>;

/// A running program.
#[expect(
    clippy::struct_excessive_bools,
    reason = "what is known of a program, each by itself"
)]
pub struct World<'d> {
    device: &'d dyn Device,
    sites: [Option<Site>; SITES],
    cqs: Vec<Cq>,
    srqs: Vec<Srq>,
    pairs: Vec<Pair>,
    exposed: Vec<(usize, ExposedMemory)>,
    hands: Vec<Hand>,
    /// Memory that was registered, and is the program's again.
    own: Vec<Own>,
    shared: Option<SharedMemory>,
    hubs: Hubs,
    /// Objects that are not dropped until everything is checked.
    graveyard: Vec<Box<dyn Any + Send>>,
    /// Posted requests, by number.
    requests: HashMap<u64, Request>,
    /// Messages that were sent: their numbers and lengths.
    messages: HashMap<u64, usize>,
    /// Ids of completions that the program has seen.
    seen: Vec<u64>,
    /// Numbers that queue pairs of each site have had.
    used: HashSet<(usize, u32)>,
    next: u64,
    pattern: u8,
    frozen: bool,
    trap: Arc<Trap>,
    traps: bool,
    /// Calls failed or panicked: what was posted is not known for sure.
    doubt: bool,
    /// Completions were polled and offered to no queue.
    discarded: bool,
    /// The guarantee that is checked; `None` for all of them.
    only: Option<Rule>,
}

impl fmt::Debug for World<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("World")
            .field("requests", &self.requests)
            .finish_non_exhaustive()
    }
}

impl<'d> World<'d> {
    /// A program that holds nothing yet.
    pub fn new(device: &'d dyn Device, only: Option<Rule>) -> Self {
        Self {
            device,
            sites: Default::default(),
            cqs: Vec::new(),
            srqs: Vec::new(),
            pairs: Vec::new(),
            exposed: Vec::new(),
            hands: Vec::new(),
            own: Vec::new(),
            shared: None,
            hubs: Hubs::default(),
            graveyard: Vec::new(),
            requests: HashMap::new(),
            messages: HashMap::new(),
            seen: Vec::new(),
            used: HashSet::new(),
            next: 1,
            pattern: 0,
            frozen: false,
            trap: Arc::default(),
            traps: false,
            doubt: false,
            discarded: false,
            only,
        }
    }

    /// Carries out the steps, and ends with nothing left.
    ///
    /// # Errors
    /// The first guarantee that was broken.
    pub fn play(mut self, program: &[Op]) -> Outcome {
        self.traps = program.iter().any(|op| op.what == What::Panic);
        self.run(program, &[])?;
        self.end()
    }

    /// Reports a broken guarantee. This has no effect if only others are checked.
    fn found(&self, rule: Rule, detail: impl FnOnce() -> String) -> Outcome {
        match self.only {
            Some(only) if only != rule => Ok(()),
            _ => Err(Finding::new(rule, detail())),
        }
    }

    fn run(&mut self, ops: &[Op], held: &[&dyn Held]) -> Outcome {
        let mut at = 0;
        while let Some(op) = ops.get(at) {
            at += 1;
            let rest = &ops[at..];
            if op.what == What::Hold {
                at += self.hold(*op, rest, held)?;
            } else if op.what == What::Thread && !rest.is_empty() {
                at += 1;
                self.elsewhere(rest[0], held)?;
            } else {
                self.step(*op, held)?;
            }
        }
        Ok(())
    }

    /// Carries out the step in another thread.
    fn elsewhere(&mut self, op: Op, held: &[&dyn Held]) -> Outcome {
        let joined = std::thread::scope(|scope| scope.spawn(|| self.step(op, held)).join());
        joined.unwrap_or_else(|payload| resume_unwind(payload))
    }

    /// Carries out a step, after which nothing that the program owns may have changed, whatever the
    /// device writes.
    fn step(&mut self, op: Op, held: &[&dyn Held]) -> Outcome {
        self.act(op, held)?;
        self.look()
    }

    /// Lets the device write where it may; nothing that the program sees may change.
    fn look(&mut self) -> Outcome {
        // Never the byte that fresh memory holds.
        self.pattern = self.pattern.checked_add(1).unwrap_or(1);
        self.device.scribble(self.pattern);
        if self.own.iter().any(Own::has_changed) {
            self.found(Rule::Changed, || "memory that was given back".to_owned())?;
        }
        let changed = self.hands.iter().find(|hand| hand.has_changed());
        match (changed, self.hubs.changed()) {
            (Some(hand), _) => self.found(Rule::Changed, || hand.difference()),
            (None, Some(changed)) => self.found(Rule::Changed, || changed),
            (None, None) => Ok(()),
        }
    }

    fn act(&mut self, op: Op, held: &[&dyn Held]) -> Outcome {
        let Op { what, a, b, c } = op;
        match what {
            What::MakeCq => self.make_cq(a),
            What::MakeSrq => self.make_srq(a, b),
            What::MakePair => self.make_pairs(a, b, c, true),
            What::MakeRaw => self.make_pairs(a, b, c, false),
            What::Own => self.own(a),
            What::Allocate => self.allocate(a, b, c),
            What::Expose => self.expose(a),
            What::Send => return self.send(a, b, c),
            What::Receive => return self.receive(a, b),
            What::ReceiveShared => return self.receive_shared(a, b),
            What::OneSided => return self.one_sided(a, b, c),
            What::Inline => self.inline(a, c),
            What::ReceiveEmpty => self.receive_empty(a),
            What::Refused => return self.refused(a, b, c),
            What::RawPost => self.post_raw(a, b, c),
            What::Poll => return self.poll(a, b, c),
            What::PollInto => self.poll_into(a, c),
            What::Offer => return self.offer(a, b, held),
            What::Modify => self.modify(a, b, c),
            What::Connect => self.connect(a, b),
            What::Reset => return self.reset(a),
            What::Destroy => return self.destroy(a, c),
            What::Drop => self.drop_one(a, c),
            What::Forget => self.forget(a, c),
            What::Swap => self.swap(a, b, c),
            What::ResizeCq => self.resize_cq(a, b),
            What::ModifySrq => self.modify_srq(a, b),
            What::Churn => self.churn(a, c),
            What::Freeze => self.freeze(true),
            What::Run => {
                self.freeze(false);
                self.device.run();
                self.freeze(a & 1 != 0);
            }
            What::Panic => self.trap.arm(a % 4),
            What::Fault => {
                self.doubt = true;
                let fault = [Fault::Fails, Fault::PanicsBefore, Fault::PanicsAfter][pick(3, c)];
                self.device.disturb(pick(SITES, a), b % 8, fault);
            }
            What::Touch => self.touch(a),
            What::Unpolled => return self.unpolled(a, b),
            What::Batch => return self.batch(a, b, c),
            What::Released => return self.released(a, b),
            What::Hub => return self.hub_step(a, b, c),
            What::Lend => return self.lend(a, b, c),
            What::Special => return self.special(a, b, c),
            What::Hold | What::Thread => {}
        }
        Ok(())
    }

    fn freeze(&mut self, frozen: bool) {
        self.frozen = frozen;
        self.device.freeze(frozen);
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// A request ended at `owner`. The program owns its memory again.
    fn ended(&mut self, number: u64, owner: u32, memory: Memory) -> Outcome {
        let place = made::place(&memory);
        match self.requests.remove(&number) {
            Some(request) if request.owner == owner && request.place == place => {}
            known => {
                self.found(Rule::NotOut, || {
                    format!("request {number} of {owner} ended with {place:?}; known: {known:?}")
                })?;
            }
        }
        self.take(memory);
        Ok(())
    }

    /// Takes ownership of memory.
    fn take(&mut self, memory: Memory) {
        if let Some(buffer) = memory.into_buffer() {
            self.hands.push(Hand::new(buffer));
        }
    }
}

/// An index below `count`, or 0 if there is nothing to choose from.
fn pick(count: usize, number: u8) -> usize {
    usize::from(number) % count.max(1)
}
