//! Kinds of requests as types; [`transport::Carries`](crate::transport::Carries) says which
//! transport has which.
//!
//! The constructors of [`Work`](super::Work) return them; programs rarely name them.

use std::fmt;
use std::marker::PhantomData;

mod sealed {
    pub trait Sealed {}
}

/// The kind of a request.
pub trait Kind: sealed::Sealed + fmt::Debug + Send + Sync + Unpin + 'static {}

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident;)*) => {
        $(
            $(#[$doc])*
            #[derive(Debug)]
            pub enum $name {}

            impl sealed::Sealed for $name {}
            impl Kind for $name {}
        )*
    };
}

kinds! {
    /// An operation that is known only at run time. Every transport takes it, and a queue pair
    /// refuses it when it is posted if it has no such operation.
    AnyOperation;
    /// A message, or a frame.
    Message;
    /// A message with an immediate value.
    MessageImm;
    /// A message that invalidates a key of the peer.
    Invalidating;
    /// A write into the peer's memory, with or without an immediate value.
    Write;
    /// A read of the peer's memory.
    Read;
    /// An atomic operation on the peer's memory.
    Atomic;
}

/// A datagram: a message, and where it goes.
#[derive(Debug)]
pub struct To<K>(PhantomData<K>);

impl<K: Datagram> sealed::Sealed for To<K> {}
impl<K: Datagram> Kind for To<K> {}

/// What can be sent to an address.
#[diagnostic::on_unimplemented(message = "{Self} requests are not datagrams")]
pub trait Datagram: Kind {
    /// The kind that it is once it has an address.
    type Addressed: Kind;
}

impl Datagram for Message {
    type Addressed = To<Self>;
}

impl Datagram for MessageImm {
    type Addressed = To<Self>;
}

impl Datagram for AnyOperation {
    type Addressed = Self;
}
