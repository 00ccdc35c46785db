//! What a program executes: how often, by Callgrind, and of what kind, by decoding it.

use anyhow::{Context as _, bail};
use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory};
use iced_x86::{Mnemonic, OpAccess, Register};
use object::{Object as _, ObjectSection as _, SectionKind};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::super::callgrind::{counted_in_module, output_of};
use super::super::{MANY, ROUNDS};

/// The longest instruction.
const LONGEST: usize = 15;

/// Another function is hot if a hot one calls it for at least one in this many operations.
const RARE: f64 = 20.0;

/// What one operation, or one call of a function that is not a loop, executes in the function
/// itself, not in functions that it calls.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Executed {
    /// To memory other than the stack.
    pub(super) stores: f64,
    pub(super) stack_stores: f64,
    pub(super) branches: f64,
    /// Instructions that lock the bus.
    pub(super) locks: f64,
    /// How often each function is called.
    pub(super) calls: BTreeMap<String, f64>,
}

/// How often each instruction of a function was executed, and each function called.
#[derive(Debug, Default)]
struct Trace {
    instructions: BTreeMap<u64, f64>,
    calls: BTreeMap<String, f64>,
    /// Where it begins, if another calls it.
    entry: Option<u64>,
}

impl Trace {
    fn executed_at(&self, address: u64) -> f64 {
        self.instructions.get(&address).copied().unwrap_or_default()
    }
}

/// A program whose code can be read.
pub(super) struct Program {
    path: PathBuf,
    /// Addresses and contents of its code.
    code: Vec<(u64, Vec<u8>)>,
}

impl Program {
    pub(super) fn open(path: &Path) -> anyhow::Result<Self> {
        let bytes = std::fs::read(path).with_context(|| path.display().to_string())?;
        let file = object::File::parse(&*bytes)?;
        let code = file.sections().filter(|it| it.kind() == SectionKind::Text);
        let code = code.map(|it| Ok((it.address(), it.data()?.to_owned())));
        Ok(Self {
            path: path.to_owned(),
            code: code.collect::<anyhow::Result<_>>()?,
        })
    }

    /// What each loop executes for one operation, and each hot function for one call. What is done
    /// once in a loop counts by its share.
    pub(super) fn count(&self) -> anyhow::Result<BTreeMap<String, Executed>> {
        let [few, many] = ROUNDS.map(|rounds| {
            let arguments = [&*rounds.to_string(), "usual"];
            let options = ["--dump-instr=yes"];
            output_of(&self.path, &arguments, &options).map(|text| traces(&text))
        });
        let (few, many) = (few?, many?);
        let turns = f64::from(ROUNDS[1] - ROUNDS[0]) * MANY;
        let none = Trace::default();
        let each_of = |name: &str| {
            let few = few.get(name).unwrap_or(&none);
            Some((few, many.get(name)?))
        };
        let mut executed = BTreeMap::new();
        let loops = many.iter().filter(|(_, trace)| trace.entry.is_none());
        let mut hot: Vec<_> = loops.map(|(name, _)| name.clone()).collect();
        while let Some(name) = hot.pop() {
            // Functions of other files have no trace.
            let Some((few, many)) = each_of(&name).filter(|_| !executed.contains_key(&name)) else {
                continue;
            };
            for (callee, count) in &many.calls {
                let before = few.calls.get(callee).copied().unwrap_or_default();
                if (count - before) * RARE >= turns {
                    hot.push(callee.clone());
                }
            }
            let runs = many.entry.map_or(turns, |entry| {
                many.executed_at(entry) - few.executed_at(entry)
            });
            executed.insert(name, self.executed(few, many, runs)?);
        }
        Ok(executed)
    }

    fn executed(&self, few: &Trace, many: &Trace, turns: f64) -> anyhow::Result<Executed> {
        let mut executed = Executed::default();
        let mut factory = InstructionInfoFactory::new();
        for (address, count) in &many.instructions {
            let each = (count - few.executed_at(*address)) / turns;
            let instruction = self.decode(*address)?;
            executed.add(&instruction, &mut factory, each);
        }
        for (name, count) in &many.calls {
            let before = few.calls.get(name).copied().unwrap_or_default();
            if *count > before {
                let each = (count - before) / turns;
                executed.calls.insert(name.clone(), each);
            }
        }
        Ok(executed)
    }

    fn decode(&self, address: u64) -> anyhow::Result<Instruction> {
        let bytes = self.code.iter().find_map(|(start, code)| {
            let at = usize::try_from(address.checked_sub(*start)?).ok()?;
            code.get(at..)
        });
        let bytes = bytes.with_context(|| format!("no code at {address:#x}"))?;
        let bytes = bytes.get(..LONGEST).unwrap_or(bytes);
        let instruction = Decoder::with_ip(64, bytes, address, DecoderOptions::NONE).decode();
        if instruction.is_invalid() {
            bail!("no instruction at {address:#x}");
        }
        Ok(instruction)
    }
}

impl Executed {
    /// An instruction that is executed `each` times.
    fn add(&mut self, instruction: &Instruction, factory: &mut InstructionInfoFactory, each: f64) {
        if instruction.flow_control() == FlowControl::ConditionalBranch {
            self.branches += each;
        }
        let memory = factory.info(instruction).used_memory();
        let written = memory.iter().filter(|memory| {
            matches!(
                memory.access(),
                OpAccess::Write | OpAccess::ReadWrite | OpAccess::CondWrite
            )
        });
        for memory in written {
            if memory.base() == Register::RSP {
                self.stack_stores += each;
            } else {
                self.stores += each;
            }
        }
        // An exchange with memory locks without a prefix.
        let exchanges = instruction.mnemonic() == Mnemonic::Xchg && !memory.is_empty();
        if instruction.has_lock_prefix() || exchanges {
            self.locks += each;
        }
    }
}

/// Parses Callgrind's format with instructions: after `fn=` come lines of address, line and cost.
/// The line after `calls=` is the cost of the function that `cfn=` names; `calls=` itself has how
/// often, and where it begins.
fn traces(text: &str) -> BTreeMap<String, Trace> {
    let mut traces = BTreeMap::<String, Trace>::new();
    let (mut current, mut callee, mut is_call) = (None, None, false);
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("fn=") {
            current = short(name);
        } else if let Some(name) = line.strip_prefix("cfn=") {
            callee = Some(name);
        } else if let Some(name) = &current {
            if let Some(call) = line.strip_prefix("calls=") {
                is_call = true;
                let Some((callee, (count, entry))) = callee.take().zip(call_of(call)) else {
                    continue;
                };
                let callee = short(callee).unwrap_or_else(|| last(callee).to_owned());
                traces.entry(callee.clone()).or_default().entry = Some(entry);
                let trace = traces.entry(name.clone()).or_default();
                *trace.calls.entry(callee).or_default() += count;
            } else if let Some((address, cost)) = executed(line)
                && !std::mem::take(&mut is_call)
            {
                let trace = traces.entry(name.clone()).or_default();
                *trace.instructions.entry(address).or_default() += cost;
            }
        }
    }
    traces
}

/// The name of a loop with its module, or of a function of ours with its crate.
fn short(name: &str) -> Option<String> {
    counted_in_module(name).or_else(|| {
        let path = name.trim_start_matches('<');
        let (of, _) = path.split_once("::")?;
        of.starts_with("uverbs")
            .then(|| format!("{of}::{}", last(name)))
    })
}

fn last(path: &str) -> &str {
    path.rsplit("::").next().unwrap_or(path)
}

/// How often a function is called, and its address.
fn call_of(text: &str) -> Option<(f64, u64)> {
    let mut words = text.split(' ');
    let count = words.next()?.parse().ok()?;
    let entry = words.next()?.strip_prefix("0x")?;
    Some((count, u64::from_str_radix(entry, 16).ok()?))
}

/// The address and the cost of a line.
fn executed(line: &str) -> Option<(u64, f64)> {
    let mut words = line.split(' ');
    let address = words.next()?.strip_prefix("0x")?;
    let address = u64::from_str_radix(address, 16).ok()?;
    Some((address, words.nth(1)?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "positions: instr line\nfn=main\n0x0 0 9\nfn=raw::any::counted_poll\n0x10 0 64\n0x12 0 64\n\
                        cfn=<uverbs_mlx5::a::B as c::D>::fill\ncalls=9 0x100 0\n0x12 0 500\n0x14 0 3\n\
                        fn=<uverbs_mlx5::a::B as c::D>::fill\n0x100 0 2\n0x101 0 7\n";

    #[test]
    fn the_cost_of_a_call_is_not_the_functions_own() {
        let traces = traces(TEXT);
        assert_eq!(traces.len(), 2);
        let trace = &traces["any::counted_poll"];
        let instructions = [(0x10, 64.0), (0x12, 64.0), (0x14, 3.0)];
        assert_eq!(trace.instructions, BTreeMap::from(instructions));
        let called = "uverbs_mlx5::fill".to_owned();
        assert_eq!(trace.calls, BTreeMap::from([(called.clone(), 9.0)]));
        assert_eq!(trace.entry, None);
        let fill = &traces[&called];
        assert_eq!((fill.entry, fill.executed_at(0x100)), (Some(0x100), 2.0));
    }

    fn kinds(bytes: &[u8]) -> Executed {
        let mut executed = Executed::default();
        let mut factory = InstructionInfoFactory::new();
        for instruction in Decoder::new(64, bytes, DecoderOptions::NONE) {
            executed.add(&instruction, &mut factory, 1.0);
        }
        executed
    }

    #[test]
    fn instructions_are_told_apart() {
        let store = kinds(&[0x48, 0x89, 0x07]); // mov [rdi], rax
        assert_eq!((store.stores, store.stack_stores), (1.0, 0.0));
        let spill = kinds(&[0x48, 0x89, 0x44, 0x24, 0x08]); // mov [rsp + 8], rax
        assert_eq!((spill.stores, spill.stack_stores), (0.0, 1.0));
        let loads = kinds(&[0x48, 0x8b, 0x07, 0x3b, 0x07]); // mov rax, [rdi]; cmp eax, [rdi]
        assert_eq!(loads, Executed::default());
        let branch = Executed {
            branches: 1.0,
            ..Executed::default()
        };
        assert_eq!(kinds(&[0x74, 0x02, 0xeb, 0x00]), branch); // je, jmp
        let locked = Executed {
            stores: 1.0,
            locks: 1.0,
            ..Executed::default()
        };
        assert_eq!(kinds(&[0xf0, 0x48, 0xff, 0x07]), locked); // lock inc [rdi]
        assert_eq!(kinds(&[0x48, 0x87, 0x07]), locked); // xchg [rdi], rax
        assert_eq!(kinds(&[0x48, 0x87, 0xc3]), Executed::default()); // xchg rbx, rax
    }
}
