//! The devices: a ConnectX in this process with a miniature driver, and the rxe of the fake kernel.

use adversary::device::Device as _;
use adversary::mlx5::Cards;
use fake_tests::Bench as Fake;
use uverbs::Context;

pub(super) enum World {
    /// Its completions carry numbers of the library's choice, or (version 0) queue pair numbers.
    ConnectX(Cards),
    Rxe(Fake),
}

impl World {
    /// Every device.
    pub(super) fn all() -> [fn() -> Self; 3] {
        [
            || Self::ConnectX(Cards::new(1)),
            || Self::ConnectX(Cards::new(0)),
            || Self::Rxe(Fake::newest()),
        ]
    }

    pub(super) fn open(&self) -> Context {
        match self {
            Self::ConnectX(cards) => cards.open(0, None).unwrap(),
            Self::Rxe(fake) => fake.context().unwrap(),
        }
    }

    /// The place of an address in the port's table, where addresses are needed.
    pub(super) fn gid_index(&self) -> Option<u8> {
        match self {
            Self::ConnectX(_) => None,
            Self::Rxe(_) => Some(1),
        }
    }

    /// Lets the device carry everything out. The fake's works whenever something is posted.
    pub(super) fn run(&self) {
        if let Self::ConnectX(cards) = self {
            cards.run();
        }
    }

    /// What still exists, apart from the context.
    pub(super) fn left(&self) -> Option<String> {
        match self {
            Self::ConnectX(cards) => cards.left(),
            Self::Rxe(fake) => {
                let objects = fake.fake.objects();
                (objects.total() != 0).then(|| format!("{objects:?}"))
            }
        }
    }
}
