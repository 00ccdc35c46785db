//! A fake kernel for tests: the uverbs core and an rxe device, in this process.
//!
//! [`FakeKernel`] carries out calls as Linux would: it checks attributes against the core's
//! tables, keeps track of objects and their uses, returns descriptors that can be polled, shares
//! queues with the process, and transfers data between queue pairs when a doorbell rings. So the
//! whole stack runs on it without a device and without privileges, even under Miri.
//!
//! It can also misbehave on purpose: [`FakeKernel::inject`] makes calls fail or return wrong
//! results, the queues can be overwritten through [`FakeKernel::ring`], events can be injected, and
//! the device can be removed.
//!
//! [`FakeKernel::with_device`] answers queries as the kernel of another device did
//! ([`DeviceProfile`]). Only rxe devices have queues.
//!
//! Its device reads and writes registered memory as a real one does. So a call
//! ([`Kernel`](uverbs_core::sys::Kernel)) is as unsafe as for a real kernel, and so are functions
//! that make it lie about the destruction of an object, or that put requests and completions into
//! queues.
//!
//! ```
//! use std::sync::Arc;
//! use uverbs_fake::{FakeKernel, Profile};
//! use uverbs_core::{CommandPath, UverbsFile};
//! use uverbs_uapi::ib_user_ioctl_verbs::RDMA_DRIVER_RXE;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let fake = FakeKernel::new(Profile::v6_1());
//! let (kernel, fd) = (Arc::new(fake.clone()), fake.open()?);
//! // SAFETY: (1) the descriptor is of the fake's device; (2, 3) no command is issued.
//! let file = unsafe { UverbsFile::new(kernel, fd, RDMA_DRIVER_RXE, CommandPath::Auto) };
//! # drop(file);
//! # Ok(())
//! # }
//! ```
//!
//! | file | what |
//! |---|---|
//! | `fake`, `answer` | the kernel as tests control it, and as the library calls it |
//! | `profile`, `feature` | the kernel version it imitates, and which version introduced what |
//! | `device_profile`, `device_text` | another device that it imitates, and parsing its description |
//! | `schema`, `args`, `ioctl`, `legacy` | commands: generic checks, then dispatch |
//! | `device`, `pd`, `mr`, `mw`, `ah`, `cq`, `srq`, `qp`, `modify` | one kernel object each |
//! | `files`, `event` | descriptors and events |
//! | `cm` | the connection manager: both ends of connections by address |
//! | `ring`, `engine` | shared queues, and the device that processes them |
//! | `fault`, `seen`, `operation` | injected faults, and a log of calls |

mod ah;
mod answer;
mod args;
mod cm;
mod cq;
mod device;
mod device_profile;
mod device_text;
mod engine;
mod event;
mod fake;
mod fault;
mod feature;
mod files;
mod info;
mod ioctl;
mod legacy;
mod modify;
mod mr;
mod mw;
mod operation;
mod pd;
mod profile;
mod qp;
mod ring;
mod schema;
mod seen;
mod srq;
mod state;
mod waiting;

pub use device_profile::DeviceProfile;
pub use device_text::ProfileError;
pub use fake::{FakeKernel, Objects, RingOf, Source};
pub use fault::{Effect, Rewrite, When};
pub use feature::Feature;
pub use profile::Profile;
pub use ring::RingView;
pub use seen::{CallKind, Seen};
pub use state::AfterRemoval;
