//! Transports as types: what a queue pair can be set to and can do is checked by the compiler.
//!
//! [`ProtectionDomain::queue_pair`](crate::ProtectionDomain::queue_pair) takes a transport and
//! returns a builder of that type; so do its [`PreparedQueuePair`](crate::PreparedQueuePair), its
//! [`QueuePair`](crate::QueuePair) and its [`owned::QueuePair`](crate::owned::QueuePair). A setting
//! or an operation that the transport does not have is not there:
//!
//! ```compile_fail,E0277
//! # fn f(pd: uverbs::ProtectionDomain, cq: uverbs::CompletionQueue) -> uverbs::Result<()> {
//! use uverbs::time::RetryCount;
//! use uverbs::transport::Ud;
//!
//! // Datagrams are not acknowledged, so nothing is sent again.
//! let builder = pd.queue_pair(Ud, &cq, &cq).retry_count(RetryCount::new(7)?);
//! # Ok(())
//! # }
//! ```
//!
//! A program that learns the transport only at run time passes a [`QpType`], which is a
//! [`Transport`] of its own: everything is there, and what does not apply is ignored or refused at
//! run time, as everywhere in libibverbs. Types without a parameter (`QueuePair`) are of that form.
//! [`untyped`](crate::QueuePair::untyped) and [`typed`](crate::QueuePair::typed) convert between
//! the two forms; neither costs anything, because a transport exists only as a type.
//!
//! | transport | made ready by | receives from | sends | own settings |
//! |---|---|---|---|---|
//! | [`Rc`] | handshake | its queue, or a shared one | messages, writes, reads, atomics | timers, retries, reads at a time |
//! | [`Uc`] | handshake | its queue | messages, writes | |
//! | [`Ud`] | activation | its queue, or a shared one | messages, each [addressed](crate::owned::Work::to) | queue key; joins multicast groups |
//! | [`XrcInitiator`] | handshake | | as RC, each to a shared receive queue | timers, retries, reads at a time |
//! | [`XrcTarget`] | handshake | the queues that senders name | | timers |
//! | [`DcInitiator`] | activation | | as RC, each to a target | timers, retries, reads at a time |
//! | [`DcTarget`] | activation | a shared queue | | timers |
//! | [`RawPacket`] | activation | its queue | frames | flow rules |
//!
//! The traits of this module say which transport has what. They are sealed: there are no other
//! transports.

use std::fmt;

use uverbs_core::types::QpType;

use crate::owned::kind::{AnyOperation, Atomic, Invalidating, Read, Write};
use crate::owned::kind::{Kind, Message, MessageImm, To};

mod sealed {
    pub trait Sealed {}
}

/// The transport of a queue pair: one of this module's types, or a [`QpType`] that is known only at
/// run time.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a transport",
    note = "the transports are the types of `uverbs::transport`, and `QpType` for one that is known only at run time"
)]
pub trait Transport:
    sealed::Sealed + Copy + fmt::Debug + Eq + Send + Sync + Unpin + 'static
{
    /// Its number in commands.
    fn qp_type(self) -> QpType;
}

macro_rules! transports {
    ($($(#[$doc:meta])* $name:ident = $kind:ident;)*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
            pub struct $name;

            impl sealed::Sealed for $name {}

            impl Transport for $name {
                #[inline]
                fn qp_type(self) -> QpType {
                    QpType::$kind
                }
            }
        )*
    };
}

transports! {
    /// `IBV_QPT_RC`—a reliable connection: in order, acknowledged, each message once.
    #[doc(alias = "IBV_QPT_RC")]
    Rc = Rc;
    /// `IBV_QPT_UC`—an unreliable connection: in order, but messages can be lost.
    #[doc(alias = "IBV_QPT_UC")]
    Uc = Uc;
    /// `IBV_QPT_UD`—datagrams of at most one packet, to any peer.
    #[doc(alias = "IBV_QPT_UD")]
    Ud = Ud;
    /// `IBV_QPT_XRC_SEND`—the sending end of an extended reliable connection.
    #[doc(alias = "IBV_QPT_XRC_SEND")]
    XrcInitiator = XrcInitiator;
    /// `IBV_QPT_XRC_RECV`—the receiving end of an extended reliable connection
    /// (`XrcDomain::target`).
    #[doc(alias = "IBV_QPT_XRC_RECV")]
    XrcTarget = XrcTarget;
    /// `IBV_QPT_RAW_PACKET`—Ethernet frames.
    #[doc(alias = "IBV_QPT_RAW_PACKET")]
    RawPacket = RawPacket;
    /// The sending end of dynamic connections
    /// (`ProtectionDomain::dc_initiator`).
    DcInitiator = Driver;
    /// The receiving end of dynamic connections
    /// (`ProtectionDomain::dc_target`).
    DcTarget = Driver;
}

impl sealed::Sealed for QpType {}

impl Transport for QpType {
    #[inline]
    fn qp_type(self) -> QpType {
        self
    }
}

/// Defines a property, and which transports have it. A [`QpType`] may have it at run time.
macro_rules! properties {
    ($($(#[$attr:meta])* $property:ident: $($name:ident),*;)*) => {
        $(
            $(#[$attr])*
            pub trait $property: Transport {}

            impl $property for QpType {}
            $(impl $property for $name {})*
        )*
    };
}

properties! {
    /// A protection domain makes queue pairs of it by itself; those of other transports need
    /// something else as well, and are made by that.
    #[diagnostic::on_unimplemented(
        message = "`{Self}` queue pairs need more than a protection domain and completion queues",
        note = "see `XrcDomain::target`, `ProtectionDomain::dc_initiator` and `ProtectionDomain::dc_target`"
    )]
    Plain: Rc, Uc, Ud, XrcInitiator, RawPacket;

    /// Has one peer, to which a handshake connects it.
    #[diagnostic::on_unimplemented(
        message = "`{Self}` queue pairs have no peer of their own",
        note = "`PreparedQueuePair::activate` makes them ready"
    )]
    Connected: Rc, Uc, XrcInitiator, XrcTarget;

    /// Has no peer of its own, and is activated by itself.
    #[diagnostic::on_unimplemented(
        message = "`{Self}` queue pairs are connected to a peer",
        note = "`PreparedQueuePair::handshake` makes them ready"
    )]
    Unconnected: Ud, RawPacket, DcInitiator, DcTarget;

    /// Has an address in the network: a GID or LID, a partition, and the settings of paths.
    #[diagnostic::on_unimplemented(
        message = "`{Self}` queue pairs have no address of their own",
        note = "frames carry their addresses in their headers"
    )]
    Addressed: Rc, Uc, Ud, XrcInitiator, XrcTarget, DcInitiator, DcTarget;

    /// Cuts messages into packets of the path's MTU.
    #[diagnostic::on_unimplemented(message = "messages of `{Self}` queue pairs are single packets")]
    Segments: Rc, Uc, XrcInitiator, XrcTarget, DcInitiator, DcTarget;

    /// Waits for acknowledgements.
    #[diagnostic::on_unimplemented(message = "`{Self}` queue pairs wait for no acknowledgements")]
    Reliable: Rc, XrcInitiator, XrcTarget, DcInitiator;

    /// Sends requests that the peer acknowledges or answers.
    #[diagnostic::on_unimplemented(message = "nothing that `{Self}` queue pairs send is acknowledged")]
    Requests: Rc, XrcInitiator, DcInitiator;

    /// Acknowledges and answers requests of its peer.
    #[diagnostic::on_unimplemented(message = "`{Self}` queue pairs acknowledge nothing")]
    Responds: Rc, XrcTarget, DcTarget;

    /// Lets peers access memory.
    #[diagnostic::on_unimplemented(message = "no peer accesses memory through `{Self}` queue pairs")]
    Accessible: Rc, Uc, XrcInitiator, XrcTarget, DcTarget;

    /// Has a send queue.
    #[diagnostic::on_unimplemented(message = "`{Self}` queue pairs have no send queue")]
    Sends: Rc, Uc, Ud, XrcInitiator, RawPacket, DcInitiator;

    /// May have a receive queue of its own.
    #[diagnostic::on_unimplemented(message = "`{Self}` queue pairs have no receive queue of their own")]
    Receives: Rc, Uc, Ud, RawPacket;

    /// May receive from a shared receive queue that it was created with.
    #[diagnostic::on_unimplemented(
        message = "`{Self}` queue pairs take no shared receive queue",
        note = "shared receive queues are for RC, UD, and the receiving ends of XRC and DC"
    )]
    SharesReceives: Rc, Ud, DcTarget;

    /// Sends and receives datagrams: has a queue key, and may join multicast groups.
    #[diagnostic::on_unimplemented(message = "`{Self}` queue pairs send no datagrams")]
    Datagrams: Ud;

    /// Sends Ethernet frames, and receives those that its flow rules match.
    #[diagnostic::on_unimplemented(
        message = "`{Self}` queue pairs have no frames",
        note = "frames and flow rules are for raw packet queue pairs"
    )]
    Frames: RawPacket;

    /// Each of its requests names a shared receive queue of the peer.
    #[diagnostic::on_unimplemented(message = "requests of `{Self}` queue pairs name no shared receive queue")]
    NamesReceiver: XrcInitiator;

    /// Each of its requests names a DC target.
    #[diagnostic::on_unimplemented(message = "requests of `{Self}` queue pairs name no DC target")]
    NamesTarget: DcInitiator;
}

/// Posts requests of this kind, which need no further information.
#[diagnostic::on_unimplemented(
    message = "`{Self}` queue pairs do not carry {K} requests like this",
    label = "not an operation of this transport",
    note = "datagrams are addressed with `Work::to`; requests of XRC and DC initiators are posted with what they go to"
)]
pub trait Carries<K: Kind>: Transport {}

/// A [`QpType`] may carry anything: what it does not carry is refused when it is posted.
impl<K: Kind> Carries<K> for QpType {}

macro_rules! carried {
    ($($name:ident: $($kind:ty),*;)*) => {
        $($(impl Carries<$kind> for $name {})*)*
    };
}

// A request whose operation is known only at run time is checked then, on every transport.
carried! {
    Rc: Message, MessageImm, Invalidating, Write, Read, Atomic, AnyOperation;
    Uc: Message, MessageImm, Write, AnyOperation;
    Ud: To<Message>, To<MessageImm>, AnyOperation;
    RawPacket: Message, AnyOperation;
}
