//! One file or folder per subcommand.

pub(crate) mod info;
pub(crate) mod list;
pub(crate) mod pingpong;
