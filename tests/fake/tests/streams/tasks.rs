//! Streams of tasks.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use fake_tests::{Bench, PATIENCE};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::runtime::{Builder, Runtime};
use tokio::task::{JoinHandle, yield_now};
use uverbs::asynchronous::AsyncCompletionChannel;
use uverbs::stream::{Stream, StreamsBuilder};

use crate::{End, connector, eventually, text};

pub(crate) fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

pub(crate) fn drive(end: &End) -> JoinHandle<uverbs::Result<()>> {
    let hub = end.streams.hub();
    let events = AsyncCompletionChannel::new(hub.channel().clone()).unwrap();
    let driver = hub.driver();
    tokio::spawn(async move { driver.run_async(&events).await })
}

pub(crate) async fn in_time<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE * 12, future)
        .await
        .expect("in time")
}

async fn read(stream: &mut Stream, bytes: &mut [u8]) -> io::Result<usize> {
    let mut buffer = ReadBuf::new(bytes);
    poll_fn(|cx| Pin::new(&mut *stream).poll_read(cx, &mut buffer)).await?;
    Ok(buffer.filled().len())
}

async fn write_all(stream: &mut Stream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let len = poll_fn(|cx| Pin::new(&mut *stream).poll_write(cx, bytes)).await?;
        bytes = &bytes[len..];
    }
    poll_fn(|cx| Pin::new(&mut *stream).poll_flush(cx)).await
}

async fn shutdown(stream: &mut Stream) -> io::Result<()> {
    poll_fn(|cx| Pin::new(&mut *stream).poll_shutdown(cx)).await
}

async fn read_to_end(stream: &mut Stream) -> io::Result<Vec<u8>> {
    let (mut all, mut piece) = (Vec::new(), [0; 100]);
    loop {
        match read(stream, &mut piece).await? {
            0 => return Ok(all),
            len => all.extend_from_slice(&piece[..len]),
        }
    }
}

#[test]
fn a_thousand_streams_echo_on_one_completion_queue() {
    let count: usize = match (cfg!(miri), fake_tests::is_thinned()) {
        (true, _) => 2,
        (false, true) => 100,
        (false, false) => 1000,
    };
    let bench = Bench::newest();
    let quiet = Some(Duration::from_secs(1));
    let many = |streams: StreamsBuilder| streams.connections(count).keepalive(quiet);
    let many = |bench: &Bench| End::with(bench, many);
    let (client, server) = (many(&bench), many(&bench));
    let listener = server.listen();
    let to = listener.local_addr();
    runtime().block_on(async {
        drop((drive(&client), drive(&server)));
        let serve = tokio::spawn(async move {
            let mut echoes = Vec::new();
            for _ in 0..count {
                let mut stream = listener.accept_async().await.unwrap();
                echoes.push(tokio::spawn(async move {
                    let mut piece = [0; 50];
                    loop {
                        let len = read(&mut stream, &mut piece).await.unwrap();
                        if len == 0 {
                            break;
                        }
                        write_all(&mut stream, &piece[..len]).await.unwrap();
                    }
                    shutdown(&mut stream).await.unwrap();
                }));
            }
            for echo in echoes {
                echo.await.unwrap();
            }
        });
        let mut clients = Vec::new();
        for number in 0..count {
            let streams = client.streams.clone();
            clients.push(tokio::spawn(async move {
                // They are accepted one after another.
                let to = connector(to).timeout(PATIENCE * 10);
                let mut stream = streams.connect_async(to).await.unwrap();
                let text = text(100 + 37 * (number % 20));
                for piece in text.chunks(91) {
                    write_all(&mut stream, piece).await.unwrap();
                    let mut back = vec![0; piece.len()];
                    let mut filled = 0;
                    while filled < back.len() {
                        filled += read(&mut stream, &mut back[filled..]).await.unwrap();
                    }
                    assert_eq!(back, piece);
                }
                shutdown(&mut stream).await.unwrap();
                assert_eq!(read_to_end(&mut stream).await.unwrap(), [0_u8; 0]);
            }));
        }
        in_time(async {
            for client in clients {
                client.await.unwrap();
            }
            serve.await.unwrap();
        })
        .await;
    });
    client.is_clean();
    server.is_clean();
    eventually("ids are left", || bench.fake.connection_ids() == 0);
}

/// Polls once, and drops it.
fn once<T>(future: impl Future<Output = T>) -> Option<T> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

#[test]
fn futures_that_are_dropped_lose_and_double_nothing() {
    let bench = Bench::newest();
    let (client, server) = (End::new(&bench), End::new(&bench));
    let listener = server.listen();
    let to = listener.local_addr();
    let text = text(if cfg!(miri) { 600 } else { 6000 });
    runtime().block_on(in_time(async {
        drop((drive(&client), drive(&server)));
        let streams = client.streams.clone();
        let made = tokio::spawn(async move { streams.connect_async(connector(to)).await });
        let there = listener.accept_async().await.unwrap();
        let here = made.await.unwrap().unwrap();
        let expected = text.clone();
        let reader = tokio::spawn(async move {
            let (mut all, mut dropped) = (Vec::new(), 0);
            loop {
                match once(there.recv_async()) {
                    Some(Ok(Some(chunk))) => all.extend_from_slice(&chunk),
                    Some(Ok(None)) => break,
                    Some(Err(error)) => panic!("{error}"),
                    None => {
                        dropped += 1;
                        yield_now().await;
                    }
                }
            }
            assert!(all == expected);
            dropped
        });
        let mut dropped = 0;
        for piece in text.chunks(60) {
            loop {
                let mut buffer = here.buffer().unwrap();
                buffer[..piece.len()].copy_from_slice(piece);
                if let Some(sent) = once(here.send_async(buffer, piece.len())) {
                    break sent.unwrap();
                }
                dropped += 1;
                yield_now().await;
            }
        }
        assert!(dropped > 0, "the peer had always room");
        while once(here.shutdown_async()).is_none() {
            yield_now().await;
        }
        assert!(reader.await.unwrap() > 0, "bytes were always there");
    }));
}

#[test]
fn dropped_connects_and_accepts_leave_nothing_and_their_peers_hear_of_it() {
    let bench = Bench::newest();
    let (client, server) = (End::new(&bench), End::new(&bench));
    let listener = server.listen();
    let to = listener.local_addr();
    runtime().block_on(in_time(async {
        drop((drive(&client), drive(&server)));
        let accepting = tokio::spawn(async move {
            loop {
                let mut stream = listener.accept_async().await.unwrap();
                match read_to_end(&mut stream).await {
                    Ok(bytes) => return bytes,
                    Err(lost) => assert_eq!(lost.kind(), io::ErrorKind::ConnectionReset),
                }
            }
        });
        for polls in 0..6 {
            let mut connecting = Box::pin(client.streams.connect_async(connector(to)));
            for _ in 0..polls {
                let polled = poll_fn(|cx| Poll::Ready(connecting.as_mut().poll(cx)));
                if polled.await.is_ready() {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            drop(connecting);
        }
        let mut stream = client.streams.connect_async(connector(to)).await.unwrap();
        write_all(&mut stream, b"well").await.unwrap();
        shutdown(&mut stream).await.unwrap();
        assert_eq!(accepting.await.unwrap(), b"well");
    }));
    client.is_clean();
    server.is_clean();
    eventually("ids are left", || bench.fake.connection_ids() == 0);
}

#[test]
fn tasks_that_wait_hear_of_the_end() {
    let bench = Bench::newest();
    let (client, server) = (End::new(&bench), End::new(&bench));
    let listener = server.listen();
    let to = listener.local_addr();
    runtime().block_on(in_time(async {
        drop((drive(&client), drive(&server)));
        let streams = client.streams.clone();
        let made = tokio::spawn(async move { streams.connect_async(connector(to)).await });
        let there = listener.accept_async().await.unwrap();
        let mut here = made.await.unwrap().unwrap();
        let reader = tokio::spawn(async move { read(&mut here, &mut [0; 8]).await });
        yield_now().await;
        drop(there);
        let lost = reader.await.unwrap().unwrap_err();
        assert_eq!(lost.kind(), io::ErrorKind::ConnectionReset);
    }));
}

/// A waker that does nothing.
struct Idle;

impl Wake for Idle {
    fn wake(self: Arc<Self>) {}
}

#[test]
fn a_dropped_accept_keeps_no_waker() {
    let bench = Bench::newest();
    let listener = End::new(&bench).listen();
    let idle = Arc::new(Idle);
    for _ in 0..2 {
        let waker = Waker::from(Arc::clone(&idle));
        let mut accepts = pin!(listener.accept_async());
        let polled = accepts.as_mut().poll(&mut Context::from_waker(&waker));
        assert!(polled.is_pending());
    }
    assert_eq!(Arc::strong_count(&idle), 1);
}
