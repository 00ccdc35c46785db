//! One file or folder per subcommand.

pub(crate) mod bench;
pub(crate) mod cm;
pub(crate) mod doctor;
pub(crate) mod events;
pub(crate) mod info;
pub(crate) mod list;
pub(crate) mod packaging;
pub(crate) mod pingpong;
pub(crate) mod rates;
pub(crate) mod rings;
pub(crate) mod sched;
pub(crate) mod selftest;
pub(crate) mod top;
pub(crate) mod trace;
