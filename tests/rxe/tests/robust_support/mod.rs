//! Shared by the robustness tests: counts of kernel objects, the kernel's log, processes.
#![allow(dead_code, reason = "each test binary uses a part of it")]

pub(crate) mod child;
pub(crate) mod kernel_log;
pub(crate) mod looped;
pub(crate) mod memory;
pub(crate) mod objects;
pub(crate) mod refusal;
pub(crate) mod rings;
pub(crate) mod traced;
pub(crate) mod user;
