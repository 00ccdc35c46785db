//! The program on a fake kernel: no device, no kernel module, no root.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use tested::{Tally, Voter};
use uverbs::error::{Errno, Op};
use uverbs::transport::Rc;
use uverbs::{Context, OpenOptions};
use uverbs_fake::{AfterRemoval, FakeKernel, Profile};

/// A kernel with a device. All contexts opened on it share a network.
fn kernel() -> FakeKernel {
    FakeKernel::new(Profile::v6_12())
}

/// Opens the device, as another process would.
fn open(kernel: &FakeKernel) -> Context {
    OpenOptions::new()
        .kernel(Arc::new(kernel.clone()))
        .over(kernel.device_info(), kernel.open().unwrap())
        .unwrap()
}

/// A voter with a connection. The tally's end of it must be kept alive.
fn voter(context: &Context, tally: &Tally) -> (Voter, uverbs::QueuePair<Rc>) {
    let (here, cq) = Voter::prepare(context).unwrap();
    let there = tally.prepare().unwrap();
    let (voter_end, tally_end) = (here.endpoint(), there.endpoint());
    let there = there.handshake(voter_end).unwrap();
    let here = here.handshake(tally_end).unwrap();
    (Voter::new(here, cq, tally.counts()).unwrap(), there)
}

#[test]
fn votes_of_all_voters_count() {
    let kernel = kernel();
    let tally = Tally::new(&open(&kernel), 2).unwrap();
    let mut voters: Vec<_> = (0..3).map(|_| voter(&open(&kernel), &tally)).collect();
    for (before, (voter, _end)) in voters.iter_mut().enumerate() {
        assert_eq!(voter.vote(1).unwrap(), before as u64);
    }
    assert_eq!((tally.votes(0), tally.votes(1)), (Some(0), Some(3)));
}

#[test]
fn no_one_votes_for_a_non_candidate() {
    let kernel = kernel();
    let tally = Tally::new(&open(&kernel), 2).unwrap();
    let (mut voter, _end) = voter(&open(&kernel), &tally);
    let error = voter.vote(2).unwrap_err().to_string();
    assert!(error.contains("remote access error"), "{error}");
    assert_eq!(tally.votes(2), None);
}

#[test]
fn a_vote_after_the_tally_is_gone_is_an_error() {
    let kernel = kernel();
    let tally = Tally::new(&open(&kernel), 1).unwrap();
    let (mut voter, end) = voter(&open(&kernel), &tally);
    voter.vote(0).unwrap();
    drop((tally, end));
    assert!(voter.vote(0).is_err());
}

#[test]
fn a_limit_of_locked_memory_is_reported() {
    let kernel = kernel();
    kernel.refuse(Op::RegisterMemory, Errno::NOMEM).unwrap();
    let error = Tally::new(&open(&kernel), 1).unwrap_err();
    assert_eq!(error.errno(), Some(Errno::NOMEM));
    kernel.clear_faults();
    Tally::new(&open(&kernel), 1).unwrap();
}

#[test]
fn a_device_that_goes_away_ends_the_program_cleanly() {
    let kernel = kernel();
    let tally = Tally::new(&open(&kernel), 1).unwrap();
    let (mut voter, end) = voter(&open(&kernel), &tally);
    kernel.remove_device(AfterRemoval::DestroySucceeds);
    assert!(voter.vote(0).is_err());
    drop((voter, end, tally));
    assert_eq!(kernel.objects().total(), 0, "{:?}", kernel.objects());
}

#[test]
fn nothing_is_left_behind() {
    let kernel = kernel();
    let context = open(&kernel);
    let tally = Tally::new(&context, 4).unwrap();
    drop((voter(&context, &tally), tally));
    assert_eq!(context.leaked(), 0);
    drop(context);
    assert_eq!(kernel.objects().total(), 0, "{:?}", kernel.objects());
}
