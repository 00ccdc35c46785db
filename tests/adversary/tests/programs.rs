//! The programs that machines run, on the devices in this process: `verbs_tests::adversary`.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use adversary::device::Device;
use adversary::fake::Fakes;
use adversary::mlx5::Cards;
use uverbs::Context;
use uverbs::recorder::Sink;
use verbs_tests::adversary::{self as programs, Stage};

/// In-process devices that write to all memory they have access to before they continue.
struct Here(Box<dyn Device>);

impl Stage for Here {
    fn open(&self, sink: Option<Arc<dyn Sink>>) -> Context {
        self.0.open(0, sink).unwrap()
    }

    fn open_elsewhere(&self) -> Context {
        self.0.open(2, None).unwrap()
    }

    fn work(&self) {
        self.0.scribble(0xcc);
        self.0.run();
    }
}

macro_rules! programs {
    ($($name:ident),* $(,)?) => {
        $(mod $name {
            use super::{Cards, Fakes, Here, programs};

            #[test]
            fn fake() {
                programs::$name(&Here(Box::<Fakes>::default()));
            }

            #[test]
            fn connectx() {
                programs::$name(&Here(Box::new(Cards::new(1))));
            }

            #[test]
            fn connectx_without_numbers() {
                programs::$name(&Here(Box::new(Cards::new(0))));
            }
        })*
    };
}

verbs_tests::with_adversary_programs!(programs);
