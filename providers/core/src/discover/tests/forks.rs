//! Fork protection against a naive model: a count per page, and the last advice to the kernel.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use proptest::collection::vec;
use proptest::prelude::*;

use crate::discover::ForkGuard;
use crate::discover::fork::{ForkAdvice, LinuxForkAdvice, Registration, is_unavailable};
use crate::error::{Errno, Error, ErrorKind, Op};

const PAGE: usize = 4096;

/// Excludes pages of a model, or of the test itself.
#[expect(unsafe_code, reason = "no pages of this process's queues")]
fn protect(guard: &ForkGuard, address: usize, len: usize) -> crate::Result<Registration> {
    // SAFETY: the pages belong to a model, or only to this test.
    unsafe { guard.protect(address, len) }
}

/// A model kernel with a few pages, which counts calls.
#[derive(Clone, Debug, Default)]
struct Machine(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    left_out: HashMap<usize, bool>,
    calls: usize,
    /// Calls to exclude pages that are already excluded, or to give back pages that are not.
    needless: usize,
    /// Excluding a range with this page fails; with ENOMEM the other pages are excluded
    /// nevertheless.
    hole: Option<(usize, Errno)>,
    /// Giving back fails.
    keep: bool,
}

impl ForkAdvice for Machine {
    fn page_size(&self) -> usize {
        PAGE
    }

    fn advise(&self, address: usize, len: usize, inherit: bool) -> Result<(), Errno> {
        assert_eq!((address % PAGE, len % PAGE), (0, 0));
        assert_ne!(len, 0);
        let mut state = self.0.lock().unwrap();
        state.calls += 1;
        if inherit && state.keep {
            return Err(Errno::INVAL);
        }
        let pages = address / PAGE..(address + len) / PAGE;
        let hole = state.hole.filter(|(page, _)| pages.contains(page));
        if let Some((_, errno)) = hole
            && errno != Errno::NOMEM
        {
            return Err(errno);
        }
        for page in pages {
            if state.left_out.insert(page, !inherit) == Some(!inherit) {
                state.needless += 1;
            }
        }
        hole.map_or(Ok(()), |(_, errno)| Err(errno))
    }
}

impl Machine {
    fn guard(&self) -> ForkGuard {
        ForkGuard::over(Box::new(self.clone()))
    }

    fn left_out(&self) -> Vec<usize> {
        let state = self.0.lock().unwrap();
        let mut pages: Vec<_> = state
            .left_out
            .iter()
            .filter(|(_, out)| **out)
            .map(|(page, _)| *page)
            .collect();
        pages.sort_unstable();
        pages
    }

    fn calls(&self) -> usize {
        self.0.lock().unwrap().calls
    }
}

#[derive(Clone, Debug)]
enum Step {
    Protect(usize, usize),
    Release(prop::sample::Index),
    Fail(usize, bool),
    Heal,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..40 * PAGE, 0..12 * PAGE).prop_map(|(address, len)| Step::Protect(address, len)),
        5 => any::<prop::sample::Index>().prop_map(Step::Release),
        1 => (0_usize..50, any::<bool>()).prop_map(|(page, unmapped)| Step::Fail(page, unmapped)),
        1 => Just(Step::Heal),
    ]
}

proptest! {
    #[test]
    fn exactly_the_registered_pages_are_left_out(steps in vec(step(), 1..60)) {
        let machine = Machine::default();
        let guard = machine.guard();
        let mut held = Vec::new();
        let mut counts = vec![0_usize; 64];
        for step in steps {
            match step {
                Step::Protect(address, len) => {
                    let pages = if len == 0 { 0..0 } else { address / PAGE..(address + len).div_ceil(PAGE) };
                    let hole = machine.0.lock().unwrap().hole;
                    let fails = hole.is_some_and(|(page, _)| pages.contains(&page) && counts[page] == 0);
                    match protect(&guard, address, len) {
                        Ok(registration) => {
                            prop_assert!(!fails);
                            for page in pages.clone() {
                                counts[page] += 1;
                            }
                            held.push((registration, pages));
                        }
                        Err(error) => {
                            prop_assert!(fails);
                            prop_assert_eq!(error.errno(), hole.map(|(_, errno)| errno));
                        }
                    }
                }
                Step::Release(index) if !held.is_empty() => {
                    let (registration, pages) = held.swap_remove(index.index(held.len()));
                    drop(registration);
                    for page in pages {
                        counts[page] -= 1;
                    }
                }
                Step::Release(_) => {}
                Step::Fail(page, unmapped) => {
                    let errno = if unmapped { Errno::NOMEM } else { Errno::INVAL };
                    machine.0.lock().unwrap().hole = Some((page, errno));
                }
                Step::Heal => machine.0.lock().unwrap().hole = None,
            }
            // Pages that could not be given back because of EINVAL cannot be compared.
            if guard.stuck() > 0 {
                return Ok(());
            }
            let expected: Vec<_> = (0..counts.len()).filter(|page| counts[*page] > 0).collect();
            prop_assert_eq!(machine.left_out(), expected);
        }
        machine.0.lock().unwrap().hole = None;
        held.clear();
        prop_assert_eq!(machine.left_out(), Vec::<usize>::new());
    }

    #[test]
    fn no_call_is_made_in_vain(ranges in vec((0_usize..40, 1_usize..12), 1..30)) {
        let machine = Machine::default();
        let guard = machine.guard();
        let mut held: Vec<_> = ranges
            .iter()
            .map(|(page, count)| protect(&guard, page * PAGE, count * PAGE).unwrap())
            .collect();
        while let Some(registration) = held.pop() {
            drop(registration);
        }
        prop_assert_eq!(machine.0.lock().unwrap().needless, 0);
    }
}

#[test]
fn whole_pages_are_left_out() {
    let machine = Machine::default();
    let guard = machine.guard();
    let one = protect(&guard, PAGE + 1, 1).unwrap();
    let two = protect(&guard, 2 * PAGE - 1, 2).unwrap();
    assert_eq!(machine.left_out(), [1, 2]);
    assert_eq!(machine.calls(), 2);
    drop(two);
    assert_eq!(machine.left_out(), [1]);
    drop(one);
    assert_eq!((machine.left_out(), guard.stuck()), (vec![], 0));
}

#[test]
fn equal_registrations_cost_one_call() {
    let machine = Machine::default();
    let guard = machine.guard();
    let held: Vec<_> = (0..1000)
        .map(|_| protect(&guard, 0, 8 * PAGE).unwrap())
        .collect();
    assert_eq!(machine.calls(), 1);
    drop(held);
    assert_eq!((machine.calls(), machine.left_out()), (2, vec![]));
}

#[test]
fn failures_are_undone_and_explained() {
    let machine = Machine::default();
    let guard = machine.guard();
    let _middle = protect(&guard, 2 * PAGE, PAGE).unwrap();
    machine.0.lock().unwrap().hole = Some((4, Errno::NOMEM));
    let error = protect(&guard, 0, 6 * PAGE).unwrap_err();
    assert_eq!(
        (error.kind(), error.errno()),
        (ErrorKind::OutOfResources, Some(Errno::NOMEM))
    );
    assert_eq!(machine.left_out(), [2]);
    machine.0.lock().unwrap().hole = Some((4, Errno::INVAL));
    let error = protect(&guard, 3 * PAGE, 2 * PAGE).unwrap_err();
    assert!(error.known_hint().unwrap().contains("huge pages"));
    assert_eq!(machine.left_out(), [2]);
}

#[test]
fn pages_that_stay_left_out_are_counted() {
    let machine = Machine::default();
    let guard = machine.guard();
    let registration = protect(&guard, 0, PAGE).unwrap();
    machine.0.lock().unwrap().keep = true;
    drop(registration);
    assert_eq!(guard.stuck(), 1);
}

#[test]
fn impossible_ranges_are_refused() {
    let guard = Machine::default().guard();
    for (address, len) in [
        (usize::MAX, 1),
        (1, usize::MAX),
        (usize::MAX - PAGE, PAGE),
        (usize::MAX, usize::MAX),
    ] {
        let error = protect(&guard, address, len).unwrap_err();
        assert_eq!(
            (error.kind(), error.errno()),
            (ErrorKind::InvalidInput, None)
        );
    }
    assert!(protect(&guard, usize::MAX, 0).is_ok());
    assert!(protect(&ForkGuard::unneeded(), usize::MAX, usize::MAX).is_ok());
}

/// How many of this process's mappings at `address` are excluded from children.
fn is_left_out(address: usize) -> bool {
    let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let mut inside = false;
    for line in maps.lines() {
        let range = line
            .split_once(' ')
            .and_then(|(range, _)| range.split_once('-'));
        if let Some((Ok(from), Ok(to))) = range.map(|(from, to)| {
            (
                usize::from_str_radix(from, 16),
                usize::from_str_radix(to, 16),
            )
        }) {
            inside = (from..to).contains(&address);
        } else if inside && line.starts_with("VmFlags:") {
            return line.split_whitespace().any(|flag| flag == "dc");
        }
    }
    panic!("no mapping at {address:#x}");
}

#[test]
fn a_kernel_without_the_query_differs_from_a_failed_query() {
    for (errno, unavailable) in [
        (Errno::PROTONOSUPPORT, true),
        (Errno::AFNOSUPPORT, true),
        (Errno::OPNOTSUPP, true),
        (Errno::ACCESS, true),
        (Errno::PERM, true),
        (Errno::MFILE, false),
        (Errno::NOMEM, false),
        (Errno::INVAL, false),
    ] {
        let error = Error::os(Op::ListDevices, errno);
        assert_eq!(is_unavailable(&error), unavailable, "{errno}");
    }
}

#[test]
fn madvise_leaves_pages_out_of_children() {
    let guard = ForkGuard::over(Box::new(LinuxForkAdvice));
    let page = LinuxForkAdvice.page_size();
    let memory = crate::sys::Mapping::anonymous(4 * page).unwrap();
    let address = memory.as_ptr().addr();
    let first = protect(&guard, address + 1, 2 * page).unwrap();
    let second = protect(&guard, address + 2 * page, page).unwrap();
    assert_eq!(
        [0, 1, 2, 3].map(|at| is_left_out(address + at * page)),
        [true, true, true, false]
    );
    drop(first);
    assert_eq!(
        [0, 1, 2, 3].map(|at| is_left_out(address + at * page)),
        [false, false, true, false]
    );
    drop(memory);
    drop(second);
    assert_eq!(guard.stuck(), 0);
}
