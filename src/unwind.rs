//! Handles and builders are as usable after a caught panic as before it.
//!
//! What hides that from the compiler are the trait objects below them: the provider, the kernel,
//! recorders, and vendor-specific parts. The library calls foreign code only where it catches its
//! panics, and then gives up what may be half done (`Panicked`, a poisoned queue, a sink that
//! receives nothing more). So no handle is ever seen in a state that a panic left behind.

use std::panic::{RefUnwindSafe, UnwindSafe};

use crate::transport::Transport;
use crate::{
    AddressHandle, CompletionChannel, CompletionQueue, CompletionQueueBuilder, Context,
    MemoryRegion, MemoryWindow, OpenOptions, PreparedQueuePair, ProtectionDomain, QueuePair,
    QueuePairBuilder, SharedReceiveQueue, SharedReceiveQueueBuilder, cm, hub, owned, stream,
};

impl<T: Transport> UnwindSafe for PreparedQueuePair<T> {}
impl<T: Transport> RefUnwindSafe for PreparedQueuePair<T> {}
impl<T: Transport> UnwindSafe for QueuePair<T> {}
impl<T: Transport> RefUnwindSafe for QueuePair<T> {}
impl<T: Transport> UnwindSafe for QueuePairBuilder<'_, T> {}
impl<T: Transport> RefUnwindSafe for QueuePairBuilder<'_, T> {}
impl<T: Transport> UnwindSafe for owned::QueuePair<T> {}
impl<T: Transport> RefUnwindSafe for owned::QueuePair<T> {}

macro_rules! as_good_as_before {
    ($($handle:ty),* $(,)?) => {
        $(
            impl UnwindSafe for $handle {}
            impl RefUnwindSafe for $handle {}
        )*
    };
}

as_good_as_before![
    AddressHandle,
    CompletionChannel,
    CompletionQueue,
    CompletionQueueBuilder<'_>,
    Context,
    MemoryRegion,
    MemoryWindow,
    OpenOptions,
    ProtectionDomain,
    SharedReceiveQueue,
    SharedReceiveQueueBuilder<'_>,
    cm::Attached<cm::Request>,
    cm::Attached<cm::Resolved>,
    cm::ChannelOptions,
    cm::Connection,
    cm::Connector,
    cm::EventChannel,
    cm::Id,
    cm::Join,
    cm::Link,
    cm::Listener,
    cm::ListenerBuilder,
    cm::Request,
    cm::Resolved,
    owned::Buffer,
    owned::ExposedMemory,
    owned::SharedReceiveQueue,
    hub::Connection,
    hub::Driver,
    hub::Hub,
    hub::HubBuilder<'_>,
    hub::Message,
    hub::PooledBuffer,
    hub::Prepared,
    hub::Receive<'_>,
    hub::Request<'_>,
    stream::Chunk,
    stream::Stream,
    stream::StreamListener,
    stream::Streams,
    stream::StreamsBuilder,
];

/// What threads, tasks and code that catches a panic may do with every handle.
#[cfg(test)]
mod tests {
    use super::*;

    const fn goes_everywhere<T: Send + Sync + Unpin + UnwindSafe + RefUnwindSafe>() {}

    #[test]
    fn handles_and_builders_are_send_sync_and_unwind_safe() {
        goes_everywhere::<AddressHandle>();
        goes_everywhere::<CompletionChannel>();
        goes_everywhere::<CompletionQueue>();
        goes_everywhere::<CompletionQueueBuilder<'static>>();
        goes_everywhere::<Context>();
        goes_everywhere::<MemoryRegion>();
        goes_everywhere::<MemoryWindow>();
        goes_everywhere::<OpenOptions>();
        goes_everywhere::<PreparedQueuePair>();
        goes_everywhere::<ProtectionDomain>();
        goes_everywhere::<QueuePair>();
        goes_everywhere::<QueuePairBuilder<'static>>();
        goes_everywhere::<SharedReceiveQueue>();
        goes_everywhere::<SharedReceiveQueueBuilder<'static>>();
        goes_everywhere::<cm::Attached<cm::Request>>();
        goes_everywhere::<cm::Attached<cm::Resolved>>();
        goes_everywhere::<cm::ChannelOptions>();
        goes_everywhere::<cm::Connection>();
        goes_everywhere::<cm::Connector>();
        goes_everywhere::<cm::EventChannel>();
        goes_everywhere::<cm::Id>();
        goes_everywhere::<cm::Join>();
        goes_everywhere::<cm::Link>();
        goes_everywhere::<cm::Listener>();
        goes_everywhere::<cm::ListenerBuilder>();
        goes_everywhere::<cm::Request>();
        goes_everywhere::<cm::Resolved>();
        goes_everywhere::<owned::Buffer>();
        goes_everywhere::<owned::ExposedMemory>();
        goes_everywhere::<owned::Finished>();
        goes_everywhere::<owned::QueuePair>();
        goes_everywhere::<owned::SharedReceiveQueue>();
        goes_everywhere::<owned::Work>();
        goes_everywhere::<hub::Connection>();
        goes_everywhere::<hub::Driver>();
        goes_everywhere::<hub::Hub>();
        goes_everywhere::<hub::HubBuilder<'static>>();
        goes_everywhere::<hub::Message>();
        goes_everywhere::<hub::PooledBuffer>();
        goes_everywhere::<hub::Prepared>();
        goes_everywhere::<hub::Receive<'static>>();
        goes_everywhere::<hub::Request<'static>>();
        goes_everywhere::<stream::Chunk>();
        goes_everywhere::<stream::Stream>();
        goes_everywhere::<stream::StreamListener>();
        goes_everywhere::<stream::Streams>();
        goes_everywhere::<stream::StreamsBuilder>();
    }
}
