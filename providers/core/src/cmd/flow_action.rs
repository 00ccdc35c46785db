//! Flow actions (`UVERBS_OBJECT_FLOW_ACTION`).
//!
//! The core's own actions are for ESP (IPsec) and were removed in 5.18; later kernels answer
//! EPROTONOSUPPORT. Driver-specific actions are created by the drivers' methods and destroyed as
//! [`KIND`] says; no provider uses the other commands yet.

use std::fmt;

use uverbs_uapi::ib_user_ioctl_cmds::{
    UVERBS_ATTR_CREATE_FLOW_ACTION_ESP_HANDLE, UVERBS_ATTR_DESTROY_FLOW_ACTION_HANDLE,
    UVERBS_ATTR_FLOW_ACTION_ESP_ATTRS, UVERBS_ATTR_FLOW_ACTION_ESP_ESN,
    UVERBS_ATTR_FLOW_ACTION_ESP_KEYMAT, UVERBS_ATTR_FLOW_ACTION_ESP_REPLAY,
    UVERBS_ATTR_MODIFY_FLOW_ACTION_ESP_HANDLE, UVERBS_METHOD_FLOW_ACTION_DESTROY,
    UVERBS_METHOD_FLOW_ACTION_ESP_CREATE, UVERBS_METHOD_FLOW_ACTION_ESP_MODIFY,
    UVERBS_OBJECT_FLOW_ACTION,
};
use uverbs_uapi::ib_user_ioctl_verbs::{
    IB_UVERBS_FLOW_ACTION_ESP_FLAGS_ENCRYPT, IB_UVERBS_FLOW_ACTION_ESP_FLAGS_ESN_NEW_WINDOW,
    IB_UVERBS_FLOW_ACTION_ESP_FLAGS_FULL_OFFLOAD, IB_UVERBS_FLOW_ACTION_ESP_FLAGS_TRANSPORT,
    IB_UVERBS_FLOW_ACTION_ESP_KEYMAT_AES_GCM, IB_UVERBS_FLOW_ACTION_ESP_REPLAY_BMP,
    IB_UVERBS_FLOW_ACTION_ESP_REPLAY_NONE, ib_uverbs_flow_action_esp,
    ib_uverbs_flow_action_esp_keymat_aes_gcm, ib_uverbs_flow_action_esp_replay_bmp,
};
use zerocopy::IntoBytes;

use super::legacy::{explain_create, handle_slot, new_handle};
use crate::error::{Error, Op, Result};
use crate::file::UverbsFile;
use crate::kind;
use crate::sys::{Attr, Uhw, Value};

/// How replayed packets are detected.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Replay {
    /// Not at all.
    None,
    /// By a window of this many packets, as a bitmap.
    Bitmap(u32),
}

/// An ESP action. Its key does not show in `Debug`.
#[derive(Clone, Copy, Default)]
pub struct Esp {
    /// Parameter index, sequence number, padding, flags, limit.
    pub attrs: ib_uverbs_flow_action_esp,
    /// The upper half of an extended sequence number.
    pub esn: Option<u32>,
    /// The AES-GCM key.
    pub keymat: Option<ib_uverbs_flow_action_esp_keymat_aes_gcm>,
    /// How replayed packets are detected.
    pub replay: Option<Replay>,
}

impl fmt::Debug for Esp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Esp")
            .field("attrs", &self.attrs)
            .field("esn", &self.esn)
            .field("keymat", &self.keymat.map(|_| ".."))
            .field("replay", &self.replay)
            .finish()
    }
}

/// `ibv_create_flow_action_esp`—creates an ESP action and returns its handle.
///
/// One system call, 4.17 to 5.17.
///
/// # Errors
/// [`InvalidInput`](crate::ErrorKind::InvalidInput): a flag without a name. EPROTONOSUPPORT: any
/// other kernel version. EOPNOTSUPP: the driver has none. EINVAL: a part is missing.
#[doc(alias = "ibv_create_flow_action_esp")]
pub fn create_esp(file: &UverbsFile, request: &Esp, uhw: &Uhw<'_>) -> Result<u32> {
    let op = Op::CreateFlowAction;
    check(op, request)?;
    let handle = handle_slot();
    let target = Attr::new_object(UVERBS_ATTR_CREATE_FLOW_ACTION_ESP_HANDLE, &handle);
    file.ioctl_only(op, || {
        esp_method(
            file,
            op,
            UVERBS_METHOD_FLOW_ACTION_ESP_CREATE,
            target,
            request,
            uhw,
        )
    })
    .map_err(explain_create)?;
    new_handle(op, handle.get())
}

/// `ibv_modify_flow_action_esp`—changes an ESP action.
///
/// One system call, 4.17 to 5.17.
///
/// # Errors
/// As [`create_esp`].
#[doc(alias = "ibv_modify_flow_action_esp")]
pub fn modify_esp(file: &UverbsFile, action: u32, request: &Esp, uhw: &Uhw<'_>) -> Result<()> {
    let op = Op::ModifyFlowAction;
    check(op, request)?;
    let target = Attr::object(UVERBS_ATTR_MODIFY_FLOW_ACTION_ESP_HANDLE, action);
    file.ioctl_only(op, || {
        esp_method(
            file,
            op,
            UVERBS_METHOD_FLOW_ACTION_ESP_MODIFY,
            target,
            request,
            uhw,
        )
    })
}

/// Flags that have a name (`enum ib_uverbs_flow_action_esp_flags`).
const NAMED: u32 = IB_UVERBS_FLOW_ACTION_ESP_FLAGS_FULL_OFFLOAD
    | IB_UVERBS_FLOW_ACTION_ESP_FLAGS_TRANSPORT
    | IB_UVERBS_FLOW_ACTION_ESP_FLAGS_ENCRYPT
    | IB_UVERBS_FLOW_ACTION_ESP_FLAGS_ESN_NEW_WINDOW;

fn check(op: Op, request: &Esp) -> Result<()> {
    match request.attrs.flags & !NAMED {
        0 => Ok(()),
        unnamed => Err(Error::invalid(op, "flags").fact("unnamed_bits", format!("{unnamed:#x}"))),
    }
}

fn esp_method(
    file: &UverbsFile,
    op: Op,
    method: u16,
    target: Attr<'_>,
    request: &Esp,
    uhw: &Uhw<'_>,
) -> Result<()> {
    let bitmap = match request.replay {
        Some(Replay::Bitmap(size)) => ib_uverbs_flow_action_esp_replay_bmp { size },
        Some(Replay::None) | None => ib_uverbs_flow_action_esp_replay_bmp::default(),
    };
    let replay = request.replay.map(|replay| match replay {
        Replay::None => (IB_UVERBS_FLOW_ACTION_ESP_REPLAY_NONE, [].as_slice()),
        Replay::Bitmap(_) => (IB_UVERBS_FLOW_ACTION_ESP_REPLAY_BMP, bitmap.as_bytes()),
    });
    let keymat = request
        .keymat
        .as_ref()
        .map(|keymat| (IB_UVERBS_FLOW_ACTION_ESP_KEYMAT_AES_GCM, keymat.as_bytes()));
    let attrs = [
        target,
        Attr::input(UVERBS_ATTR_FLOW_ACTION_ESP_ATTRS, &request.attrs),
        Attr::maybe(
            request.esn.as_ref(),
            UVERBS_ATTR_FLOW_ACTION_ESP_ESN,
            Attr::input,
        ),
        Attr::maybe(keymat, UVERBS_ATTR_FLOW_ACTION_ESP_KEYMAT, one_of),
        Attr::maybe(replay, UVERBS_ATTR_FLOW_ACTION_ESP_REPLAY, one_of),
    ];
    file.ioctl(op, UVERBS_OBJECT_FLOW_ACTION, method, &attrs, uhw)
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "the kernel numbers these from 0"
)]
fn one_of(id: u16, (element, payload): (u32, &[u8])) -> Attr<'_> {
    Attr::new(id, Value::Enum(element as u8, payload))
}

/// Flow actions, which `ibv_destroy_flow_action` destroys.
///
/// One system call, since 4.17.
///
/// # Errors
/// EBUSY: a rule uses it.
#[doc(alias = "ibv_destroy_flow_action")]
pub static KIND: kind::Kind = kind::Kind {
    name: "FlowAction",
    op: Op::DestroyFlowAction,
    object: UVERBS_OBJECT_FLOW_ACTION,
    method: UVERBS_METHOD_FLOW_ACTION_DESTROY,
    attr: UVERBS_ATTR_DESTROY_FLOW_ACTION_HANDLE,
    counts: kind::Counts::None,
    legacy: kind::Legacy::None,
};
