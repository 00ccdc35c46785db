//! A device in the process, opened by the library for C programs.
//!
//! # Safety
//!
//! The kernels take calls on the descriptors that come with them.
#![allow(unsafe_code, reason = "opens a device over a kernel")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use adversary::device::Device as _;
use adversary::mlx5::Cards;
use uverbs_compat_base::abi::ibv_context;
use uverbs_fake::{FakeKernel, Profile, Source};

use crate::calls::{At, close};

/// Which device.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// The fake kernel's, which works whenever it is called.
    Rxe,
    /// A ConnectX, on a thread of its own.
    Connectx,
}

impl Kind {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Rxe, Self::Connectx];
}

/// A device, and the kernel that drives it.
#[derive(Debug)]
pub enum Bench {
    /// The fake kernel.
    Rxe(FakeKernel),
    /// The cards, of which the first is used.
    Connectx(Box<Cards>),
}

impl Bench {
    /// A new one.
    pub fn new(kind: Kind) -> Self {
        match kind {
            Kind::Rxe => Self::Rxe(FakeKernel::new(Profile::v7_2())),
            Kind::Connectx => Self::Connectx(Box::new(Cards::new(1))),
        }
    }

    /// Which it is.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Rxe(_) => Kind::Rxe,
            Self::Connectx(_) => Kind::Connectx,
        }
    }

    /// Opens it.
    ///
    /// # Panics
    /// If that fails.
    #[expect(clippy::expect_used, reason = "a test fails by panicking")]
    pub fn open(&self) -> At<ibv_context> {
        let (kernel, fd, info) = match self {
            Self::Rxe(fake) => {
                let fd = fake.open().expect("a descriptor");
                let kernel: Arc<dyn uverbs_core::sys::Kernel> = Arc::new(fake.clone());
                (kernel, fd, fake.device_info())
            }
            Self::Connectx(cards) => cards.parts(0).expect("a descriptor"),
        };
        // SAFETY: the descriptor is of that kernel, and the description, too.
        let context = unsafe { uverbs_compat::open_over(kernel, fd, &info) };
        At::new(context.cast()).expect("a context")
    }

    /// Reports an asynchronous event, on rxe.
    pub fn raise(&self, source: Source, event_type: u32) {
        if let Self::Rxe(fake) = self {
            fake.raise(source, event_type);
        }
    }

    /// Runs `body` with the opened device while it works, and closes it.
    ///
    /// # Panics
    /// If it cannot be opened or closed.
    pub fn while_working<R>(&self, body: impl FnOnce(At<ibv_context>) -> R) -> R {
        let context = self.open();
        let ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            if let Self::Connectx(cards) = self {
                scope.spawn(|| {
                    while !ended.load(Ordering::Relaxed) {
                        cards.run();
                        std::thread::yield_now();
                    }
                });
            }
            // The device's thread ends also when a test fails.
            let _end = OnDrop(&ended);
            let done = body(context);
            assert_eq!(close(context), 0);
            done
        })
    }

    /// What the device still has.
    pub fn left(&self) -> Option<String> {
        match self {
            Self::Rxe(fake) => {
                let left = fake.objects();
                (left.total() != 0).then(|| format!("{left:?}"))
            }
            Self::Connectx(cards) => cards.left(),
        }
    }
}

/// Sets a flag when it is dropped.
struct OnDrop<'a>(&'a AtomicBool);

impl Drop for OnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
