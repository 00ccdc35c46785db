//! Streams for tasks of tokio.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::error::StreamError;
use super::listener::StreamListener;
use super::streams::Streams;
use super::{Connector, Stream};
use crate::cm::tokio::Attended;

impl Streams {
    /// As [`connect`](Self::connect), for tasks; needs a runtime with timers. A future that is
    /// dropped gives the connection up, and the peer is told.
    ///
    /// # Errors
    /// As there.
    pub async fn connect_async(&self, to: Connector) -> Result<Stream, StreamError> {
        self.connect_by(to, &Attended).await
    }
}

impl StreamListener {
    /// As [`accept`](Self::accept), for tasks; needs a runtime with timers. A future that is
    /// dropped may have taken a request, which is rejected then.
    ///
    /// # Errors
    /// As there.
    pub async fn accept_async(&self) -> Result<Stream, StreamError> {
        loop {
            if let Some(stream) = self.accept_by(&Attended, None).await? {
                return Ok(stream);
            }
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let (core, reader, _) = self.parts();
        let room = buffer.initialize_unfilled();
        let read = core.poll(reader, cx.waker(), |state, connection| {
            state.read(connection, room)
        });
        read.map(|read| {
            buffer.advance(read?);
            Ok(())
        })
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let (core, _, writer) = self.parts();
        let written = core.poll(writer, cx.waker(), |state, connection| {
            state.write(connection, bytes)
        });
        written.map(|written| Ok(written?))
    }

    /// Nothing is kept back; shutting down waits until the peer has everything.
    fn poll_flush(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(self.parts().0.writable()?))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let (core, _, writer) = self.parts();
        let ended = core.poll(writer, cx.waker(), super::state::State::shutdown);
        ended.map(|ended| Ok(ended?))
    }
}
