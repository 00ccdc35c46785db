//! gRPC by `tonic`: the standard service that tells whether a server is well.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::stream::{self, Stream as Incoming};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tonic::transport::server::Connected;
use tonic::transport::{Channel, Endpoint, Server};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tower::service_fn;
use uverbs::cm::Connector;
use uverbs::stream::{Stream, StreamError, StreamListener, Streams};

use crate::Failure;

/// A stream for tonic's server, which asks connections who they are.
#[derive(Debug)]
pub struct Io(Stream);

/// Serves the health service; a service of your own is added in the same way.
///
/// # Errors
/// Those of tonic.
pub async fn serve(listener: StreamListener) -> Result<(), Failure> {
    let (_reporter, health) = tonic_health::server::health_reporter();
    let server = Server::builder().add_service(health);
    let serving = server.serve_with_incoming(incoming(listener));
    Ok(Box::pin(serving).await?)
}

fn incoming(listener: StreamListener) -> impl Incoming<Item = Result<Io, StreamError>> {
    stream::unfold(listener, |listener| async {
        let accepted = listener.accept_async().await.map(Io);
        Some((accepted, listener))
    })
}

/// A channel whose connections are streams. It makes another one when one is lost.
pub fn channel(streams: &Streams, to: &Connector) -> Channel {
    let (streams, to) = (streams.clone(), to.clone());
    let connector = service_fn(move |_| {
        let (streams, to) = (streams.clone(), to.clone());
        async move { streams.connect_async(to).await.map(TokioIo::new) }
    });
    Endpoint::from_static("http://rdma").connect_with_connector_lazy(connector)
}

/// Whether the server at the other end says that it is well.
///
/// # Errors
/// It cannot be reached, or has no such service.
pub async fn is_well(channel: Channel) -> Result<bool, Failure> {
    let request = HealthCheckRequest::default();
    let answer = HealthClient::new(channel).check(request).await?;
    Ok(answer.into_inner().status() == ServingStatus::Serving)
}

/// Nothing but the peer's address.
impl Connected for Io {
    type ConnectInfo = std::net::SocketAddr;

    fn connect_info(&self) -> Self::ConnectInfo {
        self.0.peer_addr()
    }
}

impl AsyncRead for Io {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Io {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
