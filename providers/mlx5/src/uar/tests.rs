//! Doorbells of a scripted kernel: where they lie, and who has which.
#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;
use crate::tests::scripted::Scripted;

const REGISTER: usize = 512;

/// A context of 16 fixed doorbells, on pages of 4096 bytes.
fn fixed() -> (Arc<Scripted>, Uars) {
    let (script, channel) = Scripted::new();
    let config = UarConfig {
        fixed: 16,
        per_page: 1,
        register_size: REGISTER as u32,
        dedicated: 4,
        shared: 12,
        extra: 0,
    };
    (script, Uars::new(&channel, config))
}

/// What `adjust_bfregn` of the kernel's driver makes of its own number.
fn told(number: u32) -> u32 {
    number / 2 * 4 + number % 2
}

#[test]
fn the_kernels_choice_is_found_on_its_page() {
    let (_, uars) = fixed();
    // The order in which the kernel gives them away: those of one queue pair each, then the others.
    for number in [12, 13, 14, 15, 1, 2, 3, 11, 0] {
        let asked = uars.for_queue_pair().unwrap();
        assert_eq!((asked.qp_flags(), asked.qp_index()), (0, 0));
        let mut doorbell = uars.resolve(asked, told(number)).unwrap();
        let page = uars.fixed(number as usize / 2).unwrap().memory;
        let place = DOORBELLS + number as usize % 2 * REGISTER;
        let word = u64::from(number) + 100;
        doorbell.ring(word);
        assert_eq!(page.load_u32(place), Some(u32::try_from(word).unwrap()));
        // Only who has it alone takes turns, and copies.
        let blocks = if number >= 12 { 4 } else { 0 };
        assert_eq!(doorbell.blue_flame_blocks(), blocks, "{number}");
        doorbell.ring(word + 1);
        let second = if number >= 12 { REGISTER / 2 } else { 0 };
        assert_eq!(page.load_u32(place + second), Some(number + 101));
    }
}

#[test]
fn what_is_no_doorbell_of_the_context_is_refused() {
    let (_, uars) = fixed();
    // Fast-path ones, and those behind the last page.
    for index in [2, 3, 26, 27, 30, 31, 32, 33, 1 << 31, u32::MAX] {
        let asked = uars.for_queue_pair().unwrap();
        let error = uars.resolve(asked, index).unwrap_err();
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
    let asked = uars.for_queue_pair().unwrap();
    assert_eq!(script.asked().len(), 1);
    // The ninth page is at 9 * 4096 of the machine's first one, which is none of these 4096 bytes.
    let error = uars.resolve(asked, told(18)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BadReply, "{error}");
    assert!(script.asked().is_empty(), "it is the page that was mapped");
}
