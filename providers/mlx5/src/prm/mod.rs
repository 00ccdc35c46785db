//! The format of the firmware's commands (`mlx5_ifc.h`, Programmer's Reference Manual): typed for
//! those that this provider sends; any other command is a [`Mailbox`] that the caller fills.

pub(crate) mod element;
mod field;
mod hca_cap;
mod mailbox;
pub mod opcode;
mod pacing;
mod queue;
mod status;
mod unrecognized;

pub(crate) use element::ElementAttr;
pub use element::{ElementKind, TsarKind};
pub use field::{Field, Wide, bit, field, word};
pub(crate) use hca_cap::REPLY_LEN as CAP_REPLY_LEN;
pub use hca_cap::{GeneralCaps, QosCaps, query_hca_cap};
pub use mailbox::Mailbox;
pub use pacing::rate_context;
pub use queue::{Groups, attach_queue, attach_send_queue};
pub use status::Status;
pub use unrecognized::Unrecognized;
