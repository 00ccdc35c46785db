//! The environment variables of libibverbs that programs rely on. They are read here and nowhere
//! else in the project.

use std::env;
use std::sync::OnceLock;

/// Whether a variable is set to something other than 0.
fn is_set(name: &str) -> bool {
    env::var_os(name).is_some_and(|value| value != "0")
}

/// `RDMAV_FORK_SAFE`, `IBV_FORK_SAFE`: fork support is wanted from the start. Any value counts.
pub(crate) fn is_fork_safe() -> bool {
    ["RDMAV_FORK_SAFE", "IBV_FORK_SAFE"]
        .iter()
        .any(|name| env::var_os(name).is_some())
}

/// `MLX5_SINGLE_THREADED`: the program uses no object from two threads at a time.
pub(crate) fn is_single_threaded() -> bool {
    static VALUE: OnceLock<bool> = OnceLock::new();
    *VALUE.get_or_init(|| is_set("MLX5_SINGLE_THREADED"))
}

/// `MLX5_CQE_SIZE`: the size of completion queue entries where `mlx5dv_create_cq` is given none; 0
/// if it is not a number. Read at each call, as in rdma-core.
pub(crate) fn entry_size() -> Option<u16> {
    let size = env::var("MLX5_CQE_SIZE").ok()?;
    Some(size.parse().unwrap_or(0))
}

/// `RDMAV_ALLOW_DISASSOC_DESTROY`: objects of a removed device count as destroyed.
pub(crate) fn are_removed_objects_destroyed() -> bool {
    static VALUE: OnceLock<bool> = OnceLock::new();
    *VALUE.get_or_init(|| env::var_os("RDMAV_ALLOW_DISASSOC_DESTROY").is_some())
}

/// `SYSFS_PATH`: where sysfs is.
pub(crate) fn sysfs() -> String {
    let path = env::var("SYSFS_PATH").unwrap_or_default();
    match path.trim_end_matches('/') {
        "" => "/sys".to_owned(),
        path => path.to_owned(),
    }
}
