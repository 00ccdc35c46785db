#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::path::PathBuf;

use super::document;
use super::items::Surface;
use super::judge::{Lists, judge};
use super::listed::KNOWN_LISTS;

/// Two types of power, with no safe way to obtain them.
const CLOSED: &str = "
pub struct Channel(());
pub struct Object { pub channel: std::sync::Arc<Channel> }
pub struct Command;
pub trait Trusted {}
impl Channel {
    /// # Safety
    /// The one way.
    pub unsafe fn new() -> Self { Self(()) }
    pub fn object(self: &std::sync::Arc<Self>) -> Object { Object { channel: self.clone() } }
    pub fn say(&self, _: &Command) {}
}
impl Object {
    pub fn number(&self) -> u32 { 0 }
}
impl Trusted for Object {}
pub trait Watch { fn watch(&self) {} }
";

fn findings(name: &str, more: &str, lists: &Lists) -> Vec<String> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../../target/surface/tests")
        .join(name);
    let source = format!("#![allow(missing_docs)]{CLOSED}{more}");
    let crates = [document::of_source("known", &source, &folder).unwrap()];
    judge(&Surface::of(&crates).unwrap(), lists).findings
}

const LISTS: Lists = Lists {
    needing: &[
        ("known::Channel::*", "its own"),
        ("known::Object::*", "its own"),
    ],
    ..KNOWN_LISTS
};

#[test]
fn listed_functions_that_need_power_pass() {
    assert_eq!(findings("right", "", &LISTS), [""; 0]);
}

#[test]
fn every_known_leak_is_found_and_nothing_else() {
    document::check_reader(
        &PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../target/surface/tests/known"),
    )
    .unwrap();
}

#[test]
fn a_leak_is_a_finding() {
    for (at, leak) in [
        "pub fn leak() -> Option<std::sync::Arc<Channel>> { None }",
        "pub fn leak(each: impl Fn(&Object)) { let _ = each; }",
        "pub struct Safe { object: Object }
         impl Safe { pub fn leak(&self) -> &Object { &self.object } }",
        "pub mod inner { pub struct Safe; impl Safe { pub fn leak(self) -> crate::Object { loop {} } } }",
        "mod inner { pub fn leak() -> crate::Object { loop {} } } pub use inner::leak as other;",
        "pub struct Safe { pub leak: Option<Object> }  impl Safe { pub fn leak() -> Self { loop {} } }",
        "pub struct leak; impl From<leak> for Object { fn from(_: leak) -> Self { loop {} } }",
        "pub fn leak(command: &Command) { let _ = command; }",
        "pub fn leak(from: *const u8) { let _ = from; }",
        "pub const fn leak() -> fn() -> Channel { loop {} }",
        "pub struct leak; impl Iterator for leak { type Item = Object; fn next(&mut self) -> Option<Object> { None } }",
        "pub fn leak() -> Box<dyn Trusted> { loop {} }",
    ]
    .into_iter()
    .enumerate()
    {
        let lists = Lists {
            powers: &["known::Channel", "known::Object", "known::Trusted"],
            ..LISTS
        };
        let found = findings(&format!("leak{at}"), leak, &lists);
        assert!(
            found.iter().any(|line| line.contains("to anybody")),
            "{leak}: {found:?}"
        );
    }
}

#[test]
fn unsafe_and_private_items_are_no_leaks() {
    let closed = "
        pub struct Safe { object: Object, pub(crate) other: Option<Object> }
        impl Safe {
            /// # Safety
            /// Of power.
            pub unsafe fn object(&self) -> &Object { &self.object }
            pub(crate) fn inside(&self) -> &Object { &self.object }
            fn private(&self) -> &Object { self.other.as_ref().unwrap_or(&self.object) }
            pub fn number(&self) -> u32 { self.private().number() + self.inside().number() }
        }
        pub(crate) struct Hidden(pub Object);
        impl Hidden { pub fn object(&self) -> &Object { &self.0 } }
        /// # Safety
        /// Its function is called with power.
        pub unsafe trait Told { fn told(&self) -> u32; }
    ";
    assert_eq!(findings("closed", closed, &LISTS), [""; 0]);
}

#[test]
fn unlisted_functions_that_need_power_are_findings() {
    let found = findings(
        "needing",
        "pub fn number(of: &Object) -> u32 { of.number() }",
        &LISTS,
    );
    assert_eq!(
        found,
        ["known::number takes known::Object; to who has power, and is not listed"]
    );
    // An option is no proof: any program can have `None`.
    let lists = Lists {
        needing: &[
            ("known::Channel::*", "its own"),
            ("known::Object::*", "its own"),
            ("known::maybe", "it does not need one"),
        ],
        ..KNOWN_LISTS
    };
    let more = "pub fn maybe(of: Option<&Object>) -> Object { let _ = of; loop {} }";
    let found = findings("option", more, &lists);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].contains("known::maybe"), "{found:?}");
    assert!(
        found[1].contains("matches nothing: known::maybe"),
        "{found:?}"
    );
}

#[test]
fn lines_that_match_nothing_are_findings() {
    let lists = Lists {
        powers: &["known::Channel", "known::Object", "known::Gone"],
        harmless: &[("known::gone", "it was")],
        ..LISTS
    };
    assert_eq!(
        findings("stale", "", &lists),
        [
            "listed, and matches nothing: known::gone",
            "listed as power, and is no type: known::Gone"
        ]
    );
}
