//! What rules do to packets: changes of headers, and tunnels.
//!
//! # Safety
//!
//! Exports names of the library that this one stands for.
#![allow(unsafe_code, reason = "exports names")]

use std::ffi::{c_int, c_void};

use uverbs_mlx5::steering::{FlowAction, Reformat};

use super::abi::ibv_flow_action;
use super::own;
use super::steering::table;
use crate::answer::{Answer, number, pointer};
use crate::context::Context;
use crate::errno::Code;
use crate::lock::Locked;
use crate::pointer::{Handle, Object, items};

/// An action.
#[repr(C)]
pub(crate) struct Action {
    c: ibv_flow_action,
    /// `None` once it was destroyed.
    inner: Locked<Option<FlowAction>>,
}

impl Object for Action {
    type C = ibv_flow_action;
}

impl Action {
    fn give(
        context: Handle<Context>,
        create: impl FnOnce(&Context) -> Answer<FlowAction>,
    ) -> Answer<*mut ibv_flow_action> {
        let opened = context.get()?;
        own(opened)?;
        let made = create(opened)?;
        opened.users.add();
        let action = Self {
            c: ibv_flow_action {
                context: context.raw(),
            },
            inner: Locked::new(Some(made), true),
        };
        Ok(Self::to_c(Box::into_raw(Box::new(action))))
    }

    /// The action, for a rule, which keeps it.
    pub(super) fn action(&self) -> Answer<FlowAction> {
        self.inner.with(|inner| inner.clone().ok_or(Code::INVALID))
    }

    fn end(&self) -> Answer<()> {
        self.inner.with(|inner| {
            let Err(refused) = inner.take().ok_or(Code::INVALID)?.destroy() else {
                return Ok(());
            };
            *inner = refused.handle.map(|action| *action);
            Err(Code::from(refused.error))
        })?;
        Handle::<Context>::of(self.c.context).get()?.leave();
        self.free();
        Ok(())
    }
}

/// What a rule of another header does.
pub(crate) fn action(action: Handle<Action>) -> Answer<FlowAction> {
    action.get()?.action()
}

/// Bytes of a change.
const CHANGE: usize = 8;

#[unsafe(no_mangle)]
extern "C" fn mlx5dv_create_flow_action_modify_header(
    context: Handle<Context>,
    length: usize,
    changes: *const c_void,
    table_kind: u32,
) -> *mut ibv_flow_action {
    pointer(|| {
        if length == 0 || !length.is_multiple_of(CHANGE) {
            return Err(Code::INVALID);
        }
        let changes = items(changes.cast::<u8>(), length)?;
        let table = table(table_kind)?;
        Action::give(context, |opened| {
            Ok(FlowAction::modify_header_as(opened.file(), table, changes)?)
        })
    })
}

/// `MLX5DV_FLOW_ACTION_PACKET_REFORMAT_TYPE_…`.
fn reformat(kind: u32, headers: &[u8]) -> Answer<Reformat<'_>> {
    Ok(match kind {
        0 if headers.is_empty() => Reformat::OutOfFrameTunnel,
        1 => Reformat::IntoFrameTunnel(headers),
        2 => Reformat::OutOfPacketTunnel(headers),
        3 => Reformat::IntoPacketTunnel(headers),
        _ => return Err(Code::INVALID),
    })
}

#[unsafe(no_mangle)]
extern "C" fn mlx5dv_create_flow_action_packet_reformat(
    context: Handle<Context>,
    length: usize,
    headers: *const c_void,
    kind: u32,
    table_kind: u32,
) -> *mut ibv_flow_action {
    pointer(|| {
        let headers = items(headers.cast::<u8>(), length)?;
        let (table, reformat) = (table(table_kind)?, reformat(kind, headers)?);
        Action::give(context, |opened| {
            Ok(FlowAction::reformat(opened.file(), table, reformat)?)
        })
    })
}

/// The slot. Refused (EBUSY) while rules use it.
pub(crate) extern "C" fn destroy_flow_action(action: Handle<Action>) -> c_int {
    number(|| action.get()?.end())
}
