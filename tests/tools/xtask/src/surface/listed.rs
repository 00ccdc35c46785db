//! The types of power, and what may have to do with them, with the reasons.
//!
//! A `Kernel` is not among them. Any program may have one, because calling it is `unsafe`; what it
//! is called with is a command type here.

use super::judge::Lists;

/// The lists for the published crates.
pub(super) const LISTS: Lists = Lists {
    powers: &[
        // Their owner may issue any command, or has what only a command creates.
        "uverbs_core::file::UverbsFile",
        "uverbs_core::object::Object",
        // What a provider makes of them. Their functions trust their callers: they take addresses,
        // handles and states.
        "uverbs_core::contract::Context",
        "uverbs_core::contract::base::ContextBase",
        "uverbs_core::contract::base::QpBase",
        "uverbs_core::contract::link::Link",
        "uverbs_core::contract::memory::Mr",
        "uverbs_core::contract::queues::Cq",
        "uverbs_core::contract::queues::Qp",
        "uverbs_core::contract::queues::Srq",
        "uverbs_core::contract::typed::PlainReceiver",
        "uverbs_core::contract::typed::PlainReceives",
        "uverbs_core::contract::typed::PlainSender",
        "uverbs_core::contract::typed::PlainSends",
        "uverbs_any::context::AnyContext",
        "uverbs_any::context::AnyPd",
        "uverbs_any::queues::AnyCq",
        "uverbs_any::queues::AnyQp",
        "uverbs_any::queues::AnySrq",
        "uverbs_mlx5::context::Context",
        "uverbs_mlx5::cq::CompletionQueue",
        "uverbs_mlx5::memory::dm::DeviceMemory",
        "uverbs_mlx5::context::pd::ProtectionDomain",
        "uverbs_mlx5::qp::QueuePair",
        "uverbs_mlx5::rss::SpreadingQueuePair",
        "uverbs_mlx5::rss::work_queue::IndirectionTable",
        "uverbs_mlx5::rss::work_queue::WorkQueue",
        "uverbs_mlx5::srq::SharedReceiveQueue",
        "uverbs_mlx5::qp::xrc::XrcDomain",
        "uverbs_rxe::context::Context",
        "uverbs_rxe::cq::CompletionQueue",
        "uverbs_rxe::qp::QueuePair",
        "uverbs_rxe::srq::SharedReceiveQueue",
        // Memory that is shared with a device or a kernel: writing to a queue commands them.
        "uverbs_core::hw::block_ring::BlockRing",
        "uverbs_core::hw::block_table::BlockTable",
        "uverbs_core::hw::counter::Counter",
        "uverbs_core::hw::mmio::Register",
        "uverbs_core::hw::pages::Pages",
        "uverbs_core::hw::part::Part",
        "uverbs_core::hw::record::Record",
        "uverbs_core::hw::record::Records",
        "uverbs_core::hw::shared_ring::SharedRing",
        "uverbs_core::hw::unit_ring::UnitRing",
        "uverbs_core::hw::window::Window",
        "uverbs_fake::ring::RingView",
        "uverbs_core::sys::map::Mapping",
    ],
    words: &[
        "uverbs_core::sys::attr::Command",
        "uverbs_fake::fault::Effect",
        "uverbs_core::sys::kernel::Call",
        "uverbs_core::sys::write::WriteCommand",
    ],
    descriptors: DESCRIPTORS,
    needing: &[
        (
            "_::Put::put",
            "puts a request of an owned queue pair, which passes it; of that crate alone",
        ),
        ("uverbs_core::file::UverbsFile::*", "its own"),
        ("uverbs_core::cmd::*", "commands go through a channel"),
        (
            "uverbs_core::contract::*",
            "what providers do, with the channel that they were opened with",
        ),
        (
            "uverbs_core::hw::*",
            "rings and registers lie in memory that somebody had",
        ),
        (
            "uverbs_core::kind::Kind::destroy",
            "commands go through a channel",
        ),
        ("uverbs_core::object::Object::*", "its own"),
        ("uverbs_fake::ring::RingView::*", "its own"),
        ("uverbs_core::sys::map::Mapping::*", "its own"),
        (
            "uverbs_core::types::wr::Address::new",
            "addresses are made by providers",
        ),
        (
            "uverbs_any::*",
            "all providers' handles, which the facade keeps to itself",
        ),
        ("uverbs_mlx5::context::Context::*", "its own"),
        ("uverbs_mlx5::cq::CompletionQueue::*", "its own"),
        (
            "uverbs_mlx5::devx::Devx::*",
            "the facade opens the way to the firmware, and names queues of verbs",
        ),
        ("uverbs_mlx5::memory::dm::DeviceMemory::*", "its own"),
        (
            "uverbs_mlx5::memory::indirect::IndirectKey::create",
            "it is of a protection domain",
        ),
        ("uverbs_mlx5::qp::flow::create", "rules are of a queue pair"),
        (
            "uverbs_mlx5::qp::pacing::modify_rate_limit",
            "rates are of a queue pair",
        ),
        ("uverbs_mlx5::context::pd::ProtectionDomain::*", "its own"),
        (
            "uverbs_mlx5::qp::extra::QpExtra::xrc_target",
            "a queue pair is of a domain",
        ),
        ("uverbs_mlx5::qp::QueuePair::*", "its own"),
        ("uverbs_mlx5::rss::SpreadingQueuePair::*", "its own"),
        (
            "uverbs_mlx5::rss::work_queue::*",
            "work queues and tables of them",
        ),
        (
            "uverbs_mlx5::sched::*",
            "the facade says which queue pair is attached",
        ),
        ("uverbs_mlx5::srq::SharedReceiveQueue::*", "its own"),
        (
            "uverbs_mlx5::steering::*",
            "the facade creates on its channel, and says which queue pair a rule leads to",
        ),
        (
            "uverbs_mlx5::context::thread::ThreadDomain::alloc",
            "it is of a context",
        ),
        ("uverbs_mlx5::memory::var::Var::alloc", "it is of a device"),
        (
            "uverbs_mlx5::memory::var::Var::import",
            "somebody else's: it is used, and never freed",
        ),
        (
            "uverbs_mlx5::devx::object::DevxObject::import",
            "somebody else's: it is asked about, and never destroyed",
        ),
        (
            "uverbs_mlx5::devx::umem::Umem::import",
            "somebody else's: its number is passed on, and it never ends",
        ),
        (
            "uverbs_mlx5::context::vport::SwitchPort::query",
            "it is of a device",
        ),
        ("uverbs_mlx5::qp::xrc::XrcDomain::*", "its own"),
        (
            "uverbs_rxe::*",
            "the provider's handles, which the facade keeps to itself",
        ),
    ],
    harmless: &[
        (
            "uverbs::asynchronous::AsyncCompletionChannel::AsFd::as_fd",
            "events can only be read",
        ),
        (
            "uverbs::channel::CompletionChannel::AsFd::as_fd",
            "events can only be read",
        ),
        (
            "uverbs::context::Context::event_fd",
            "events can only be read",
        ),
        (
            "uverbs::owned::shared_memory::SharedMemory::AsFd::as_fd",
            "whoever has it may change the memory at any time, as peers may, and cannot shorten it",
        ),
        (
            "uverbs_core::sys::bell::Bell::as_fd",
            "a counter that wakes a thread, and nothing else",
        ),
        (
            "uverbs_core::sys::shared_memory::SharedMemory::AsFd::as_fd",
            "whoever has it may change the memory at any time, as peers may, and cannot shorten it",
        ),
        (
            "uverbs_mlx5::devx::event::EventChannel::AsFd::as_fd",
            "events can only be read",
        ),
        (
            "uverbs_mlx5::devx::query::QueryReplies::AsFd::as_fd",
            "replies can only be read",
        ),
        (
            "uverbs_core::discover::opening::open*",
            "a program can open a node by itself",
        ),
        (
            "uverbs_fake::fake::FakeKernel::open",
            "a pipe, which carries nothing but a sign that there are events",
        ),
        (
            "uverbs_fake::fake::FakeKernel::open_connection_manager",
            "a pipe, which carries nothing but a sign that there are events",
        ),
        (
            "uverbs_any::vendor::Vendor::cq (implemented)",
            "sealed: only the rows implement it",
        ),
        (
            "uverbs_any::vendor::Vendor::qp (implemented)",
            "sealed: only the rows implement it",
        ),
        (
            "uverbs_any::vendor::Mlx5::Vendor::Cq",
            "names a type, and gives no value of it",
        ),
        (
            "uverbs_any::vendor::Mlx5::Vendor::Qp",
            "names a type, and gives no value of it",
        ),
        (
            "uverbs_any::vendor::Rxe::Vendor::Cq",
            "names a type, and gives no value of it",
        ),
        (
            "uverbs_any::vendor::Rxe::Vendor::Qp",
            "names a type, and gives no value of it",
        ),
        (
            "uverbs_core::contract::memory::MrChange::Default::default",
            "it names no domain",
        ),
        (
            "uverbs_core::hw::pages::Pages::new",
            "pages of the caller's own, reached without references",
        ),
        (
            "uverbs_core::hw::pages::Pages::for_device",
            "the same, left out of children",
        ),
        (
            "uverbs_core::hw::page_pool::PagePool::take",
            "the same, of a mapping that others have parts of, too",
        ),
        (
            "uverbs_core::hw::page_pool::PagePool::for_queue",
            "the same, or those of an allocator, which its unsafe trait vouches for",
        ),
        (
            "uverbs_core::hw::record::Records::new",
            "a store of pages of its own",
        ),
        (
            "uverbs_core::sys::map::Mapping::anonymous",
            "memory of the caller's own, reached without references",
        ),
        (
            "uverbs_core::sys::map::Mapping::for_device",
            "the same, left out of children",
        ),
        (
            "uverbs_mlx5::devx::uar::DevxUar::register",
            "a page of its own; queues that are rung there are made by firmware commands (unsafe)",
        ),
        (
            "uverbs_mlx5::memory::var::MappedVar::register",
            "the same, of emulated devices",
        ),
        (
            "uverbs_mlx5::devx::uar::DevxUar::export",
            "a dma-buf of such a page, which takes no commands of the kernel's",
        ),
        (
            "uverbs::mlx5::memory::DeviceMemory::export",
            "a dma-buf of memory that anybody may write to, which takes no commands of the kernel's",
        ),
        (
            "*::KnownLayout::pointer_to_metadata",
            "derived; it does not follow the pointer",
        ),
    ],
};

/// The lists for the crate with known leaks.
pub(super) const KNOWN_LISTS: Lists = Lists {
    powers: &["known::Channel", "known::Object"],
    words: &["known::Command"],
    descriptors: DESCRIPTORS,
    needing: &[
        ("known::Channel::*", "it takes one"),
        ("known::Object::*", "it takes one"),
        ("known::Trusted::*", "it takes one"),
        ("known::Watch::seen", "it takes one"),
    ],
    harmless: &[],
};

/// Types that contain a descriptor that can be written to.
const DESCRIPTORS: &[&str] = &[
    "std::fs::File",
    "std::os::fd::owned::AsFd",
    "std::os::fd::owned::BorrowedFd",
    "std::os::fd::owned::OwnedFd",
];
