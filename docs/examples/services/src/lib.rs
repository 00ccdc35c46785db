//! HTTP and gRPC between hosts with RDMA. Everything but the connections is as over TCP.
//!
//! A [`Stream`](uverbs::stream::Stream) is `AsyncRead + AsyncWrite`, which is all that `hyper` and
//! `tonic` ask of a connection: [`http`] and [`grpc`] are a server and a client of each.

pub mod grpc;
pub mod http;

use std::error::Error;
use std::io;
use std::net::SocketAddr;

use tokio::task::JoinHandle;
use uverbs::asynchronous::{AsyncCompletionChannel, AsyncEventChannel};
use uverbs::cm;
use uverbs::stream::Streams;

/// Whatever can go wrong.
pub type Failure = Box<dyn Error + Send + Sync>;

/// Streams over the device that leads to `address`.
///
/// # Errors
/// No device leads there, or it cannot be opened.
pub async fn streams(address: SocketAddr) -> Result<Streams, Failure> {
    let manager = AsyncEventChannel::open()?;
    let resolved = manager.resolve(cm::connect(address)).await?;
    let pd = resolved.open()?.alloc_pd()?;
    Ok(pd.streams().build()?)
}

/// Starts the task that takes the completions of all streams.
///
/// # Errors
/// Those of tokio.
pub fn drive(streams: &Streams) -> io::Result<JoinHandle<uverbs::Result<()>>> {
    let hub = streams.hub();
    let events = AsyncCompletionChannel::new(hub.channel().clone())?;
    let driver = hub.driver();
    Ok(tokio::spawn(async move { driver.run_async(&events).await }))
}

/// What a program of this crate was asked for: to serve at an address, to call one, or both.
///
/// # Errors
/// Something that is no address.
pub fn asked(mut args: impl Iterator<Item = String>) -> Result<(bool, bool, SocketAddr), Failure> {
    let first = args.next();
    Ok(match first.as_deref() {
        None => (true, true, SocketAddr::from(([10, 1, 0, 1], 0))),
        Some("listen") => (true, false, args.next().ok_or("where?")?.parse()?),
        Some(address) => (false, true, address.parse()?),
    })
}
