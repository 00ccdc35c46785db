//! Accesses a ring of blocks in a second way, while one of its blocks is borrowed for data that
//! does not consist of words.
#![forbid(unsafe_code)]

use uverbs_core::hw::{BlockRing, Pages, Part, UnitRing};

fn main() {
    let pages = Pages::new(4096).unwrap();
    let mut ring = BlockRing::new(Part::from(pages), 4).unwrap();
    let other: Option<UnitRing> = None;
    let other = Some(UnitRing::clone(&ring)); //~ E0277
    std::thread::scope(|scope| {
        scope.spawn(|| other.map(|other| other.get(0)));
        ring.block_mut(0).put_bytes(3, &[1; 16]);
    });
}
