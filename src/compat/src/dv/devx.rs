//! `mlx5dv_devx_…`: firmware commands and the objects that they create.
//!
//! # Safety
//!
//! Exports names of the library that this one stands for. What memory a command makes the device
//! use is the program's to keep allocated, as that header's interface says.
#![allow(
    unsafe_code,
    reason = "exports names; has the firmware run a program's commands"
)]

use std::ffi::{c_int, c_void};

use uverbs_core::Object as KernelObject;
use uverbs_core::contract::{Cq as _, Qp as _, Srq as _};
use uverbs_mlx5::devx::{Devx, DevxObject};
use uverbs_mlx5::prm::Mailbox;

use super::abi::mlx5dv_devx_obj;
use super::held::Held;
use super::own;
use super::{IndirectionTable, Wq};
use crate::answer::{Answer, number, pointer};
use crate::context::Context;
use crate::cq::Cq;
use crate::errno::Code;
use crate::pointer::{Handle, Out, items, items_mut};
use crate::qp::Qp;
use crate::srq::Srq;

/// An object of the firmware, of which C knows the address only.
pub(super) type Made = Held<mlx5dv_devx_obj, DevxObject>;

/// The firmware of a device.
pub(super) fn firmware(context: Handle<Context>) -> Answer<Devx> {
    let opened = context.get()?;
    own(opened)?;
    Ok(Devx::new(opened.file()))
}

/// What C passes: a command, and where its reply goes.
#[repr(C)]
#[derive(Clone, Copy)]
struct Passed {
    input: *const c_void,
    input_length: usize,
    output: *mut c_void,
    output_length: usize,
}

/// A command has at least this many bytes, and so has a reply.
const HEADER: usize = 8;

impl Passed {
    /// Runs a command; C gets the reply also if the firmware refuses.
    fn run<R>(
        self,
        body: impl FnOnce(&Mailbox, &mut Mailbox) -> uverbs_core::Result<R>,
    ) -> Answer<R> {
        let command = items(self.input.cast::<u8>(), self.input_length)?;
        let output = items_mut(self.output.cast::<u8>(), self.output_length)?;
        if command.len() < HEADER || output.len() < HEADER {
            return Err(Code::INVALID);
        }
        let mut reply = Mailbox::new(output.len());
        let done = body(&Mailbox::from(command.to_vec()), &mut reply);
        if let Some(reply) = reply.as_bytes().get(..output.len()) {
            output.copy_from_slice(reply);
        }
        // libmlx5 returns the kernel's errno for a refusal, of which the reply has the reason.
        let refused = reply.as_bytes().first().is_some_and(|status| *status != 0);
        done.map_err(|error| if refused { Code::REFUSED } else { error.into() })
    }

    /// Asks about an object of the kernel, or changes it.
    fn about(self, object: &KernelObject, changes: bool) -> Answer<()> {
        let devx = Devx::new(object.file());
        self.run(|command, reply| {
            if !changes {
                return devx.query_object_into(object, command, reply);
            }
            // SAFETY: the program keeps what memory the command makes the device use: see above.
            unsafe { devx.modify_object_into(object, command, reply) }
        })
    }
}

/// Defines a function of C whose last arguments are a command and a reply.
macro_rules! commands {
    ($(fn $name:ident($handle:ident: $kind:ty) -> $result:ty = |$passed:ident| $body:expr;)*) => {$(
        #[unsafe(no_mangle)]
        extern "C" fn $name(
            $handle: $kind,
            input: *const c_void,
            input_length: usize,
            output: *mut c_void,
            output_length: usize,
        ) -> $result {
            let $passed = Passed {
                input,
                input_length,
                output,
                output_length,
            };
            $body
        }
    )*};
}

commands! {
    fn mlx5dv_devx_general_cmd(context: Handle<Context>) -> c_int = |passed| number(|| {
        let devx = firmware(context)?;
        // SAFETY: the program keeps what memory the command makes the device use: see above.
        passed.run(|command, reply| unsafe { devx.command_into(command, reply) })
    });
    fn mlx5dv_devx_obj_create(
        context: Handle<Context>
    ) -> *mut mlx5dv_devx_obj = |passed| pointer(|| {
        let devx = firmware(context)?;
        // SAFETY: the program keeps what memory the command makes the device use: see above.
        let made = passed.run(|command, reply| unsafe { devx.create_into(command, reply) })?;
        Made::give(context, mlx5dv_devx_obj::default(), made)
    });
    fn mlx5dv_devx_obj_query(made: Handle<Made>) -> c_int = |passed| number(|| {
        made.get()?.with(|made| passed.run(|command, reply| made.query_into(command, reply)))
    });
    fn mlx5dv_devx_obj_modify(made: Handle<Made>) -> c_int = |passed| number(|| {
        // SAFETY: the program keeps what memory the command makes the device use: see above.
        made.get()?.with(|made| passed.run(|command, reply| unsafe {
            made.modify_into(command, reply)
        }))
    });
    fn mlx5dv_devx_qp_query(qp: Handle<Qp>) -> c_int = |passed| number(|| on_qp(qp, passed, false));
    fn mlx5dv_devx_qp_modify(qp: Handle<Qp>) -> c_int = |passed| number(|| on_qp(qp, passed, true));
    fn mlx5dv_devx_cq_query(cq: Handle<Cq>) -> c_int = |passed| number(|| on_cq(cq, passed, false));
    fn mlx5dv_devx_cq_modify(cq: Handle<Cq>) -> c_int = |passed| number(|| on_cq(cq, passed, true));
    fn mlx5dv_devx_srq_query(srq: Handle<Srq>) -> c_int = |passed| number(|| {
        on_srq(srq, passed, false)
    });
    fn mlx5dv_devx_srq_modify(srq: Handle<Srq>) -> c_int = |passed| number(|| {
        on_srq(srq, passed, true)
    });
    fn mlx5dv_devx_wq_query(wq: Handle<Wq>) -> c_int = |passed| number(|| on_wq(wq, passed, false));
    fn mlx5dv_devx_wq_modify(wq: Handle<Wq>) -> c_int = |passed| number(|| on_wq(wq, passed, true));
    fn mlx5dv_devx_ind_tbl_query(table: Handle<IndirectionTable>) -> c_int = |passed| number(|| {
        on_table(table, passed, false)
    });
    fn mlx5dv_devx_ind_tbl_modify(table: Handle<IndirectionTable>) -> c_int = |passed| number(|| {
        on_table(table, passed, true)
    });
}

fn on_wq(wq: Handle<Wq>, passed: Passed, changes: bool) -> Answer<()> {
    wq.get()?
        .with(|queue| passed.about(queue.object(), changes))
}

fn on_table(table: Handle<IndirectionTable>, passed: Passed, changes: bool) -> Answer<()> {
    table
        .get()?
        .with(|table| passed.about(table.object(), changes))
}

fn on_qp(qp: Handle<Qp>, passed: Passed, changes: bool) -> Answer<()> {
    let pair = qp.get()?;
    own(pair.context()?)?;
    pair.queue
        .with(|queue| passed.about(&queue.base().object, changes))
}

fn on_cq(cq: Handle<Cq>, passed: Passed, changes: bool) -> Answer<()> {
    let queue = cq.get()?;
    own(queue.context()?)?;
    queue.with(|queue| passed.about(queue.object(), changes))
}

fn on_srq(srq: Handle<Srq>, passed: Passed, changes: bool) -> Answer<()> {
    let queue = srq.get()?;
    own(queue.context()?)?;
    queue
        .queue
        .with(|queue| passed.about(queue.object(), changes))
}

#[unsafe(no_mangle)]
extern "C" fn mlx5dv_devx_obj_destroy(made: Handle<Made>) -> c_int {
    number(|| made.get()?.end(DevxObject::destroy))
}

#[unsafe(no_mangle)]
extern "C" fn mlx5dv_devx_query_eqn(
    context: Handle<Context>,
    vector: u32,
    into: Out<u32>,
) -> c_int {
    number(|| into.put(firmware(context)?.event_queue(vector)?))
}
