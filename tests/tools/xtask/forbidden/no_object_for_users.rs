//! Names items that users must not reach.
#![forbid(unsafe_code)]

use uverbs::mlx5::Object; //~ E0432
use uverbs_core::discover::fork::LinuxForkAdvice; //~ E0603

fn main() {}
