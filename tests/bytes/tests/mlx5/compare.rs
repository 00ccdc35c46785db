//! What has to be equal.

use std::collections::BTreeMap;

use bytes_tests::Table;
use bytes_tests::requests::requests;
use bytes_tests::table::{Batch, Case, Verb};
use bytes_tests::trace::{Life, Rung};

/// The amount of what was compared.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    sends: usize,
    receives: usize,
    shared_receives: usize,
    pub(crate) doorbells: usize,
    /// Doorbells with which the request was copied, by libmlx5 and by this library.
    pub(crate) copied: [usize; 2],
    /// Among all doorbells, those with other records beside them, or whose request had arrived for
    /// only one of the two: the device receives doorbells later than memory, which may have moved
    /// on by then, and may look at a request that has not arrived completely.
    pub(crate) late: usize,
    arms: usize,
    commands: usize,
    /// Commands to the kernel.
    pub(crate) requests: usize,
    /// Known differences, by the words of the crate's list.
    pub(crate) on_purpose: BTreeMap<&'static str, usize>,
}

/// The known differences of the crate's list that must be seen.
pub(crate) const ON_PURPOSE: [&str; 8] = [
    "behind inline data",
    "operand of fetch-and-add",
    "order of places",
    "behind the end of a list",
    "places of a pool",
    "requests of a shared queue",
    "flag of scatter to completions",
    "queues of an XRC target",
];

impl Counts {
    fn differs(&mut self, what: usize, differs: bool) {
        *self.on_purpose.entry(ON_PURPOSE[what]).or_default() += usize::from(differs);
    }
}

pub(crate) fn compare(table: &Table, theirs: &[Life], ours: &[Life], counts: &mut Counts) {
    for (number, (case, (theirs, ours))) in
        table.cases.iter().zip(theirs.iter().zip(ours)).enumerate()
    {
        let context = format!("case {number}");
        sends_are_the_same(case, theirs, ours, &context, counts);
        receives_are_the_same(case, theirs, ours, &context, counts);
        assert_eq!(theirs.rings.len(), case.batches.len(), "{context}");
        let begins = [theirs, ours].map(|life| life.rings.first().map_or(0, |rung| rung.place));
        for (at, (one, other)) in theirs.rings.iter().zip(&ours.rings).enumerate() {
            // Which of two buffers is first is arbitrary; then they are used in turn.
            let said = |rung: &Rung, begin: u64| (rung.place ^ begin, rung.value);
            assert_eq!(
                said(one, begins[0]),
                said(other, begins[1]),
                "{context}, doorbell {at}"
            );
            let copied = one.copied || other.copied;
            assert!(
                !copied || case.batches[at].requests.len() == 1,
                "{context}, doorbell {at}"
            );
            counts.late += usize::from(one.records != other.records || one.copied != other.copied);
            counts.copied[0] += usize::from(one.copied);
            counts.copied[1] += usize::from(other.copied);
        }
        assert_eq!(theirs.rings.len(), ours.rings.len(), "{context}");
        records_are_right(case, [theirs, ours], &context);
        let armed = case.batches.iter().filter(|batch| batch.notify.is_some());
        assert_eq!(theirs.arms.len(), armed.count(), "{context}");
        assert_eq!(theirs.arms, ours.arms, "{context}");
        commands_are_the_same(theirs, ours, &context, counts);
        counts.commands += theirs.commands.len();
        counts.sends += theirs.sends.len();
        if case.shared {
            counts.shared_receives += theirs.receives.len();
        } else {
            counts.receives += theirs.receives.len();
        }
        counts.doorbells += theirs.rings.len();
        counts.arms += theirs.arms.len();
    }
}

/// However late the device looks: what is posted last is in the last doorbell's records, and
/// consumer indexes are at least what was consumed before the doorbell, and at most what will come.
fn records_are_right(case: &Case, lives: [&Life; 2], context: &str) {
    let last = lives.map(|life| life.rings.last().map(|rung| rung.records[..2].to_vec()));
    assert_eq!(last[0], last[1], "{context}, records at last");
    let signaled = |batch: &Batch| batch.requests.iter().filter(|one| one.signaled).count();
    let all: usize = case.batches.iter().map(signaled).sum();
    for life in lives {
        let mut taken = 0;
        for (at, (rung, batch)) in life.rings.iter().zip(&case.batches).enumerate() {
            // That of its sends; an XRC initiator has another one for receives, which is the
            // kernel's.
            let consumed = rung.records[2].and_then(|count| usize::try_from(count).ok());
            assert!(
                consumed.is_some_and(|count| (taken..=all).contains(&count)),
                "{context}, doorbell {at}: {consumed:?}, not {taken} to {all}"
            );
            taken += signaled(batch);
        }
    }
}

fn sends_are_the_same(case: &Case, theirs: &Life, ours: &Life, context: &str, counts: &mut Counts) {
    let requests: Vec<_> = case.requests().collect();
    let missing = "the trace has every request";
    assert_eq!(theirs.sends.len(), requests.len(), "{context}: {missing}");
    for (at, (one, other)) in theirs.sends.iter().zip(&ours.sends).enumerate() {
        let which = usize::from(requests[at].verb == Verb::AtomicFetchAndAdd);
        counts.differs(which, one != other);
        let [one, other] =
            [one, other].map(|fetched| fetched.without_padding(case.transport, requests[at]));
        assert_eq!(one, other, "{context}, send {at}: {:?}", requests[at]);
    }
    assert_eq!(theirs.sends.len(), ours.sends.len(), "{context}");
}

fn commands_are_the_same(theirs: &Life, ours: &Life, context: &str, counts: &mut Counts) {
    for (one, other) in theirs.commands.iter().zip(&ours.commands) {
        assert_eq!(one.name, other.name, "{context}");
        let differences = one.differences(other);
        assert!(
            differences.is_empty(),
            "{context}, {}: {differences:?}",
            one.name
        );
        counts.differs(4, one.places != other.places);
    }
    assert_eq!(theirs.commands.len(), ours.commands.len(), "{context}");
}

fn receives_are_the_same(
    case: &Case,
    theirs: &Life,
    ours: &Life,
    context: &str,
    counts: &mut Counts,
) {
    let requests: Vec<_> = case.batches.iter().flat_map(Batch::received).collect();
    let missing = "the trace has every receive";
    assert_eq!(
        theirs.receives.len(),
        requests.len(),
        "{context}: {missing}"
    );
    for (at, (one, other)) in theirs.receives.iter().zip(&ours.receives).enumerate() {
        let what = || format!("{context}, receive {at}: {:?}", requests[at].receive);
        assert_eq!(one.bytes, other.bytes, "{}", what());
        assert_eq!(one.record, other.record, "{}", what());
        if !case.shared {
            assert_eq!(one.index, other.index, "{}", what());
        }
        counts.differs(2, one.index != other.index);
        counts.differs(3, one.left != other.left);
    }
    assert_eq!(theirs.receives.len(), ours.receives.len(), "{context}");
    for life in [theirs, ours] {
        // Which slot a shared queue uses next is its own choice, as long as it says so.
        for pair in life.receives.windows(2).filter(|_| case.shared) {
            assert_eq!(pair[0].next, Some(pair[1].index), "{context}");
        }
    }
}

/// Checks what was requested of the kernel and of its driver.
pub(crate) fn compare_requests(theirs: &str, ours: &str, counts: &mut Counts) {
    let (theirs, ours) = (requests(theirs), requests(ours));
    for (at, (one, other)) in theirs.iter().zip(&ours).enumerate() {
        assert_eq!(
            (&one.name, &one.parts),
            (&other.name, &other.parts),
            "command {at} of {}",
            theirs.len()
        );
        counts.differs(5, one.places != other.places);
        counts.differs(6, one.scatters != other.scatters);
        counts.differs(7, one.target != other.target);
    }
    assert_eq!(theirs.len(), ours.len());
    counts.requests += theirs.len();
}
