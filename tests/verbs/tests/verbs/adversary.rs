//! Programs that must not obtain what they try to obtain: `verbs_tests::adversary`.

use std::sync::Arc;

use uverbs::Context;
use uverbs::recorder::Sink;
use verbs_tests::adversary::{self, Stage};
use verbs_tests::{open_named, options, peer_name};

/// The devices of this machine.
struct Machine;

impl Stage for Machine {
    fn open(&self, sink: Option<Arc<dyn Sink>>) -> Context {
        match sink {
            Some(sink) => {
                let options = options().record(sink);
                options.open(&verbs_tests::device_name()).unwrap()
            }
            None => verbs_tests::open(),
        }
    }

    fn open_elsewhere(&self) -> Context {
        open_named(&peer_name())
    }

    fn work(&self) {
        std::thread::yield_now();
    }
}

macro_rules! programs {
    ($($name:ident),* $(,)?) => {
        $(#[test]
        fn $name() {
            adversary::$name(&Machine);
        })*
    };
}

verbs_tests::with_adversary_programs!(programs);
