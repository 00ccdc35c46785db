//! Streams of bytes by IP address, over RDMA: what most programs want from a connection.
//!
//! [`Streams`] are made for a device. They [listen](Streams::listen) at an address, or
//! [connect](Streams::connect) to one. A [`Stream`] is `Read` and `Write` for threads, and with the
//! feature `tokio` `AsyncRead` and `AsyncWrite` for tasks; it can also send buffers, and hand out
//! what has arrived, without copying.
//!
//! ```no_run
//! use std::io::{Read, Write};
//!
//! # fn f(pd: &uverbs::ProtectionDomain) -> Result<(), Box<dyn std::error::Error>> {
//! let streams = pd.streams().build()?;
//! let mut stream = streams.connect(uverbs::cm::connect("192.0.2.7:7471".parse()?))?;
//! stream.write_all(b"hello")?;
//! stream.shutdown()?;
//! let mut answer = Vec::new();
//! stream.read_to_end(&mut answer)?;
//! # Ok(())
//! # }
//! ```
//!
//! # What is promised
//!
//! Bytes arrive in order, each once, and none is skipped: what arrived before a connection was lost
//! can be read, and then comes the error, never the end. The end comes only after the last byte of
//! a peer that was [shut down](Stream::shutdown). After a successful `shutdown` the peer's device
//! has all bytes; after a successful `write` they are on their way.
//!
//! | what happens | [`StreamError`] | `io::ErrorKind` |
//! |---|---|---|
//! | the peer's program ended, or dropped its stream | `Lost(PeerLeft)` | `ConnectionReset` |
//! | the peer does not answer | `Lost(Disconnected(…))` | `ConnectionReset` |
//! | the device was removed | `Lost(Failed(…))` | `ConnectionReset` |
//! | the peer breaks the rules | `Violation` | `InvalidData` |
//! | writing after a shutdown | `ShutDown` | `BrokenPipe` |
//! | a time limit | `TimedOut` | `TimedOut` |
//!
//! # Backpressure
//!
//! A peer has credits: the number of messages that it may send before they are read. A peer without
//! credits waits; other streams do not. A stream that is not read takes
//! [`credits`](StreamsBuilder::credits) buffers, whatever its peer does.
//!
//! # Who takes completions
//!
//! All streams of a [`Streams`] share a completion queue, that of its [hub](Streams::hub). Threads
//! that wait take completions in turn; tasks need a [driver](crate::hub::Driver), on a thread or as
//! a task:
//!
//! ```no_run
//! # #[cfg(feature = "tokio")]
//! # async fn f(pd: &uverbs::ProtectionDomain) -> Result<(), Box<dyn std::error::Error>> {
//! use uverbs::asynchronous::AsyncCompletionChannel;
//!
//! let streams = pd.streams().build()?;
//! let events = AsyncCompletionChannel::new(streams.hub().channel().clone())?;
//! let driver = streams.hub().driver();
//! tokio::spawn(async move { driver.run_async(&events).await });
//! let listener = streams.listen("0.0.0.0:7471".parse()?)?;
//! let stream = listener.accept_async().await?;
//! println!("{} is connected", stream.peer_addr());
//! # Ok(())
//! # }
//! ```
//!
//! # What peers may be
//!
//! Programs with this library, or anything else that speaks
//! [the protocol](https://github.com/uverbs/uverbs/blob/main/docs/guide/streams.md#the-protocol).
//! Nothing is encrypted or authenticated. A peer that breaks the rules ends its own stream and
//! nothing else.

mod chunk;
mod error;
mod listener;
mod state;
#[expect(clippy::module_inception, reason = "the type of its name")]
mod stream;
mod streams;
#[cfg(feature = "tokio")]
mod tokio;
mod wire;

pub use chunk::Chunk;
pub use error::{StreamError, Violation};
pub use listener::StreamListener;
pub use stream::Stream;
pub use streams::{Streams, StreamsBuilder};
pub use wire::VERSION;

use crate::cm::Connector;
