//! Makes the fake kernel pretend that a queue is gone, and forges a completion.
#![forbid(unsafe_code)]

use uverbs_fake::{Effect, FakeKernel, Profile, RingOf, When};

fn main() {
    let fake = FakeKernel::new(Profile::v6_12());
    let (when, effect, of) = (When::Always, Effect::Pretend, RingOf::Cq(1));
    println!("{when:?} {effect:?} {of:?}");
    fake.inject(when, effect); //~ E0133
    fake.ring(of).unwrap().store(128, 1); //~ E0133
    fake.freeze(true);
}
