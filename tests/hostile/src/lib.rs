//! What is fuzzed: one function per untrusted input, from bytes to a verdict.
//!
//! Each takes any bytes and must neither panic nor hang. libFuzzer drives them in the `fuzz` workspace; the tests here
//! run them over the seeds of that workspace and over random bytes. Those of the whole library on the fake kernel are in
//! `fake_tests::targets`, and are among these.

mod liar;
mod reply;
mod tape;

pub use reply::{
    reply_address, reply_cq, reply_device, reply_memory, reply_qp, reply_receive, reply_xrc,
};
pub use tape::Tape;

/// A target: its name, which is that of its folder of seeds, and its body.
pub type Target = (&'static str, fn(&[u8]));

/// Every target of this package.
pub const ALL: &[Target] = &[
    ("reply_address", reply_address),
    ("reply_cq", reply_cq),
    ("reply_device", reply_device),
    ("reply_memory", reply_memory),
    ("reply_qp", reply_qp),
    ("reply_receive", reply_receive),
    ("reply_xrc", reply_xrc),
];
