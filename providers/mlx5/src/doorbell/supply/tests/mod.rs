//! Doorbells of a scripted kernel: where they are, and how they are allocated.
#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "tests of small numbers"
)]

mod beyond;

use uverbs_core::Errno;
use uverbs_core::sys::Mapping;
use uverbs_uapi::mlx5_user_ioctl_cmds::{
    MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_LENGTH, MLX5_IB_ATTR_UAR_OBJ_ALLOC_PAGE_ID,
};

use super::*;
use crate::tests::scripted::Scripted;

const REGISTER: usize = 512;

/// A context of 16 fixed doorbells, on pages of 4096 bytes.
fn fixed() -> (Arc<Scripted>, Uars) {
    let (script, file) = Scripted::new();
    let config = UarConfig {
        fixed: 16,
        per_page: 1,
        register_size: REGISTER as u32,
        dedicated: 4,
        shared: 12,
        extra: 0,
    };
    (script, Uars::new(&file, config))
}

/// The conversion by `adjust_bfregn` of the kernel's driver from its own number.
fn reported(number: u32) -> u32 {
    number / 2 * 4 + number % 2
}

#[test]
fn the_kernels_choice_is_found_on_its_page() {
    let (_, uars) = fixed();
    // The order in which the kernel hands them out: the dedicated ones first, then the others.
    for number in [12, 13, 14, 15, 1, 2, 3, 11, 0] {
        let requested = uars.for_queue_pair().unwrap();
        assert_eq!((requested.qp_flags(), requested.qp_index()), (0, 0));
        let mut doorbell = uars.resolve(requested, reported(number)).unwrap();
        let page = uars.fixed(number as usize / 2).unwrap().memory;
        let place = DOORBELLS + number as usize % 2 * REGISTER;
        let word = u64::from(number) + 100;
        doorbell.ring(word);
        assert_eq!(page.load(place), Some(word));
        // Only a doorbell with one user uses both buffers, and copies.
        let blocks = if number >= 12 { 4 } else { 0 };
        assert_eq!(doorbell.blue_flame_blocks(), blocks, "{number}");
        doorbell.ring(word + 1);
        let second = if number >= 12 { REGISTER / 2 } else { 0 };
        assert_eq!(page.load(place + second), Some(word + 1));
    }
}

#[test]
fn what_is_no_doorbell_of_the_context_is_refused() {
    let (_, uars) = fixed();
    // Fast-path ones, and those beyond the last page.
    for index in [2, 3, 26, 27, 30, 31, 32, 33, 1 << 31, u32::MAX] {
        let requested = uars.for_queue_pair().unwrap();
        let error = uars.resolve(requested, index).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BadReply, "{index}: {error}");
    }
}

#[test]
fn pages_of_registers_share_pages_of_the_machine() {
    let (script, uars) = fixed();
    let uars = Uars {
        config: UarConfig {
            per_page: 16,
            fixed: 32,
            ..uars.config
        },
        ..uars
    };
    let requested = uars.for_queue_pair().unwrap();
    assert_eq!(script.take_calls().len(), 1);
    // The ninth page is at 9 * 4096 of the machine's first page, which is outside these 4096 bytes.
    let error = uars.resolve(requested, reported(18)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BadReply, "{error}");
    assert!(
        script.take_calls().is_empty(),
        "it is the page that was mapped"
    );
}

const ID: u32 = 0x40;

/// A context whose pages are allocated as needed, each with `per_page` pages of registers. The
/// first has number [`ID`].
fn as_needed(per_page: u32, register_size: u32) -> (Arc<Scripted>, Uars) {
    let (script, file) = Scripted::new();
    let length = 4096 * per_page.clamp(1, 16);
    script.answer(
        MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_LENGTH,
        &length.to_ne_bytes(),
    );
    script.answer(MLX5_IB_ATTR_UAR_OBJ_ALLOC_PAGE_ID, &ID.to_ne_bytes());
    let config = UarConfig {
        fixed: 0,
        per_page,
        register_size,
        dedicated: 4,
        shared: 12,
        extra: 0,
    };
    (script, Uars::new(&file, config))
}

/// How many pages of the machine were mapped since the last call.
fn mapped(script: &Scripted) -> usize {
    let requested = script.take_calls();
    requested
        .iter()
        .filter(|line| line.starts_with("map"))
        .count()
}

fn word(page: &Mapping, offset: usize) -> u64 {
    page.load(offset).unwrap()
}

#[test]
fn all_pages_of_registers_in_a_page_of_the_machine_are_used() {
    let (script, uars) = as_needed(16, REGISTER as u32);
    let doorbells: Vec<_> = (0..4).map(|_| uars.for_queue_pair().unwrap()).collect();
    assert_eq!(mapped(&script), 1);
    let numbers: Vec<_> = doorbells.iter().map(Doorbell::qp_index).collect();
    assert_eq!(numbers, [ID, ID, ID + 1, ID + 1]);
    let mut doorbells = doorbells.into_iter();
    let (mut first, mut last) = (doorbells.next().unwrap(), doorbells.next_back().unwrap());
    first.ring(7);
    last.ring(8);
    let pool = Pool::lock(&uars.pool);
    let page = &pool.spare[0].0.memory;
    assert_eq!(word(page, DOORBELLS), 7);
    assert_eq!(word(page, UAR + DOORBELLS + REGISTER), 8);
    drop(pool);
    // Those that are shared are on the same page, too.
    let more: Vec<_> = (0..12).map(|_| uars.for_queue_pair().unwrap()).collect();
    assert_eq!(mapped(&script), 0);
    assert!(more.iter().all(|shared| shared.qp_index() > ID + 1));
}

#[test]
fn a_page_has_no_more_registers_than_were_mapped() {
    for per_page in [0, 1, 17, u32::MAX] {
        let (_, uars) = as_needed(per_page, REGISTER as u32);
        let doorbells: Vec<_> = (0..40).map(|_| uars.for_queue_pair().unwrap()).collect();
        let most = ID + per_page.clamp(1, 16);
        assert!(doorbells.iter().all(|doorbell| doorbell.qp_index() < most));
    }
}

#[test]
fn queue_pairs_that_share_a_doorbell_copy_through_it() {
    let (script, uars) = as_needed(1, REGISTER as u32);
    let dedicated: Vec<_> = (0..4).map(|_| uars.for_queue_pair().unwrap()).collect();
    assert_eq!(mapped(&script), 2);
    let mut shared: Vec<_> = (0..12).map(|_| uars.for_queue_pair().unwrap()).collect();
    // Two queue pairs have one page each.
    assert_eq!(mapped(&script), 6);
    let users = |count: usize| {
        let pool = Pool::lock(&uars.pool);
        let mut shared = pool.shared.iter();
        shared.all(|shared| Arc::strong_count(&shared.users) == count + 1)
    };
    assert!(users(2) && shared.iter().all(|one| one.blue_flame_blocks() == 4));
    let pages = uverbs_core::hw::Pages::new(4096).unwrap();
    let ring = uverbs_core::hw::BlockRing::new(pages.into(), 64).unwrap();
    for at in 0..64_u32 {
        ring.block(at).put(0, [at.into(), 0]);
    }
    let page = {
        let pool = Pool::lock(&uars.pool);
        Arc::clone(pool.shared[0].plain.page())
    };
    let (one, other) = shared.split_at_mut(6);
    one[0].blue_flame(&ring, 5, 1);
    other[0].blue_flame(&ring, 6, 1);
    // Alternately through the first doorbell, and submitted at the second.
    assert_eq!(word(&page, DOORBELLS), 5);
    assert_eq!(word(&page, DOORBELLS + REGISTER / 2), 6);
    one[0].ring(9);
    other[0].ring(10);
    assert_eq!(word(&page, DOORBELLS + REGISTER), 10);
    assert_eq!(word(&page, DOORBELLS), 5);
    drop(shared);
    assert!(users(0));
    drop(dedicated);
}

#[test]
fn without_blueflame_all_ring() {
    let (script, uars) = as_needed(1, 0);
    let mut doorbells: Vec<_> = (0..16).map(|_| uars.for_queue_pair().unwrap()).collect();
    assert_eq!(mapped(&script), 8);
    for doorbell in &mut doorbells {
        assert_eq!(doorbell.blue_flame_blocks(), 0);
        doorbell.ring(1);
    }
}

/// The kinds of the pages that were allocated since the last call.
fn kinds(script: &Scripted) -> Vec<String> {
    let calls = script.take_calls();
    let kinds = calls.iter().filter_map(|call| {
        let (_, rest) = call.split_once("const=")?;
        rest.split(' ').next().map(str::to_owned)
    });
    kinds.collect()
}

#[test]
fn pages_are_of_the_kind_that_the_device_can_copy_through() {
    for (register_size, kind) in [
        (REGISTER as u32, MLX5_IB_UAPI_UAR_ALLOC_TYPE_BF),
        (0, MLX5_IB_UAPI_UAR_ALLOC_TYPE_NC),
    ] {
        let (script, uars) = as_needed(1, register_size);
        let doorbell = uars.for_queue_pair().unwrap();
        assert_eq!(kinds(&script), [format!("{kind:#x}")]);
        assert_eq!(doorbell.address() % 4096, DOORBELLS as u64);
        assert!(doorbell.object().is_some());
        let thread = uars.for_thread().unwrap();
        assert_eq!(kinds(&script), [format!("{kind:#x}")]);
        assert_eq!((thread.naming, thread.page.id), (Naming::Page(ID), ID));
        let [first, second] = uars.registers_of(&thread.page, RUNG).unwrap();
        let distance = if register_size == 0 { 0x100 } else { REGISTER };
        assert_eq!(first.address() % 4096, (DOORBELLS + distance) as u64);
        let buffer = u64::from(register_size / 2);
        assert_eq!(second.address() - first.address(), buffer);
        assert_eq!(first.len(), (buffer as usize).max(8));
    }
}

#[test]
fn a_doorbell_that_was_given_back_is_the_next_ones() {
    let (script, uars) = as_needed(1, REGISTER as u32);
    let first = uars.for_queue_pair().unwrap();
    let second = uars.for_queue_pair().unwrap();
    assert_eq!(mapped(&script), 1, "they are on one page");
    let address = first.address();
    assert_eq!(second.address(), address + REGISTER as u64);
    drop(first);
    let again = uars.for_queue_pair().unwrap();
    assert_eq!(again.address(), address);
    assert_eq!(script.take_calls(), [""; 0]);
}

#[test]
fn a_queue_pair_shares_the_doorbell_with_the_fewest_users() {
    let (_, uars) = as_needed(1, REGISTER as u32);
    let uars = Uars {
        config: UarConfig {
            dedicated: 0,
            shared: 4,
            ..uars.config
        },
        ..uars
    };
    let mut doorbells: Vec<_> = (0..4).map(|_| uars.for_queue_pair().unwrap()).collect();
    let places: Vec<u64> = doorbells.iter().map(Doorbell::address).collect();
    assert_ne!(places[0], places[1]);
    assert_eq!(places[..2], places[2..]);
    doorbells.remove(1);
    assert_eq!(uars.for_queue_pair().unwrap().address(), places[1]);
}

#[test]
fn queue_pairs_share_one_page_at_least() {
    let (script, uars) = as_needed(1, REGISTER as u32);
    let uars = Uars {
        config: UarConfig {
            dedicated: 0,
            shared: 1,
            ..uars.config
        },
        ..uars
    };
    let doorbells: Vec<_> = (0..3).map(|_| uars.for_queue_pair().unwrap()).collect();
    assert_eq!(mapped(&script), 1);
    // Plain writes go to the second doorbell of the page.
    let place = (DOORBELLS + REGISTER) as u64;
    assert!(doorbells.iter().all(|one| one.address() % 4096 == place));
}

#[test]
fn completion_queues_are_armed_on_a_page_of_their_own() {
    let (script, uars) = as_needed(1, REGISTER as u32);
    for kind in [Some(MLX5_IB_UAPI_UAR_ALLOC_TYPE_NC), None] {
        let (register, page) = uars.for_completion_queues().unwrap();
        assert_eq!((register.address() % 4096, register.len()), (0x20, 8));
        assert_eq!(page, Some(ID));
        let kind = kind.map(|kind| format!("{kind:#x}"));
        assert_eq!(kinds(&script), kind.into_iter().collect::<Vec<_>>());
    }
    let (script, uars) = as_needed(1, REGISTER as u32);
    script.refuse("", Errno::NOMEM);
    let error = uars.for_completion_queues().unwrap_err();
    assert_eq!(error.errno(), Some(Errno::NOMEM), "{error}");
}

#[test]
fn completion_queues_are_armed_on_the_first_fixed_page_if_there_is_no_other() {
    let (script, uars) = fixed();
    script.refuse("+8", Errno::PROTONOSUPPORT);
    let (register, page) = uars.for_completion_queues().unwrap();
    assert_eq!((register.address() % 4096, page), (0x20, None));
    let first = uars.fixed(0).unwrap().memory;
    register.store(5);
    assert_eq!(word(&first, 0x20), 5);
    assert_eq!(mapped(&script), 1);
}

#[test]
fn a_page_that_is_too_short_for_its_registers_is_a_bad_reply() {
    let (_, uars) = as_needed(1, 1 << 20);
    let error = uars.for_queue_pair().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BadReply, "{error}");
}
