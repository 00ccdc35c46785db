//! What a program sets for a whole device.
//!
//! # Safety
//!
//! Exports names of the library that this one stands for.
#![allow(unsafe_code, reason = "exports names")]

use std::ffi::c_int;
use std::sync::Arc;

use super::own;
use crate::allocator::{Allocator, OfDevice};
use crate::answer::number;
use crate::context::Context;
use crate::errno::Code;
use crate::pointer::{Handle, In};

/// `MLX5DV_CTX_ATTR_BUF_ALLOCATORS`
const ALLOCATORS: u32 = 1;

/// Queues of all domains that have no functions of their own; those that exist keep theirs.
#[unsafe(no_mangle)]
extern "C" fn mlx5dv_set_context_attr(
    context: Handle<Context>,
    kind: u32,
    functions: In<OfDevice>,
) -> c_int {
    number(|| {
        let opened = context.get()?;
        own(opened)?;
        if kind != ALLOCATORS {
            return Err(Code::UNSUPPORTED);
        }
        opened.set_memory(Allocator::of_device(functions.get()?).map(Arc::new));
        Ok(())
    })
}
