//! What rdma-core's test suite requests of the kernel, compared with this library's requests: the
//! distinct shapes of calls, as recorded.
#![allow(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

use std::collections::BTreeMap;
use std::path::Path;

use recordings::compare::Reasons;
use recordings::shapes::Shapes;
use recordings::shapes::agree::without_reason;

/// The largest size of the goldens.
const MOST: u64 = 300 << 10;

fn folder() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/goldens/test-suite"))
}

fn shapes(name: &str) -> Shapes {
    let text = std::fs::read_to_string(folder().join(name)).unwrap();
    Shapes::parse(&text).unwrap()
}

/// Every request on any kind of a driver's devices is also made by this library, or is in the list
/// with its reason.
fn agree(driver: &str, kinds: &[&str], least: usize) {
    let mut theirs = Shapes::default();
    for kind in kinds {
        theirs.0.extend(shapes(&format!("{kind}.rdma-core.txt")).0);
    }
    assert!(theirs.0.len() >= least, "{} shapes", theirs.0.len());
    let list = folder().join(format!("../../test-suite-{driver}-differences.txt"));
    let mut reasons = Reasons::read(&std::fs::read_to_string(list).unwrap()).unwrap();
    let ours = shapes(&format!("{driver}.uverbs.txt"));
    let found = without_reason(&theirs, &ours, &mut reasons);
    // Each difference once, with the first call in which it occurs.
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for difference in found {
        let place = places.entry(difference.describe()).or_default();
        place.push(difference.object);
    }
    let mut wrong: Vec<String> = places
        .into_iter()
        .map(|(words, calls)| format!("{words}  [{} times: {}]", calls.len(), calls[0]))
        .collect();
    let unused = reasons.unused().into_iter();
    wrong.extend(unused.map(|line| format!("a reason that nothing needs: {line}")));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    println!(
        "{driver}: {} shapes; on purpose differ:\n{}",
        theirs.0.len(),
        reasons.counts().join("\n")
    );
}

#[test]
fn requests_of_the_test_suite_to_rxe_are_made() {
    agree("rxe", &["rxe"], 30);
}

#[test]
fn requests_of_the_test_suite_to_connectx_are_made() {
    agree("mlx5", &["ib", "roce"], 80);
}

#[test]
fn committed_recordings_are_small() {
    let files = std::fs::read_dir(folder()).unwrap();
    let sizes = files.map(|file| file.unwrap().metadata().unwrap().len());
    assert!(sizes.sum::<u64>() < MOST);
}
